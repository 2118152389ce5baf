//! A change of each watched kind, and what each room does because of it.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::world::{
    CUDNS, NODES, STATES, UPLINKS, World, cudn, nads, namespace, node, path, state, udn, uplink,
};
use causeway_tests::control::DEADLINE;

/// One change.
enum Change {
    Create(String, Value),
    Merge(String, Value),
    Delete(String),
}

/// What it leads to.
enum Effect {
    /// The object has this text in it.
    Has(String, &'static str),
    /// The object is there without this text.
    Lacks(String, &'static str),
    /// There is no object.
    Gone(String),
}

use Change::{Create, Delete, Merge};
use Effect::{Gone, Has, Lacks};

/// What changes, how, and the effect in each room.
type Row = (&'static str, Change, Vec<(&'static str, Effect)>);

const UPLINK_FINALIZER: &str = "k8s.ovn.org/uplink-protection";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": "one", "containers": [{"name": "c", "image": "i"}]}})
}

/// The annotation of a pod with an address on a network.
fn address(nad: &str, address: &str) -> Value {
    let text = json!({"default": {"ip_addresses": ["10.128.0.5/24"]}, nad: {"ip_addresses": [address]}});
    json!({"metadata": {"annotations": {"k8s.ovn.org/pod-networks": text.to_string()}}})
}

/// A slice of Kubernetes with this pod.
fn slice(name: &str, pod: &str) -> Value {
    let target = json!({"kind": "Pod", "name": pod});
    json!({"metadata": {"name": name, "generateName": "web-", "labels": {"kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.128.0.5"], "targetRef": target}],
        "ports": [{"name": "http", "port": 80}]})
}

fn by_hand(namespace: &str) -> Value {
    let config = json!({"cniVersion": "1.1.0", "name": "hand_net", "type": "ovn-k8s-cni-overlay", "topology": "layer3",
        "subnets": "10.40.0.0/16/24", "netAttachDefName": format!("{namespace}/hand"), "role": "primary"});
    json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "hand"},
        "spec": {"config": config.to_string()}})
}

fn at(collection: &str, name: &str) -> String {
    format!("{collection}/{name}")
}

fn network() -> String {
    at(CUDNS, "net")
}

/// Mirrors are looked for in all slices of a namespace, since the API server makes up their names.
fn slices(namespace: &str) -> String {
    path("endpointslices", namespace)
}

fn one() -> String {
    at(NODES, "one")
}

fn out() -> String {
    at(UPLINKS, "out")
}

/// Each row rests on those before it.
fn networks() -> Vec<Row> {
    vec![
        (
            "a ClusterUserDefinedNetwork is made",
            Create(CUDNS.to_owned(), cudn("net", &["out"])),
            vec![
                ("network", Has(at(&nads("blue"), "net"), "cluster_udn_net")),
                ("network", Has(network(), "NetworkCreated")),
                ("node", Has(one(), "cluster_udn_net")),
                ("network-allocation", Has(network(), "NetworkAllocationSucceeded")),
                ("uplinks-ready", Has(network(), "Uplink out is missing")),
            ],
        ),
        (
            "an Uplink is made",
            Create(UPLINKS.to_owned(), uplink("out")),
            vec![
                ("uplink", Has(out(), "one=MissingUplinkState")),
                // It knows who uses the Uplink by the networks.
                ("uplink", Has(out(), UPLINK_FINALIZER)),
                ("uplinks-ready", Has(network(), "out/one=UplinkNotResolvedForNode")),
            ],
        ),
        (
            "an UplinkState is made",
            Create(STATES.to_owned(), state("out", "one")),
            vec![
                ("uplink", Has(out(), "all 1 selected node(s) are resolved")),
                ("uplinks-ready", Has(network(), "out/one=UplinksNotReady")),
            ],
        ),
        (
            "a Node is made",
            Create(NODES.to_owned(), node("two")),
            vec![
                ("node", Has(at(NODES, "two"), "cluster_udn_net")),
                ("uplink", Has(out(), "two=MissingUplinkState")),
                ("uplinks-ready", Has(network(), "out/two=UplinkNotResolvedForNode")),
            ],
        ),
        (
            "a Node loses a label",
            Merge(at(NODES, "two"), json!({"metadata": {"labels": {"way": null}}})),
            vec![
                ("uplink", Has(out(), "all 1 selected node(s) are resolved")),
                ("uplinks-ready", Has(network(), "out/two=UplinkNotFoundForNode")),
            ],
        ),
        (
            "an Uplink is changed",
            Merge(
                out(),
                json!({"spec": {"nodeConfigs": [{"type": "OVSBridge", "hostInterfaceName": "br", 
                "nodeSelector": {"matchExpressions": [{"key": "way", "operator": "NotIn", "values": ["none"]}]}}]}}),
            ),
            vec![
                ("uplink", Has(out(), "two=MissingUplinkState")),
                ("uplinks-ready", Has(network(), "out/two=UplinkNotResolvedForNode")),
            ],
        ),
        (
            "a Node goes",
            Delete(at(NODES, "two")),
            vec![
                ("uplink", Has(out(), "all 1 selected node(s) are resolved")),
                ("uplinks-ready", Lacks(network(), "out/two")),
            ],
        ),
        (
            "a Namespace gets a label that the network chooses",
            Merge("/api/v1/namespaces/red".to_owned(), json!({"metadata": {"labels": {"team": "a"}}})),
            vec![("network", Has(at(&nads("red"), "net"), "cluster_udn_net"))],
        ),
        (
            "a UserDefinedNetwork is made",
            Create(path("userdefinednetworks", "teal"), udn("own")),
            vec![
                ("network", Has(at(&nads("teal"), "own"), "teal_own")),
                ("node", Has(one(), "teal_own")),
                (
                    "network-allocation",
                    Has(at(&path("userdefinednetworks", "teal"), "own"), "NetworkAllocationSucceeded"),
                ),
            ],
        ),
        (
            "a NetworkAttachmentDefinition goes",
            Delete(at(&nads("red"), "net")),
            // Ours protect it; that it is asked to go is put right by another one.
            vec![("network", Lacks(at(&nads("red"), "net"), "deletionTimestamp"))],
        ),
    ]
}

fn pods() -> Vec<Row> {
    vec![
        (
            "a pod gets its address",
            Merge(at(&path("pods", "blue"), "p"), address("blue/net", "10.20.0.5/24")),
            vec![("endpointslice", Has(slices("blue"), "10.20.0.5"))],
        ),
        (
            "an EndpointSlice is changed",
            Merge(at(&slices("blue"), "web-a"), json!({"ports": [{"name": "http", "port": 8081}]})),
            // One for the source, and the mirror has to follow.
            vec![("endpointslice", Lacks(slices("blue"), "\"port\":80,"))],
        ),
        (
            "a NetworkAttachmentDefinition is made by hand",
            Create(nads("green"), by_hand("green")),
            vec![
                ("nad", Has(at(&nads("green"), "hand"), "k8s.ovn.org/network-id")),
                ("node", Has(one(), "hand_net")),
                ("endpointslice", Has(slices("green"), "10.40.0.5")),
            ],
        ),
        (
            "a NetworkAttachmentDefinition made by hand goes",
            Delete(at(&nads("green"), "hand")),
            vec![("node", Lacks(one(), "hand_net")), ("endpointslice", Lacks(slices("green"), "10.40.0.5"))],
        ),
        (
            "a ClusterUserDefinedNetwork that a pod uses is to go",
            Delete(network()),
            vec![("network", Has(network(), "network in use by the following pods: [blue/p]"))],
        ),
        (
            "the pod goes",
            Delete(at(&path("pods", "blue"), "p")),
            vec![
                ("network", Gone(network())),
                ("node", Lacks(one(), "cluster_udn_net")),
                ("endpointslice", Lacks(slices("blue"), "10.20.0.5")),
                ("uplink", Lacks(out(), UPLINK_FINALIZER)),
            ],
        ),
        (
            "the last Node that is selected goes",
            Delete(one()),
            vec![
                ("uplink", Has(out(), "no nodes match any Uplink nodeConfig")),
                ("uplink", Gone(at(STATES, "out.one"))),
            ],
        ),
    ]
}

pub(crate) async fn reaches() -> anyhow::Result<()> {
    let world = World::start().await?;
    for (name, team) in [("blue", "a"), ("red", "b"), ("green", "c"), ("teal", "d")] {
        world.create_in("/api/v1/namespaces", &namespace(name, team)).await?;
    }
    world.create_in(NODES, &node("one")).await?;
    // One that no Uplink selects. Without any Node, the policy about cards denies whatever is done to a state.
    world.create_in(NODES, &node("idle")).await?;
    world.merge(&at(NODES, "idle"), &json!({"metadata": {"labels": {"way": "none"}}})).await?;
    for (namespace, nad, address_there) in
        [("blue", "blue/other", "10.9.0.5/24"), ("green", "green/hand", "10.40.0.5/24")]
    {
        world.create_in(&path("pods", namespace), &pod("p")).await?;
        world.merge(&at(&path("pods", namespace), "p"), &address(nad, address_there)).await?;
        world.create_in(&slices(namespace), &slice("web-a", "p")).await?;
    }
    let manager = world.manager("manager", &[]).await?;
    for (what, change, effects) in networks().into_iter().chain(pods()) {
        match &change {
            Create(collection, object) => world.create_in(collection, object).await,
            Merge(path, fields) => world.merge(path, fields).await,
            Delete(path) => world.delete(path).await,
        }
        .context(what)?;
        for (room, effect) in &effects {
            let reached = comes(&world, effect).await;
            reached.map_err(|error| {
                anyhow::anyhow!("{what}, and {room} does not react: {error:#}\n{}", world.rig.log_tails())
            })?;
        }
    }
    ensure!(manager.is_running(), "it ended");
    Ok(())
}

async fn comes(world: &World, effect: &Effect) -> anyhow::Result<()> {
    let (Has(path, _) | Lacks(path, _) | Gone(path)) = effect;
    let look = || async {
        let found = world.get(path).await.map_err(|error| format!("{error:#}"))?;
        let text = found.map(|object| object.to_string());
        let came = match (effect, &text) {
            (Has(_, wanted), Some(text)) => text.contains(wanted),
            (Lacks(_, unwanted), Some(text)) => !text.contains(unwanted),
            (Gone(_), text) => text.is_none(),
            (Has(..) | Lacks(..), None) => false,
        };
        if came { Ok(()) } else { Err(text.unwrap_or_else(|| "nothing".to_owned())) }
    };
    let what = match effect {
        Has(path, wanted) => format!("{wanted:?} in {path}"),
        Lacks(path, unwanted) => format!("{path} without {unwanted:?}"),
        Gone(path) => format!("{path} to go"),
    };
    world.rig.wait_for(&what, DEADLINE, look).await
}
