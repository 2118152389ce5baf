//! The cluster manager as a process on a real API server: what upstream's was recorded to say, restarts, and ways to
//! start and end.

#[path = "api_cluster_manager/recorded.rs"]
mod recorded;
#[path = "api_cluster_manager/seen.rs"]
mod seen;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{
    KUBECONFIG, Level, Mark, Node, PROGRAMS, Process, Program, Rig, RigOptions, SharedRig, Suite,
};
use causeway_tests::{manifests, states};
use http::Method;
use kube::Client;
use serde_json::Value;

use self::recorded::{check_differences, steps};
use self::seen::Seen;
use causeway_tests::rest::{OBJECT, send};

/// How long a busy machine may take for what usually takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long a process may take to end when it is told to.
const ORDERLY: Duration = Duration::from_secs(2);
/// Where the cluster manager serves its metrics, inside its node.
const METRICS: &str = "127.0.0.1:9102";
/// The flags of the recorded run, but for those of features that this version lacks.
const UPLINKS: [&str; 10] = [
    "--init-cluster-manager=cm0",
    "--gateway-mode=shared",
    "--ovn-config-namespace=ovn-kubernetes",
    "--host-network-namespace=ovn-host-network",
    "--cluster-subnets=10.128.0.0/14/24",
    "--k8s-service-cidrs=10.96.0.0/16",
    "--enable-multi-network",
    "--enable-network-segmentation",
    "--enable-uplink",
    "--metrics-bind-address=127.0.0.1:9102",
];

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test(Level::Api, "the_recorded_run_comes_out_step_by_step_and_a_restart_writes_nothing", replay)
        .test(Level::Api, "an_api_server_that_is_away_is_waited_for_at_the_start_and_later", away)
        .test_in(&rig, Level::Api, "an_unusable_kubeconfig_ends_the_start_with_its_name", kubeconfig)
        .test_in(&rig, Level::Api, "an_unknown_flag_is_a_wrong_command_line", unknown_flag)
        .test_in(&rig, Level::Api, "without_the_feature_nothing_is_written_and_the_log_says_so", switched_off)
        .run()
}

/// Starts the cluster manager in `node`, with a log of its own.
async fn start(node: &Node, kubeconfig: &str, flags: &[&str]) -> anyhow::Result<Process> {
    let program = Program::new(Path::new(PROGRAMS).join("cluster-manager"));
    node.spawn(program.args(flags).args(["--k8s-kubeconfig", kubeconfig])).await
}

async fn place(rig: &Rig, name: &str) -> anyhow::Result<Node> {
    rig.apply(manifests::NAMESPACE).await?;
    rig.node(name).unregistered().start().await
}

async fn replay() -> anyhow::Result<()> {
    let steps = steps()?;
    check_differences(&steps)?;
    let rig = Rig::start(RigOptions::bare()).await?;
    rig.apply(&manifests::folder("crds")?).await?;
    let (client, node) = (rig.client(), place(&rig, "control").await?);
    let manager = start(&node, KUBECONFIG, &UPLINKS).await?;
    let mut seen = Seen::follow(&client);
    let mut there = seen::Outcome::new();
    for step in steps {
        let what = || format!("step {} ({})", step.number, step.title);
        for request in &step.requests {
            request.send(&client, &there).await.with_context(what)?;
        }
        let reached = seen.becomes(&step.ours).await.with_context(what);
        reached.map_err(|error| anyhow::anyhow!("{error:#}\n{}", rig.log_tails()))?;
        there = step.ours;
    }

    let number = |versions: &BTreeMap<String, String>, kind: &str| {
        versions.keys().filter(|object| object.starts_with(kind)).count()
    };
    let objects = versions(&client).await?;
    let (uplinks, nodes) = (number(&objects, "Uplink/"), number(&objects, "Node/"));
    // What it has not done yet it would do after the restart.
    quiet(&rig, &node, uplinks, nodes).await?;
    let versions_before = versions(&client).await?;
    ensure!(versions_before.len() > 10, "too little is there: {versions_before:?}");
    let exit = manager.stop(ORDERLY).await?;
    ensure!(exit.code() == Some(0), "told to end, it ended with {exit}");
    manager.restart().await?;
    quiet(&rig, &node, uplinks, nodes).await?;
    let versions_after = versions(&client).await?;
    ensure!(versions_after == versions_before, "{versions_before:?}\nbecame\n{versions_after:?}");
    let writes = counted(&node, "causeway_api_writes_total", "").await?;
    ensure!(writes == 0, "{writes} writes");

    // It is at work, and writes are counted.
    rig.apply(&uplink("late", "nobody: \"yes\"")).await?;
    states::uplink_says(&client, "late", "False/NoMatchingNodes").await?;
    quiet(&rig, &node, uplinks + 1, nodes).await?;
    let writes = counted(&node, "causeway_api_writes_total", "").await?;
    ensure!(writes == 1, "{writes} writes for one new Uplink");
    Ok(())
}

async fn away() -> anyhow::Result<()> {
    let rig = Rig::start(RigOptions::bare()).await?;
    rig.apply(&manifests::folder("crds")?).await?;
    let machine = "{apiVersion: v1, kind: Node, metadata: {name: away-node, labels: {way-out: \"yes\"}}}";
    rig.apply(machine).await?;
    rig.apply(&uplink("away", "way-out: \"yes\"")).await?;
    let (client, node) = (rig.client(), place(&rig, "control").await?);

    rig.stop_api().await?;
    let manager = start(&node, KUBECONFIG, &UPLINKS).await?;
    manager.says(Mark::START, "Watch interrupted", DEADLINE).await?;
    let unready = node.output(["curl", "-s", &format!("http://{METRICS}/readyz")]).await?;
    let unready = String::from_utf8_lossy(&unready.stdout).into_owned();
    ensure!(unready.contains("uplink"), "ready without an API server: {unready}");
    rig.start_api().await?;
    states::uplink_says(&client, "away", "False/MissingUplinkState").await?;

    let pid = manager.pid();
    rig.stop_api().await?;
    rig.start_api().await?;
    rig.apply(
        "
apiVersion: k8s.ovn.org/v1alpha1
kind: UplinkState
metadata: {name: away.away-node}
spec: {uplinkName: away, nodeName: away-node}
status:
  type: OVSBridge
  hostInterfaceName: br
  conditions:
  - {type: Resolved, status: \"True\", reason: Resolved, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}
",
    )
    .await?;
    states::uplink_says(&client, "away", "True/Ready").await?;
    ensure!(manager.is_running() && manager.pid() == pid, "it did not outlive the API server");

    rig.stop_api().await?;
    let exit = manager.stop(ORDERLY).await?;
    ensure!(exit.code() == Some(0), "told to end without an API server, it ended with {exit}");
    Ok(())
}

async fn kubeconfig(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = place(&rig, "no-config").await?;
    node.write("/etc/causeway/garbage", "clusters: [")?;
    for path in ["/etc/causeway/absent", "/etc/causeway/garbage"] {
        let manager = start(&node, path, &UPLINKS).await?;
        let exit = manager.wait_exit(DEADLINE).await?;
        let log = manager.log_text()?;
        let named = log.lines().any(|line| line.contains("cannot use the kubeconfig") && line.contains(path));
        ensure!(exit.code() == Some(1) && named, "it ended with {exit} and said:\n{log}");
    }
    Ok(())
}

async fn unknown_flag(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = place(&rig, "no-flag").await?;
    let manager = start(&node, KUBECONFIG, &["--init-cluster-manager=cm0", "--enable-uplnk"]).await?;
    let exit = manager.wait_exit(DEADLINE).await?;
    let log = manager.log_text()?;
    ensure!(
        exit.code() == Some(2) && log.contains("--enable-uplnk"),
        "it ended with {exit} and said:\n{log}"
    );
    Ok(())
}

async fn switched_off(rig: Arc<Rig>) -> anyhow::Result<()> {
    rig.apply(&manifests::folder("crds")?).await?;
    rig.apply(&uplink("off", "way-out: \"yes\"")).await?;
    let (client, node) = (rig.client(), place(&rig, "off").await?);
    let before = versions(&client).await?;
    let flags: Vec<&str> = UPLINKS.into_iter().filter(|flag| *flag != "--enable-uplink").collect();
    let manager = start(&node, KUBECONFIG, &flags).await?;
    manager.says(Mark::START, "Uplinks are switched off", DEADLINE).await?;
    let exit = manager.stop(ORDERLY).await?;
    ensure!(exit.code() == Some(0), "told to end, it ended with {exit}");
    ensure!(versions(&client).await? == before, "something was written");
    Ok(())
}

/// An Uplink of one nodeConfig.
fn uplink(name: &str, labels: &str) -> String {
    manifests::uplink(name, &[(&format!("{{matchLabels: {{{labels}}}}}"), "br")])
}

/// Resource versions of all that the cluster manager sees, by `Kind/name`.
async fn versions(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let group = "/apis/k8s.ovn.org/v1alpha1";
    let collections = [
        ("Node", "/api/v1/nodes".to_owned()),
        ("Uplink", format!("{group}/uplinks")),
        ("UplinkState", format!("{group}/uplinkstates")),
    ];
    let mut versions = BTreeMap::new();
    for (kind, path) in collections {
        let answer = send(client, Method::GET, &path, OBJECT, None).await?;
        let items = answer.body.pointer("/items").and_then(Value::as_array).context("items")?;
        for item in items {
            let word = |path: &str| item.pointer(path).and_then(Value::as_str).context(path.to_owned());
            let name = format!("{kind}/{}", word("/metadata/name")?);
            versions.insert(name, word("/metadata/resourceVersion")?.to_owned());
        }
    }
    Ok(versions)
}

/// Waits until each of so many Uplinks and Nodes was looked at and nothing is left to look at.
async fn quiet(rig: &Rig, node: &Node, uplinks: usize, nodes: usize) -> anyhow::Result<()> {
    let look = || async {
        let passes = "causeway_reconcile_passes_total";
        let seen = (
            counted(node, passes, "room=\"uplink\"").await,
            counted(node, passes, "room=\"node\"").await,
            // Asked for last: what those have led to is among it.
            counted(node, "causeway_reconcile_unfinished", "").await,
        );
        match seen {
            (Ok(looks), Ok(looks_at_nodes), Ok(0)) if looks >= uplinks && looks_at_nodes >= nodes => Ok(()),
            seen => Err(format!("looks at Uplinks and Nodes, and what is left: {seen:?}")),
        }
    };
    rig.wait_for("the cluster manager to be quiet", DEADLINE, look).await
}

/// Sum of a metric over those of its labels that hold a text; 0 if there is none yet.
async fn counted(node: &Node, metric: &str, label: &str) -> anyhow::Result<usize> {
    let text = node.exec(["curl", "-sf", &format!("http://{METRICS}/metrics")]).await?;
    let mut sum = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').context("a value")?;
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        if name == metric && labels.contains(label) {
            sum += value.parse::<usize>().with_context(|| line.to_owned())?;
        }
    }
    Ok(sum)
}
