//! Networks with a subnet for each node: the default network, Layer3 primary and secondary.
//!
//! ```text
//!  pods ── node switch ── distributed router ── join switch ── gateway router ── external switch ── bridge
//!                               └── transit switch ── other zones
//! ```

use std::net::IpAddr;

use causeway_net::mac::MacAddress;
use causeway_net::network::offset::nth_with_mask;
use causeway_net::network::ovn;
use ipnet::IpNet;

use super::super::cluster::same_family;
use super::super::exit::{Exit, ExitError, Gateway};
use super::super::mark::{self, pairs};
use super::super::network::Primary;
use super::super::node::ZoneNode;
use super::super::northbound::{LogicalRouter, LogicalRouterPort, LogicalSwitchPort, Pairs};
use super::super::rows::Rows;
use super::gateway::{Router, bare, host_addresses, host_policies};
use super::management::{self, Own};
use super::{
    Cx, Part, Plan, PlanError, gateway_chassis, join_of, mac_of, route, router_type_port, shared,
    source_route, subnet_config, switch, transit,
};

/// Position of the distributed router in a join range.
const DISTRIBUTED_ROUTER: u32 = 1;

/// What the default network's router answers ARP for, so that virtual machines find a gateway wherever they move to.
/// Source: ovn-kubernetes `kubevirt.ComposeARPProxyLSPOption`.
const ARP_PROXY: &str = "0a:58:a9:fe:01:01 169.254.1.1 fe80::1";

/// A network through which pods leave.
pub(super) fn primary<'n>(
    cx: &Cx<'_>,
    primary: &Primary,
    exit: &Result<Exit, ExitError>,
    remotes: impl IntoIterator<Item = &'n ZoneNode>,
) -> Plan {
    let mut plan = Plan::default();
    plan.put(Part::Network, network(cx, primary));
    plan.put(Part::Node, node(cx, true));
    plan.put(Part::Gateway, through(exit, |exit| gateway(cx, primary, exit)));
    plan.put(Part::HostAddresses, through(exit, |exit| host(cx, exit)));
    between_zones(cx, &mut plan, Some(primary), remotes);
    plan
}

/// A network that is a further interface of pods.
pub(super) fn secondary<'n>(cx: &Cx<'_>, remotes: impl IntoIterator<Item = &'n ZoneNode>) -> Plan {
    let mut plan = Plan::default();
    let mut rows = Rows::default();
    distributed_router(cx, &mut rows);
    shared::load_balancer_groups(cx, &mut rows);
    plan.put(Part::Network, Ok(rows));
    plan.put(Part::Node, node(cx, false));
    between_zones(cx, &mut plan, None, remotes);
    plan
}

/// The rows of a part that depends on where the network leaves: none where it does not leave.
pub(super) fn through(
    exit: &Result<Exit, ExitError>,
    rows: impl FnOnce(&Gateway) -> Result<Rows, PlanError>,
) -> Result<Rows, PlanError> {
    match exit {
        Ok(Exit::Through(gateway)) => rows(gateway),
        Ok(Exit::Disabled) => Ok(Rows::default()),
        Err(error) => Err(error.clone().into()),
    }
}

fn between_zones<'n>(
    cx: &Cx<'_>,
    plan: &mut Plan,
    primary: Option<&Primary>,
    remotes: impl IntoIterator<Item = &'n ZoneNode>,
) {
    plan.put(Part::Transit, transit::local(cx));
    for remote in remotes.into_iter().filter(|remote| remote.name != cx.node.name) {
        plan.put(Part::Remote(remote.name.clone()), transit::remote(cx, primary, remote));
    }
}

fn distributed_router(cx: &Cx<'_>, rows: &mut Rows) {
    let mut external_ids = cx.marks.plain();
    external_ids.insert(mark::CLUSTER_ROUTER, "yes");
    let mut options = pairs([("always_learn_from_arp_request", "false")]);
    if cx.cluster.multicast {
        options.insert("mcast_relay", "true");
    }
    let name = cx.names.cluster_router();
    rows.router(LogicalRouter { name, options, external_ids, ..LogicalRouter::default() }, []);
}

fn network(cx: &Cx<'_>, primary: &Primary) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    distributed_router(cx, &mut rows);
    let (router, join) = (cx.names.cluster_router(), cx.names.join_switch());
    let addresses = inner_addresses(primary)?;
    rows.switch(switch(join.clone(), Pairs::new(), cx.marks.plain()), []);
    let port = ovn::router_to_join(&router);
    rows.switch_port(&join, router_type_port(&ovn::join_to_router(&router), &port, "router"));
    rows.router_port(
        &router,
        LogicalRouterPort {
            name: port,
            mac: mac_of(addresses.iter().map(IpNet::addr)),
            networks: addresses.iter().map(ToString::to_string).collect(),
            external_ids: cx.marks.plain(),
            ..LogicalRouterPort::default()
        },
    );
    shared::load_balancer_groups(cx, &mut rows);
    shared::port_groups(cx, &mut rows)?;
    Ok(rows)
}

/// The distributed router's addresses in the join ranges.
fn inner_addresses(primary: &Primary) -> Result<Vec<IpNet>, PlanError> {
    let address = |range: &IpNet| nth_with_mask(*range, DISTRIBUTED_ROUTER);
    Ok(primary.join.iter().map(address).collect::<Result<_, _>>()?)
}

/// The node's switch and the router's port to it; for networks through which pods leave, the node's own interface too.
fn node(cx: &Cx<'_>, primary: bool) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let own = management::own(cx, cx.node_subnets()?)?;
    let name = cx.pod_switch();
    let port = ovn::router_to_switch(&name);
    let mac = mac_of(own.iter().map(|own| own.gateway));

    let subnets: Vec<IpNet> = own.iter().map(|own| own.subnet).collect();
    let mut config = subnet_config(&subnets);
    if !primary {
        // Upstream keeps the address free as if the node had an interface here.
        let free = own.iter().map(|own| own.management).find(IpAddr::is_ipv4);
        config.extend(free.map(|address| ("exclude_ips", address.to_string())));
    }
    if cx.cluster.multicast {
        config.extend(&querier(&mac, &own));
    }
    rows.switch(switch(name.clone(), config, cx.marks.with_role()), shared::of_switch(cx));

    let mut inside = router_type_port(&ovn::switch_to_router(&name), &port, "router");
    if cx.network.is_default() {
        let blocks = cx.cluster.subnets.iter().map(|subnet| format!(" {}", subnet.trunc()));
        inside.options.insert("arp_proxy", &format!("{ARP_PROXY}{}", blocks.collect::<String>()));
    }
    rows.switch_port(&name, inside);
    let chassis = cx.chassis()?;
    let router = cx.names.cluster_router();
    rows.bound_router_port(
        &router,
        LogicalRouterPort {
            name: port.clone(),
            mac,
            networks: own.iter().map(|own| own.gateway_net().to_string()).collect(),
            options: cx.gateway_mtu(),
            ..LogicalRouterPort::default()
        },
        vec![gateway_chassis(&port, chassis)],
    );
    if primary {
        management::port(cx, &mut rows, &name, &own);
        if !cx.network.is_default() {
            management::translation(cx, &mut rows, &router, &port, &own)?;
        }
    }
    Ok(rows)
}

/// The switch asks who listens to which group, in the router's name.
fn querier(mac: &str, own: &[Own]) -> Pairs {
    let mut config = pairs([("mcast_snoop", "true"), ("mcast_querier", "true"), ("mcast_eth_src", mac)]);
    let gateway = own.iter().map(|own| own.gateway).find(IpAddr::is_ipv4);
    config.extend(gateway.map(|gateway| ("mcast_ip4_src", gateway.to_string())));
    if own.iter().any(|own| own.gateway.is_ipv6())
        && let Ok(mac) = mac.parse::<MacAddress>()
    {
        config.insert("mcast_ip6_src", &mac.link_local().to_string());
    }
    config
}

fn gateway(cx: &Cx<'_>, primary: &Primary, gateway: &Gateway) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let name = cx.gateway_router();
    let join = join_of(&primary.join, cx.node)?;
    let router = Router { gateway, join: &join, force_snat: "router_ip".to_owned() };
    router.plan(cx, &mut rows)?;

    let marks = cx.marks.plain();
    let port = ovn::router_to_join(&name);
    let mut outer: LogicalSwitchPort = router_type_port(&ovn::join_to_router(&name), &port, "router");
    outer.external_ids = marks.clone();
    rows.switch_port(&cx.names.join_switch(), outer);
    rows.router_port(
        &name,
        LogicalRouterPort {
            name: port,
            mac: mac_of(join.iter().map(IpNet::addr)),
            networks: join.iter().map(ToString::to_string).collect(),
            options: cx.gateway_mtu(),
            external_ids: marks.clone(),
            ..LogicalRouterPort::default()
        },
    );

    let inner: Vec<IpAddr> = inner_addresses(primary)?.iter().map(IpNet::addr).collect();
    for subnet in &cx.network.subnets {
        if let Some(hop) = same_family(inner.iter().copied(), subnet.addr()) {
            rows.route(&name, route(subnet.trunc().to_string(), hop, marks.clone()));
        }
    }
    let distributed = cx.names.cluster_router();
    for address in &join {
        rows.route(&distributed, route(bare(address).to_string(), address.addr(), marks.clone()));
    }
    for subnet in cx.node_subnets()? {
        if let Some(hop) = same_family(join.iter().map(IpNet::addr), subnet.addr()) {
            rows.route(&distributed, source_route(subnet.trunc().to_string(), hop, marks.clone()));
        }
    }
    Ok(rows)
}

/// The default network leads to every address of the host; others to the node's address outside and to their own
/// masquerade address, behind which the host is for them.
fn host(cx: &Cx<'_>, gateway: &Gateway) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let addresses = if cx.network.is_default() {
        host_addresses(cx, gateway)?
    } else {
        let own = cx.cluster.of_network(cx.network.id)?;
        gateway.addresses.iter().map(IpNet::addr).chain(own.into_iter().map(|(gateway, _)| gateway)).collect()
    };
    let own = management::own(cx, cx.node_subnets()?)?;
    let ways: Vec<IpAddr> = own.iter().map(|own| own.management).collect();
    let port = ovn::router_to_switch(&cx.pod_switch());
    host_policies(cx, &mut rows, &cx.names.cluster_router(), &port, addresses, &ways);
    Ok(rows)
}
