//! Whose a row is: which part of which network, or nobody's that the topology knows.
//!
//! A network's switches and routers carry its marks. What lives in them is the network's if it carries its marks too, or
//! if its name is one that only the topology gives. The default network's rows carry none, so for them shape decides: a
//! route that the topology would write is its own, any other stays. When in doubt a row is somebody else's: it is left.

use std::net::IpAddr;

use causeway_net::mac::MacAddress;
use causeway_net::network::name::{NetworkName, NodeName};
use causeway_net::network::object_id::{acl, port_group};
use causeway_net::network::ovn::{self, OvnNames};
use ipnet::IpNet;

use super::mark;
use super::northbound::{
    Acl, LogicalRouterPort, LogicalSwitchPort, Nat, Pairs, PortGroup, RouterPolicy, StaticMacBinding,
    StaticRoute,
};
use super::plan::{HOST_PRIORITY, Part};
use super::service;

/// Everything of one network in one zone.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) network: NetworkName,
    pub(super) names: OvnNames,
    pub(super) node: NodeName,
    /// Join ranges of the default network, by which its unmarked rows are told.
    join: Vec<IpNet>,
}

impl Owner {
    pub(super) fn new(network: &NetworkName, node: &NodeName, default_join: &[IpNet]) -> Self {
        let join = if network.is_default() { default_join.to_vec() } else { Vec::new() };
        Self { network: network.clone(), names: OvnNames::of(network), node: node.clone(), join }
    }

    fn node(&self) -> &str {
        self.node.as_str()
    }

    pub(super) fn gateway_router(&self) -> String {
        self.names.gateway_router(self.node())
    }

    /// Names of the switches that it can have, with their part.
    pub(super) fn switches(&self) -> Vec<(String, Part)> {
        let external = self.names.external_switch(self.node());
        let mut names =
            vec![(self.names.node_switch(self.node()), Part::Node), (external.clone(), Part::Gateway)];
        names.push((self.names.join_switch(), Part::Network));
        names.push((self.names.transit_switch(), Part::Transit));
        if self.network.is_default() {
            names.push((format!("exgw-{external}"), Part::Gateway));
        } else {
            names.push((self.names.layer2_switch(), Part::Network));
            names.push((self.names.localnet_switch(), Part::Network));
        }
        names
    }

    /// Names of the routers that it can have, with their part.
    pub(super) fn routers(&self) -> Vec<(String, Part)> {
        let mut names =
            vec![(self.names.cluster_router(), Part::Network), (self.gateway_router(), Part::Gateway)];
        if !self.network.is_default() {
            names.push((self.names.transit_router(), Part::Network));
        }
        names
    }

    /// Whether a row carries the network's mark.
    fn names_network(&self, ids: &Pairs) -> bool {
        ids.get(mark::NETWORK).is_some_and(|network| network == self.network.as_str())
    }

    /// Whether a row carries the marks of this network's own rows. Those of features that add rows to a network carry an
    /// owner besides.
    fn marks(&self, ids: &Pairs) -> bool {
        let foreign = [mark::DEFAULT_SERVICE, mark::OWNER_CONTROLLER, mark::OWNER_TYPE];
        self.names_network(ids) && !foreign.iter().any(|key| ids.contains_key(key))
    }

    /// Whether a row is one of the default network's, as far as its marks tell: it has none.
    fn unmarked(&self, ids: &Pairs) -> bool {
        self.network.is_default() && ids.is_empty()
    }

    /// A port of one of its switches.
    pub(super) fn switch_port(&self, switch: &str, port: &LogicalSwitchPort) -> Option<Part> {
        let name = port.name.as_str();
        let gateway = self.gateway_router();
        if switch == self.names.join_switch() {
            return if name == ovn::join_to_router(&self.names.cluster_router()) {
                Some(Part::Network)
            } else {
                (name == ovn::join_to_router(&gateway)).then_some(Part::Gateway)
            };
        }
        if switch == self.names.transit_switch() {
            let node = name.strip_prefix(&self.names.transit_switch_port(""))?;
            return Some(if node == self.node() { Part::Transit } else { Part::Remote(node.into()) });
        }
        let external = self.names.external_switch(self.node());
        if let Some(prefix) = switch.strip_suffix(&external)
            && ["", "exgw-"].contains(&prefix)
        {
            let inside = format!("{prefix}{}", ovn::external_to_router(&gateway));
            return (name == inside || port.kind == "localnet").then_some(Part::Gateway);
        }
        if name == self.names.localnet_port() {
            return Some(Part::Network);
        }
        let own = [
            ovn::switch_to_router(&self.names.node_switch(self.node())),
            ovn::switch_to_transit_router(&self.names.layer2_switch()),
            self.names.management_port(self.node()),
        ];
        own.iter().any(|own| own == name).then_some(Part::Node)
    }

    /// A port of one of its routers.
    pub(super) fn router_port(&self, port: &LogicalRouterPort) -> Option<Part> {
        let name = port.name.as_str();
        let gateway = self.gateway_router();
        if name.strip_prefix(&self.names.router_to_transit_switch("")).is_some() {
            // Another node's, from when this zone was that one's, is a leftover of the same part.
            return Some(Part::Transit);
        }
        if let Some(node) = name.strip_prefix(&ovn::transit_router_to_router(&self.names.gateway_router("")))
        {
            return Some(if node == self.node() { Part::Gateway } else { Part::Remote(node.into()) });
        }
        if name == ovn::router_to_join(&self.names.cluster_router()) {
            return Some(Part::Network);
        }
        let external = ovn::router_to_external(&gateway);
        let out = [
            ovn::router_to_join(&gateway),
            ovn::router_to_transit_router(&gateway),
            format!("exgw-{external}"),
            external,
        ];
        if out.iter().any(|own| own == name) {
            return Some(Part::Gateway);
        }
        let own = [
            ovn::router_to_switch(&self.names.node_switch(self.node())),
            ovn::transit_router_to_switch(&self.names.layer2_switch()),
        ];
        own.iter().any(|own| own == name).then_some(Part::Node)
    }

    /// A route of one of its routers.
    pub(super) fn route(&self, router: &str, route: &StaticRoute) -> Option<Part> {
        let ids = &route.external_ids;
        let remote = |key: &str| ids.get(key).map(|node| Part::Remote(node.into()));
        if let Some(note) = ids.get(mark::DEFAULT_SERVICE) {
            return self.names_network(ids).then(|| Part::Service(service::of_note(note)));
        }
        if self.marks(ids) {
            let part = remote(mark::ROUTE_NODE).or_else(|| remote(mark::NODE));
            return Some(part.unwrap_or(Part::Gateway));
        }
        if !self.network.is_default() {
            return None;
        }
        if ids.len() == 1 && ids.contains_key(mark::MASQUERADE_ROUTE) {
            return Some(Part::Gateway);
        }
        let everything = ["0.0.0.0/0", "::/0"].contains(&route.ip_prefix.as_str());
        let outwards = route.output_port.as_deref() == Some(&ovn::router_to_external(&self.gateway_router()));
        let ours = if router == self.gateway_router() {
            (everything && outwards) || self.in_join(&route.nexthop)
        } else {
            self.in_join(&route.nexthop)
        };
        (self.unmarked(ids) && ours).then_some(Part::Gateway)
    }

    fn in_join(&self, address: &str) -> bool {
        let Ok(address) = address.parse::<IpAddr>() else { return false };
        self.join.iter().any(|range| range.contains(&address))
    }

    /// A policy of its distributed router.
    pub(super) fn policy(&self, policy: &RouterPolicy) -> Option<Part> {
        if self.marks(&policy.external_ids) {
            return Some(Part::HostAddresses);
        }
        let inner = format!(r#"inport == "{}" && ip"#, self.inner_port());
        let shape = policy.priority == HOST_PRIORITY && policy.condition.starts_with(&inner);
        (self.unmarked(&policy.external_ids) && shape).then_some(Part::HostAddresses)
    }

    fn inner_port(&self) -> String {
        ovn::router_to_switch(&self.names.node_switch(self.node()))
    }

    /// A translation of one of its routers.
    pub(super) fn nat(&self, router: &str, nat: &Nat) -> Option<Part> {
        if nat.kind != "snat" {
            return None;
        }
        if self.marks(&nat.external_ids) {
            return Some(if nat.logical_port.is_some() { Part::Node } else { Part::Gateway });
        }
        // A pod's own translation is one address outside of the join ranges; the network's are blocks.
        let block = nat.logical_ip.parse::<IpNet>().is_ok();
        let ours = block || self.in_join(&nat.logical_ip);
        let plain = self.unmarked(&nat.external_ids) && nat.logical_port.is_none();
        (plain && ours && router == self.gateway_router()).then_some(Part::Gateway)
    }

    /// An access rule of one of its switches.
    pub(super) fn switch_rule(&self, rule: &Acl) -> Option<Part> {
        acl::NETPOL_NODE
            .is_of(&self.names.controller(), |key| rule.external_ids.get(key))
            .then_some(Part::Node)
    }

    /// An access rule of one of its port groups.
    pub(super) fn group_rule(&self, rule: &Acl) -> Option<Part> {
        let controller = self.names.controller();
        let ours = acl::NETPOL_DEFAULT.is_of(&controller, |key| rule.external_ids.get(key))
            || acl::MULTICAST_CLUSTER.is_of(&controller, |key| rule.external_ids.get(key));
        ours.then_some(Part::Network)
    }

    /// A port group.
    pub(super) fn group(&self, group: &PortGroup) -> Option<Part> {
        port_group::CLUSTER
            .is_of(&self.names.controller(), |key| group.external_ids.get(key))
            .then_some(Part::Network)
    }

    /// Names of its port groups.
    pub(super) fn groups(&self) -> [String; 2] {
        ["clusterPortGroup", "clusterRtrPortGroup"]
            .map(|name| port_group::CLUSTER.id(&self.names.controller(), [name]).hashed_name())
    }

    /// A port in one of its port groups.
    pub(super) fn member(&self, port: &LogicalSwitchPort) -> Option<Part> {
        self.switch_port(&self.names.node_switch(self.node()), port)
    }

    /// A neighbour of its gateway router's port outside: one whose MAC address is made of its address. Neighbours that
    /// somebody else wrote down have real ones.
    pub(super) fn mac_binding(&self, binding: &StaticMacBinding) -> Option<Part> {
        let made = binding.ip.parse().is_ok_and(|ip| MacAddress::of_ip(ip).to_string() == binding.mac);
        let port = binding.logical_port == ovn::router_to_external(&self.gateway_router());
        (made && port).then_some(Part::Gateway)
    }
}

/// The networks that have switches or routers here, by their marks.
#[must_use]
pub fn networks(have: &ovsdb::Snapshot) -> std::collections::BTreeSet<NetworkName> {
    use super::northbound::{LogicalRouter, LogicalSwitch};
    let of = |ids: &Pairs| {
        let topology = ids.contains_key(mark::TOPOLOGY);
        ids.get(mark::NETWORK).filter(|_| topology).map(NetworkName::from)
    };
    let switches = have.rows::<LogicalSwitch>().filter_map(|(_, row)| of(&row.external_ids));
    let routers = have.rows::<LogicalRouter>().filter_map(|(_, row)| of(&row.external_ids));
    switches.chain(routers).collect()
}
