use serde_json::{Value, json};

use super::*;
use crate::cudn::ClusterUserDefinedNetwork;
use crate::route_advertisements::{Advertisement, RouteAdvertisements, SelectionType};
use crate::udn::UserDefinedNetwork;

fn cudn(network: &Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "prod"},
        "spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}, "network": network},
    })
}

fn read(network: &Value) -> NetworkSpec {
    serde_json::from_value::<ClusterUserDefinedNetwork>(cudn(network)).unwrap().spec.network
}

#[test]
fn a_network_of_each_topology_survives_reading_and_writing() {
    let networks = [
        json!({"topology": "Layer3", "layer3": {
            "role": "Primary", "mtu": 1300, "subnets": [{"cidr": "10.20.0.0/16", "hostSubnet": 24}, {"cidr": "fd00::/48"}],
            "joinSubnets": ["100.70.0.0/16"]},
            "transport": "NoOverlay", "noOverlay": {"outboundSNAT": "Disabled", "routing": "Unmanaged"}}),
        json!({"topology": "Layer2", "layer2": {
            "role": "Primary", "mtu": 1300, "subnets": ["10.20.0.0/16"], "reservedSubnets": ["10.20.1.0/24"],
            "infrastructureSubnets": ["10.20.2.0/24"], "defaultGatewayIPs": ["10.20.2.1"],
            "joinSubnets": ["100.70.0.0/16"], "ipam": {"mode": "Enabled", "lifecycle": "Persistent"}},
            "transport": "EVPN", "evpn": {"vtep": "v", "macVRF": {"vni": 1, "routeTarget": "65000:1"}, "ipVRF": {"vni": 2}}}),
        json!({"topology": "Localnet", "localnet": {
            "role": "Secondary", "physicalNetworkName": "p", "subnets": ["10.20.0.0/16"],
            "excludeSubnets": ["10.20.0.1/32"], "ipam": {"mode": "Enabled"}, "mtu": 9000,
            "vlan": {"mode": "Access", "access": {"id": 5}}}}),
    ];
    for network in networks {
        assert_eq!(serde_json::to_value(read(&network)).unwrap(), network);
    }
}

#[test]
fn an_object_with_values_from_the_future_is_read_reported_and_written_back() {
    let future = json!({"topology": "Mesh", "mesh": {"x": 1}, "transport": "Quic"});
    let network = read(&future);
    assert_eq!(network.topology, Topology::Unknown("Mesh".into()));
    assert_eq!(
        network.layout().unwrap_err().to_string(),
        r#"invalid topology specified: topology "Mesh" is not known to this version"#
    );
    assert_eq!(serde_json::to_value(&network).unwrap(), json!({"topology": "Mesh", "transport": "Quic"}));
    let known = json!({"topology": "Localnet", "localnet": {
        "role": "Tertiary", "physicalNetworkName": "p", "ipam": {"mode": "DHCP", "lifecycle": "Brief"},
        "vlan": {"mode": "Trunk"}}});
    let network = read(&known);
    let layout = network.layout().unwrap();
    assert_eq!(layout.role(), &Role::Unknown("Tertiary".into()));
    assert!(!layout.ipam().unwrap().is_enabled() && !layout.ipam().unwrap().is_persistent());
    assert_eq!(serde_json::to_value(&network).unwrap(), known);
}

#[test]
fn a_topology_without_its_part_is_told_in_upstreams_words() {
    let network = read(&json!({"topology": "Layer2", "layer3": {"role": "Primary", "subnets": []}}));
    assert_eq!(
        network.layout().unwrap_err().to_string(),
        "invalid topology specified: topology Layer2 is specified but Layer2 config is nil"
    );
    assert!(network.role().is_none() && !network.is_primary());
}

#[test]
fn a_namespaced_network_is_seen_as_the_same_network() {
    let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16"}]});
    let udn: UserDefinedNetwork = serde_json::from_value(json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "metadata": {"name": "net", "namespace": "blue"},
        "spec": {"topology": "Layer3", "layer3": layer3},
    }))
    .unwrap();
    let same = read(&json!({"topology": "Layer3", "layer3": layer3}));
    assert_eq!(udn.spec.network(), same);
    assert!(same.is_primary() && udn.conditions().is_empty());
    assert_eq!(same.layout().unwrap().mtu(), None);
}

#[test]
fn addresses_are_on_unless_they_are_off() {
    let ipam = |value: Value| serde_json::from_value::<Ipam>(value).unwrap();
    assert!(ipam(json!({"lifecycle": "Persistent"})).is_enabled());
    assert!(ipam(json!({"lifecycle": "Persistent"})).is_persistent());
    assert!(ipam(json!({"mode": "Enabled"})).is_enabled());
    assert!(!ipam(json!({"mode": "Disabled"})).is_enabled());
}

#[test]
fn route_advertisements_without_spec_select_nothing_and_unknown_kinds_are_kept() {
    let read = |spec: Value| {
        let mut object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements", "metadata": {"name": "ra"}, "spec": spec,
        });
        if object["spec"].is_null() {
            object.as_object_mut().unwrap().remove("spec");
        }
        serde_json::from_value::<RouteAdvertisements>(object).unwrap().spec
    };
    let nothing = read(Value::Null);
    assert!(nothing.network_selectors.is_empty() && nothing.advertisements.is_empty());
    let full = json!({
        "targetVRF": "auto", "nodeSelector": {}, "frrConfigurationSelector": {"matchLabels": {"a": "b"}},
        "advertisements": ["PodNetwork", "EgressIP", "Services"],
        "networkSelectors": [
            {"networkSelectionType": "ClusterUserDefinedNetworks",
             "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"c": "d"}}}},
            {"networkSelectionType": "Everything"},
        ],
    });
    let spec = read(full.clone());
    assert_eq!(spec.advertisements[2], Advertisement::Unknown("Services".into()));
    assert_eq!(spec.network_selectors[1].network_selection_type, SelectionType::Unknown("Everything".into()));
    assert_eq!(serde_json::to_value(&spec).unwrap(), full);
}
