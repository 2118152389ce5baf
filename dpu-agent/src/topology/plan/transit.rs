//! The link between the zones of a routed network.

use causeway_net::network::tunnel_key::TunnelKey;
use ipnet::IpNet;

use super::super::cluster::host;
use super::super::mark::{self, pairs};
use super::super::network::Primary;
use super::super::node::{Untold, ZoneNode};
use super::super::northbound::{LogicalRouterPort, LogicalSwitchPort};
use super::super::rows::Rows;
use super::{
    Cx, PlanError, chassis_of, id_of, interconnect_config, join_of, mac_of, route, router_type_port,
    subnets_of, switch,
};

/// The transit switch and this node's ports on both sides of it.
pub(super) fn local(cx: &Cx<'_>) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let node = cx.node.name.as_str();
    let id = id_of(cx.node)?;
    let addresses = transit_of(cx.node)?;
    let name = cx.names.transit_switch();
    let config = interconnect_config(&name, TunnelKey::of(cx.network.id).get());
    rows.switch(switch(name.clone(), config, cx.marks.with_role()), []);
    let port = cx.names.router_to_transit_switch(node);
    rows.router_port(
        &cx.names.cluster_router(),
        LogicalRouterPort {
            name: port.clone(),
            mac: mac_of(addresses.iter().map(IpNet::addr)),
            networks: addresses.iter().map(ToString::to_string).collect(),
            options: pairs([("mcast_flood", "true")]),
            ..LogicalRouterPort::default()
        },
    );
    let mut row = router_type_port(&cx.names.transit_switch_port(node), &port, "router");
    row.options.insert("requested-tnl-key", &id.to_string());
    row.external_ids = pairs([(mark::TRANSIT_NODE, node)]);
    rows.switch_port(&name, row);
    Ok(rows)
}

/// Another node: its port on the transit switch and the routes to it. `primary` has the ranges of its gateway routers'
/// addresses.
pub(super) fn remote(cx: &Cx<'_>, primary: Option<&Primary>, remote: &ZoneNode) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let node = remote.name.as_str();
    let id = id_of(remote)?;
    let subnets = subnets_of(cx.network, remote)?;
    let addresses = transit_of(remote)?;
    let join = primary.map_or(Ok(Vec::new()), |primary| join_of(&primary.join, remote))?;
    let chassis = chassis_of(remote)?;

    let mut address = mac_of(addresses.iter().map(IpNet::addr));
    for one in addresses {
        address.push(' ');
        address.push_str(&one.to_string());
    }
    let mut options = pairs([("requested-chassis", chassis)]);
    options.insert("requested-tnl-key", &id.to_string());
    rows.switch_port(
        &cx.names.transit_switch(),
        LogicalSwitchPort {
            name: cx.names.transit_switch_port(node),
            kind: "remote".to_owned(),
            addresses: [address].into(),
            options,
            external_ids: pairs([(mark::TRANSIT_NODE, node)]),
            ..LogicalSwitchPort::default()
        },
    );
    let marks = pairs([(mark::ROUTE_NODE, node), (mark::NETWORK, cx.network.name.as_str())]);
    let router = cx.names.cluster_router();
    let join = join.iter().map(|address| host(address.addr()));
    for prefix in subnets.iter().map(IpNet::trunc).chain(join) {
        let nexthop = remote
            .transit_like(prefix.addr())
            .ok_or_else(|| PlanError::NoTransit { node: remote.name.clone(), subnet: prefix })?;
        rows.route(&router, route(prefix.to_string(), nexthop, marks.clone()));
    }
    Ok(rows)
}

fn transit_of(node: &ZoneNode) -> Result<&[IpNet], PlanError> {
    let missing = |cause: &Untold| PlanError::Node { node: node.name.clone(), cause: cause.clone() };
    node.transit.as_deref().map_err(missing)
}
