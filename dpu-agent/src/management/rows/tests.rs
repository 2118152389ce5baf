use causeway_net::network::id::NetworkId;
use causeway_net::network::name::NetworkName;

use super::*;

fn port(id: u32) -> ManagedNetwork {
    let network =
        if id == 0 { NetworkName::default_network() } else { NetworkName::from("cluster_udn_blue") };
    let prefix = if id == 0 { "" } else { "cluster_udn_blue_" };
    ManagedNetwork {
        network,
        id: NetworkId::try_from(id).unwrap(),
        interface_id: format!("k8s-{prefix}node1"),
        mac: if id == 0 { "0a:58:0a:80:00:02" } else { "0a:58:0a:c8:00:02" }.parse().unwrap(),
        mtu: 1400,
        addresses: Vec::new(),
        default: None,
    }
}

/// Interfaces by bridge.
fn snapshot(bridges: &[(&str, Vec<ManagementInterface>)]) -> Snapshot {
    let mut next = 0;
    let mut uuid = || {
        next += 1;
        Uuid::from_u128(next)
    };
    let mut builder = Snapshot::builder().table::<Bridge>().table::<Port>().table::<ManagementInterface>();
    for (name, interfaces) in bridges {
        let mut bridge = Bridge { name: (*name).into(), ..Bridge::default() };
        for row in interfaces {
            let (interface, port) = (uuid(), uuid());
            builder = builder.row(interface, row.clone());
            let row = Port { name: row.name.clone(), interfaces: [interface].into(), ..Port::default() };
            builder = builder.row(port, row);
            bridge.ports.insert(port);
        }
        builder = builder.row(uuid(), bridge);
    }
    builder.build()
}

fn interface(name: &str, kind: &str, ids: &[(&str, &str)]) -> ManagementInterface {
    ManagementInterface {
        name: name.into(),
        kind: kind.into(),
        external_ids: ids.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        ..ManagementInterface::default()
    }
}

/// What upstream wrote: `ovs.json` of the captured run with a Layer3 primary network.
fn captured() -> Vec<ManagementInterface> {
    let made = |name: &str, mac: &str, ids: &[(&str, &str)]| ManagementInterface {
        mac: Some(mac.into()),
        mtu_request: Some(1400),
        ..interface(name, "internal", ids)
    };
    let installed = ("ovn-installed", "true");
    let network = ("k8s.ovn.org/network", "cluster_udn_blue");
    vec![
        made("ovn-k8s-mp0", "0a:58:0a:80:00:02", &[("iface-id", "k8s-node1"), installed]),
        made(
            "ovn-k8s-mp1",
            "0a:58:0a:c8:00:02",
            &[("iface-id", "k8s-cluster_udn_blue_node1"), network, installed],
        ),
    ]
}

#[test]
fn ports_that_upstream_made_are_taken_over_without_a_change() {
    let have = snapshot(&[("br-int", captured())]);
    for id in [0, 1] {
        let change = wanted(&port(id), &have).unwrap();
        assert!(change.is_empty(), "{id}: {change:?}");
    }
    assert_eq!(present(&have), [PortKey(0), PortKey(1)]);
}

#[test]
fn a_missing_or_altered_port_is_made_as_it_should_be() {
    let change = format!("{:?}", wanted(&port(1), &snapshot(&[("br-int", Vec::new())])).unwrap());
    for part in
        ["ovn-k8s-mp1", "0a:58:0a:c8:00:02", "k8s-cluster_udn_blue_node1", "k8s.ovn.org/network", "internal"]
    {
        assert!(change.contains(part), "{part}: {change}");
    }
    let mut altered = captured();
    altered[1].mac = Some("02:00:00:00:00:01".into());
    altered[1].external_ids.insert("iface-id".into(), "other".into());
    let change = format!("{:?}", wanted(&port(1), &snapshot(&[("br-int", altered)])).unwrap());
    assert!(
        change.contains("0a:58:0a:c8:00:02") && change.contains("k8s-cluster_udn_blue_node1"),
        "{change}"
    );
    assert!(!change.contains("ovn-installed"), "{change}");
}

#[test]
fn a_bridge_that_is_not_there_and_a_port_of_somebody_else_are_told() {
    assert_eq!(wanted(&port(1), &snapshot(&[("br-ex", Vec::new())])), Err(PortError::NoBridge));
    let foreign = Err(PortError::Foreign("ovn-k8s-mp1".into()));
    let physical = vec![interface("ovn-k8s-mp1", "", &[])];
    assert_eq!(wanted(&port(1), &snapshot(&[("br-int", physical)])), foreign);
    assert_eq!(wanted(&port(1), &snapshot(&[("br-int", vec![]), ("br-ex", captured())])), foreign);
}

#[test]
fn only_marked_ports_of_the_integration_bridge_are_removed() {
    let removes = |rows: Vec<ManagementInterface>, id| {
        !unwanted(PortKey(id), &snapshot(&[("br-int", rows)])).unwrap().is_empty()
    };
    assert!(removes(captured(), 1));
    assert!(!removes(captured(), 2), "there is none");
    let marks = [("iface-id", "k8s-blue_node1"), ("k8s.ovn.org/network", "blue")];
    assert!(removes(vec![interface("ovn-k8s-mp2", "internal", &marks)], 2));
    assert!(!removes(vec![interface("ovn-k8s-mp2", "internal", &marks[..1])], 2), "no network");
    assert!(!removes(vec![interface("ovn-k8s-mp2", "internal", &marks[1..])], 2), "no logical port");
    assert!(!removes(vec![interface("ovn-k8s-mp2", "", &marks)], 2), "no internal port");
    let elsewhere = vec![interface("ovn-k8s-mp2", "internal", &marks)];
    let have = snapshot(&[("br-int", vec![]), ("br-ex", elsewhere)]);
    assert!(unwanted(PortKey(2), &have).unwrap().is_empty(), "on another bridge");
}

#[test]
fn names_of_management_ports_have_one_number_and_nothing_else() {
    for (name, want) in [
        ("ovn-k8s-mp0", Some(0)),
        ("ovn-k8s-mp4095", Some(4095)),
        ("ovn-k8s-mp", None),
        ("ovn-k8s-mp0_0", None),
        ("ovn-k8s-mp01", None),
        ("ovn-k8s-mp+1", None),
        ("ovn-k8s-mp70000", None),
        ("eth0", None),
    ] {
        assert_eq!(key(name), want.map(PortKey), "{name}");
    }
}
