//! Whether networks can rest on a VTEP: what its condition `Accepted` should say.
//!
//! In: the VTEP, the others, who rests on it, what nodes say of their addresses. Out: reason and message, in upstream's
//! order and words; the first problem wins. Names are sorted, where upstream's stand in any order.
//! Source: ovn-kubernetes `clustermanager/vtep`.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::condition::{ConditionStatus, Wanted};
use causeway_api::vtep::{NODE_VTEPS, VtepCondition, VtepMode, VtepReason};
use ipnet::IpNet;

/// A VTEP as far as it decides whether it can be used.
#[derive(Clone, Copy, Debug)]
pub struct Vtep<'v> {
    /// Its name.
    pub name: &'v str,
    /// Where its addresses are from.
    pub cidrs: &'v [String],
    /// Who gives nodes their addresses.
    pub mode: Option<&'v VtepMode>,
}

/// What a node says of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAddresses {
    /// Nothing.
    Missing,
    /// Something that cannot be read.
    Unreadable(String),
    /// Its addresses, by VTEP.
    Of(BTreeMap<String, Vec<String>>),
}

impl NodeAddresses {
    /// From the node's annotation.
    #[must_use]
    pub fn read(text: Option<&str>) -> Self {
        let Some(text) = text else { return Self::Missing };
        match causeway_api::vtep::read_node_vteps(text) {
            Ok(addresses) => Self::Of(addresses),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }
}

/// What `Accepted` should say. `users` are the ClusterUserDefinedNetworks with EVPN that name it.
#[must_use]
pub fn accepted<'v>(
    vtep: Vtep<'_>,
    others: impl IntoIterator<Item = Vtep<'v>>,
    users: &BTreeSet<&str>,
    nodes: &BTreeMap<&str, NodeAddresses>,
) -> Wanted {
    let (reason, message) = match problem(vtep, others, users, nodes) {
        Some(problem) => problem,
        None => (VtepReason::Allocated, "VTEP allocation succeeded".to_owned()),
    };
    Wanted {
        type_: VtepCondition::Accepted.as_str(),
        status: if reason == VtepReason::Allocated { ConditionStatus::True } else { ConditionStatus::False },
        reason: reason.as_str(),
        message,
        observed_generation: None,
    }
}

fn problem<'v>(
    vtep: Vtep<'_>,
    others: impl IntoIterator<Item = Vtep<'v>>,
    users: &BTreeSet<&str>,
    nodes: &BTreeMap<&str, NodeAddresses>,
) -> Option<(VtepReason, String)> {
    match vtep.mode {
        Some(VtepMode::Unmanaged) => {}
        None | Some(VtepMode::Managed) => {
            let text = "Managed VTEP mode is not yet implemented; only Unmanaged mode is currently supported";
            return Some((VtepReason::ManagedModeNotSupported, text.to_owned()));
        }
        Some(VtepMode::Unknown(mode)) => {
            let text = format!("VTEP mode {mode:?} is not known to this version");
            return Some((VtepReason::ManagedModeNotSupported, text));
        }
    }
    let own = blocks(vtep.cidrs);
    let overlaps = |other: &Vtep<'_>| {
        let theirs = blocks(other.cidrs);
        own.iter().any(|one| theirs.iter().any(|two| one.contains(two) || two.contains(one)))
    };
    let rivals: BTreeSet<&str> = others.into_iter().filter(overlaps).map(|other| other.name).collect();
    if !rivals.is_empty() {
        return Some((VtepReason::CidrOverlap, format!("CIDRs overlap with VTEPs: [{}]", joined(&rivals))));
    }
    let refuse = |cidr: &IpNet| {
        let (name, users) = (vtep.name, joined(users));
        format!(
            "VTEP {name} contains IPv6 CIDR {cidr} but is referenced by EVPN CUDNs [{users}]; IPv6 VTEPs are not \
             supported for EVPN transport"
        )
    };
    let v6: Vec<String> =
        own.iter().filter(|cidr| matches!(cidr, IpNet::V6(_)) && !users.is_empty()).map(refuse).collect();
    if !v6.is_empty() {
        return Some((VtepReason::EvpnIpv6NotSupported, v6.join("\n")));
    }
    let lacking: Vec<String> =
        nodes.iter().filter_map(|(node, addresses)| lacks(node, addresses, vtep.name)).collect();
    (!lacking.is_empty()).then(|| (VtepReason::AllocationFailed, lacking.join("\n")))
}

/// What a node lacks.
fn lacks(node: &str, addresses: &NodeAddresses, vtep: &str) -> Option<String> {
    match addresses {
        NodeAddresses::Missing => Some(format!("node {node} is missing the {NODE_VTEPS} annotation")),
        NodeAddresses::Unreadable(error) => {
            Some(format!("failed to parse {NODE_VTEPS} annotation on node {node}: {error}"))
        }
        NodeAddresses::Of(all) => match all.get(vtep) {
            None => Some(format!("node {node} has no entry for VTEP {vtep} in {NODE_VTEPS} annotation")),
            Some(ips) if ips.is_empty() => Some(format!("node {node} has an empty IP list for VTEP {vtep}")),
            Some(_) => None,
        },
    }
}

/// The API server has checked them: what is no block of addresses overlaps nothing.
fn blocks(cidrs: &[String]) -> Vec<IpNet> {
    cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect()
}

fn joined(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(
        cidrs: &[&str],
        mode: Option<&str>,
        users: &[&str],
        nodes: &[(&'static str, Option<&str>)],
    ) -> String {
        let cidrs: Vec<String> = cidrs.iter().map(|&cidr| cidr.to_owned()).collect();
        let mode = mode.map(|mode| VtepMode::from(mode.to_owned()));
        let (wide, far) = (["100.71.0.0/16".to_owned()], ["100.90.0.0/24".to_owned()]);
        let others = [("z", &wide), ("far", &far), ("b", &wide)];
        let others = others.map(|(name, cidrs)| Vtep { name, cidrs, mode: None });
        let nodes = nodes.iter().map(|(node, text)| (*node, NodeAddresses::read(*text))).collect();
        let vtep = Vtep { name: "v", cidrs: &cidrs, mode: mode.as_ref() };
        let wanted = accepted(vtep, others, &users.iter().copied().collect(), &nodes);
        assert_eq!(wanted.type_, "Accepted");
        format!("{}/{}: {}", wanted.status, wanted.reason, wanted.message)
    }

    #[test]
    fn the_first_problem_is_told_in_the_captured_words() {
        let fine = r#"{"v":{"ips":["100.70.0.1"]}}"#;
        let own = &["100.70.0.0/24"][..];
        let managed = "False/ManagedModeNotSupported: Managed VTEP mode is not yet implemented; only Unmanaged mode is currently supported";
        for (cidrs, mode, users, nodes, want) in [
            (own, None, &[][..], &[][..], managed),
            (&["100.71.1.0/24"], Some("Managed"), &[], &[], managed),
            (
                own,
                Some("Shared"),
                &[],
                &[],
                "False/ManagedModeNotSupported: VTEP mode \"Shared\" is not known to this version",
            ),
            (
                &["100.70.0.0/24", "100.71.1.0/24"],
                Some("Unmanaged"),
                &[],
                &[("n", None)],
                "False/CIDROverlap: CIDRs overlap with VTEPs: [b, z]",
            ),
            (
                &["fd00::/64"],
                Some("Unmanaged"),
                &[],
                &[("n", Some(fine))],
                "True/Allocated: VTEP allocation succeeded",
            ),
            (
                &["100.70.0.0/24", "fd00::/64"],
                Some("Unmanaged"),
                &["e2", "e1"],
                &[("n", None)],
                "False/EVPNIPv6NotSupported: VTEP v contains IPv6 CIDR fd00::/64 but is referenced by EVPN CUDNs [e1, e2]; IPv6 VTEPs are not supported for EVPN transport",
            ),
            (
                own,
                Some("Unmanaged"),
                &["e1"],
                &[("node-001", None), ("node-000", None), ("node-002", Some(fine))],
                "False/AllocationFailed: node node-000 is missing the k8s.ovn.org/vteps annotation\nnode node-001 is missing the k8s.ovn.org/vteps annotation",
            ),
            (
                own,
                Some("Unmanaged"),
                &[],
                &[("a", Some(r#"{"w":{"ips":["1.2.3.4"]}}"#)), ("b", Some(r#"{"v":{"ips":[]}}"#))],
                "False/AllocationFailed: node a has no entry for VTEP v in k8s.ovn.org/vteps annotation\nnode b has an empty IP list for VTEP v",
            ),
            (
                own,
                Some("Unmanaged"),
                &["e1"],
                &[("n", Some(fine))],
                "True/Allocated: VTEP allocation succeeded",
            ),
        ] {
            assert_eq!(says(cidrs, mode, users, nodes), want, "{cidrs:?} {mode:?}");
        }
        let broken = says(own, Some("Unmanaged"), &[], &[("n", Some("broken"))]);
        let want = "False/AllocationFailed: failed to parse k8s.ovn.org/vteps annotation on node n: ";
        assert!(broken.starts_with(want), "{broken}");
    }
}
