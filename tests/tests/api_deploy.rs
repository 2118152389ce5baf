//! The manifests of `deploy/`: the API server takes all of them, each node gets one agent, and the programs live with the
//! arguments and rights that they are given.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value of another shape than expected ends the test, as it should"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_api::uplink_state::UplinkState;
use causeway_rig::{Level, PROGRAMS, Process, Program, Rig, RigOptions, SharedRig, Suite, wait_object};
use causeway_tests::blue::{BlueWorld, CARD, CARD_BRIDGE, CARD_WIRE, STATE_A, STATE_B, UPLINK, UPLINK_YAML};
use causeway_tests::states::{DEADLINE, state_says, uplink_says, verdict};
use causeway_tests::{access, manifests};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// How long the controllers may take on a busy machine.
const PLACED: Duration = Duration::from_mins(1);
/// The client reads a token file once a minute; what failed meanwhile is tried again within another half.
const RENEWED: Duration = Duration::from_mins(2);
/// Where a card keeps what it needs for its host's cluster.
const HOST_CLUSTER: &str = "/etc/causeway/host-cluster";
/// Where an agent tells what it sees.
const INTROSPECTION: &str = "/run/causeway";

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::default());
    Suite::new()
        .test_in(&rig, Level::Api, "the_api_server_takes_every_manifest_without_a_warning", taken)
        .test_in(&rig, Level::Api, "each_node_gets_one_agent_whatever_its_labels", one_agent)
        .test(Level::Switch, "programs_do_their_work_with_the_arguments_and_rights_of_the_manifests", rights)
        .test(Level::Switch, "a_card_goes_on_with_a_renewed_token_and_no_restart", renewed)
        .run()
}

/// Installs in the order that `docs/access.md` gives.
async fn installed(rig: &Rig) -> anyhow::Result<()> {
    rig.apply(&manifests::folder("crds")?).await?;
    access::install(rig).await?;
    rig.apply(&manifests::folder("manifests")?).await?;
    Ok(())
}

async fn taken(rig: Arc<Rig>) -> anyhow::Result<()> {
    // In earnest first: a dry run in a namespace that is not there is refused.
    installed(&rig).await?;
    for folder in ["crds", "rbac", "admission", "manifests"] {
        let path = manifests::deploy().join(folder);
        let path = path.to_string_lossy();
        // Each error is told, so that a field that nobody knows is one.
        let flags = [
            "--dry-run=server",
            "--validate=strict",
            "--warnings-as-errors",
            "--server-side",
            "--force-conflicts",
        ];
        let said = rig.kubectl(["apply", "-f", &path].into_iter().chain(flags)).await?;
        let taken = said.lines().filter(|line| line.contains("(server dry run)")).count();
        ensure!(taken > 0 && taken == said.lines().count(), "of {folder}: {said}");
    }
    Ok(())
}

/// Every mix of the two labels, also with values, and the agent that belongs there.
fn mixes() -> BTreeMap<&'static str, (Value, &'static str)> {
    BTreeMap::from([
        ("plain", (json!({}), "node-agent")),
        ("host", (json!({"k8s.ovn.org/dpu-host": ""}), "host-agent")),
        ("host-with-value", (json!({"k8s.ovn.org/dpu-host": "true"}), "host-agent")),
        ("card", (json!({"k8s.ovn.org/dpu": ""}), "dpu-agent")),
        ("card-with-value", (json!({"k8s.ovn.org/dpu": "true"}), "dpu-agent")),
        ("both", (json!({"k8s.ovn.org/dpu-host": "", "k8s.ovn.org/dpu": ""}), "host-agent")),
        ("labelled-otherwise", (json!({"example.com/dpu": ""}), "node-agent")),
    ])
}

async fn one_agent(rig: Arc<Rig>) -> anyhow::Result<()> {
    installed(&rig).await?;
    let nodes: Api<Node> = Api::all(rig.client());
    for (name, (labels, _)) in mixes() {
        let node = json!({
            "metadata": {"name": name, "labels": labels},
            // Agents run where nothing else does.
            "spec": {"taints": [{"key": "example.com/reserved", "effect": "NoExecute"}]},
        });
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    }
    let want = || mixes().into_iter().map(|(name, (_, agent))| (name.to_owned(), agent.to_owned()));
    placed(&rig, want().collect()).await?;

    // A node that gets a card, and one that loses it, change their agent.
    let change = |labels: Value| Patch::Merge(json!({"metadata": {"labels": labels}}));
    let parameters = PatchParams::default();
    nodes.patch("plain", &parameters, &change(json!({"k8s.ovn.org/dpu-host": ""}))).await?;
    nodes.patch("host", &parameters, &change(json!({"k8s.ovn.org/dpu-host": null}))).await?;
    let mut changed: BTreeSet<(String, String)> = want().collect();
    for (node, before, after) in [("plain", "node-agent", "host-agent"), ("host", "host-agent", "node-agent")]
    {
        changed.remove(&(node.to_owned(), before.to_owned()));
        changed.insert((node.to_owned(), after.to_owned()));
    }
    placed(&rig, changed).await
}

/// Waits until exactly these pods are there: pairs of node and agent. The controller has then looked at the newest nodes,
/// and wants as many.
async fn placed(rig: &Rig, want: BTreeSet<(String, String)>) -> anyhow::Result<()> {
    let (pods, sets): (Api<Pod>, Api<DaemonSet>) =
        (Api::namespaced(rig.client(), access::NAMESPACE), Api::namespaced(rig.client(), access::NAMESPACE));
    let want = &want;
    let look = || async {
        let found = agents(&pods).await.map_err(|error| format!("{error:#}"))?;
        let sets = sets.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let wanted: i32 =
            sets.iter().filter_map(|set| Some(set.status.as_ref()?.desired_number_scheduled)).sum();
        let all: BTreeSet<_> = found.iter().cloned().collect();
        if all == *want && found.len() == want.len() && usize::try_from(wanted) == Ok(want.len()) {
            Ok(())
        } else {
            Err(format!("{wanted} wanted, {found:?}"))
        }
    };
    rig.wait_for(&format!("agents {want:?}"), PLACED, look).await
}

/// Node and agent of every pod that stays. No scheduler runs: the node is the one that the controller made the pod for.
async fn agents(pods: &Api<Pod>) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for pod in pods.list(&ListParams::default()).await? {
        let owner = pod.owner_references().iter().find(|owner| owner.kind == "DaemonSet").cloned();
        let Some(owner) = owner.filter(|_| pod.metadata.deletion_timestamp.is_none()) else { continue };
        let spec = serde_json::to_value(&pod.spec)?;
        let affinity = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0\
                        /matchFields/0/values/0";
        let node = spec.pointer(affinity).and_then(Value::as_str).context("the node of a pod")?;
        let agent = owner.name.strip_prefix("causeway-").context("the name of a DaemonSet")?;
        found.push((node.to_owned(), agent.to_owned()));
    }
    Ok(found)
}

/// The pod that a workload's manifest describes.
fn pod_of(program: &str) -> anyhow::Result<Value> {
    let path = manifests::deploy().join("manifests").join(format!("{program}.yaml"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let manifest: Value = serde_yaml_ng::from_str(&text)?;
    Ok(manifest["spec"]["template"]["spec"].clone())
}

/// The settings of the ConfigMap.
fn settings() -> anyhow::Result<String> {
    let text = std::fs::read_to_string(manifests::deploy().join("manifests/00-config.yaml"))?;
    let manifest: Value = serde_yaml_ng::from_str(&text)?;
    Ok(manifest["data"]["ovn_k8s.conf"].as_str().context("settings")?.to_owned())
}

/// Whether the container of a program is privileged.
fn is_privileged(program: &str) -> anyhow::Result<bool> {
    Ok(pod_of(program)?["containers"][0]["securityContext"]["privileged"] == true)
}

/// The program of a manifest as its container would be started: its arguments with the variables filled in, its user, no
/// capability but where it is privileged. The card is simulated.
fn as_in_the_manifest(program: &str, variables: &[(&str, &str)], more: &[&str]) -> anyhow::Result<Program> {
    let pod = pod_of(program)?;
    let (container, rights) = (&pod["containers"][0], &pod["securityContext"]);
    let [user, group] = ["runAsUser", "runAsGroup"].map(|key| rights[key].to_string());
    let mut arguments: Vec<String> = serde_json::from_value(container["args"].clone())?;
    for argument in &mut arguments {
        for (name, value) in variables {
            *argument = argument.replace(&format!("$({name})"), value);
        }
        ensure!(!argument.contains("$("), "nobody fills {argument} in");
    }
    let mut started = Program::new("setpriv").named(program);
    started = started.args(["--reuid", &user, "--regid", &group, "--clear-groups"]);
    if !is_privileged(program)? {
        ensure!(container["securityContext"]["capabilities"]["drop"] == json!(["ALL"]), "{container}");
        started =
            started.args(["--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]);
    }
    Ok(started.arg(format!("{PROGRAMS}/{program}")).args(arguments).args(more))
}

/// What an administrator puts on a card: settings with the node that it serves, and its credentials.
async fn equip_card(world: &BlueWorld) -> anyhow::Result<()> {
    let own = format!("{}\n[causeway]\nnode=node-a\n", settings()?);
    world.pair.card.write(format!("{HOST_CLUSTER}/ovn_k8s.conf"), own)?;
    let token = access::card_token(&world.rig, CARD, "node-a").await?;
    let kubeconfig = world.rig.kubeconfig_of(&token, causeway_rig::Side::Inside)?;
    let by_file = kubeconfig.replace(&format!("token: {token}"), "tokenFile: token");
    ensure!(!by_file.contains(&token), "a kubeconfig that names the token's file");
    world.pair.card.write(format!("{HOST_CLUSTER}/kubeconfig"), by_file)?;
    world.pair.card.write(format!("{HOST_CLUSTER}/token"), token)
}

async fn rights() -> anyhow::Result<()> {
    let world = Box::pin(BlueWorld::start()).await?;
    let settings = settings()?;
    for place in [&world.control, &world.pair.host, &world.node_b] {
        place.write("/etc/causeway/config/ovn_k8s.conf", &settings)?;
    }
    equip_card(&world).await?;
    // As an empty folder of a pod is.
    for place in [&world.pair.host, &world.pair.card, &world.node_b] {
        place.exec(["install", "-d", "-m", "0777", INTROSPECTION]).await?;
    }
    let manager = as_in_the_manifest("cluster-manager", &[("POD_NAME", "control")], &[])?;
    let host = as_in_the_manifest("host-agent", &[("K8S_NODE", "node-a")], &["--simulate-dpu"])?;
    let dpu = as_in_the_manifest("dpu-agent", &[], &["--simulate-dpu"])?;
    let node = as_in_the_manifest("node-agent", &[("K8S_NODE", "node-b")], &[])?;
    let running = [
        world.control.spawn(manager).await?,
        world.pair.host.spawn(host).await?,
        world.pair.card.spawn(dpu).await?,
        world.node_b.spawn(node).await?,
    ];
    world.rig.apply(UPLINK_YAML).await?;
    let client = world.client();
    let outcome = async {
        state_says(&client, STATE_A, "HostDataReady", "True/HostDataDiscovered").await?;
        state_says(&client, STATE_A, "Resolved", "True/Resolved").await?;
        state_says(&client, STATE_B, "Resolved", "True/Resolved").await?;
        uplink_says(&client, UPLINK, "True/Ready").await
    };
    outcome.await.with_context(|| world.rig.log_tails())?;
    for process in &running {
        has_its_rights_only(process)?;
    }
    for place in [&world.pair.host, &world.node_b] {
        let isolates = || async {
            let listed =
                place.exec(["nft", "list", "chain", "inet", "ovn-kubernetes", "udn-isolation"]).await;
            let listed = listed.map_err(|error| format!("{error:#}"))?;
            if listed.contains("@udn-pod-default-ips-v4 drop") { Ok(()) } else { Err(listed) }
        };
        world.rig.wait_for("pods to be isolated", DEADLINE, isolates).await?;
    }
    for place in [&world.pair.host, &world.pair.card, &world.node_b] {
        place.exec(["test", "-S", &format!("{INTROSPECTION}/introspect.sock")]).await?;
    }
    Ok(())
}

async fn renewed() -> anyhow::Result<()> {
    let mut world = Box::pin(BlueWorld::start()).await?;
    equip_card(&world).await?;
    let dpu = as_in_the_manifest("dpu-agent", &[], &["--simulate-dpu"])?;
    let dpu = world.pair.card.spawn(dpu).await?;
    world.agents.host = Some(world.spawn_host_agent().await?);
    world.rig.apply(UPLINK_YAML).await?;
    let client = world.client();
    state_says(&client, STATE_A, "Resolved", "True/Resolved").await.with_context(|| world.rig.log_tails())?;

    // Tokens of an account that was deleted are refused, as those that have ended.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), access::CARDS);
    accounts.delete(CARD, &DeleteParams::default()).await?;
    let refused = || async {
        let written = world.pair.card.exec(["cat", &format!("{HOST_CLUSTER}/token")]).await;
        let token = written.map_err(|error| format!("{error:#}"))?;
        let stale = access::client_of(&world.rig, &token).await.map_err(|error| format!("{error:#}"))?;
        match Api::<UplinkState>::all(stale).list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 401 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    world.rig.wait_for("the old token to be refused", DEADLINE, refused).await?;
    world.card_ovs.vsctl(["del-port", CARD_BRIDGE, CARD_WIRE]).await?;

    let token = access::enrol_card(&world.rig, CARD, "node-a").await?;
    world.pair.card.write(format!("{HOST_CLUSTER}/token.new"), token)?;
    let [new, file] = ["token.new", "token"].map(|name| format!("{HOST_CLUSTER}/{name}"));
    world.pair.card.exec(["mv", &new, &file]).await?;
    let says = |state: Option<&UplinkState>| {
        state.is_some_and(|state| verdict(state.conditions(), "Resolved") == "False/BridgeUplinkNotFound")
    };
    let seen = wait_object(Api::all(client), STATE_A, "what the card sees now", RENEWED, says).await;
    seen.with_context(|| world.rig.log_tails())?;
    ensure!(dpu.is_running(), "the agent of the card has ended");
    Ok(())
}

/// Whether a running program has its manifest's user and, if its container is not privileged, no capability and no way to
/// get one.
fn has_its_rights_only(process: &Process) -> anyhow::Result<()> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
    let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    if !is_privileged(process.name())? {
        for key in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            ensure!(line(key) == Some("0000000000000000"), "{} has {key} {:?}", process.name(), line(key));
        }
        ensure!(line("NoNewPrivs:") == Some("1"), "{} may get privileges", process.name());
    }
    let user = line("Uid:").and_then(|ids| ids.split_whitespace().next());
    let wanted = pod_of(process.name())?["securityContext"]["runAsUser"].to_string();
    ensure!(user == Some(wanted.as_str()), "{} runs as {user:?}", process.name());
    Ok(())
}
