//! Slices, pods and worlds for tests.

use std::net::IpAddr;
use std::sync::Arc;

use causeway_runtime::watch::{NamespacedName, Store};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::observe::{Network, World};
use super::watched::{Content, Mirror, SliceKey, Source};
use crate::observed::pod::{Attachment, Machine, Pod};

/// Namespace of everything.
pub(super) const NAMESPACE: &str = "blue";
/// Key of the NetworkAttachmentDefinition.
pub(super) const ATTACHMENT: &str = "blue/net";

/// The slice that is mirrored.
pub(super) fn web() -> SliceKey {
    SliceKey::new(NAMESPACE, "web-abcde")
}

pub(super) fn network(name: &str) -> Network {
    Network { name: name.to_owned(), attachment: ATTACHMENT.parse().unwrap() }
}

/// An endpoint of a pod, with an address on the default network.
pub(super) fn endpoint(pod: &str) -> Endpoint {
    Endpoint {
        addresses: vec!["10.128.0.9".to_owned()],
        conditions: Some(conditions(true, true, false)),
        hostname: Some("h".to_owned()),
        node_name: Some("node-000".to_owned()),
        zone: Some("z".to_owned()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            name: Some(pod.to_owned()),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

pub(super) fn conditions(ready: bool, serving: bool, terminating: bool) -> EndpointConditions {
    EndpointConditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) }
}

pub(super) fn content(address_type: &str, endpoints: Vec<Endpoint>) -> Content {
    let port = EndpointPort { name: Some("http".to_owned()), port: Some(80), ..EndpointPort::default() };
    Content { address_type: address_type.to_owned(), endpoints, ports: vec![port] }
}

/// The slice `web-abcde` of Service `web` in version 7.
pub(super) fn source(endpoints: Vec<Endpoint>) -> Source {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: "web".to_owned(),
        uid: "uid-web".to_owned(),
        ..OwnerReference::default()
    };
    Source {
        version: "7".to_owned(),
        service: "web".to_owned(),
        owners: vec![owner],
        prefix: "web-".to_owned(),
        content: content("IPv4", endpoints),
    }
}

/// A mirror of a slice, without endpoints.
pub(super) fn mirror_of(source: &str) -> Mirror {
    Mirror {
        key: SliceKey::new(NAMESPACE, "mirror"),
        source: SliceKey::new(NAMESPACE, source),
        uid: "uid-mirror".to_owned(),
        version: "9".to_owned(),
        created: 100,
        owners: vec!["uid-web".to_owned()],
        is_terminating: false,
        source_version: Some("7".to_owned()),
        network: Some("blue_net".to_owned()),
        service: Some("web".to_owned()),
        content: content("IPv4", Vec::new()),
    }
}

/// A mirror of `web-abcde` with these addresses for these pods.
pub(super) fn mirror(endpoints: &[(&str, &str)]) -> Mirror {
    let endpoints = endpoints
        .iter()
        .map(|(pod, address)| Endpoint { addresses: vec![(*address).to_owned()], ..endpoint(pod) });
    Mirror { content: content("IPv4", endpoints.collect()), ..mirror_of("web-abcde") }
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A pod with addresses on the network.
pub(super) fn pod(on_network: &[&str]) -> Pod {
    let attachment = Attachment { nad: ATTACHMENT.parse().unwrap(), addresses: Ok(addresses(on_network)) };
    Pod { attached: Ok(vec![attachment]), ..crate::observed::fixtures::pod_on("node-000", Vec::new()) }
}

/// A pod on the host's network.
pub(super) fn host_pod(of_host: &[&str]) -> Pod {
    let plain = crate::observed::fixtures::pod_on("node-000", Vec::new());
    Pod { host_network: true, host_addresses: addresses(of_host), ..plain }
}

/// A pod of the virtual machine `vm`.
pub(super) fn machine_pod(address: &str, created: i64, is_completed: bool, is_target_ready: bool) -> Pod {
    let machine = Machine { domain: Some("vm".to_owned()), created, is_completed, is_target_ready };
    Pod { machine: Some(Box::new(machine)), ..pod(&[address]) }
}

/// A world of `web-abcde` on network `blue_net`, with these pods.
pub(super) fn world(source: Option<Source>, mirrors: Vec<Mirror>, pods: &[(&str, Pod)]) -> World {
    let keyed = pods.iter().map(|(name, pod)| (web().pod(name), pod.clone()));
    let machines: Vec<NamespacedName> =
        keyed.clone().filter(|(_, pod)| pod.machine.is_some()).map(|(key, _)| key).collect();
    World {
        source: source.map(Arc::new),
        mirrors: mirrors.into_iter().map(Arc::new).collect(),
        unseen: false,
        network: Some(network("blue_net")),
        pods: Store::fixed("Pod", keyed).snapshot(),
        machines,
    }
}
