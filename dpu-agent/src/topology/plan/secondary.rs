//! Networks without a router: Layer2 secondary and Localnet.

use causeway_net::network::tunnel_key::TunnelKey;

use super::super::mark::pairs;
use super::super::northbound::{LogicalSwitchPort, Pairs};
use super::super::rows::Rows;
use super::{Cx, Part, Plan, interconnect_config, shared, subnet_config, switch};

/// One switch over all zones.
pub(super) fn layer2(cx: &Cx<'_>) -> Plan {
    let mut rows = Rows::default();
    let name = cx.names.layer2_switch();
    let mut config = subnet_config(&cx.network.subnets);
    config.extend(&interconnect_config(&name, TunnelKey::of(cx.network.id).get()));
    rows.switch(switch(name, config, cx.marks.with_role()), shared::of_switch(cx));
    shared::load_balancer_groups(cx, &mut rows);
    let mut plan = Plan::default();
    plan.put(Part::Network, Ok(rows));
    plan
}

/// One switch per zone, which the underlay joins.
pub(super) fn localnet(cx: &Cx<'_>, physical_network: &str, vlan: Option<u32>) -> Plan {
    let mut rows = Rows::default();
    let name = cx.names.localnet_switch();
    let config = subnet_config(&cx.network.subnets);
    rows.switch(switch(name.clone(), config, cx.marks.with_role()), []);
    rows.switch_port(
        &name,
        LogicalSwitchPort {
            name: cx.names.localnet_port(),
            kind: "localnet".to_owned(),
            addresses: ["unknown".to_owned()].into(),
            options: pairs([("network_name", physical_network)]),
            tag_request: vlan.map(i64::from),
            // None, unlike on all other rows of a network: upstream writes none.
            external_ids: Pairs::new(),
        },
    );
    let mut plan = Plan::default();
    plan.put(Part::Network, Ok(rows));
    plan
}
