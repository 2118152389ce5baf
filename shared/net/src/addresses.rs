//! What the subnets in a network's config mean.
//!
//! In: a config as text. Out: its subnets as numbers, each known to be one, those that belong inside others known to be
//! inside. Never compares a network with the cluster: that is `overlap`'s.

use causeway_api::nad::Config;
use causeway_api::network::Topology;
use ipnet::IpNet;

use crate::ipam::nodes::{Families, Family, HostRange};

/// Length of a node's subnet where the config names none. Source: ovn-kubernetes `config.ParseClusterSubnetEntries`.
const DEFAULT_HOST_LENGTH_V4: u8 = 24;
/// The same for IPv6, where it is the only one.
const HOST_LENGTH_V6: u8 = 64;

/// Subnets of one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// What pods get addresses of.
    pub subnets: Subnets,
    /// Join subnets that the config names.
    pub join: Vec<IpNet>,
    /// Transit subnets that the config names.
    pub transit: Vec<IpNet>,
    /// Parts of the subnets that pods never get.
    pub excluded: Vec<IpNet>,
    /// Parts that pods get only on request.
    pub reserved: Vec<IpNet>,
    /// Parts for the nodes' own ports.
    pub infrastructure: Vec<IpNet>,
}

/// What pods get addresses of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subnets {
    /// Each node has its own.
    PerNode(Vec<HostRange>),
    /// All nodes share them; there may be none.
    Shared(Vec<IpNet>),
}

impl Subnets {
    /// The subnets as the network has them, before they are cut.
    #[must_use]
    pub fn networks(&self) -> Vec<IpNet> {
        match self {
            Self::PerNode(ranges) => ranges.iter().map(|range| range.network).collect(),
            Self::Shared(networks) => networks.clone(),
        }
    }

    /// Their families; none for a network without addresses.
    #[must_use]
    pub fn families(&self) -> Option<Families> {
        Families::of(&self.networks())
    }
}

/// A subnet that means nothing, or not what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddresses {
    /// An entry has not as many parts as it should have.
    #[error("CIDR {0:?} not properly formatted")]
    Format(String),
    /// An entry is not a block of addresses.
    #[error("invalid CIDR address: {0}")]
    Cidr(String),
    /// The length of a node's subnet is not a number.
    #[error("invalid host subnet length {0:?}")]
    HostLength(String),
    /// A node's subnet would be no smaller than the network's.
    #[error(
        "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet length: \
         {host}, cluster subnet length: {network}"
    )]
    HostTooLarge {
        /// Length of a node's subnet.
        host: u8,
        /// Length of the network's.
        network: u8,
    },
    /// A node's subnet would be smaller than an address.
    #[error("invalid host subnet, IPv4 subnet must be < 32")]
    HostTooSmall,
    /// Nodes would get subnets of different lengths.
    #[error("all IPv4 cluster subnet entries must have the same host subnet length; found {0} and {1}")]
    HostLengthsDiffer(u8, u8),
    /// IPv6 has one length.
    #[error("IPv6 only supports /64 host subnets")]
    HostLengthV6,
    /// A part lies outside the whole.
    #[error("the provided network subnets do not contain {part} subnets {subnet}")]
    Outside {
        /// Which part.
        part: Part,
        /// The subnet as it was written.
        subnet: String,
    },
}

/// A part of a network's subnets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Pods never get it.
    Excluded,
    /// Pods get it only on request.
    Reserved,
    /// For the nodes' own ports.
    Infrastructure,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Excluded => "excluded",
            Self::Reserved => "reserved",
            Self::Infrastructure => "infrastructure",
        })
    }
}

impl Addresses {
    /// Reads the subnets of a config.
    ///
    /// # Errors
    /// The first entry that means nothing.
    pub fn of(config: &Config) -> Result<Self, BadAddresses> {
        let subnets = if config.topology == Some(Topology::Layer3) {
            Subnets::PerNode(per_node(&config.subnets)?)
        } else {
            Subnets::Shared(blocks(&config.subnets)?)
        };
        let networks = subnets.networks();
        Ok(Self {
            join: blocks(&config.join_subnets)?,
            transit: blocks(&config.transit_subnets)?,
            excluded: parts(Part::Excluded, &config.exclude_subnets, &networks)?,
            reserved: parts(Part::Reserved, &config.reserved_subnets, &networks)?,
            infrastructure: parts(Part::Infrastructure, &config.infrastructure_subnets, &networks)?,
            subnets,
        })
    }
}

/// Entries `network/length` or `network/length/host length`.
fn per_node(entries: &[String]) -> Result<Vec<HostRange>, BadAddresses> {
    let mut ranges: Vec<HostRange> = Vec::new();
    for entry in entries {
        let range = host_range(entry)?;
        let first = ranges.iter().find(|first| Family::of(&first.network) == Family::V4);
        if let (Some(first), Family::V4) = (first, Family::of(&range.network))
            && first.host_length != range.host_length
        {
            return Err(BadAddresses::HostLengthsDiffer(first.host_length, range.host_length));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

fn host_range(entry: &str) -> Result<HostRange, BadAddresses> {
    let parts: Vec<&str> = entry.split('/').collect();
    let (network, host_length) = match parts.as_slice() {
        [address, length] => (block(&format!("{address}/{length}"))?, None),
        [address, length, host] => (block(&format!("{address}/{length}"))?, Some(*host)),
        _ => return Err(BadAddresses::Format(entry.to_owned())),
    };
    let given = host_length.map(|text| {
        // Numbers parse with a sign too, lengths do not.
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u8>().ok().filter(|_| plain).ok_or_else(|| BadAddresses::HostLength(text.to_owned()))
    });
    let given = given.transpose()?;
    let host_length = match Family::of(&network) {
        Family::V4 => match given.unwrap_or(DEFAULT_HOST_LENGTH_V4) {
            33.. => return Err(BadAddresses::HostTooSmall),
            length => length,
        },
        Family::V6 => match given.unwrap_or(HOST_LENGTH_V6) {
            HOST_LENGTH_V6 => HOST_LENGTH_V6,
            _ => return Err(BadAddresses::HostLengthV6),
        },
    };
    if host_length <= network.prefix_len() {
        return Err(BadAddresses::HostTooLarge { host: host_length, network: network.prefix_len() });
    }
    Ok(HostRange { network, host_length })
}

fn blocks(entries: &[String]) -> Result<Vec<IpNet>, BadAddresses> {
    entries.iter().map(|entry| block(entry)).collect()
}

fn block(entry: &str) -> Result<IpNet, BadAddresses> {
    if !entry.contains('/') {
        return Err(BadAddresses::Format(entry.to_owned()));
    }
    entry.parse().map_err(|_| BadAddresses::Cidr(entry.to_owned()))
}

fn parts(part: Part, entries: &[String], networks: &[IpNet]) -> Result<Vec<IpNet>, BadAddresses> {
    let inside = |entry: &String| {
        let subnet = block(entry)?;
        let contained = networks.iter().any(|network| network.contains(&subnet));
        contained.then_some(subnet).ok_or_else(|| BadAddresses::Outside { part, subnet: entry.clone() })
    };
    entries.iter().map(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(topology: Topology, subnets: &[&str]) -> Config {
        let subnets = subnets.iter().map(|&subnet| subnet.to_owned()).collect();
        Config { topology: Some(topology), subnets, ..Config::default() }
    }

    #[track_caller]
    fn refused(config: &Config, want: &str) {
        assert_eq!(Addresses::of(config).unwrap_err().to_string(), want);
    }

    #[test]
    fn layer_3_entries_say_how_long_a_nodes_subnet_is_or_leave_it_to_the_family() {
        let entries = ["10.20.0.0/16/26", "10.21.0.0/16/26", "fd00:20::/48"];
        let found = Addresses::of(&config(Topology::Layer3, &entries)).unwrap().subnets;
        let Subnets::PerNode(ranges) = &found else { panic!("{found:?}") };
        let texts: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.20.0.0/16/26", "10.21.0.0/16/26", "fd00:20::/48/64"]);
        assert_eq!(found.families(), Some(Families::Both));
    }

    #[test]
    fn every_wrong_entry_is_told_in_upstreams_words() {
        let layer3 = |entries: &[&str]| config(Topology::Layer3, entries);
        let layer2 = |entries: &[&str]| config(Topology::Layer2, entries);
        refused(&layer2(&["abc"]), r#"CIDR "abc" not properly formatted"#);
        refused(&layer2(&["!"]), r#"CIDR "!" not properly formatted"#);
        refused(&layer3(&["abc"]), r#"CIDR "abc" not properly formatted"#);
        refused(&layer3(&["10.0.0.0/8/16/24"]), r#"CIDR "10.0.0.0/8/16/24" not properly formatted"#);
        refused(&layer3(&["!/16"]), "invalid CIDR address: !/16");
        refused(&layer2(&["10.0.0.0/33"]), "invalid CIDR address: 10.0.0.0/33");
        let too_large = |host, network| {
            format!(
                "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. \
                 host subnet length: {host}, cluster subnet length: {network}"
            )
        };
        refused(&layer3(&["10.10.0.0/24/16"]), &too_large(16, 24));
        refused(&layer3(&["10.82.0.0/24"]), &too_large(24, 24));
        refused(&layer3(&["10.84.0.0/28"]), &too_large(24, 28));
        refused(&layer3(&["fd00:86::/64"]), &too_large(64, 64));
        refused(&layer3(&["10.0.0.0/16/33"]), "invalid host subnet, IPv4 subnet must be < 32");
        refused(
            &layer3(&["10.0.0.0/16/24", "fd00::/48", "10.1.0.0/16/25"]),
            "all IPv4 cluster subnet entries must have the same host subnet length; found 24 and 25",
        );
        refused(&layer3(&["fd00::/48/80"]), "IPv6 only supports /64 host subnets");
        refused(&layer3(&["10.0.0.0/16/+24"]), r#"invalid host subnet length "+24""#);
        refused(&layer3(&["10.0.0.0/16/"]), r#"invalid host subnet length """#);
    }

    #[test]
    fn a_part_has_to_lie_in_the_whole() {
        let whole = config(Topology::Localnet, &["192.168.0.0/16", "2001:dbb::/64"]);
        let list = vec!["192.200.0.0/30".to_owned()];
        let text =
            |part| format!("the provided network subnets do not contain {part} subnets 192.200.0.0/30");
        refused(&Config { exclude_subnets: list.clone(), ..whole.clone() }, &text("excluded"));
        refused(&Config { reserved_subnets: list.clone(), ..whole.clone() }, &text("reserved"));
        refused(&Config { infrastructure_subnets: list, ..whole.clone() }, &text("infrastructure"));
        let inside = vec!["192.168.1.0/30".to_owned(), "2001:dbb::0/128".to_owned()];
        assert_eq!(Addresses::of(&Config { exclude_subnets: inside, ..whole }).unwrap().excluded.len(), 2);
    }
}
