//! What agents tell about their nodes: annotations, with a real Open vSwitch, a real kernel and a real API server.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{
    CardSide, FABRIC_V4, KUBECONFIG, Level, Node, Process, Rig, RigOptions, SharedRig, Suite, simulated_mac,
};
use causeway_tests::states::DEADLINE;
use k8s_openapi::api::core::v1::Node as NodeObject;
use k8s_openapi::api::events::v1::Event;
use kube::Api;

/// Where agents serve `/metrics` and `/readyz`, in the network namespace of their node.
const HEALTH: &str = "127.0.0.1:9410";
const GATEWAY: &str = "k8s.ovn.org/l3-gateway-config";
const HOST_CIDRS: &str = "k8s.ovn.org/host-cidrs";
const PRIMARY: &str = "k8s.ovn.org/node-primary-ifaddr";
const CHASSIS: &str = "k8s.ovn.org/node-chassis-id";
const ENCAP_IPS: &str = "k8s.ovn.org/node-encap-ips";
const DPU_HOST: &str = "k8s.ovn.org/primary-dpu-host-addr";

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(&shared, Level::Switch, "a_regular_node_tells_its_facts_and_a_restart_writes_nothing", told)
        .test_in(
            &shared,
            Level::Switch,
            "what_changes_in_the_kernel_or_in_open_vswitch_changes_the_annotations",
            changes,
        )
        .test_in(
            &shared,
            Level::Switch,
            "what_others_alter_is_restored_and_what_is_not_the_agents_stays",
            restored,
        )
        .test_in(
            &shared,
            Level::Switch,
            "a_gateway_that_is_not_there_is_an_event_on_the_node_until_it_is",
            missing_gateway,
        )
        .test_in(
            &shared,
            Level::Switch,
            "a_chassis_id_that_a_policy_holds_keeps_no_other_fact_away",
            held_chassis,
        )
        .test_in(&shared, Level::Switch, "without_a_gateway_mode_the_facts_are_somebody_elses", silent)
        .test_in(&shared, Level::Switch, "a_host_and_its_card_tell_their_halves_in_either_order", card)
        .test_in(
            &shared,
            Level::Switch,
            "an_annotation_meant_for_a_node_that_was_replaced_is_refused",
            replaced,
        )
        .run()
}

type Annotations = BTreeMap<String, String>;

async fn annotations(rig: &Rig, node: &str) -> anyhow::Result<Annotations> {
    let node = Api::<NodeObject>::all(rig.client()).get(node).await?;
    Ok(node.metadata.annotations.unwrap_or_default())
}

/// Waits until the annotations are as they should be.
async fn until(
    rig: &Rig,
    node: &str,
    what: &str,
    accept: impl Fn(&Annotations) -> bool,
) -> anyhow::Result<()> {
    let accept = &accept;
    let look = || async move {
        let found = annotations(rig, node).await.map_err(|error| format!("{error:#}"))?;
        if accept(&found) { Ok(()) } else { Err(format!("{found:#?}")) }
    };
    rig.wait_for(&format!("{node} to tell {what}"), DEADLINE, look).await
}

fn says(annotations: &Annotations, key: &str, part: &str) -> bool {
    annotations.get(key).is_some_and(|text| text.contains(part))
}

/// A node with a bridge that leads out, and the address that its agent is told to use.
async fn node(rig: &Rig, name: &str) -> anyhow::Result<(Node, causeway_rig::Ovs)> {
    let node = rig.node(name).start().await?;
    let ovs = node.ovs().await?;
    ovs.add_bridge(&node, "br-ex").physical("eth1").address("192.0.2.9/24").create().await?;
    Ok((node, ovs))
}

async fn agent(node: &Node, program: &str, name: &str, more: &[&str]) -> anyhow::Result<Process> {
    let usual = ["--init-node", name, "--k8s-kubeconfig", KUBECONFIG, "--metrics-bind-address", HEALTH];
    node.spawn_built(program, usual.iter().chain(more)).await
}

fn gateway_flags(hop: &str) -> [&str; 7] {
    ["--gateway-mode", "shared", "--gateway-interface", "br-ex", "--gateway-nexthop", hop, "--nodeport"]
}

/// One number of the agent, summed over its labels.
async fn number(node: &Node, name: &str) -> anyhow::Result<u64> {
    let text = node.exec(["curl", "-sS", "--max-time", "5", &format!("http://{HEALTH}/metrics")]).await?;
    let mut sum = 0;
    for line in text.lines().filter(|line| line.starts_with(name)) {
        let (_, value) = line.rsplit_once(' ').context("a metric without value")?;
        sum += value.parse::<u64>()?;
    }
    Ok(sum)
}

/// Waits until the agent has nothing left to tell: it is ready, and its last pass was after this call.
async fn settled(rig: &Rig, node: &Node) -> anyhow::Result<()> {
    let ready = || async {
        let url = format!("http://{HEALTH}/readyz");
        let text = node.exec(["curl", "-sS", "--max-time", "5", &url]).await;
        let text = text.map_err(|error| format!("{error:#}"))?;
        // The node has no subnet here, so its management port is waited for.
        if text.lines().any(|line| line.starts_with("node-facts")) { Err(text) } else { Ok(()) }
    };
    rig.wait_for("the agent to have told all facts", DEADLINE, ready).await?;
    let counter = "causeway_node_facts_reconcile_passes_total";
    let before = number(node, counter).await?;
    node.set_annotation("k8s.ovn.org/poked-by-test", Some(&before.to_string())).await?;
    let passed = || async {
        let now = number(node, counter).await.map_err(|error| format!("{error:#}"))?;
        if now > before { Ok(()) } else { Err(format!("{now} passes")) }
    };
    rig.wait_for("the agent to look again", DEADLINE, passed).await
}

async fn told(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, ovs) = node(&rig, "facts-a").await?;
    let hop = FABRIC_V4.to_string();
    let running = agent(&node, "node-agent", "facts-a", &gateway_flags(&hop)).await?;
    until(&rig, "facts-a", "its gateway", |found| found.contains_key(GATEWAY)).await?;
    settled(&rig, &node).await?;
    let found = annotations(&rig, "facts-a").await?;
    let mac = ovs.vsctl(["get", "Interface", "br-ex", "mac_in_use"]).await?;
    let mac = mac.trim().trim_matches('"');
    let want = [
        (
            GATEWAY,
            format!(
                r#"{{"default":{{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_facts-a","mac-address":"{mac}","ip-addresses":["192.0.2.9/24"],"ip-address":"192.0.2.9/24","next-hops":["{hop}"],"next-hop":"{hop}","node-port-enable":"true","vlan-id":"0"}}}}"#
            ),
        ),
        (CHASSIS, "facts-a".to_owned()),
        (ENCAP_IPS, format!(r#"["{}"]"#, node.v4())),
        (PRIMARY, r#"{"ipv4":"192.0.2.9/24"}"#.to_owned()),
        ("k8s.ovn.org/layer2-topology-version", "2.0".to_owned()),
        (
            "k8s.ovn.org/node-masquerade-subnet",
            r#"{"ipv4":"169.254.169.0/29","ipv6":"fd69::/125"}"#.to_owned(),
        ),
    ];
    for (key, text) in want {
        ensure!(found.get(key) == Some(&text), "{key}: {:?}, not {text}", found.get(key));
    }
    let cidrs = found.get(HOST_CIDRS).context("no host-cidrs")?;
    ensure!(cidrs.contains(&format!("\"{}/", node.v4())) && cidrs.contains("\"192.0.2.9/24\""), "{cidrs}");
    ensure!(!cidrs.contains("127.0.0.1") && !cidrs.contains("fe80"), "{cidrs}");
    // The userspace datapath can check the length of packets.
    ensure!(!found.contains_key("k8s.ovn.org/gateway-mtu-support"), "{found:?}");

    running.restart().await?;
    settled(&rig, &node).await?;
    let writes = number(&node, "causeway_node_facts_api_writes_total").await?;
    ensure!(writes == 0, "a restart wrote {writes} times");
    Ok(())
}

async fn changes(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, ovs) = node(&rig, "facts-b").await?;
    let hop = FABRIC_V4.to_string();
    let _agent = agent(&node, "node-agent", "facts-b", &gateway_flags(&hop)).await?;
    until(&rig, "facts-b", "its gateway", |found| found.contains_key(GATEWAY)).await?;
    let added = |found: &Annotations| says(found, HOST_CIDRS, "\"198.51.100.7/24\"");
    node.ip(["addr", "add", "198.51.100.7/24", "dev", "br-ex"]).await?;
    until(&rig, "facts-b", "an address that came", added).await?;
    // The first address of the bridge leaves: the gateway's is the one that is left.
    node.ip(["addr", "del", "192.0.2.9/24", "dev", "br-ex"]).await?;
    let moved = |found: &Annotations| {
        !says(found, HOST_CIDRS, "192.0.2.9")
            && says(found, PRIMARY, "198.51.100.7/24")
            && says(found, GATEWAY, r#""ip-address":"198.51.100.7/24""#)
    };
    until(&rig, "facts-b", "another gateway address", moved).await?;
    ovs.vsctl(["set", "Bridge", "br-ex", "other_config:hwaddr=\"02:00:00:00:00:ee\""]).await?;
    let other_mac = |found: &Annotations| says(found, GATEWAY, r#""mac-address":"02:00:00:00:00:ee""#);
    until(&rig, "facts-b", "another MAC address", other_mac).await?;
    ovs.vsctl(["set", "Open_vSwitch", ".", "other_config:hw-offload=true"]).await?;
    let key = "k8s.ovn.org/gateway-mtu-support";
    until(&rig, "facts-b", "that flows are offloaded", |found| says(found, key, "false")).await?;
    ovs.vsctl(["remove", "Open_vSwitch", ".", "other_config", "hw-offload"]).await?;
    until(&rig, "facts-b", "that they are not", |found| !found.contains_key(key)).await
}

async fn restored(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, _ovs) = node(&rig, "facts-c").await?;
    let hop = FABRIC_V4.to_string();
    node.set_annotation("k8s.ovn.org/node-id", Some("7")).await?;
    let _agent = agent(&node, "node-agent", "facts-c", &gateway_flags(&hop)).await?;
    until(&rig, "facts-c", "its gateway", |found| found.contains_key(GATEWAY)).await?;
    settled(&rig, &node).await?;
    let want = annotations(&rig, "facts-c").await?;
    for (key, text) in [(GATEWAY, Some("{}")), (HOST_CIDRS, None), (ENCAP_IPS, Some(r#"["192.0.2.77"]"#))] {
        node.set_annotation(key, text).await?;
        until(&rig, "facts-c", key, |found| found.get(key) == want.get(key)).await?;
    }
    let found = annotations(&rig, "facts-c").await?;
    ensure!(found.get("k8s.ovn.org/node-id").map(String::as_str) == Some("7"), "{found:?}");
    Ok(())
}

/// Waits for an Event about a node.
async fn event(rig: &Rig, node: &str, reason: &str) -> anyhow::Result<String> {
    let events = Api::<Event>::namespaced(rig.client(), "default");
    let uid = Api::<NodeObject>::all(rig.client()).get(node).await?.metadata.uid;
    let find = || async {
        let all = events.list(&kube::api::ListParams::default()).await.map_err(|error| error.to_string())?;
        let ours = all.items.into_iter().filter(|event| {
            event
                .regarding
                .as_ref()
                .is_some_and(|about| about.kind.as_deref() == Some("Node") && about.uid == uid)
        });
        let ours: Vec<_> = ours.map(|event| (event.reason, event.note.unwrap_or_default())).collect();
        let found = ours.iter().find(|(found, _)| found.as_deref() == Some(reason));
        found.map(|(_, note)| note.clone()).ok_or_else(|| format!("{ours:?}"))
    };
    rig.wait_for(&format!("an Event {reason} on {node}"), DEADLINE, find).await
}

async fn missing_gateway(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("facts-d").start().await?;
    let ovs = node.ovs().await?;
    let hop = FABRIC_V4.to_string();
    let _agent = agent(&node, "node-agent", "facts-d", &gateway_flags(&hop)).await?;
    let words = event(&rig, "facts-d", "NoGatewayBridge").await?;
    ensure!(words.starts_with("gateway interface br-ex is on no Open vSwitch bridge"), "{words}");
    let found = annotations(&rig, "facts-d").await?;
    // What does not hang on a gateway is told all the same.
    ensure!(says(&found, CHASSIS, "facts-d") && !found.contains_key(GATEWAY), "{found:?}");
    let readiness = node.exec(["curl", "-sS", &format!("http://{HEALTH}/readyz")]).await?;
    ensure!(readiness.contains("NoGatewayBridge"), "{readiness}");
    ovs.add_bridge(&node, "br-ex").physical("eth1").address("192.0.2.9/24").create().await?;
    let there = |found: &Annotations| says(found, GATEWAY, "192.0.2.9/24");
    until(&rig, "facts-d", "the gateway that came", there).await
}

async fn held_chassis(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, _ovs) = node(&rig, "facts-e").await?;
    let policy = serde_json::json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "held-chassis.test"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["nodes", "nodes/status"], "resourceNames": ["facts-e"],
            }]},
            "validations": [{
                "expression": format!("object.metadata.?annotations[?'{CHASSIS}'] == oldObject.metadata.?annotations[?'{CHASSIS}']"),
                "message": "the chassis cannot be changed",
            }],
        },
    });
    let binding = serde_json::json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "held-chassis.test"},
        "spec": {"policyName": "held-chassis.test", "validationActions": ["Deny"]},
    });
    node.set_annotation(CHASSIS, Some("of-before")).await?;
    for object in [policy, binding] {
        let path = format!(
            "/tmp/{}.json",
            object.get("kind").and_then(serde_json::Value::as_str).context("a kind")?
        );
        node.write(&path, object.to_string())?;
        node.exec(["kubectl", "apply", "-f", &path]).await?;
    }
    // The server takes a moment to compile it.
    let tries = std::sync::atomic::AtomicU32::new(0);
    let held = || async {
        let number = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match node.set_annotation(CHASSIS, Some(&format!("of-before-{number}"))).await {
            Err(error) if format!("{error:#}").contains("cannot be changed") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    rig.wait_for("the policy", DEADLINE, held).await?;
    let hop = FABRIC_V4.to_string();
    let _agent = agent(&node, "node-agent", "facts-e", &gateway_flags(&hop)).await?;
    until(&rig, "facts-e", "its gateway", |found| found.contains_key(GATEWAY)).await?;
    let words = event(&rig, "facts-e", "NodeAnnotationRefused").await?;
    ensure!(words.contains("node-chassis-id") && words.contains("cannot be changed"), "{words}");
    let found = annotations(&rig, "facts-e").await?;
    ensure!(says(&found, CHASSIS, "of-before"), "{found:?}");
    Ok(())
}

async fn silent(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, _ovs) = node(&rig, "facts-f").await?;
    node.set_annotation(HOST_CIDRS, Some("of somebody else")).await?;
    let _agent = agent(&node, "node-agent", "facts-f", &[]).await?;
    let ready = || async {
        let text = node.exec(["curl", "-sS", &format!("http://{HEALTH}/readyz")]).await;
        let text = text.map_err(|error| format!("{error:#}"))?;
        if text.lines().next() == Some("ok") { Ok(()) } else { Err(text) }
    };
    rig.wait_for("the agent to be ready", DEADLINE, ready).await?;
    ensure!(number(&node, "causeway_node_facts").await? == 0, "it looks at facts");
    let found = annotations(&rig, "facts-f").await?;
    ensure!(says(&found, HOST_CIDRS, "of somebody else") && !found.contains_key(CHASSIS), "{found:?}");
    Ok(())
}

async fn card(rig: Arc<Rig>) -> anyhow::Result<()> {
    for (name, host_first) in [("facts-g", true), ("facts-h", false)] {
        let pair = rig.dpu_pair(name).start().await?;
        let ovs = pair.card.ovs().await?;
        let bridge = ovs.add_bridge(&pair.card, "br-host").port("p0").port("rep0-0");
        bridge.address("192.0.2.17/25").create().await?;
        pair.host.ip(["addr", "add", "192.0.2.16/24", "dev", "eth0-0"]).await?;
        let hop = FABRIC_V4.to_string();
        let encap = pair.card.v4().to_string();
        let of_host = ["--gateway-mode", "shared", "--gateway-interface", "eth0-0", "--simulate-dpu"];
        let of_card = [
            "--gateway-mode",
            "shared",
            "--gateway-interface",
            "br-host",
            "--gateway-nexthop",
            &hop,
            "--encap-ip",
            &encap,
            "--simulate-dpu",
        ];
        let _agents = if host_first {
            let host = agent(&pair.host, "host-agent", name, &of_host).await?;
            until(&rig, name, "its host's address", |found| says(found, DPU_HOST, "192.0.2.16/24")).await?;
            (host, agent(&pair.card, "dpu-agent", name, &of_card).await?)
        } else {
            let card = agent(&pair.card, "dpu-agent", name, &of_card).await?;
            until(&rig, name, "its chassis", |found| found.contains_key(CHASSIS)).await?;
            ensure!(!annotations(&rig, name).await?.contains_key(GATEWAY), "a gateway without the host");
            (agent(&pair.host, "host-agent", name, &of_host).await?, card)
        };
        until(&rig, name, "its gateway", |found| found.contains_key(GATEWAY)).await?;
        let found = annotations(&rig, name).await?;
        let mac = simulated_mac(name, CardSide::Host, 0)?;
        let want = format!(
            r#""bridge-id":"br-host","interface-id":"br-host_{name}","mac-address":"{mac}","ip-addresses":["192.0.2.16/25"]"#
        );
        ensure!(says(&found, GATEWAY, &want), "{found:#?}");
        ensure!(says(&found, PRIMARY, "192.0.2.16/24"), "{found:#?}");
        ensure!(says(&found, ENCAP_IPS, &encap), "{found:#?}");
        ensure!(says(&found, CHASSIS, pair.card.name()), "{found:#?}");
        until(&rig, name, "its host's addresses", |found| {
            says(found, HOST_CIDRS, "192.0.2.16/24") && says(found, HOST_CIDRS, &pair.host.v4().to_string())
        })
        .await?;
        // The host's address changes, and so does what its card tells of it.
        pair.host.ip(["addr", "del", "192.0.2.16/24", "dev", "eth0-0"]).await?;
        pair.host.ip(["addr", "add", "192.0.2.18/24", "dev", "eth0-0"]).await?;
        let moved = |found: &Annotations| says(found, GATEWAY, r#""ip-address":"192.0.2.18/25""#);
        until(&rig, name, "its host's other address", moved).await?;
    }
    Ok(())
}

async fn replaced(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("facts-i").start().await?;
    let api = Api::<NodeObject>::all(rig.client());
    let patch = |uid: &str| serde_json::json!({"metadata": {"uid": uid, "annotations": {HOST_CIDRS: "[]"}}});
    let parameters = kube::api::PatchParams::default();
    let write = |uid: &str| {
        let patch = kube::api::Patch::Merge(patch(uid));
        let (api, parameters) = (api.clone(), parameters.clone());
        async move { api.patch_status("facts-i", &parameters, &patch).await }
    };
    let refused = write("00000000-0000-4000-8000-000000000000").await;
    ensure!(matches!(refused, Err(kube::Error::Api(_))), "{refused:?}");
    ensure!(!annotations(&rig, node.name()).await?.contains_key(HOST_CIDRS), "it was written");
    let uid = api.get(node.name()).await?.metadata.uid.context("a uid")?;
    write(&uid).await?;
    ensure!(says(&annotations(&rig, node.name()).await?, HOST_CIDRS, "[]"), "not written");
    Ok(())
}
