//! The two halves of a state, and states of other nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::Rig;
use causeway_tests::manifests;
use serde_json::{Value, json};

use crate::attempt::{Attempt, Attempts};
use crate::world::{self, CONDITIONS, STATES, Side, condition, state_path, world};

const BRIDGE_IS_THE_CARDS: &str = "The field ovsBridge belongs to";
const DATA_IS_THE_HOSTS: &str = "belong to the host";
/// Two policies refuse a card that writes about another node, and the API server tells the reason of whichever it asks
/// first.
const OWN_NODE: [&str; 2] = ["its own node only", "is not the card of node"];

/// A new field needs an owner.
fn fields_are_listed() -> anyhow::Result<()> {
    let yaml = manifests::folder("crds")?;
    let definition = serde_yaml_ng::Deserializer::from_str(&yaml)
        .filter_map(|document| serde::Deserialize::deserialize(document).ok())
        .find(|crd: &Value| crd["spec"]["names"]["kind"] == "UplinkState")
        .context("the definition")?;
    let status = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    let known = world::fields().into_iter().map(|field| field.name).chain(["conditions"]);
    let known: BTreeSet<&str> = known.collect();
    let defined: BTreeSet<&str> =
        status["properties"].as_object().context("properties")?.keys().map(String::as_str).collect();
    ensure!(known == defined, "say in deploy/admission and here whose these are: {defined:?}, not {known:?}");
    Ok(())
}

pub(crate) async fn fields(rig: Arc<Rig>) -> anyhow::Result<()> {
    fields_are_listed()?;
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    for field in world::fields() {
        for (verb, value) in [("changes", &field.other), ("removes", &Value::Null)] {
            let body = json!({"status": {field.name: value}});
            let what = |who: &str| format!("{who} {verb} {}", field.name);
            let host = Attempt::merge(&world.host_a, &state_path("a"), body.clone());
            let card = Attempt::merge(&world.card_a, &state_path("a"), body.clone());
            match field.side {
                Side::Host => {
                    attempts.allowed(&what("the host"), host).await?;
                    attempts.forbidden(&what("the card"), DATA_IS_THE_HOSTS, card).await?;
                }
                Side::Card => {
                    attempts.forbidden(&what("the host"), BRIDGE_IS_THE_CARDS, host).await?;
                    attempts.allowed(&what("the card"), card).await?;
                }
                Side::Both => {
                    attempts.allowed(&what("the host"), host).await?;
                    attempts.allowed(&what("the card"), card).await?;
                }
            }
            let regular = Attempt::merge(&world.node_b, &state_path("b"), body);
            attempts.allowed(&what("a regular node"), regular).await?;
        }
    }
    attempts.finish()
}

pub(crate) async fn conditions(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    let all = || CONDITIONS.map(|(kind, _)| condition(kind, "False")).to_vec();
    let kinds = CONDITIONS.into_iter().chain([("SomethingElse", Side::Both)]);
    for (kind, side) in kinds {
        let rest: Vec<Value> = all().into_iter().filter(|one| one["type"] != kind).collect();
        let mut changed = rest.clone();
        changed.push(condition(kind, "True"));
        let mut replaced = rest.clone();
        replaced.push(condition("Unheard", "False"));
        let mut cases = vec![("sets", changed)];
        if side != Side::Both {
            cases.extend([("removes", rest), ("puts another in the place of", replaced)]);
        }
        for (verb, list) in cases {
            let body = json!({"status": {"conditions": list}});
            let what = |who: &str| format!("{who} {verb} condition {kind}");
            let host = Attempt::merge(&world.host_a, &state_path("a"), body.clone());
            let card = Attempt::merge(&world.card_a, &state_path("a"), body.clone());
            let own = verb != "puts another in the place of";
            if own && side == Side::Host {
                attempts.allowed(&what("the host"), host).await?;
            } else {
                attempts
                    .forbidden(&what("the host"), "a host agent may write the conditions Host", host)
                    .await?;
            }
            if own && side == Side::Card {
                attempts.allowed(&what("the card"), card).await?;
            } else {
                attempts
                    .forbidden(&what("the card"), "a card may write the conditions Resolved", card)
                    .await?;
            }
            let regular = Attempt::merge(&world.node_b, &state_path("b"), body);
            attempts.allowed(&what("a regular node"), regular).await?;
        }
    }
    attempts.finish()
}

fn with_status(mut state: Value, status: Value) -> Value {
    state["status"] = status;
    state
}

pub(crate) async fn creations(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    let host_half = json!({"type": "OVSBridge", "hostInterfaceName": "eth0",
        "conditions": [condition("HostDataReady", "False")]});
    let card_half = json!({"type": "OVSBridge", "ovsBridge": {"name": "br0"},
        "conditions": [condition("Resolved", "False")]});
    let [red_a, red_b] = ["a", "b"].map(|node| world.bare("red", node));
    let create = |client, state: &Value, status: &Value| {
        Attempt::create(client, STATES, with_status(state.clone(), status.clone()))
    };
    // What agents do, an apply that creates, needs the same rights.
    let apply = |client, state: &Value, status: &Value| {
        Attempt::apply(client, &format!("{STATES}/red.a"), with_status(state.clone(), status.clone()))
    };
    let own_owner = |mut state: Value| {
        state["metadata"]["ownerReferences"][0]["name"] = json!("red");
        state
    };
    let (red_a, red_b) = (own_owner(red_a), own_owner(red_b));
    attempts.allowed("the host creates its half", create(&world.host_a, &red_a, &host_half)).await?;
    attempts.allowed("the host applies its half", apply(&world.host_a, &red_a, &host_half)).await?;
    attempts.allowed("the card creates its half", create(&world.card_a, &red_a, &card_half)).await?;
    attempts.allowed("the card applies its half", apply(&world.card_a, &red_a, &card_half)).await?;
    attempts.allowed("a regular node creates", create(&world.node_b, &red_b, &card_half)).await?;
    let refused = create(&world.host_a, &red_a, &json!({"ovsBridge": {"name": "br0"}}));
    attempts.forbidden("the host creates the card's field", BRIDGE_IS_THE_CARDS, refused).await?;
    let refused = apply(&world.host_a, &red_a, &json!({"conditions": [condition("Resolved", "True")]}));
    attempts.forbidden("the host creates the card's condition", "conditions Host", refused).await?;
    let refused = create(&world.card_a, &red_a, &json!({"macAddress": "02:00:00:00:00:01"}));
    attempts.forbidden("the card creates the host's field", DATA_IS_THE_HOSTS, refused).await?;
    let refused = create(&world.card_a, &red_a, &json!({"conditions": [condition("HostDataReady", "True")]}));
    attempts.forbidden("the card creates the host's condition", "conditions Resolved", refused).await?;
    attempts.finish()
}

pub(crate) async fn metadata(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    let long = "u".repeat(250);
    for (client, node) in [(&world.host_a, "a"), (&world.card_a, "a"), (&world.node_b, "b")] {
        let mut misnamed = world.bare("blue", node);
        misnamed["metadata"]["name"] = json!("something.else");
        let create = Attempt::create(client, STATES, misnamed);
        attempts.forbidden("a state of another name", "has another name", create).await?;
        let mut hashed = world.bare(&long, node);
        hashed["metadata"]["ownerReferences"] = json!([]);
        // 252 bytes: not hashed yet.
        attempts.allowed("the longest plain name", Attempt::create(client, STATES, hashed.clone())).await?;
        hashed["metadata"]["name"] = json!("uplinkstate-a1");
        let create = Attempt::create(client, STATES, hashed);
        attempts.forbidden("a hashed name for a short one", "has another name", create).await?;

        for (key, value) in [
            ("labels", json!({"a": "b"})),
            ("annotations", json!({"a": "b"})),
            ("finalizers", json!(["example.com/stay"])),
        ] {
            let merge = Attempt::merge(client, &state_path(node), json!({"metadata": {key: value}}));
            attempts.forbidden(&format!("an agent writes {key}"), "Agents do not write", merge).await?;
        }
        // Without blockOwnerDeletion, for which another plugin refuses first.
        for (version, kind, name) in [("v1", "Node", "b"), ("k8s.ovn.org/v1alpha1", "Uplink", "red")] {
            let owner = json!({"apiVersion": version, "kind": kind, "name": name,
                "uid": "00000000-0000-0000-0000-000000000000"});
            let owners = json!({"metadata": {"ownerReferences": [owner]}});
            let merge = Attempt::merge(client, &state_path(node), owners);
            attempts.forbidden(kind, "The owner of an UplinkState is its Uplink", merge).await?;
        }
        let owners = json!({"metadata": {"ownerReferences": []}});
        attempts.allowed("no owner", Attempt::merge(client, &state_path(node), owners)).await?;
    }
    attempts.finish()
}

pub(crate) async fn other_nodes(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    for (who, client, own) in [
        ("the host", &world.host_a, "a"),
        ("the card", &world.card_a, "a"),
        ("a regular node", &world.node_b, "b"),
    ] {
        for other in ["a", "b", "c", "d", "e"].into_iter().filter(|other| *other != own) {
            let what = |verb: &str| format!("{who} {verb} the state of node {other}");
            let nothing = json!({"status": {"type": "OVSBridge", "ipAddresses": ["198.51.100.1/24"]}});
            let merge = Attempt::merge(client, &state_path(other), nothing);
            attempts.forbidden_by_any(&what("writes"), &OWN_NODE, merge).await?;
            let create = Attempt::create(client, STATES, world.bare("green", other));
            attempts.forbidden_by_any(&what("creates"), &OWN_NODE, create).await?;
            let delete = Attempt::delete(client, &state_path(other));
            attempts.forbidden_by_any(&what("deletes"), &OWN_NODE, delete).await?;
        }
        let create = Attempt::create(client, STATES, world.bare("green", "no-such-node"));
        attempts.forbidden_by_any(&format!("{who} creates the state of no node"), &OWN_NODE, create).await?;
    }
    attempts.finish()
}

pub(crate) async fn deletions(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    attempts.allowed("the host deletes", Attempt::delete(&world.host_a, &state_path("a"))).await?;
    attempts.allowed("a regular node deletes", Attempt::delete(&world.node_b, &state_path("b"))).await?;
    let delete = Attempt::delete(&world.card_a, &state_path("a"));
    attempts.forbidden("the card of a host deletes", "the host agent of node \"a\" deletes", delete).await?;
    let delete = Attempt::delete(&world.card_c, &state_path("c"));
    attempts.allowed("a card without a host agent deletes", delete).await?;
    for (who, client) in [("the host", &world.host_a), ("the card", &world.card_a), ("a node", &world.node_b)]
    {
        let delete = Attempt::delete(client, STATES);
        attempts.forbidden(&format!("{who} deletes all"), "cannot deletecollection", delete).await?;
    }
    attempts.finish()
}
