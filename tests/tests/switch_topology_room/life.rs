//! Networks and nodes come and go, the agent starts, stops and takes over.

use std::collections::BTreeMap;

use anyhow::ensure;
use causeway_dpu_agent::topology::northbound::{
    LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort,
};
use causeway_net::network::name::NadKey;
use causeway_rig::KUBECONFIG;
use causeway_tests::topology::CapturedRun;
use causeway_tests::topology::world::{DEADLINE, Kind, NetworkSpec, ON, Rows, World, rows};
use ovsdb::{Client, Options, Remote};
use serde_json::{Value, json};

/// One network of each kind.
pub(crate) fn one_of_each() -> Vec<NetworkSpec> {
    vec![
        NetworkSpec::new("cluster_udn_blue", 1, Kind::Layer3),
        NetworkSpec::new("cluster_udn_green", 2, Kind::Layer2),
        NetworkSpec::new("ns_far", 3, Kind::Layer3Secondary),
        NetworkSpec::new("ns_flat", 4, Kind::Layer2Secondary),
        NetworkSpec::new("ns_below", 5, Kind::Localnet),
    ]
}

/// Rows of the second snapshot that the first one has too, by identity, and that differ.
fn altered<'r>(before: &'r Rows, after: &'r Rows) -> Vec<(&'r String, &'r String)> {
    let both = before.iter().filter_map(|(key, row)| Some((row, after.get(key)?)));
    both.filter(|(old, new)| old != new).collect()
}

pub(crate) async fn come_and_go() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    let _agent = world.agent().await?;
    world.ready().await?;
    let without_networks = rows(&world.converged().await?);

    world.add(&one_of_each()).await?;
    let have = world.converged().await?;
    for switch in [
        "node1",
        "cluster_udn_blue_node1",
        "cluster_udn_green_ovn_layer2_switch",
        "ns_far_node1",
        "ns_flat_ovn_layer2_switch",
        "ns_below_ovn_localnet_switch",
    ] {
        ensure!(have.find_one(LogicalSwitch::by_name(), switch).is_some(), "no {switch}");
    }

    // A node that joins adds its own rows; nothing else is touched, but for the sets that its rows are in.
    let before = rows(&have);
    world.join(3).await?;
    let have = world.converged().await?;
    let after = rows(&have);
    ensure!(before.keys().all(|key| after.contains_key(key)), "a row is gone, or is another one");
    for (old, new) in altered(&before, &after) {
        ensure!(old.starts_with("LogicalSwitch {") || old.starts_with("LogicalRouter {"), "{old} is {new}");
    }
    let port =
        |have: &ovsdb::Snapshot, name: &str| have.find_one(LogicalSwitchPort::by_name(), name).is_some();
    ensure!(port(&have, "tstor-node3") && port(&have, "cluster_udn_blue_tstor-node3"));
    let peer =
        |have: &ovsdb::Snapshot, name: &str| have.find_one(LogicalRouterPort::by_name(), name).is_some();
    ensure!(peer(&have, "trtor-GR_cluster_udn_green_node3"));

    // What it brought goes with it.
    world.leave(3).await?;
    let have = world.converged().await?;
    ensure!(rows(&have) == before, "something of the node stayed, or took something along");

    // A subnet that moves moves with its routes alone.
    let subnets =
        r#"{"default":["10.128.9.0/24"],"cluster_udn_blue":["10.200.9.0/24"],"ns_far":["10.201.9.0/24"]}"#;
    let key = "k8s.ovn.org/node-subnets";
    world.annotate("node2", &[(key, Some(subnets))]).await?;
    world.nodes.entry(2).or_default().insert(key.to_owned(), subnets.to_owned());
    world.converged().await?;

    let names: Vec<String> = world.networks.keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.join(2).await?;
    world.remove(&names).await?;
    let have = world.converged().await?;
    let after = rows(&have);
    ensure!(after.len() == without_networks.len(), "{} rows, not {}", after.len(), without_networks.len());
    world.ready().await
}

pub(crate) async fn restart() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    world.add(&one_of_each()).await?;
    let agent = world.agent().await?;
    world.ready().await?;
    let before = rows(&world.converged().await?);
    // northd has nothing left to do, and ovn-controller neither.
    world.zone.nbctl(["--timeout=60", "--wait=hv", "sync"]).await?;
    let journal = world.journal().await?;
    for _ in 0..2 {
        agent.kill().await?;
        agent.restart().await?;
        world.ready().await?;
        let sent = world.transactions().await?;
        ensure!(sent == 0, "{sent} transactions");
    }
    ensure!(world.journal().await? == journal, "something was written");
    ensure!(rows(&world.converged().await?) == before);
    Ok(())
}

pub(crate) async fn away() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    world.join(3).await?;
    world.add(&one_of_each()).await?;
    let agent = world.agent().await?;
    world.ready().await?;
    let have = world.converged().await?;
    ensure!(have.find_one(LogicalSwitch::by_name(), "ns_below_ovn_localnet_switch").is_some());
    agent.kill().await?;
    world.remove(&["cluster_udn_blue", "cluster_udn_green", "ns_below"]).await?;
    world.leave(3).await?;
    world.add(&[NetworkSpec::new("ns_late", 6, Kind::Layer3)]).await?;
    agent.restart().await?;
    world.ready().await?;
    let have = world.converged().await?;
    for (_, row) in rows(&have) {
        let gone = ["cluster_udn_blue", "cluster_udn_green", "ns_below", "node3"];
        ensure!(!gone.iter().any(|gone| row.contains(gone)), "{row}");
    }
    Ok(())
}

/// What has not been told yet is waited for in silence, with all rows that do not rest on it.
pub(crate) async fn early() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    world.add(&one_of_each()).await?;
    let keys = ["node-subnets", "node-transit-switch-port-ifaddr", "node-chassis-id"];
    let keys = keys.map(|key| format!("k8s.ovn.org/{key}"));
    let nothing: Vec<(&str, Option<&str>)> = keys.iter().map(|key| (key.as_str(), None)).collect();
    world.annotate("node1", &nothing).await?;
    let _agent = world.agent().await?;
    world.ready().await?;
    let have = world.until("rows of the networks", |have| {
        have.find_one(LogicalRouter::by_name(), "cluster_udn_blue_ovn_cluster_router").is_some()
            && have.find_one(LogicalSwitch::by_name(), "ns_below_ovn_localnet_switch").is_some()
    });
    let have = have.await?;
    ensure!(have.find_one(LogicalSwitch::by_name(), "cluster_udn_blue_node1").is_none());
    world.join(1).await?;
    world.converged().await?;
    let events = world.events("Node", "node1").await?;
    ensure!(events.iter().all(|(reason, _)| reason != "ErrorReconcilingNode"), "{events:?}");
    // A node without a word about its gateway is a matter for people, as it is upstream.
    world.annotate("node1", &[("k8s.ovn.org/l3-gateway-config", None)]).await?;
    let text = "failed to get node node1 network default L3 gateway config";
    world.until_event("Node", "node1", "ErrorReconcilingNode", text).await
}

/// The agent is told what upstream was told, on the database that upstream left.
pub(crate) async fn take_over() -> anyhow::Result<()> {
    for name in ["02b-default-v4-3zones-segmentation-flags", "06-secondary", "14-before"] {
        let world = World::start().await?;
        let run = CapturedRun::load(name)?;
        let remote = Remote::Unix(world.zone.northbound_socket().to_owned());
        let mut client = Client::connect(&remote, Options::default()).await?;
        let schema = client.schema("OVN_Northbound").await?;
        client.transact("OVN_Northbound", &run.fill(&schema)?).await?;
        let switches = run.names("Logical_Switch").len();
        let filled = world.until("the captured rows", |have| have.len::<LogicalSwitch>() == switches).await?;
        let before = rows(&filled);
        ensure!(before.len() > 50, "{name}: {} rows", before.len());

        for node in captured(name, "nodes.json")? {
            let node_name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            if node_name != "node1" {
                let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name}});
                world.rig.apply(&object.to_string()).await?;
            }
            let annotations = node.pointer("/metadata/annotations").and_then(Value::as_object);
            let changes =
                annotations.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
            let changes: Vec<_> = changes.collect();
            world.annotate(node_name, &changes).await?;
        }
        let mut namespaces = std::collections::BTreeSet::new();
        for nad in captured(name, "nads.json")? {
            let key: NadKey = nad.get("nad").and_then(Value::as_str).unwrap_or_default().parse()?;
            let namespace = key.namespace().as_str();
            if namespaces.insert(namespace.to_owned()) {
                let object =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                world.rig.apply(&object.to_string()).await?;
            }
            let object = json!({
                "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                "metadata": {"namespace": namespace, "name": key.name(), "annotations": nad.get("annotations")},
                "spec": {"config": nad.get("config")},
            });
            world.rig.apply(&object.to_string()).await?;
        }
        let _agent = world.agent().await?;
        world.ready().await?;
        let after = rows(&world.store.current()?);
        let changed: BTreeMap<_, _> =
            after.iter().filter(|(key, row)| before.get(*key) != Some(*row)).collect();
        ensure!(changed.is_empty() && after.len() == before.len(), "{name}: {changed:?}");
        // The Southbound database and the chassis' settings were not captured: those are written.
        let failures = world.metric("causeway_topology_write_failures_total").await?;
        ensure!(failures == 0, "{name}: {failures} passes failed");
    }
    Ok(())
}

fn captured(run: &str, file: &str) -> anyhow::Result<Vec<Value>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/topology");
    Ok(serde_json::from_str(&std::fs::read_to_string(folder.join(run).join(file))?)?)
}

pub(crate) async fn without_ovn() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.add(&one_of_each()).await?;
    let other = world.rig.node("node9").start().await?;
    let _ovs = other.ovs().await?;
    let program = causeway_rig::Program::built("node-agent");
    let usual =
        ["--init-node", "node9", "--k8s-kubeconfig", KUBECONFIG, "--metrics-bind-address", "127.0.0.1:9410"];
    let agent = other.spawn(program.args(usual).args(ON)).await?;
    let look = || async {
        let asked = other.exec(["curl", "-s", "-S", "--max-time", "5", "http://127.0.0.1:9410/readyz"]).await;
        let text = asked.map_err(|error| format!("{error:#}"))?;
        let says =
            text.starts_with("ok") && text.contains("networks are not written: OVN Northbound database");
        if says { Ok(()) } else { Err(text) }
    };
    world.rig.wait_for("a remark about OVN", DEADLINE, look).await?;
    ensure!(agent.is_running());

    // Where somebody says that it is there, it is missed.
    agent.kill().await?;
    let program = causeway_rig::Program::built("node-agent").named("node-agent-told");
    let told = ["--nb-address", "unix:/run/ovn/ovnnb_db.sock"];
    let _agent = other.spawn(program.args(usual).args(ON).args(told)).await?;
    let look = || async {
        let asked = other.exec(["curl", "-s", "-S", "--max-time", "5", "http://127.0.0.1:9410/readyz"]).await;
        let text = asked.map_err(|error| format!("{error:#}"))?;
        let says =
            !text.starts_with("ok") && text.contains("topology: OVN Northbound database lost: connection");
        if says { Ok(()) } else { Err(text) }
    };
    world.rig.wait_for("the missing database to be told", DEADLINE, look).await
}
