//! Layer2 primary networks: one switch over all zones, a router in front of it that knows every node's gateway router.
//!
//! ```text
//!  pods ── the switch ── transit router ── gateway router ── external switch ── bridge
//!             │               └── gateway routers of other zones
//!             └── pods of other zones
//! ```

use std::net::IpAddr;

use causeway_net::network::node::TransitPair;
use causeway_net::network::ovn;
use ipnet::IpNet;

use super::super::cluster::same_family;
use super::super::exit::{Exit, ExitError, Gateway};
use super::super::mark::{self, pairs};
use super::super::network::Layer2;
use super::super::node::ZoneNode;
use super::super::northbound::{LogicalRouter, LogicalRouterPort, Pairs};
use super::super::rows::Rows;
use super::gateway::{Router, bare, host_policies};
use super::routed::through;
use super::{
    Cx, Part, Plan, PlanError, chassis_of, gateway_chassis, id_of, interconnect_config, join_of, mac_of,
    management, route, router_type_port, shared, source_route, subnet_config, switch,
};

/// Tunnel key of the transit router's port to the switch. Source: ovn-kubernetes `types.TransitRouter`.
const SWITCH_PORT_KEY: &str = "1";

/// The plan of such a network.
pub(super) fn plan<'n>(
    cx: &Cx<'_>,
    layer2: &Layer2,
    exit: &Result<Exit, ExitError>,
    remotes: impl IntoIterator<Item = &'n ZoneNode>,
) -> Plan {
    let mut plan = Plan::default();
    plan.put(Part::Network, network(cx, layer2));
    plan.put(Part::Node, node(cx));
    plan.put(Part::Gateway, through(exit, |exit| gateway(cx, layer2, exit)));
    plan.put(Part::HostAddresses, through(exit, |exit| host(cx, exit)));
    for other in remotes.into_iter().filter(|remote| remote.name != cx.node.name) {
        plan.put(Part::Remote(other.name.clone()), remote(cx, layer2, other));
    }
    plan
}

fn network(cx: &Cx<'_>, layer2: &Layer2) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let mut external_ids = cx.marks.plain();
    external_ids.insert(mark::CLUSTER_ROUTER, "yes");
    rows.router(
        LogicalRouter {
            name: cx.names.transit_router(),
            options: pairs([("requested-tnl-key", layer2.router_key.to_string())]),
            external_ids,
            ..LogicalRouter::default()
        },
        [],
    );
    let name = cx.names.layer2_switch();
    let mut config = subnet_config(&cx.network.subnets);
    config.extend(&interconnect_config(&name, layer2.switch_key.get()));
    rows.switch(switch(name, config, cx.marks.with_role()), shared::of_switch(cx));
    shared::load_balancer_groups(cx, &mut rows);
    shared::port_groups(cx, &mut rows)?;
    Ok(rows)
}

/// The router's port to the switch, and the node's own interface. Both have the same addresses on every node.
fn node(cx: &Cx<'_>) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let own = management::own(cx, &cx.network.subnets)?;
    let name = cx.names.layer2_switch();
    let (router, port) = (cx.names.transit_router(), ovn::transit_router_to_switch(&name));
    let mut inside = router_type_port(&ovn::switch_to_transit_router(&name), &port, "router");
    inside.external_ids = cx.marks.plain();
    rows.switch_port(&name, inside);

    let mut options = cx.gateway_mtu();
    options.insert("requested-tnl-key", SWITCH_PORT_KEY);
    let advertise = own.iter().any(|own| own.gateway.is_ipv6());
    let chassis = cx.chassis()?;
    rows.bound_router_port(
        &router,
        LogicalRouterPort {
            name: port.clone(),
            mac: mac_of(own.iter().map(|own| own.gateway)),
            networks: own.iter().map(|own| own.gateway_net().to_string()).collect(),
            ipv6_ra_configs: if advertise { router_advertisements(cx.network.mtu) } else { Pairs::new() },
            options,
            ..LogicalRouterPort::default()
        },
        vec![gateway_chassis(&port, chassis)],
    );
    management::port(cx, &mut rows, &name, &own);
    management::translation(cx, &mut rows, &router, &port, &own)?;
    Ok(rows)
}

/// What hosts on the switch are told about the router. Source: ovn-kubernetes
/// `layer2_user_defined_network_controller.go`.
fn router_advertisements(mtu: Option<u32>) -> Pairs {
    let mut config = pairs([
        ("address_mode", "dhcpv6_stateful"),
        ("send_periodic", "true"),
        ("max_interval", "900"),
        ("min_interval", "300"),
        ("router_preference", "LOW"),
    ]);
    config.extend(mtu.map(|mtu| ("mtu", mtu.to_string())));
    config
}

/// The ends of the link between the transit router and a node's gateway router.
fn pairs_of(layer2: &Layer2, node: &ZoneNode) -> Result<Vec<TransitPair>, PlanError> {
    let id = id_of(node)?;
    let pair = |range: &IpNet| {
        id.transit_pair(*range).map_err(|source| PlanError::Range { node: node.name.clone(), source })
    };
    layer2.transit.iter().map(pair).collect()
}

/// The transit router's port towards a node's gateway router.
fn transit_port(cx: &Cx<'_>, node: &ZoneNode, links: &[TransitPair]) -> Result<LogicalRouterPort, PlanError> {
    let gateway = cx.names.gateway_router(node.name.as_str());
    let ends = links.iter().map(|link| link.transit_router);
    let key = id_of(node)?.layer2_port_tunnel_key();
    Ok(LogicalRouterPort {
        name: ovn::transit_router_to_router(&gateway),
        mac: mac_of(ends.clone().map(|end| end.addr())),
        networks: ends.map(|end| end.to_string()).collect(),
        options: pairs([("requested-tnl-key", key.to_string())]),
        external_ids: cx.marks.plain(),
        ..LogicalRouterPort::default()
    })
}

fn gateway(cx: &Cx<'_>, layer2: &Layer2, gateway: &Gateway) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let name = cx.gateway_router();
    let join = join_of(&layer2.primary.join, cx.node)?;
    let links = pairs_of(layer2, cx.node)?;
    // The port inside has transit addresses too, so OVN must be told which one to use.
    let force_snat: Vec<String> = join.iter().map(|address| address.addr().to_string()).collect();
    Router { gateway, join: &join, force_snat: force_snat.join(" ") }.plan(cx, &mut rows)?;

    let marks = cx.marks.plain();
    let distributed = cx.names.transit_router();
    let (inner, outer) = (ovn::router_to_transit_router(&name), ovn::transit_router_to_router(&name));
    let mut port = transit_port(cx, cx.node, &links)?;
    port.peer = Some(inner.clone());
    rows.router_port(&distributed, port);
    let own_ends: Vec<IpNet> = links.iter().map(|link| link.gateway_router).collect();
    rows.router_port(
        &name,
        LogicalRouterPort {
            name: inner.clone(),
            mac: mac_of(join.iter().map(IpNet::addr)),
            networks: join.iter().chain(&own_ends).map(ToString::to_string).collect(),
            peer: Some(outer),
            options: cx.gateway_mtu(),
            external_ids: marks.clone(),
            ..LogicalRouterPort::default()
        },
    );

    for subnet in &cx.network.subnets {
        let ends = || links.iter().map(|link| link.transit_router.addr());
        if let Some(hop) = same_family(ends(), subnet.addr()) {
            let mut inwards = route(subnet.trunc().to_string(), hop, marks.clone());
            inwards.output_port = Some(inner.clone());
            rows.route(&name, inwards);
        }
        if let Some(hop) = same_family(own_ends.iter().map(IpNet::addr), subnet.addr()) {
            rows.route(&distributed, source_route(subnet.trunc().to_string(), hop, marks.clone()));
        }
    }
    join_routes(&mut rows, &distributed, &join, &own_ends, &marks);
    Ok(rows)
}

/// Routes to a node's join addresses. A family that the network has not is left out: nothing leads there.
fn join_routes(rows: &mut Rows, router: &str, join: &[IpNet], ends: &[IpNet], marks: &Pairs) {
    for address in join {
        if let Some(hop) = same_family(ends.iter().map(IpNet::addr), address.addr()) {
            rows.route(router, route(bare(address).to_string(), hop, marks.clone()));
        }
    }
}

fn remote(cx: &Cx<'_>, layer2: &Layer2, remote: &ZoneNode) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let links = pairs_of(layer2, remote)?;
    let join = join_of(&layer2.primary.join, remote)?;
    let mut marks = cx.marks.plain();
    marks.insert(mark::NODE, remote.name.as_str());
    let router = cx.names.transit_router();
    let mut port = transit_port(cx, remote, &links)?;
    port.options.insert("requested-chassis", chassis_of(remote)?);
    port.external_ids.clone_from(&marks);
    rows.router_port(&router, port);
    let ends: Vec<IpNet> = links.iter().map(|link| link.gateway_router).collect();
    join_routes(&mut rows, &router, &join, &ends, &marks);
    Ok(rows)
}

/// Only the node's address outside leads to the node's interface, as upstream decides.
fn host(cx: &Cx<'_>, gateway: &Gateway) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let own = management::own(cx, &cx.network.subnets)?;
    let ways: Vec<IpAddr> = own.iter().map(|own| own.management).collect();
    let port = ovn::transit_router_to_switch(&cx.names.layer2_switch());
    let addresses = gateway.addresses.iter().map(IpNet::addr);
    host_policies(cx, &mut rows, &cx.names.transit_router(), &port, addresses, &ways);
    Ok(rows)
}
