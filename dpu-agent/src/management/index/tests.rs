use causeway_api::nad::NetworkAttachmentDefinitionSpec;

use super::super::cluster_of_test as cluster;
use super::*;

fn nad(name: &str, id: Option<&str>, role: &str) -> NetworkAttachmentDefinition {
    let config = format!(
        r#"{{"type":"ovn-k8s-cni-overlay","name":"{name}","netAttachDefName":"ns/{name}","role":"{role}","topology":"layer3","subnets":"10.200.0.0/16/24"}}"#
    );
    let mut nad = NetworkAttachmentDefinition::new(name, NetworkAttachmentDefinitionSpec::default());
    nad.spec.config = config;
    nad.metadata.namespace = Some("ns".into());
    let ids = id.map(|id| (annotation::NETWORK_ID.to_owned(), id.to_owned()));
    nad.metadata.annotations = Some(ids.into_iter().collect());
    nad
}

fn slim(name: &str, id: Option<&str>, role: &str) -> Option<Arc<Nad>> {
    Nad::of(&nad(name, id, role), GatewayMode::Shared, &cluster()).map(Arc::new)
}

fn key(name: &str) -> NamespacedName {
    NamespacedName { namespace: "ns".into(), name: name.into() }
}

fn ids(keys: impl IntoIterator<Item = PortKey>) -> Vec<u16> {
    keys.into_iter().map(|key| key.0).collect()
}

#[test]
fn only_primary_networks_with_an_id_count() {
    assert_eq!(slim("blue", Some("3"), "primary").unwrap().id, PortKey(3));
    for (id, role) in
        [(None, "primary"), (Some("x"), "primary"), (Some("0"), "primary"), (Some("3"), "secondary")]
    {
        assert_eq!(slim("blue", id, role), None, "{id:?} {role}");
    }
}

#[test]
fn a_network_is_there_until_its_last_definition_goes_and_another_id_concerns_both() {
    let index = Index::default();
    let (three, four) = (slim("blue", Some("3"), "primary"), slim("blue", Some("4"), "primary"));
    assert_eq!(ids(index.change(&key("a"), three.as_ref())), [3]);
    assert_eq!(ids(index.change(&key("b"), three.as_ref())), [3]);
    assert_eq!(ids(index.change(&key("a"), None)), [3]);
    assert!(matches!(index.get(PortKey(3)), Some(Ok(_))));
    assert_eq!(ids(index.change(&key("b"), four.as_ref())), [3, 4]);
    assert!(index.get(PortKey(3)).is_none() && index.get(PortKey(4)).is_some());
    assert_eq!(ids(index.all()), [0, 4]);
    assert_eq!(ids(index.change(&key("b"), None)), [4]);
    assert!(index.get(PortKey(4)).is_none());
}

#[test]
fn a_change_of_the_node_concerns_the_networks_whose_subnets_changed() {
    let index = Index::default();
    index.change(&key("a"), slim("blue", Some("3"), "primary").as_ref());
    index.change(&key("b"), slim("red", Some("4"), "primary").as_ref());
    let node = |subnets: &str| NodeView {
        annotations: [(NODE_SUBNETS.to_owned(), subnets.to_owned())].into(),
        ..NodeView::default()
    };
    let before = node(r#"{"default":["10.128.0.0/24"],"blue":["10.200.0.0/24"]}"#);
    for (after, want) in [
        (before.clone(), &[][..]),
        (node(r#"{"default":["10.128.0.0/24"],"blue":["10.200.1.0/24"]}"#), &[3]),
        (node(r#"{"default":["10.128.0.0/24"]}"#), &[3]),
        (node(r#"{"default":["10.128.9.0/24"],"blue":["10.200.0.0/24"],"red":["10.200.7.0/24"]}"#), &[0, 4]),
        (node("["), &[0, 3, 4]),
    ] {
        assert_eq!(ids(index.of_node(Some(&before), Some(&after))), want, "{:?}", after.annotations);
    }
    let elsewhere = NodeView { uid: "other".into(), version: 9, ..before.clone() };
    assert_eq!(ids(index.of_node(Some(&before), Some(&elsewhere))), [0_u16; 0]);
    assert_eq!(ids(index.of_node(None, Some(&before))), [0, 3, 4]);
}
