//! The chain, the sets and the rules of isolation, and which elements a pod has in the sets. Pure.
//!
//! Source: OVN-Kubernetes, `go-controller/pkg/node/udn_isolation.go`: names, comments, order.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_nft::{
    Cgroup, CgroupPath, Chain, Desired, Element, Family, Hook, Match, Observed, Owned, Protocol, Rule, Set,
    SetKind, Verdict,
};
use causeway_runtime::settings::Families;

use super::ports::OpenPort;

/// The table, which other parts of the network stack use too.
const TABLE: &str = "ovn-kubernetes";

const CHAIN: &str = "udn-isolation";

/// What isolation has in the table, and nothing else does.
pub const OWNED: Owned = Owned {
    table: TABLE,
    chains: &[CHAIN],
    sets: &[
        SetId::Addresses(Family::V4).name(),
        SetId::Addresses(Family::V6).name(),
        SetId::Ports(Family::V4).name(),
        SetId::Ports(Family::V6).name(),
        SetId::Icmp(Family::V4).name(),
        SetId::Icmp(Family::V6).name(),
    ],
};

/// One of the six sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetId {
    /// What the owners of pods opened.
    Ports(Family),
    /// Addresses that may be reached by ICMP.
    Icmp(Family),
    /// Addresses that may not be reached otherwise.
    Addresses(Family),
}

impl SetId {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 6] = [
        Self::Ports(Family::V4),
        Self::Ports(Family::V6),
        Self::Icmp(Family::V4),
        Self::Icmp(Family::V6),
        Self::Addresses(Family::V4),
        Self::Addresses(Family::V6),
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ports(Family::V4) => "udn-open-ports-v4",
            Self::Ports(Family::V6) => "udn-open-ports-v6",
            Self::Icmp(Family::V4) => "udn-open-ports-icmp-v4",
            Self::Icmp(Family::V6) => "udn-open-ports-icmp-v6",
            Self::Addresses(Family::V4) => "udn-pod-default-ips-v4",
            Self::Addresses(Family::V6) => "udn-pod-default-ips-v6",
        }
    }

    fn set(self) -> Set {
        let (kind, what, family) = match self {
            Self::Ports(family) => {
                let what = "default network open ports of pods in user defined networks";
                (SetKind::Endpoint(family), what, family)
            }
            Self::Icmp(family) => {
                let what = "default network IPs of pods in user defined networks that allow ICMP";
                (SetKind::Address(family), what, family)
            }
            Self::Addresses(family) => {
                (SetKind::Address(family), "default network IPs of pods in user defined networks", family)
            }
        };
        let family = match family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        Set { name: self.name().to_owned(), kind, comment: format!("{what} ({family})") }
    }
}

/// The table's part that should exist; with a cgroup, processes in it reach every pod.
#[must_use]
pub fn desired(families: Families, kubelet: Option<&Cgroup>) -> Desired {
    let families = [(Family::V4, families.ipv4), (Family::V6, families.ipv6)];
    let enabled = families.into_iter().filter(|(_, enabled)| *enabled);
    let chain = Chain {
        name: CHAIN.to_owned(),
        hook: Hook::Output,
        priority: 0,
        comment: "Host isolation for user defined networks".to_owned(),
        rules: enabled.flat_map(|(family, _)| rules(family, kubelet)).collect(),
    };
    Desired { table: TABLE.to_owned(), chains: vec![chain], sets: SetId::ALL.map(SetId::set).into() }
}

fn rules(family: Family, kubelet: Option<&Cgroup>) -> Vec<Rule> {
    let name = |set: SetId| set.name().to_owned();
    let icmp = match family {
        Family::V4 => Protocol::ICMP,
        Family::V6 => Protocol::ICMPV6,
    };
    let to_pods = || Match::Destination(family, name(SetId::Addresses(family)));
    let accept = |matches| Rule { matches, verdict: Verdict::Accept };
    let ports = accept(vec![Match::Endpoint(family, name(SetId::Ports(family)))]);
    let pings = accept(vec![Match::Destination(family, name(SetId::Icmp(family))), Match::Protocol(icmp)]);
    let probes = kubelet.map(|cgroup| accept(vec![Match::Cgroup(cgroup.clone()), to_pods()]));
    let rest = Rule { matches: vec![to_pods()], verdict: Verdict::Drop };
    [Some(ports), Some(pings), probes, Some(rest)].into_iter().flatten().collect()
}

/// While the kubelet is being looked for: rules that an earlier process left for it stay if everything else is as
/// `desired`, so that a restart neither writes nor cuts off probes.
pub fn keep_probes(desired: &mut Desired, families: Families, have: &Observed) {
    let Some(chain) = have.chains.get(CHAIN) else { return };
    let listed: Option<Vec<&Rule>> = chain.rules.iter().map(Option::as_ref).collect();
    let Some(listed) = listed else { return };
    let cgroup = listed.iter().flat_map(|rule| &rule.matches).find_map(|condition| match condition {
        Match::Cgroup(cgroup) => Some(cgroup),
        _ => None,
    });
    let Some(cgroup) = cgroup else { return };
    let kept = self::desired(families, Some(cgroup));
    let rules = kept.chains.iter().flat_map(|chain| &chain.rules);
    if rules.eq(listed) {
        *desired = kept;
    }
}

/// The cgroup of the kubelet as the rules name it.
///
/// # Errors
/// The path cannot stand in a rule.
pub fn cgroup(path: &str, number: Option<u64>) -> Result<Cgroup, causeway_nft::InvalidCgroupPath> {
    Ok(Cgroup::new(&CgroupPath::parse(path)?, number))
}

/// What a pod has in the sets.
#[must_use]
pub fn elements(addresses: &[IpAddr], ports: &[OpenPort]) -> BTreeSet<(SetId, Element)> {
    let mut elements = BTreeSet::new();
    for address in addresses {
        let family = Family::of(*address);
        elements.insert((SetId::Addresses(family), Element::Address(*address)));
        elements.extend(ports.iter().map(|port| match port {
            OpenPort::Icmp => (SetId::Icmp(family), Element::Address(*address)),
            OpenPort::Port(protocol, port) => {
                (SetId::Ports(family), Element::Endpoint(*address, *protocol, *port))
            }
        }));
    }
    elements
}

#[cfg(test)]
mod tests;
