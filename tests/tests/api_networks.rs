//! Tenant networks on a real API server: what upstream's cluster manager was recorded to write, restarts, and what is done
//! better than there.

#[path = "api_networks/switches.rs"]
mod switches;
#[path = "api_networks/transports.rs"]
mod transports;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{KUBECONFIG, Level, Node, Process, Program, Rig, RigOptions, Side, Suite};
use causeway_tests::access::{self, Account};
use causeway_tests::manifests;
use causeway_tests::replay::Run;
use serde_json::Value;

/// How long a busy machine may take for what usually takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a process may take to end when it is told to.
const ORDERLY: Duration = Duration::from_secs(10);
/// Where the cluster manager serves its metrics, inside its node.
const METRICS: &str = "127.0.0.1:9102";
/// Namespaces of the recorded cluster.
const NAMESPACES: [&str; 2] = ["ovn-host-network", "frr-k8s-system"];

fn main() -> ExitCode {
    Suite::new()
        .test(Level::Api, "udns_come_out_as_recorded_and_a_restart_writes_nothing", || recorded("02-udn"))
        .test(Level::Api, "cudns_come_out_as_recorded_and_a_restart_writes_nothing", || recorded("03-cudn"))
        .test(Level::Api, "nodes_that_come_and_go_get_what_was_recorded", || recorded("04-nodes"))
        .test(Level::Api, "nodes_of_an_ipv6_cluster_get_what_was_recorded", || recorded("04c-nodes-v6"))
        .test(Level::Api, "networks_on_uplinks_come_out_as_recorded", || recorded("05-uplink"))
        .test(Level::Api, "networks_on_uplinks_are_ignored_as_recorded_where_uplinks_are_off", || {
            recorded("05b-uplink-disabled")
        })
        .test(Level::Api, "networks_of_mirrored_services_come_out_as_recorded", || {
            recorded("06-endpointslice-mirror")
        })
        .test(Level::Api, "networks_follow_pods_as_recorded", || recorded("08-dynamic-udn"))
        .test(
            Level::Api,
            "transports_follow_the_route_advertisements_that_name_the_network",
            transports::advertisements,
        )
        .test(Level::Api, "transports_by_evpn_follow_the_vtep_that_the_network_names", transports::vteps)
        .test(
            Level::Api,
            "uplinks_that_are_switched_off_leave_nothing_that_keeps_anybody",
            switches::uplinks_off,
        )
        .test(
            Level::Api,
            "nodes_of_another_network_stack_get_no_subnets_and_passes_are_measured",
            switches::nodes,
        )
        .run()
}

/// A cluster manager with its own account.
struct Manager {
    node: Node,
    process: Process,
}

impl Manager {
    async fn start(rig: &Rig, flags: &[String]) -> anyhow::Result<Self> {
        Self::start_on(rig, "control", flags).await
    }

    /// On a machine of this name.
    async fn start_on(rig: &Rig, name: &str, flags: &[String]) -> anyhow::Result<Self> {
        let token = access::token(rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        access::wait_roles(rig, &token).await?;
        let node = rig.node(name).unregistered().start().await?;
        node.write(KUBECONFIG, rig.kubeconfig_of(&token, Side::Inside)?)?;
        let program = Program::built("cluster-manager").args(flags).args([
            "--allow-unimplemented",
            "--k8s-kubeconfig",
            KUBECONFIG,
            "--metrics-bind-address",
            METRICS,
        ]);
        let process = node.spawn(program).await?;
        Ok(Self { node, process })
    }

    /// Lines of metrics that begin like this, with their values.
    async fn lines(&self, beginning: &str) -> anyhow::Result<Vec<(String, usize)>> {
        let address = format!("http://{METRICS}/metrics");
        let text = self.node.exec(["curl", "-sf", "--max-time", "5", &address]).await?;
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').with_context(|| format!("metric line {line:?}"))?;
                Ok((name.to_owned(), value.parse().with_context(|| format!("metric line {line:?}"))?))
            })
            .collect()
    }

    /// Waits until a series has a value that is wanted: what the API server shows the process may not have counted yet.
    async fn serves(
        &self,
        rig: &Rig,
        series: &str,
        wanted: impl Fn(usize) -> bool + Send + Sync,
    ) -> anyhow::Result<()> {
        let look = || async {
            let lines = self.lines(series).await.map_err(|error| format!("{error:#}"))?;
            if lines.iter().any(|(_, value)| wanted(*value)) { Ok(()) } else { Err(format!("{lines:?}")) }
        };
        rig.wait_for(series, DEADLINE, look).await
    }

    /// Waits until everything was looked at that is there, and nothing is left to look at.
    async fn rests(&self, rig: &Rig) -> anyhow::Result<()> {
        let counts = [
            ("network", count(rig, &["udn,cudn", "-A"]).await?),
            ("nad", count(rig, &["net-attach-def", "-A"]).await?),
            ("node", count(rig, &["nodes"]).await?),
        ];
        let looked = || async {
            for (room, keys) in counts {
                let passes = self.lines(&format!("causeway_reconcile_passes_total{{room=\"{room}\"")).await;
                let passes: usize =
                    passes.map_err(|error| format!("{error:#}"))?.iter().map(|(_, count)| count).sum();
                if passes < keys {
                    return Err(format!("{passes} passes over {keys} keys of {room}"));
                }
            }
            let due = self.lines("causeway_reconcile_unfinished").await;
            match due.map_err(|error| format!("{error:#}"))?.as_slice() {
                [(_, 0)] => Ok(()),
                due => Err(format!("{due:?}")),
            }
        };
        rig.wait_for("everything to be looked at", DEADLINE, looked).await
    }

    async fn restart(&self) -> anyhow::Result<()> {
        self.process.stop(ORDERLY).await?;
        self.process.restart().await?;
        Ok(())
    }
}

/// How many objects kubectl lists.
async fn count(rig: &Rig, what: &[&str]) -> anyhow::Result<usize> {
    let list = rig.kubectl([&["get"], what, &["-o", "name"]].concat()).await?;
    Ok(list.lines().count())
}

/// Whether a network has all conditions that every network gets.
fn is_told(network: &Value, uplinks: bool) -> bool {
    let has = |type_: &str| {
        let conditions = network.pointer("/status/conditions").and_then(Value::as_array);
        conditions.is_some_and(|all| {
            all.iter().any(|condition| condition.get("type").is_some_and(|found| found == type_))
        })
    };
    let cluster = network.get("kind").is_some_and(|kind| kind == "ClusterUserDefinedNetwork");
    has("NetworkCreated") && (!uplinks || !cluster || has("UplinksReady"))
}

async fn recorded(name: &'static str) -> anyhow::Result<()> {
    let run = Run::read(name)?;
    let rig = Rig::start(RigOptions::bare()).await?;
    rig.apply(&manifests::folder("crds")?).await?;
    access::install(&rig).await?;
    // The recorded cluster had no such policy, and its labels changed.
    access::thaw_namespaces(&rig).await?;
    // Nor this namespace; one that is being deleted takes part in nothing.
    rig.kubectl(["delete", "namespace", "causeway-dpus", "--wait=false"]).await?;
    for namespace in NAMESPACES {
        rig.kubectl(["create", "namespace", namespace]).await?;
    }
    let manager = Manager::start(&rig, &run.flags).await?;
    let mut replay = run.replay(rig.client());
    for step in &run.steps {
        if step.is_restart() {
            manager.restart().await?;
        }
        let reached = replay.step(step).await;
        reached.map_err(|error| anyhow::anyhow!("{error:#}\n{}", rig.log_tails()))?;
    }
    println!("{name}: {} steps, {} differences meant so", run.steps.len(), replay.meant());

    let uplinks = run.flags.iter().any(|flag| flag == "--enable-uplink");
    let told = || async {
        let list = rig
            .kubectl(["get", "udn,cudn", "-A", "-o", "json"])
            .await
            .map_err(|error| format!("{error:#}"))?;
        let list: Value = serde_json::from_str(&list).map_err(|error| error.to_string())?;
        let networks = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let untold: Vec<&Value> = networks.iter().filter(|network| !is_told(network, uplinks)).collect();
        if untold.is_empty() { Ok(()) } else { Err(format!("{untold:?}")) }
    };
    rig.wait_for("every network to have its conditions", DEADLINE, told).await?;
    // What it has not done yet it would do after the restart: Nodes come after the first word about a network.
    manager.rests(&rig).await?;
    manager.restart().await?;
    manager.rests(&rig).await?;
    let writes = manager.lines("causeway_api_writes_total").await?;
    ensure!(writes.is_empty(), "it wrote after a restart: {writes:?}\n{}", rig.log_tails());
    replay.finish().await
}
