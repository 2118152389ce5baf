//! Agents with their own accounts: what they read and tell needs no more than `deploy/rbac` and `deploy/admission` give. And
//! the ways out that other rooms of the agent find.

use anyhow::{Context, ensure};
use causeway_dpu_agent::topology::northbound::{LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use causeway_rig::{KUBECONFIG, PROGRAMS, Side};
use causeway_tests::access::{self, Account};
use causeway_tests::manifests;
use causeway_tests::topology::world::{DEADLINE, Kind, NetworkSpec, ON, World};
use serde_json::{Value, json};

/// The regular node's bridge and its wire.
const BRIDGE: &str = "ovsbr1";

async fn log_in(world: &World, token: &str) -> anyhow::Result<()> {
    access::wait_roles(&world.rig, token).await?;
    world.machine.write(KUBECONFIG, world.rig.kubeconfig_of(token, Side::Inside)?)
}

/// A network that there are no rows for, in a namespace of its own.
async fn refused(world: &World) -> anyhow::Result<()> {
    world.rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}").await?;
    let config = r#"{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","name":"tenant_red","netAttachDefName":"tenant/red","topology":"layer3","role":"primary","subnets":"10.9.0.0/16/24","transport":"no-overlay","outboundSNAT":"enabled"}"#;
    let object = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "red", "namespace": "tenant", "annotations": {"k8s.ovn.org/network-id": "9"}},
        "spec": {"config": config},
    });
    world.rig.apply(&object.to_string()).await.map(drop)
}

const REFUSED: &str = "transport no-overlay is not supported";

/// What `causewayctl agent` prints in the node.
async fn told(world: &World) -> anyhow::Result<String> {
    world.machine.exec([&format!("{PROGRAMS}/causewayctl"), "agent"]).await
}

async fn until_told(world: &World, want: &[&str]) -> anyhow::Result<()> {
    let look = || async {
        let text = told(world).await.map_err(|error| format!("{error:#}"))?;
        if want.iter().all(|want| text.contains(want)) { Ok(()) } else { Err(text) }
    };
    world.rig.wait_for(&format!("causewayctl to say {want:?}"), DEADLINE, look).await
}

pub(crate) async fn node_agent() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    access::install(&world.rig).await?;
    let token = access::pod_token(&world.rig, Account::NodeAgent, "node1").await?;
    log_in(&world, &token).await?;
    world.ovs.add_bridge(&world.machine, BRIDGE).physical("eth1").address("172.28.0.2/16").create().await?;
    world.machine.ip_batch(&format!("route add default via 172.28.0.1 dev {BRIDGE} metric 50000\n")).await?;
    let agent = world.machine.spawn(world.program("node-agent", ON)).await?;
    world.ready().await?;
    world.add(&[NetworkSpec::new("ns_blue", 1, Kind::Layer3)]).await?;
    world.converged().await?;
    refused(&world).await?;
    world.until_event("NetworkAttachmentDefinition", "red", "InvalidConfig", REFUSED).await?;

    // Uplinks need shared gateways. Then the agent tells of the node itself, and that it lacks a bridge for a gateway of its
    // own: nothing waits for that here.
    agent.kill().await?;
    let on: Vec<&str> = ON.iter().copied().chain(["--enable-uplink", "--gateway-mode=shared"]).collect();
    let _agent = world.machine.spawn(world.program("node-agent", &on)).await?;
    // A network that leaves by an Uplink waits for the state of it, with all that does not leave.
    let out = NetworkSpec::new("ns_out", 2, Kind::Layer3);
    world.announce(std::slice::from_ref(&out)).await?;
    let mut config: Value = serde_json::from_str(&out.config())?;
    config.as_object_mut().context("a config")?.insert("uplink".to_owned(), json!("ext"));
    let mut nad = out.object();
    nad.spec.config = config.to_string();
    world.rig.apply(&serde_json::to_string(&nad)?).await?;
    let waits = "gateway: waits: waiting for UplinkState ext.node1 for uplink \"ext\" on node \"node1\"";
    until_told(&world, &["Networks in OVN: 4, incomplete: 2", "  ns_out (id 2)", waits, "tenant_red"])
        .await?;
    let have = world.store.current()?;
    ensure!(have.find_one(LogicalSwitch::by_name(), "ns_out_node1").is_some());
    ensure!(have.find_one(LogicalSwitch::by_name(), "ext_ns_out_node1").is_none());

    world.rig.apply(&manifests::uplink("ext", &[("{}", BRIDGE)])).await?;
    let leaves = |have: &ovsdb::Snapshot| {
        let port = have.find_one(LogicalSwitchPort::by_name(), "ovsbr1_ns_out_node1");
        let leads =
            |row: &LogicalSwitchPort| row.options.get("network_name").is_some_and(|name| name == "ns_out");
        let outer = have.find_one(LogicalRouterPort::by_name(), "rtoe-GR_ns_out_node1");
        let outer = outer.filter(|(_, row)| row.networks.contains("172.28.0.2/16"));
        port.is_some_and(|(_, row)| leads(row)).then(|| outer.map(|(_, row)| row.mac.clone())).flatten()
    };
    world.until("the way out", |have| leaves(have).is_some()).await?;
    until_told(&world, &["Networks in OVN: 4, incomplete: 1"]).await?;
    // The bridge is another one to its neighbours: the state says so, and the row follows. OVS is told, not the kernel:
    // ovs-vswitchd puts its own address back whenever it configures the bridge anew.
    let mac = "02:00:5e:00:53:09";
    let address = format!("other_config:hwaddr=\"{mac}\"");
    world.ovs.vsctl(["set", "Bridge", BRIDGE, &address]).await?;
    world.until("the new address", |have| leaves(have).as_deref() == Some(mac)).await.map(drop)
}

/// The account may watch the Services that are allowed unless somebody says others.
pub(crate) async fn service() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    access::install(&world.rig).await?;
    let token = access::pod_token(&world.rig, Account::NodeAgent, "node1").await?;
    log_in(&world, &token).await?;
    let allow = "--udn-allowed-default-services=default/kubernetes,tenant/front";
    let on: Vec<&str> = ON.iter().copied().chain([allow]).collect();
    let _agent = world.machine.spawn(world.program("node-agent", &on)).await?;
    world.add(&[NetworkSpec::new("ns_blue", 1, Kind::Layer3)]).await?;
    world.converged().await?;
    let told = |text: &str| text.contains("Service tenant/front: ") && text.contains("forbidden");
    world.until_readiness("the Service that it may not watch", told).await?;

    // Whoever allows it gives the right too; nothing has to be restarted.
    world.rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}").await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "front", "namespace": "tenant"},
        "spec": {"clusterIP": "10.96.0.55", "ports": [{"port": 80}]},
    });
    world.rig.apply(&service.to_string()).await?;
    let role = [
        "create",
        "clusterrole",
        "front",
        "--verb=list,watch",
        "--resource=services",
        "--resource-name=front",
    ];
    world.rig.kubectl(role).await?;
    let account = "--serviceaccount=ovn-kubernetes:causeway-node-agent";
    world.rig.kubectl(["create", "clusterrolebinding", "front", "--clusterrole=front", account]).await?;
    let front = world.service("tenant", "front").await?.context("the Service")?;
    world.services.insert(front.name.clone(), front);
    world.converged().await?;
    world.ready().await
}

pub(crate) async fn card() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    access::install(&world.rig).await?;
    let token = access::enrol_card(&world.rig, "card-of-node1", "node1").await?;
    log_in(&world, &token).await?;
    let _agent = world.machine.spawn(world.program("dpu-agent", ON)).await?;
    world.ready().await?;
    world.add(&[NetworkSpec::new("ns_blue", 1, Kind::Layer3)]).await?;
    world.converged().await?;
    // In tenants' namespaces a card may write nothing: it tells by the Node.
    refused(&world).await?;
    let text = format!("NetworkAttachmentDefinition tenant/red: network tenant_red: {REFUSED}");
    world.until_event("Node", "node1", "ErrorReconcilingNode", &text).await
}
