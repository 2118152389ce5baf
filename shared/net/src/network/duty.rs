//! What the cluster manager hands out for a network.

use causeway_api::nad::Config;
use causeway_api::network::Topology;

/// What a network needs of the cluster manager beside its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// A subnet for each node; the node hands addresses to pods.
    NodeSubnets,
    /// Addresses for pods, as all nodes share the subnets; on layer 2 also their tunnel ids.
    PodAddresses,
    /// Nothing.
    Nothing,
}

impl Duty {
    /// The duty that the network of a config brings. One of a topology that this version does not know brings none.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        match &config.topology {
            None | Some(Topology::Layer3) => Self::NodeSubnets,
            Some(Topology::Layer2) => Self::PodAddresses,
            Some(Topology::Localnet) if !config.subnets.is_empty() => Self::PodAddresses,
            Some(Topology::Localnet | Topology::Unknown(_)) => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_and_its_subnets_decide_what_is_handed_out() {
        let config = |topology: Option<Topology>, subnets: &[&str]| Config {
            topology,
            subnets: subnets.iter().map(|&subnet| subnet.to_owned()).collect(),
            ..Config::default()
        };
        for (topology, subnets, want) in [
            (None, &[][..], Duty::NodeSubnets),
            (Some(Topology::Layer3), &["10.0.0.0/16"], Duty::NodeSubnets),
            (Some(Topology::Layer2), &["10.0.0.0/16"], Duty::PodAddresses),
            (Some(Topology::Layer2), &[], Duty::PodAddresses),
            (Some(Topology::Localnet), &["10.0.0.0/16"], Duty::PodAddresses),
            (Some(Topology::Localnet), &[], Duty::Nothing),
            (Some(Topology::Unknown("Layer9".into())), &["10.0.0.0/16"], Duty::Nothing),
        ] {
            assert_eq!(Duty::of(&config(topology.clone(), subnets)), want, "{topology:?} {subnets:?}");
        }
    }
}
