//! A node's gateway router: what all topologies have in common.

use std::net::IpAddr;

use causeway_net::mac::MacAddress;
use causeway_net::network::ovn;
use ipnet::IpNet;

use super::super::cluster::same_family;
use super::super::exit::Gateway;
use super::super::mark::{self, pairs};
use super::super::northbound::{LogicalRouter, Nat, Pairs, RouterPolicy, StaticMacBinding};
use super::super::rows::Rows;
use super::{Cx, PlanError, external, ip_word, route, shared};

/// Seconds after which a gateway router forgets a neighbour. Source: ovn-kubernetes `types.GRMACBindingAgeThreshold`.
const FORGET_NEIGHBOURS: &str = "300";

/// Priority of policies that lead to the node itself. Source: ovn-kubernetes `types.NodeSubnetPolicyPriority`.
pub(in super::super) const HOST_PRIORITY: i64 = 1004;

/// The gateway router of this node as far as it does not depend on how it is wired inside.
pub(super) struct Router<'r> {
    /// Where the network leaves.
    pub(super) gateway: &'r Gateway,
    /// The router's addresses inside.
    pub(super) join: &'r [IpNet],
    /// `lb_force_snat_ip`.
    pub(super) force_snat: String,
}

impl Router<'_> {
    /// The router, its way out, its translations and its routes to the outside.
    pub(super) fn plan(&self, cx: &Cx<'_>, rows: &mut Rows) -> Result<(), PlanError> {
        let name = cx.gateway_router();
        let default = cx.network.is_default();
        let own: Vec<IpAddr> = if default {
            Vec::new()
        } else {
            cx.cluster.of_network(cx.network.id)?.into_iter().map(|(gateway, _)| gateway).collect()
        };
        let outside: Vec<IpAddr> = self.gateway.addresses.iter().map(IpNet::addr).collect();
        rows.router(
            LogicalRouter {
                name: name.clone(),
                options: self.options(cx)?,
                external_ids: physical(cx, &outside, &own),
                ..LogicalRouter::default()
            },
            shared::of_router(cx, self.gateway.node_ports),
        );
        external::plan(cx, rows, self.gateway, &own);

        let marks = cx.marks.plain();
        let port = ovn::router_to_external(&name);
        for (range, shared) in cx.cluster.shared()? {
            let mut neighbours = vec![shared.dummy_next_hop];
            neighbours.extend((!default).then_some(shared.host));
            rows.mac_bindings.extend(neighbours.into_iter().map(|ip| neighbour(&port, ip)));
            let marks = if default { pairs([(mark::MASQUERADE_ROUTE, "")]) } else { marks.clone() };
            let mut masquerade = route(range.to_string(), shared.dummy_next_hop, marks);
            masquerade.output_port = Some(port.clone());
            rows.route(&name, masquerade);
        }
        for hop in self.next_hops() {
            let everything = if hop.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let mut out = route(everything.to_string(), hop, marks.clone());
            out.output_port = Some(port.clone());
            rows.route(&name, out);
        }
        let translated = if default { &outside } else { &own };
        self.translations(cx, rows, translated)
    }

    /// One next hop of each family. Upstream replaces the row for each next hop of the list, so the last one stays.
    fn next_hops(&self) -> impl Iterator<Item = IpAddr> {
        let last =
            |four: bool| self.gateway.next_hops.iter().rev().find(move |hop| hop.is_ipv4() == four).copied();
        last(true).into_iter().chain(last(false))
    }

    fn options(&self, cx: &Cx<'_>) -> Result<Pairs, PlanError> {
        let mut options = pairs([
            ("always_learn_from_arp_request", "false"),
            ("dynamic_neigh_routers", "false"),
            ("chassis", cx.chassis()?),
            ("lb_force_snat_ip", self.force_snat.as_str()),
            ("mac_binding_age_threshold", FORGET_NEIGHBOURS),
        ]);
        let (key, value) = if cx.network.is_default() {
            // The zone that the host uses too.
            ("snat-ct-zone", "0")
        } else {
            // All networks have the bridge's MAC address: none may announce it as its own.
            ("disable_garp_rarp", "true")
        };
        options.insert(key, value);
        Ok(options)
    }

    fn translations(&self, cx: &Cx<'_>, rows: &mut Rows, outside: &[IpAddr]) -> Result<(), PlanError> {
        let name = cx.gateway_router();
        for join in self.join {
            let external = same_family(outside.iter().copied(), join.addr());
            let external = external
                .ok_or_else(|| PlanError::NoExternalAddress { join: join.addr(), router: name.clone() })?;
            rows.nat(&name, source_nat(cx, external, &join.addr().to_string()));
        }
        for subnet in &cx.network.subnets {
            if let Some(external) = same_family(outside.iter().copied(), subnet.addr()) {
                rows.nat(&name, source_nat(cx, external, &subnet.trunc().to_string()));
            }
        }
        Ok(())
    }
}

fn physical(cx: &Cx<'_>, outside: &[IpAddr], own: &[IpAddr]) -> Pairs {
    let mut ids = cx.marks.with_role();
    ids.extend(outside.first().map(|first| (mark::PHYSICAL_IP.to_owned(), first.to_string())));
    let all: Vec<String> = outside.iter().chain(own).map(ToString::to_string).collect();
    ids.insert(mark::PHYSICAL_IPS, &all.join(","));
    ids
}

fn neighbour(port: &str, ip: IpAddr) -> StaticMacBinding {
    StaticMacBinding {
        logical_port: port.to_owned(),
        ip: ip.to_string(),
        mac: MacAddress::of_ip(ip).to_string(),
        override_dynamic_mac: true,
    }
}

/// The translation of an address or block inside to an address outside.
pub(super) fn source_nat(cx: &Cx<'_>, external: IpAddr, logical: &str) -> Nat {
    Nat {
        kind: "snat".to_owned(),
        external_ip: external.to_string(),
        logical_ip: logical.to_owned(),
        external_port_range: cx.cluster.port_range.clone().unwrap_or_default(),
        options: pairs([("stateless", "false")]),
        external_ids: cx.marks.plain(),
        ..Nat::default()
    }
}

/// The router's rules that lead what pods send to an address of their own node to the node's interface instead of
/// outside. `port` is the router's port that pods come in by; `ways` has the node's address in the network by family.
pub(super) fn host_policies(
    cx: &Cx<'_>,
    rows: &mut Rows,
    router: &str,
    port: &str,
    addresses: impl IntoIterator<Item = IpAddr>,
    ways: &[IpAddr],
) {
    let addresses: std::collections::BTreeSet<IpAddr> = addresses.into_iter().collect();
    let switch = cx.pod_switch();
    for address in addresses {
        let Some(way) = same_family(ways.iter().copied(), address) else { continue };
        rows.policy(
            router,
            RouterPolicy {
                priority: HOST_PRIORITY,
                condition: host_condition(port, address, &switch),
                action: "reroute".to_owned(),
                nexthops: [way.to_string()].into(),
                external_ids: cx.marks.plain(),
            },
        );
    }
}

/// The expression of such a rule. The comment is upstream's, which finds its rules by it.
fn host_condition(port: &str, address: IpAddr, switch: &str) -> String {
    format!(r#"inport == "{port}" && {}.dst == {address} /* {switch} */"#, ip_word(address))
}

/// The addresses of this node that are outside of the network: the gateway's, and all others that the host told.
pub(super) fn host_addresses(cx: &Cx<'_>, gateway: &Gateway) -> Result<Vec<IpAddr>, PlanError> {
    use super::super::node::Untold;
    let mut addresses: Vec<IpAddr> = gateway.addresses.iter().map(IpNet::addr).collect();
    match &cx.node.host_cidrs {
        Ok(read) if read.bad.is_empty() => addresses.extend(read.value.iter().map(IpNet::addr)),
        Ok(read) => {
            let bad = read.bad.iter().map(|bad| bad.value.trim_matches('"').to_owned());
            return Err(PlanError::HostAddresses(bad.collect()));
        }
        // Not told yet: the gateway's are known all the same.
        Err(Untold::Missing(_)) => {}
        Err(cause) => return Err(PlanError::Node { node: cx.node.name.clone(), cause: cause.clone() }),
    }
    Ok(addresses)
}

/// An address without its length, as routes to it within the node are written.
pub(super) fn bare(address: &IpNet) -> IpAddr {
    address.addr()
}
