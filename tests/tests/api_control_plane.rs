//! The control plane of a rig: answers, stands beside others, breaks on request, leaves nothing.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Rig, RigOptions, Settings, SharedRig, Side, Suite, sweep, wait_for};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::ListParams;

/// Makes this program hold a rig until it is killed, for the test that kills it.
const HOLD: &str = "--hold-a-rig";

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(HOLD) {
        return hold();
    }
    let shared = SharedRig::new(RigOptions::default());
    Suite::new()
        .test_in(&shared, Level::Api, "a_client_and_kubectl_see_the_same_api_server", answers)
        .test_in(
            &shared,
            Level::Api,
            "a_definition_that_was_applied_is_served_to_the_next_document",
            definition,
        )
        .test_in(&shared, Level::Api, "a_service_account_has_only_the_rights_it_was_given", account)
        .test(Level::Api, "two_rigs_side_by_side_do_not_see_each_other", side_by_side)
        .test(Level::Api, "objects_survive_an_api_server_that_was_killed", restart)
        .test(Level::Api, "nothing_is_left_of_a_rig_that_was_dropped", dropped)
        .test(Level::Api, "nothing_is_left_of_a_rig_whose_owner_was_killed", killed)
        .run()
}

async fn answers(rig: Arc<Rig>) -> anyhow::Result<()> {
    let namespaces = Api::<Namespace>::all(rig.client()).list(&ListParams::default()).await?;
    let listed = namespaces.items.iter().any(|one| one.metadata.name.as_deref() == Some("kube-system"));
    ensure!(listed, "the client sees {namespaces:?}");
    let printed = rig.kubectl(["get", "namespaces", "-o", "name"]).await?;
    ensure!(printed.contains("namespace/kube-system"), "kubectl printed: {printed}");
    Ok(())
}

async fn definition(rig: Arc<Rig>) -> anyhow::Result<()> {
    let yaml = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bridges.rig.example.com}
spec:
  group: rig.example.com
  scope: Cluster
  names: {kind: Bridge, plural: bridges, singular: bridge}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {lanes: {type: integer}}}}
---
apiVersion: rig.example.com/v1
kind: Bridge
metadata: {name: long}
spec: {lanes: 4}
";
    let stored = rig.apply(yaml).await?;
    let lanes = stored.last().and_then(|bridge| bridge.data.pointer("/spec/lanes")?.as_i64());
    ensure!(lanes == Some(4), "stored: {stored:?}");
    let refused = rig.apply(&yaml.replace("lanes: 4", "lanes: many")).await;
    let text = refused.err().map(|error| format!("{error:#}")).context("a wrong type was accepted")?;
    ensure!(text.contains("Bridge long") && text.contains("lanes"), "refusal: {text}");
    rig.delete(yaml).await
}

async fn account(rig: Arc<Rig>) -> anyhow::Result<()> {
    rig.apply(
        "{apiVersion: v1, kind: Namespace, metadata: {name: accounts}}\n---\n\
         {apiVersion: v1, kind: ServiceAccount, metadata: {name: reader, namespace: accounts}}\n",
    )
    .await?;
    let token = rig.service_account_token("accounts", "reader").await?;
    let folder = rig.folder().join("reader.kubeconfig");
    std::fs::write(&folder, rig.kubeconfig_of(&token, Side::Outside)?)?;
    let config = folder.to_string_lossy().into_owned();
    let kubectl = Settings::from_env()?.kube().join("kubectl");
    let output = Command::new(kubectl).args(["--kubeconfig", &config, "get", "nodes"]).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let who = "system:serviceaccount:accounts:reader";
    ensure!(!output.status.success() && text.contains(who) && text.contains("forbidden"), "answer: {text}");
    Ok(())
}

async fn side_by_side() -> anyhow::Result<()> {
    let (left, right) = futures::try_join!(Rig::start(RigOptions::bare()), Rig::start(RigOptions::bare()))?;
    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: only-left, namespace: default}}";
    left.apply(yaml).await?;
    let seen = |rig: &Rig| {
        let maps: Api<ConfigMap> = Api::default_namespaced(rig.client());
        async move { maps.get_opt("only-left").await.map(|map| map.is_some()) }
    };
    ensure!(seen(&left).await? && !seen(&right).await?, "one rig answers for the other");
    let (left_v4, right_v4) =
        (left.node("twin").unregistered().start(), right.node("twin").unregistered().start());
    let (left_node, right_node) = futures::try_join!(left_v4, right_v4)?;
    ensure!(left_node.v4() == right_node.v4(), "rigs are expected to use the same addresses");
    Ok(())
}

async fn restart() -> anyhow::Result<()> {
    let rig = Rig::start(RigOptions::bare()).await?;
    rig.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: default}}").await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(rig.client());
    rig.stop_api().await?;
    ensure!(maps.get_opt("kept").await.is_err(), "an API server that was killed answers");
    rig.start_api().await?;
    ensure!(maps.get_opt("kept").await?.is_some(), "the object is gone");
    rig.pause_api().await?;
    let answer = tokio::time::timeout(Duration::from_millis(300), maps.get_opt("kept")).await;
    ensure!(answer.is_err(), "a paused API server answers: {answer:?}");
    rig.resume_api()?;
    ensure!(maps.get_opt("kept").await?.is_some(), "the object is gone after the pause");
    Ok(())
}

async fn dropped() -> anyhow::Result<()> {
    let rig = Rig::start(RigOptions::bare()).await?;
    let node = rig.node("short").start().await?;
    let (folder, server, init) = (rig.folder().to_owned(), rig.api_server().pid(), node.init());
    ensure!(is_alive(server) && is_alive(init) && folder.exists());
    // The rig first: nodes do not keep it alive.
    drop(rig);
    ensure!(!is_alive(server) && !is_alive(init), "processes outlive their rig");
    ensure!(!folder.exists(), "{} is left", folder.display());
    drop(node);
    Ok(())
}

async fn killed() -> anyhow::Result<()> {
    // A base of its own, so that no other start sweeps here before this test looks.
    let settings = Settings::from_env()?;
    let parent = settings.base.parent().context("the folder of the folder of rigs")?;
    let base = tempfile::Builder::new().prefix("causeway-rig-killed-").tempdir_in(parent)?;
    let mut owner = Command::new(std::env::current_exe()?)
        .arg(HOLD)
        .env("CAUSEWAY_RIG_DIR", base.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = owner.stdout.take().context("the owner's output")?;
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).map(|_| line)
    })
    .await??;
    let words: Vec<&str> = line.split_whitespace().collect();
    let [id, pids @ ..] = words.as_slice() else { anyhow::bail!("the owner said: {line}") };
    let pids: Vec<u32> = pids.iter().map(|pid| pid.parse()).collect::<Result<_, _>>()?;
    ensure!(pids.len() == 3 && pids.iter().all(|pid| is_alive(*pid)), "processes of the rig: {pids:?}");
    owner.kill()?;
    owner.wait()?;
    wait_for("the rig's processes to end", Duration::from_secs(5), || async {
        let left: Vec<&u32> = pids.iter().filter(|pid| is_alive(**pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} live")) }
    })
    .await?;
    let removed = sweep(base.path())?;
    ensure!(removed == [*id], "swept: {removed:?}, wanted {id}");
    ensure!(!base.path().join(id).exists(), "the folder is left");
    for tree in ["/sys/fs/cgroup/causeway-rig", "/sys/fs/cgroup/unified/causeway-rig"] {
        ensure!(!Path::new(tree).join(id).exists(), "a cgroup is left in {tree}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    ensure!(!mounts.contains(id), "mounts are left:\n{mounts}");
    Ok(())
}

/// Starts a rig with a node, prints its name and the process ids of three of its parts, and waits to be killed.
fn hold() -> ExitCode {
    let held = || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let rig = Rig::start(RigOptions::bare()).await?;
            let node = rig.node("held").start().await?;
            println!("{} {} {} {}", rig.id(), rig.api_server().pid(), rig.etcd().pid(), node.init());
            std::future::pending().await
        })
    };
    match held() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether a process exists and is not a zombie that waits for its parent.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}
