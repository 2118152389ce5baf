use std::collections::BTreeMap;

use causeway_api::nad::{Config, GatewayMode};

use super::*;
use crate::topology::cluster::{ACL_LOG_RATE, COPP_RATE};
use crate::topology::exit::Exit;
use crate::topology::plan::{Ways, plan};

fn cluster(subnets: &[&str]) -> Cluster {
    let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Cluster {
        subnets: nets(subnets),
        join: nets(&["100.64.0.0/16", "fd98::/64"]),
        masquerade: nets(&["169.254.0.0/17", "fd69::/112"]),
        mtu: 1400,
        node_ports: true,
        port_range: None,
        multicast: false,
        copp_rate: COPP_RATE,
        acl_log_rate: ACL_LOG_RATE,
        geneve_port: None,
    }
}

fn node(subnets: &str, more: &[(&str, &str)]) -> ZoneNode {
    let mut annotations = BTreeMap::from([
        ("k8s.ovn.org/node-id".to_owned(), "2".to_owned()),
        ("k8s.ovn.org/node-subnets".to_owned(), subnets.to_owned()),
    ]);
    annotations.extend(more.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())));
    ZoneNode::of("node1", &annotations)
}

fn network(name: &str, id: u32, keys: &[u32], rest: &str, cluster: &Cluster) -> Network {
    let text = format!(
        r#"{{"type":"ovn-k8s-cni-overlay","name":"{name}","netAttachDefName":"ns/{name}","role":"primary",{rest}}}"#
    );
    let config = Config::read(&text, &format!("ns/{name}"), GatewayMode::Shared).unwrap();
    Network::of(&config, id.try_into().unwrap(), keys, cluster).unwrap()
}

fn text(port: &ManagedNetwork) -> String {
    let addresses: Vec<String> = port.addresses.iter().map(ToString::to_string).collect();
    format!("{} {} {} {}", port.interface(), port.mac, port.mtu, addresses.join(" "))
}

#[test]
fn ports_have_the_second_address_of_each_subnet_and_its_mac() {
    let cluster = cluster(&["10.128.0.0/14", "fd01::/48"]);
    let told = node(
        r#"{"default":["10.128.0.0/24"],"layer3":["100.128.0.0/24","ae70::/64"],"six":["ae71::/64","100.129.0.0/24"]}"#,
        &[],
    );
    let layer3 = r#""topology":"layer3","mtu":1300,"subnets":"100.128.0.0/16/24,ae70::/60/64""#;
    let layer2 = r#""topology":"layer2","subnets":"100.128.0.0/16,ae70::/60""#;
    for (network, want) in [
        (
            network("layer3", 3, &[], layer3, &cluster),
            "ovn-k8s-mp3 0a:58:64:80:00:02 1300 100.128.0.2/24 ae70::2/64",
        ),
        // Both families of a layer 2 network: upstream once gave the port the first alone.
        (
            network("layer2", 4, &[16_711_687, 16_715_779], layer2, &cluster),
            "ovn-k8s-mp4 0a:58:64:80:00:02 1400 100.128.0.2/16 ae70::2/60",
        ),
        (Network::default_network(&cluster), "ovn-k8s-mp0 0a:58:0a:80:00:02 1400 10.128.0.2/24"),
    ] {
        let port = ManagedNetwork::of(&network, &told, &cluster, 1400).unwrap().unwrap();
        assert_eq!(text(&port), want);
    }
    // The MAC is that of the first subnet's address, whatever its family is.
    let six = r#""topology":"layer3","subnets":"ae71::/60/64,100.129.0.0/16/24""#;
    let port = ManagedNetwork::of(&network("six", 5, &[], six, &cluster), &told, &cluster, 1400);
    let port = port.unwrap().unwrap();
    assert_eq!(port.mac, MacAddress::of_ip("ae71::2".parse().unwrap()));
}

#[test]
fn what_the_node_lacks_is_said_and_other_networks_have_no_port() {
    let cluster = cluster(&["10.128.0.0/14"]);
    let told = node(r#"{"blue":["10.200.0.0/33"]}"#, &[]);
    let of = |network: &Network| ManagedNetwork::of(network, &told, &cluster, 1400);
    let missing = of(&Network::default_network(&cluster)).unwrap_err();
    assert_eq!(missing.to_string(), "annotation k8s.ovn.org/node-subnets is missing");
    let layer3 = r#""topology":"layer3","subnets":"10.200.0.0/16/24""#;
    let broken = of(&network("blue", 1, &[], layer3, &cluster)).unwrap_err();
    assert!(broken.to_string().contains("10.200.0.0/33"), "{broken}");
    let secondary = Network { shape: Shape::Layer2Secondary, ..Network::default_network(&cluster) };
    assert_eq!(of(&secondary), Ok(None));
}

#[test]
fn the_default_network_is_reached_as_in_the_captured_run() {
    let cluster = cluster(&["10.128.0.0/14"]);
    let told = node(r#"{"default":["10.128.0.0/24"]}"#, &[]);
    let port = ManagedNetwork::of(&Network::default_network(&cluster), &told, &cluster, 1400);
    let port = port.unwrap().unwrap();
    assert_eq!(port.interface_id, "k8s-node1");
    let default = port.default.unwrap();
    let routes: Vec<String> = default.routes.iter().map(|(to, via)| format!("{to} via {via}")).collect();
    assert_eq!(routes, ["10.128.0.0/14 via 10.128.0.1", "169.254.0.3/32 via 10.128.0.1"]);
    let neighbours: Vec<String> = default.neighbours.iter().map(|(ip, mac)| format!("{ip} {mac}")).collect();
    assert_eq!(neighbours, ["10.128.0.1 0a:58:0a:80:00:01"]);
}

#[test]
fn routers_of_both_families_have_the_one_mac_of_their_ipv4_address() {
    let cluster = cluster(&["10.128.0.0/14", "fd01::/48"]);
    let told = node(r#"{"default":["fd01::/64","10.128.0.0/24"]}"#, &[]);
    let port = ManagedNetwork::of(&Network::default_network(&cluster), &told, &cluster, 1400);
    let default = port.unwrap().unwrap().default.unwrap();
    let macs: Vec<String> = default.neighbours.iter().map(|(_, mac)| mac.to_string()).collect();
    assert_eq!(macs, ["0a:58:0a:80:00:01", "0a:58:0a:80:00:01"]);
    assert_eq!(default.routes.len(), 4, "{default:?}");
}

#[test]
fn addresses_and_mac_are_those_of_the_port_in_ovn() {
    let cluster = cluster(&["10.128.0.0/14", "fd01::/48"]);
    let gateway = r#"{"default":{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_node1","mac-address":"02:42:ac:1e:00:01","ip-addresses":["172.30.0.1/24","fc00::1/64"],"next-hops":["172.30.0.254"]}}"#;
    let told = node(
        r#"{"default":["10.128.0.0/24","fd01::/64"],"layer3":["10.200.0.0/24","fd20::/64"]}"#,
        &[
            ("k8s.ovn.org/node-chassis-id", "chassis-1"),
            ("k8s.ovn.org/l3-gateway-config", gateway),
            ("k8s.ovn.org/host-cidrs", r#"["172.30.0.1/24"]"#),
            (
                "k8s.ovn.org/node-transit-switch-port-ifaddr",
                r#"{"ipv4":"100.88.0.2/16","ipv6":"fd97::2/64"}"#,
            ),
            ("k8s.ovn.org/node-mgmt-port-mac-addresses", r#"{"default":"02:00:00:00:00:AA"}"#),
        ],
    );
    let layer3 = r#""topology":"layer3","subnets":"10.200.0.0/16/24,fd20::/48/64""#;
    let layer2 = r#""topology":"layer2","subnets":"10.201.0.0/16,fd21::/64""#;
    for network in [
        Network::default_network(&cluster),
        network("layer3", 1, &[], layer3, &cluster),
        network("layer2", 2, &[16_711_685, 16_715_779], layer2, &cluster),
    ] {
        let port = ManagedNetwork::of(&network, &told, &cluster, 1400).unwrap().unwrap();
        let exit = Exit::of_node(&network, &told);
        let rows = plan(&cluster, &network, &told, Ways { exit: &exit, services: &[] }, &[]).rows();
        let in_ovn = &rows.switch_ports[&port.interface_id].row.addresses;
        let addresses = port.addresses.iter().map(|address| address.addr().to_string());
        let ours: Vec<String> = std::iter::once(port.mac.to_string()).chain(addresses).collect();
        assert_eq!(in_ovn.iter().cloned().collect::<Vec<_>>(), [ours.join(" ")], "{}", network.name);
    }
}
