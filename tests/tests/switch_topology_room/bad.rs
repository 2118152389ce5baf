//! What cannot be used: configs, numbers, nodes, names, settings.

use anyhow::ensure;
use causeway_dpu_agent::topology::northbound::{LogicalRouter, LogicalSwitch};
use causeway_rig::Program;
use causeway_tests::topology::world::{DEADLINE, Kind, NetworkSpec, World, rows};
use serde_json::json;

pub(crate) async fn prefixes() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    let (dash, dot) = (NetworkSpec::new("a-b", 7, Kind::Layer3), NetworkSpec::new("a.b", 3, Kind::Layer3));
    // Their NADs cannot have one name.
    let nad = |spec: &NetworkSpec, name: &str| {
        let mut object = serde_json::to_value(spec.object()).unwrap_or_default();
        let config = spec.config().replace("default/a-b", &format!("default/{name}"));
        if let Some(meta) = object.get_mut("metadata").and_then(|meta| meta.as_object_mut()) {
            meta.insert("name".to_owned(), json!(name));
        }
        if let Some(spec) = object.get_mut("spec").and_then(|spec| spec.as_object_mut()) {
            spec.insert("config".to_owned(), json!(config));
        }
        object.to_string()
    };
    let subnets = r#"{"default":["10.128.1.0/24"],"a-b":["10.200.1.0/24"],"a.b":["10.200.1.0/24"]}"#;
    world.annotate("node1", &[("k8s.ovn.org/node-subnets", Some(subnets))]).await?;
    world.nodes.entry(1).or_default().insert("k8s.ovn.org/node-subnets".to_owned(), subnets.to_owned());
    world.rig.apply(&nad(&dash, "dash")).await?;
    world.networks.insert(dash.name.clone(), dash.clone());
    let agent = world.agent().await?;
    world.ready().await?;
    let marked = |have: &ovsdb::Snapshot, network: &str| {
        have.find(LogicalSwitch::by_network(), network).count()
            + have.find(LogicalRouter::by_network(), network).count()
    };

    // The lower id has the names, whoever was first.
    world.rig.apply(&nad(&dot, "dot")).await?;
    world.networks.clear();
    world.networks.insert(dot.name.clone(), dot.clone());
    let have = world
        .until("the names to change hands", |have| marked(have, "a.b") > 0 && marked(have, "a-b") == 0)
        .await?;
    ensure!(have.find(LogicalRouter::by_name(), "a.b_ovn_cluster_router").count() == 1);
    world.converged().await?;
    let text = "network a-b has the same names in OVN as network a.b: rename one of them";
    world.until_event("NetworkAttachmentDefinition", "dash", "InvalidConfig", text).await?;
    world
        .until_readiness("who has no names", |told| told.starts_with("ok") && told.contains("network a-b"))
        .await?;

    // A restart finds the same.
    let before = rows(&world.store.current()?);
    agent.kill().await?;
    agent.restart().await?;
    world.ready().await?;
    ensure!(world.transactions().await? == 0 && rows(&world.converged().await?) == before);

    // The other one's turn comes.
    world.rig.kubectl(["delete", "net-attach-def", "dot", "-n", "default"]).await?;
    world.networks.clear();
    world.networks.insert(dash.name.clone(), dash);
    world.converged().await?;
    Ok(())
}

pub(crate) async fn inputs() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    let good = NetworkSpec::new("ns_good", 1, Kind::Layer3);
    let kept = NetworkSpec::new("ns_kept", 2, Kind::Layer3);
    let flat = NetworkSpec::new("ns_flat", 8, Kind::Layer2);
    world.add(&[good, kept.clone(), flat]).await?;
    let agent = world.agent().await?;
    world.ready().await?;
    world.converged().await?;

    // A config that is broken by hand: its network stays what it was, also over a restart.
    let before = rows(&world.store.current()?);
    let broken = json!([{"op": "replace", "path": "/spec/config", "value": "{"}]).to_string();
    world
        .rig
        .kubectl(["patch", "net-attach-def", "ns-kept", "-n", "default", "--type=json", "-p", &broken])
        .await?;
    world
        .until_readiness("the broken config", |told| told.starts_with("ok") && told.contains("ns_kept"))
        .await?;
    agent.kill().await?;
    agent.restart().await?;
    world
        .until_readiness("the broken config", |told| told.starts_with("ok") && told.contains("ns_kept"))
        .await?;
    ensure!(rows(&world.store.current()?) == before && world.transactions().await? == 0);
    let put_right = json!([{"op": "replace", "path": "/spec/config", "value": kept.config()}]).to_string();
    world
        .rig
        .kubectl(["patch", "net-attach-def", "ns-kept", "-n", "default", "--type=json", "-p", &put_right])
        .await?;
    world.until_readiness("that it is ready", |told| told.trim() == "ok").await?;

    // One that nobody can read and nobody noted a network on, one without numbers, one that there are no rows for.
    let unwritten = [
        ("broken", "{\"type\":\"ovn-k8s-cni-overlay\"", None),
        (
            "numberless",
            &*NetworkSpec::new("ns_numberless", 9, Kind::Layer3)
                .config()
                .replace("ns-numberless", "numberless"),
            None,
        ),
        (
            "transported",
            r#"{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","name":"ns_transported","netAttachDefName":"default/transported","topology":"layer3","role":"primary","subnets":"10.9.0.0/16/24","transport":"no-overlay","outboundSNAT":"enabled"}"#,
            Some("11"),
        ),
    ];
    for (name, config, id) in unwritten {
        let annotations = id.map_or_else(|| json!({}), |id| json!({"k8s.ovn.org/network-id": id}));
        let object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"config": config},
        });
        world.rig.apply(&object.to_string()).await?;
    }
    let text = "transport no-overlay is not supported";
    world.until_event("NetworkAttachmentDefinition", "transported", "InvalidConfig", text).await?;

    // A node without an id is told, one without subnets is waited for, and both keep nobody from anything.
    world.rig.apply(r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "idless"}}"#).await?;
    world
        .until_event("Node", "idless", "ErrorReconcilingNode", "failed to get node id for node - idless")
        .await?;
    let id = [("k8s.ovn.org/node-id", Some("40"))];
    world.annotate("idless", &id).await?;
    world.add(&[NetworkSpec::new("ns_more", 12, Kind::Layer3)]).await?;
    let have = world
        .until("the next network", |have| have.find_one(LogicalSwitch::by_name(), "ns_more_node1").is_some());
    let have = have.await?;
    for unwritten in ["ns_numberless", "ns_transported"] {
        ensure!(have.find(LogicalSwitch::by_network(), unwritten).count() == 0, "{unwritten} has rows");
    }
    world.rig.kubectl(["delete", "node", "idless"]).await?;
    world.converged().await?;

    // This node loses its subnets: its rows stay for the moment that somebody's edit lasts, the other node's follow.
    let key = "k8s.ovn.org/node-subnets";
    world.annotate("node1", &[(key, None)]).await?;
    world.leave(2).await?;
    world.converged().await?;
    world.join(1).await?;
    world.join(2).await?;
    world.converged().await?;
    Ok(())
}

pub(crate) async fn masquerade() -> anyhow::Result<()> {
    let world = World::start().await?;
    let on = ["--enable-multi-network", "--enable-network-segmentation"];
    for address in [&[][..], &["--nb-address=unix:/run/ovn/ovnnb_db.sock"]] {
        let program: Program =
            world.program("node-agent", &on).args(address).named(format!("small{}", address.len()));
        let agent = world.machine.spawn(program).await?;
        let status = agent.wait_exit(DEADLINE).await?;
        ensure!(status.code() == Some(1), "{status:?}");
        let log = agent.log_text()?;
        let told = "user-defined networks do not fit into the masquerade subnet";
        ensure!(log.contains(told) && log.contains("169.254.169.0/29"), "{log}");
    }
    Ok(())
}
