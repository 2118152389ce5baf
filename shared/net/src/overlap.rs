//! Whether a network's addresses collide with those that the cluster uses itself, and a transit subnet that does not.
//!
//! Networks may overlap each other: that is what they are for. They may not overlap what every pod has to reach.
//!
//! In: the ranges that the cluster was configured with ([`Internal`]), a network's own. Out: the first pair that
//! overlaps, in the order in which upstream looks, or free transit subnets.
//! Source: ovn-kubernetes `config.ConfigSubnets` and `util.NewNetInfo`.

use std::fmt;

use ipnet::IpNet;

use crate::ipam::nodes::Family;

/// What addresses are used for, in the words of upstream's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// Join subnet of the default network.
    BuiltInJoin,
    /// Pods of the default network.
    Cluster,
    /// Services.
    Service,
    /// Pods of nodes outside the cluster's overlay.
    HybridOverlay,
    /// Masquerade addresses.
    Masquerade,
    /// The switch between the nodes' routers.
    Transit,
    /// Pods of the network.
    UserSubnet,
    /// Join subnet of the network.
    UserJoin,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltInJoin => "built-in join subnet",
            Self::Cluster => "cluster subnet",
            Self::Service => "service subnet",
            Self::HybridOverlay => "hybrid overlay subnet",
            Self::Masquerade => "masquerade subnet",
            Self::Transit => "transit switch subnet",
            Self::UserSubnet => "user defined subnet",
            Self::UserJoin => "user defined join subnet",
        })
    }
}

/// Ranges that the cluster uses itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Internal {
    /// Pods of the default network.
    pub cluster: Vec<IpNet>,
    /// Services.
    pub services: Vec<IpNet>,
    /// Join subnets of the default network, IPv4 first.
    pub join: Vec<IpNet>,
    /// Masquerade subnets, IPv4 first.
    pub masquerade: Vec<IpNet>,
    /// Transit subnets, IPv4 first.
    pub transit: Vec<IpNet>,
    /// Join subnets of networks that name none, IPv4 first.
    pub user_join: Vec<IpNet>,
}

/// How the nodes' parts of a network are joined, as far as it decides what its addresses are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A subnet per node: shares the cluster's transit subnet.
    Layer3,
    /// One switch, as a pod's way to everything: has a transit subnet of its own.
    Layer2Primary,
    /// One switch, as a further interface.
    Layer2Secondary,
}

/// Addresses of one network.
#[derive(Clone, Copy, Debug)]
pub struct Own<'o> {
    /// How its parts are joined.
    pub shape: Shape,
    /// Its subnets.
    pub subnets: &'o [IpNet],
    /// Its join subnets; those of families that it does not name are the default ones.
    pub join: &'o [IpNet],
    /// Parts of its subnets that it does not use: only hand-written networks have them.
    pub excluded: &'o [IpNet],
}

/// A range and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is for.
    pub use_: Use,
    /// The range as it was written.
    pub range: IpNet,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.use_, self.range.trunc())
    }
}

/// Two ranges that share addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{later} overlaps {earlier}")]
pub struct Pair {
    /// The one that comes later in the list.
    pub later: Entry,
    /// The other one.
    pub earlier: Entry,
}

/// A network shares addresses with the cluster, or with itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pod or join subnet overlaps with already configured internal subnets: {0}")]
pub struct Overlap(pub Pair);

/// Why a network has no transit subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTransit {
    /// Something else overlaps, whatever the transit subnet.
    #[error(transparent)]
    Overlap(#[from] Overlap),
    /// Whatever was tried is taken.
    #[error(
        "can't generate transit subnets: failed to find non-overlapping transit subnet after {ATTEMPTS} attempts"
    )]
    NoneFound,
    /// The cluster has no transit subnet of the family.
    #[error("can't generate transit subnets: no transit subnet is configured for {0}")]
    NotConfigured(Family),
}

/// So many candidates are tried for a transit subnet. Source: ovn-kubernetes.
const ATTEMPTS: usize = 10;

impl Own<'_> {
    /// Everything that has to be disjoint, in the order in which upstream looks.
    fn entries(&self, internal: &Internal, transit: &[IpNet]) -> Vec<Entry> {
        let join = internal.user_join.iter().map(|default| {
            self.join.iter().find(|join| Family::of(join) == Family::of(default)).unwrap_or(default)
        });
        let shared_transit = match self.shape {
            Shape::Layer3 => internal.transit.as_slice(),
            Shape::Layer2Primary | Shape::Layer2Secondary => &[],
        };
        let all = [
            (Use::Cluster, internal.cluster.iter().collect::<Vec<_>>()),
            (Use::Service, internal.services.iter().collect()),
            (Use::BuiltInJoin, internal.join.iter().collect()),
            (Use::Masquerade, internal.masquerade.iter().collect()),
            (Use::Transit, shared_transit.iter().collect()),
            (Use::UserSubnet, self.subnets.iter().collect()),
            (Use::UserJoin, join.collect()),
            (Use::Transit, transit.iter().collect()),
        ];
        let entries = all
            .into_iter()
            .flat_map(|(use_, ranges)| ranges.into_iter().map(move |range| Entry { use_, range: *range }));
        // Upstream takes entries out of the list that it walks, and so leaves some in.
        entries
            .filter(|entry| {
                !self.excluded.iter().any(|excluded| excluded.trunc().contains(&entry.range.trunc()))
            })
            .collect()
    }
}

/// Checks that a network's addresses, its transit subnets included, collide with nothing.
///
/// # Errors
/// The first two ranges that share an address.
pub fn check(internal: &Internal, own: Own<'_>, transit: &[IpNet]) -> Result<(), Overlap> {
    first_overlap(&own.entries(internal, transit)).map_or(Ok(()), |pair| Err(Overlap(pair)))
}

/// Checks that the ranges which the cluster was configured with do not collide: what a start depends on.
///
/// # Errors
/// The first two that share an address.
pub fn check_cluster(internal: &Internal, hybrid_overlay: &[IpNet]) -> Result<(), Pair> {
    let all = [
        (Use::BuiltInJoin, internal.join.as_slice()),
        (Use::Masquerade, &internal.masquerade),
        (Use::Transit, &internal.transit),
        (Use::Service, &internal.services),
        (Use::HybridOverlay, hybrid_overlay),
        (Use::Cluster, &internal.cluster),
    ];
    let entries = all
        .into_iter()
        .flat_map(|(use_, ranges)| ranges.iter().map(move |range| Entry { use_, range: *range }))
        .collect::<Vec<_>>();
    first_overlap(&entries).map_or(Ok(()), Err)
}

fn first_overlap(entries: &[Entry]) -> Option<Pair> {
    entries.iter().enumerate().find_map(|(at, later)| {
        let before = entries.iter().take(at);
        let earlier = before.into_iter().find(|earlier| share(&earlier.range, &later.range))?;
        Some(Pair { later: *later, earlier: *earlier })
    })
}

/// Blocks of addresses are apart or one holds the other.
fn share(one: &IpNet, other: &IpNet) -> bool {
    let (one, other) = (one.trunc(), other.trunc());
    one.contains(&other) || other.contains(&one)
}

/// A transit subnet for each subnet of a layer 2 primary network: the configured one of its family, or the next one
/// after whatever is in its way.
///
/// # Errors
/// Something overlaps that no other transit subnet would help, or ten candidates were in something's way.
pub fn transit_subnets(internal: &Internal, own: Own<'_>) -> Result<Vec<IpNet>, NoTransit> {
    own.subnets.iter().map(|subnet| transit_subnet(internal, own, Family::of(subnet))).collect()
}

fn transit_subnet(internal: &Internal, own: Own<'_>, family: Family) -> Result<IpNet, NoTransit> {
    let configured = internal.transit.iter().find(|transit| Family::of(transit) == family);
    let mut candidate = configured.ok_or(NoTransit::NotConfigured(family))?.trunc();
    for _ in 0..ATTEMPTS {
        let Err(overlap) = check(internal, own, &[candidate]) else { return Ok(candidate) };
        // The candidate is the last of the list: if it overlaps, it is the later one, and nothing else does.
        if overlap.0.later != (Entry { use_: Use::Transit, range: candidate }) {
            return Err(overlap.into());
        }
        let blocker = overlap.0.earlier.range.trunc();
        let larger = if blocker.prefix_len() < candidate.prefix_len() { blocker } else { candidate };
        candidate = after(&larger, candidate.prefix_len()).ok_or(NoTransit::NoneFound)?;
    }
    Err(NoTransit::NoneFound)
}

/// The block of a length that begins right after a larger or equal one.
fn after(block: &IpNet, prefix_length: u8) -> Option<IpNet> {
    let next = match block.broadcast() {
        std::net::IpAddr::V4(last) => {
            last.to_bits().checked_add(1).map(|bits| std::net::Ipv4Addr::from_bits(bits).into())
        }
        std::net::IpAddr::V6(last) => {
            last.to_bits().checked_add(1).map(|bits| std::net::Ipv6Addr::from_bits(bits).into())
        }
    };
    next.and_then(|next| IpNet::new(next, prefix_length).ok())
}

#[cfg(test)]
mod tests;
