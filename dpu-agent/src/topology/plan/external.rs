//! The switch between a gateway router and its bridge.

use std::net::IpAddr;

use causeway_net::network::ovn;
use ipnet::IpNet;

use super::super::cluster::host;
use super::super::exit::Gateway;
use super::super::mark::{self, pairs};
use super::super::northbound::{LogicalRouterPort, LogicalSwitchPort};
use super::super::rows::Rows;
use super::{Cx, router_type_port, switch};

/// What names of the second external switch begin with. Source: ovn-kubernetes `types.EgressGWSwitchPrefix`.
const SECOND: &str = "exgw-";

/// The bridge network of the second gateway. Source: ovn-kubernetes `types.PhysicalNetworkExGwName`.
const SECOND_PHYSICAL_NETWORK: &str = "exgwphysnet";

/// One way out.
struct Way<'w> {
    prefix: &'w str,
    localnet_port: &'w str,
    physical_network: &'w str,
    mac: &'w str,
    networks: Vec<IpNet>,
    vlan: Option<u16>,
}

/// The external switch and the ports on both sides of it. `own` are the network's own addresses outside.
pub(super) fn plan(cx: &Cx<'_>, rows: &mut Rows, gateway: &Gateway, own: &[IpAddr]) {
    let first = Way {
        prefix: "",
        localnet_port: &gateway.localnet_port,
        physical_network: &gateway.physical_network,
        mac: &gateway.mac,
        networks: gateway.addresses.iter().copied().chain(own.iter().copied().map(host)).collect(),
        vlan: gateway.vlan,
    };
    first.plan(cx, rows);
    if let Some(second) = &gateway.second {
        let second = Way {
            prefix: SECOND,
            localnet_port: &second.localnet_port,
            physical_network: SECOND_PHYSICAL_NETWORK,
            mac: &second.mac,
            networks: second.addresses.clone(),
            vlan: None,
        };
        second.plan(cx, rows);
    }
}

impl Way<'_> {
    fn plan(&self, cx: &Cx<'_>, rows: &mut Rows) {
        let router = cx.gateway_router();
        let marks = cx.marks.plain();
        let named = |name: String| format!("{}{name}", self.prefix);
        let port = named(ovn::router_to_external(&router));
        rows.router_port(
            &router,
            LogicalRouterPort {
                name: port.clone(),
                mac: self.mac.to_owned(),
                networks: self.networks.iter().map(ToString::to_string).collect(),
                external_ids: if cx.network.is_default() {
                    pairs([(mark::GATEWAY_PHYSICAL_IP, "yes")])
                } else {
                    marks.clone()
                },
                ..LogicalRouterPort::default()
            },
        );
        let outside = named(cx.names.external_switch(cx.node.name.as_str()));
        rows.switch(switch(outside.clone(), pairs::<&str, &str>([]), cx.marks.with_role()), []);
        rows.switch_port(
            &outside,
            LogicalSwitchPort {
                name: self.localnet_port.to_owned(),
                kind: "localnet".to_owned(),
                addresses: ["unknown".to_owned()].into(),
                options: pairs([("network_name", self.physical_network)]),
                tag_request: self.vlan.map(i64::from),
                external_ids: marks.clone(),
            },
        );
        let mut inside = router_type_port(&named(ovn::external_to_router(&router)), &port, self.mac);
        if cx.network.is_default() {
            inside.options.extend([("nat-addresses", "router"), ("exclude-lb-vips-from-garp", "true")]);
        }
        inside.external_ids = marks;
        rows.switch_port(&outside, inside);
    }
}
