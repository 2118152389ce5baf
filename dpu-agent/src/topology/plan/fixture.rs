//! Small worlds for tests of the planners.

use std::collections::BTreeMap;

use causeway_api::nad::{Config, GatewayMode};

use super::super::cluster::Cluster;
use super::super::exit::Exit;
use super::super::golden::captured_cluster;
use super::super::network::{Network, NetworkError};
use super::super::node::ZoneNode;
use super::super::rows::Rows;
use super::{DefaultService, Part, Plan, Ways, plan};

/// The worked example's cluster: IPv4, two nodes.
pub(in super::super) fn cluster() -> Cluster {
    Cluster { subnets: nets(&["10.244.0.0/16"]), ..captured_cluster() }
}

/// The same with both families.
pub(in super::super) fn dual() -> Cluster {
    Cluster { subnets: nets(&["10.244.0.0/16", "fd01::/48"]), ..captured_cluster() }
}

/// The same with IPv6 alone.
pub(in super::super) fn six() -> Cluster {
    Cluster { subnets: nets(&["fd01::/48"]), ..captured_cluster() }
}

pub(in super::super) fn nets<N: std::str::FromStr<Err: std::fmt::Debug>>(texts: &[&str]) -> Vec<N> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Annotations of the `n`th node of the worked example (`n` from 1), with some others in place.
pub(in super::super) fn annotations(n: u8, changes: &[(&str, &str)]) -> BTreeMap<String, String> {
    let (id, host) = (n + 1, n + 1);
    let subnets = format!(
        r#"{{"default":["10.244.{0}.0/24","fd01:0:0:{1}::/64"],"cluster_udn_blue":["10.200.{0}.0/24","fd20:0:0:{1}::/64"]}}"#,
        n - 1,
        n,
    );
    let gateway = format!(
        r#"{{"default":{{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_node{n}",
        "mac-address":"02:42:ac:12:00:0{host}","ip-addresses":["172.18.0.{host}/16","fc00::{host}/64"],
        "next-hops":["172.18.0.1","fc00::1"],"node-port-enable":"true","vlan-id":"0"}}}}"#
    );
    let mut all: BTreeMap<String, String> = [
        ("node-id", id.to_string()),
        ("node-chassis-id", format!("c{n}")),
        ("node-subnets", subnets),
        ("l3-gateway-config", gateway),
        (
            "node-transit-switch-port-ifaddr",
            format!(r#"{{"ipv4":"100.88.0.{id}/16","ipv6":"fd97::{id}/64"}}"#),
        ),
        ("host-cidrs", format!(r#"["172.18.0.{host}/16"]"#)),
        ("node-encap-ips", format!(r#"["172.18.0.{host}"]"#)),
    ]
    .map(|(key, value)| (format!("k8s.ovn.org/{key}"), value))
    .into();
    for (key, value) in changes {
        let key = format!("k8s.ovn.org/{key}");
        if value.is_empty() {
            all.remove(&key);
        } else {
            all.insert(key, (*value).to_owned());
        }
    }
    all
}

/// The `n`th node. Only the families that the cluster has are told, as a cluster manager and a node would.
pub(in super::super) fn node_of(cluster: &Cluster, n: u8, changes: &[(&str, &str)]) -> ZoneNode {
    let mut node = ZoneNode::of(&format!("node{n}"), &annotations(n, changes));
    let has = |net: &ipnet::IpNet| cluster.has(causeway_net::ipam::nodes::Family::of(net));
    if let Ok(read) = &mut node.subnets {
        read.value.values_mut().for_each(|subnets| subnets.retain(has));
    }
    if let Ok(transit) = &mut node.transit {
        transit.retain(has);
    }
    if let Ok(read) = &mut node.gateways {
        for gateway in read.value.values_mut() {
            gateway.addresses.retain(has);
            gateway.next_hops.retain(|hop| has(&ipnet::IpNet::from(*hop)));
        }
    }
    node
}

pub(in super::super) fn node(n: u8) -> ZoneNode {
    node_of(&cluster(), n, &[])
}

/// A network from the config's own fields, as a NAD of `ns1` has them.
pub(in super::super) fn network(
    cluster: &Cluster,
    name: &str,
    fields: &str,
    id: u32,
    keys: &[u32],
) -> Result<Network, NetworkError> {
    let text = format!(
        r#"{{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","name":"{name}","netAttachDefName":"ns1/blue",{fields}}}"#
    );
    let config = Config::parse(&text, "ns1/blue").unwrap();
    assert_eq!(config.problems("ns1/blue", GatewayMode::Shared), []);
    Network::of(&config, id.try_into().unwrap(), keys, cluster)
}

/// Fields of a Layer3 primary network.
pub(in super::super) const LAYER3: &str =
    r#""topology":"layer3","role":"primary","subnets":"10.200.0.0/16/24,fd20::/48/64""#;

/// Fields of a Layer2 primary network.
pub(in super::super) const LAYER2: &str = r#""topology":"layer2","role":"primary","subnets":"10.200.0.0/16""#;

pub(in super::super) fn layer3(cluster: &Cluster) -> Network {
    let fields =
        if cluster.subnets.len() == 1 { LAYER3.replace(",fd20::/48/64", "") } else { LAYER3.to_owned() };
    let fields =
        if cluster.subnets[0].addr().is_ipv6() { LAYER3.replace("10.200.0.0/16/24,", "") } else { fields };
    network(cluster, "cluster_udn_blue", &fields, 1, &[]).unwrap()
}

pub(in super::super) fn layer2(cluster: &Cluster) -> Network {
    network(cluster, "cluster_udn_blue", LAYER2, 1, &[16_711_684, 16_715_779]).unwrap()
}

/// The plan of a network at the first node, where it leaves by the node's own gateway.
pub(in super::super) fn planned(
    cluster: &Cluster,
    network: &Network,
    node: &ZoneNode,
    remotes: &[ZoneNode],
) -> Plan {
    planned_with(cluster, network, node, &[], remotes)
}

/// The same with Services of the default network.
pub(in super::super) fn planned_with(
    cluster: &Cluster,
    network: &Network,
    node: &ZoneNode,
    services: &[DefaultService],
    remotes: &[ZoneNode],
) -> Plan {
    plan(cluster, network, node, Ways { exit: &Exit::of_node(network, node), services }, remotes)
}

/// All rows of a plan that has no problem.
#[track_caller]
pub(in super::super) fn rows_of(plan: &Plan) -> Rows {
    assert_eq!(plan.problems, BTreeMap::new());
    plan.rows()
}

pub(in super::super) fn remote(n: u8) -> Part {
    Part::Remote(format!("node{n}").as_str().into())
}

/// Routes as text: `router: prefix [policy] via nexthop [out port]`.
pub(in super::super) fn routes(rows: &Rows) -> Vec<String> {
    let mut texts: Vec<String> = rows
        .routes
        .iter()
        .map(|route| {
            let row = &route.row;
            let policy = row.policy.as_ref().map(|policy| format!(" {policy}")).unwrap_or_default();
            let out = row.output_port.as_ref().map(|port| format!(" out {port}")).unwrap_or_default();
            format!("{}: {}{policy} via {}{out}", route.parent, row.ip_prefix, row.nexthop)
        })
        .collect();
    texts.sort();
    texts
}

/// Translations as text: `router: inside -> outside [at port] [match]`.
pub(in super::super) fn nats(rows: &Rows) -> Vec<String> {
    let mut texts: Vec<String> = rows
        .nats
        .iter()
        .map(|nat| {
            let row = &nat.row;
            let at = row.logical_port.as_ref().map(|port| format!(" at {port}")).unwrap_or_default();
            let condition =
                if row.condition.is_empty() { String::new() } else { format!(" if {}", row.condition) };
            format!("{}: {} -> {}{at}{condition}", nat.parent, row.logical_ip, row.external_ip)
        })
        .collect();
    texts.sort();
    texts
}

/// Router ports as text: `mac networks`.
pub(in super::super) fn ports(rows: &Rows) -> BTreeMap<String, String> {
    let text = |port: &super::super::rows::RouterPort| {
        let networks: Vec<&str> = port.row.networks.iter().map(String::as_str).collect();
        format!("{} {}", port.row.mac, networks.join(" "))
    };
    rows.router_ports.iter().map(|(name, port)| (name.clone(), text(port))).collect()
}

/// Policies as text: `match via nexthop`.
pub(in super::super) fn policies(rows: &Rows) -> Vec<String> {
    let mut texts: Vec<String> = rows
        .policies
        .iter()
        .map(|policy| {
            let hops: Vec<&str> = policy.row.nexthops.iter().map(String::as_str).collect();
            format!("{} via {}", policy.row.condition, hops.join(" "))
        })
        .collect();
    texts.sort();
    texts
}
