//! What the cluster's networks and nodes say: two nodes, a network of each topology and role, and tenants with the same
//! addresses.

use causeway_api::nad::{Config, GatewayMode};
use causeway_dpu_agent::topology::cluster::{ACL_LOG_RATE, COPP_RATE, Cluster};
use causeway_dpu_agent::topology::network::Network;
use causeway_dpu_agent::topology::node::ZoneNode;

use super::pods::Side;

/// Name of the underlay's network of localnet networks.
pub const TENANT_NETWORK: &str = "tenantnet";

/// Names, ids, tunnel keys and what is special in the config. `red` and `mint` have the addresses of `blue` and `green`,
/// `tagged` those of `local`, in the same underlay.
const NETWORKS: [(&str, u32, &[u32], &str); 8] = [
    ("blue", 1, &[], r#""topology":"layer3","role":"primary","subnets":"10.200.0.0/16/24,fd20::/48/64""#),
    ("red", 2, &[], r#""topology":"layer3","role":"primary","subnets":"10.200.0.0/16/24,fd20::/48/64""#),
    ("second", 3, &[], r#""topology":"layer3","subnets":"10.211.0.0/16/24,fd21::/48/64""#),
    (
        "green",
        4,
        &[16_711_687, 16_715_779],
        r#""topology":"layer2","role":"primary","subnets":"10.201.0.0/16,fd22::/64""#,
    ),
    (
        "mint",
        5,
        &[16_711_688, 16_715_780],
        r#""topology":"layer2","role":"primary","subnets":"10.201.0.0/16,fd22::/64""#,
    ),
    ("flat", 6, &[], r#""topology":"layer2","subnets":"10.210.0.0/16,fd23::/64""#),
    (
        "local",
        7,
        &[],
        r#""topology":"localnet","subnets":"10.212.0.0/24,fd24::/64","physicalNetworkName":"tenantnet""#,
    ),
    (
        "tagged",
        8,
        &[],
        r#""topology":"localnet","subnets":"10.212.0.0/24,fd24::/64","physicalNetworkName":"tenantnet","vlanID":7"#,
    ),
];

/// What every planner looks at.
#[derive(Debug)]
pub struct Inputs {
    /// Settings of the cluster.
    pub cluster: Cluster,
    /// The networks, the default one first.
    pub networks: Vec<Network>,
    west: ZoneNode,
    east: ZoneNode,
}

impl Inputs {
    /// The inputs for the nodes of both sides.
    ///
    /// # Errors
    /// One of the values above is not what it should be.
    pub fn new() -> anyhow::Result<Self> {
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>();
        let cluster = Cluster {
            subnets: nets(&["10.128.0.0/14", "fd01::/48"])?,
            join: nets(&["100.64.0.0/16", "fd98::/64"])?,
            masquerade: nets(&["169.254.0.0/17", "fd69::/112"])?,
            mtu: 1400,
            node_ports: true,
            port_range: Some("32768-60999".to_owned()),
            multicast: false,
            copp_rate: COPP_RATE,
            acl_log_rate: ACL_LOG_RATE,
            geneve_port: None,
        };
        let mut networks = vec![Network::default_network(&cluster)];
        for (name, id, keys, special) in NETWORKS {
            let config = format!(
                r#"{{"type":"ovn-k8s-cni-overlay","name":"{name}","netAttachDefName":"ns/{name}",{special}}}"#
            );
            let config = Config::read(&config, &format!("ns/{name}"), GatewayMode::Shared)?;
            networks.push(Network::of(&config, id.try_into()?, keys, &cluster)?);
        }
        Ok(Self { cluster, networks, west: node(Side::West), east: node(Side::East) })
    }

    /// A node.
    #[must_use]
    pub fn node(&self, side: Side) -> &ZoneNode {
        match side {
            Side::West => &self.west,
            Side::East => &self.east,
        }
    }
}

/// Where a node's tunnels end.
#[must_use]
pub fn encapsulation_address(side: Side) -> String {
    format!("172.31.0.{}", side.number())
}

/// A node with the annotations that tell all that the planners need of it.
fn node(side: Side) -> ZoneNode {
    let (name, n, id) = (side.name(), side.number(), side.number() + 1);
    let gateway = format!(
        r#"{{"default":{{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_{name}","mac-address":"02:42:ac:1e:00:0{n}","ip-addresses":["172.30.0.{n}/24","fc00::{n}/64"],"next-hops":["172.30.0.254","fc00::fe"],"node-port-enable":"true"}}}}"#
    );
    let routed = r#""blue":["10.200.N.0/24","fd20:0:0:N::/64"],"red":["10.200.N.0/24","fd20:0:0:N::/64"],"second":["10.211.N.0/24","fd21:0:0:N::/64"]"#;
    let routed = routed.replace('N', &n.to_string());
    let annotations = [
        ("node-id", id.to_string()),
        // As the places call their chassis.
        ("node-chassis-id", name.to_owned()),
        ("node-subnets", format!(r#"{{"default":["10.128.{n}.0/24","fd01:0:0:{n}::/64"],{routed}}}"#)),
        ("l3-gateway-config", gateway),
        (
            "node-transit-switch-port-ifaddr",
            format!(r#"{{"ipv4":"100.88.0.{id}/16","ipv6":"fd97::{id}/64"}}"#),
        ),
        ("host-cidrs", format!(r#"["172.30.0.{n}/24","fc00::{n}/64"]"#)),
        ("node-encap-ips", format!(r#"["{}"]"#, encapsulation_address(side))),
    ];
    let annotations = annotations.map(|(key, value)| (format!("k8s.ovn.org/{key}"), value));
    ZoneNode::of(name, &annotations.into_iter().collect())
}
