//! An API server with a cluster manager that has its own account.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Node, PROGRAMS, Process, Program, Rig, RigOptions, Side};
use causeway_tests::access::{self, Account};
use causeway_tests::manifests;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::rest::{MERGE_PATCH, OBJECT, send};

/// How long a busy machine may take for what usually takes milliseconds.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// Where the cluster manager serves its metrics, inside its node.
const METRICS: &str = "127.0.0.1:9102";
const KUBECONFIG: &str = "/etc/causeway/manager";

/// The flags of the recorded run, but for those of features that play no part in it.
const FLAGS: [&str; 8] = [
    "--init-cluster-manager=cm0",
    "--gateway-mode=shared",
    "--ovn-config-namespace=ovn-kubernetes",
    "--cluster-subnets=10.128.0.0/14/24,fd00:10:128::/48/64",
    "--k8s-service-cidrs=10.96.0.0/16,fd00:10:96::/112",
    "--enable-multi-network",
    SEGMENTATION,
    "--metrics-bind-address=127.0.0.1:9102",
];
const SEGMENTATION: &str = "--enable-network-segmentation";

pub(crate) struct World {
    pub(crate) rig: Rig,
    pub(crate) admin: Client,
    node: Node,
    pub(crate) manager: Process,
}

impl World {
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(&FLAGS).await
    }

    /// One whose cluster manager needs no lease, so that one that was killed is followed at once.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start_without_election() -> anyhow::Result<Self> {
        let flags: Vec<&str> = FLAGS.into_iter().chain(["--leader-elect=false"]).collect();
        Self::start_with(&flags).await
    }

    /// One whose cluster manager does not look after networks.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start_without_networks() -> anyhow::Result<Self> {
        let flags: Vec<&str> = FLAGS.into_iter().filter(|flag| *flag != SEGMENTATION).collect();
        Self::start_with(&flags).await
    }

    async fn start_with(flags: &[&str]) -> anyhow::Result<Self> {
        let options = RigOptions {
            // Off by default; with it, blockOwnerDeletion needs a right on the owner.
            api_flags: vec!["--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned()],
            ..RigOptions::bare()
        };
        let rig = Rig::start(options).await?;
        rig.apply(&manifests::folder("crds")?).await?;
        access::install(&rig).await?;
        let token = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        access::wait_roles(&rig, &token).await?;
        let node = rig.node("control").unregistered().start().await?;
        node.write(KUBECONFIG, rig.kubeconfig_of(&token, Side::Inside)?)?;
        let program = Program::new(Path::new(PROGRAMS).join("cluster-manager"));
        let manager = node.spawn(program.args(flags).args(["--k8s-kubeconfig", KUBECONFIG])).await?;
        Ok(Self { admin: rig.client(), rig, node, manager })
    }

    /// Creates an object.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn create(&self, object: &Value) -> anyhow::Result<()> {
        create(&self.admin, object).await
    }

    /// Changes an object.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn merge(&self, path: &str, change: &Value) -> anyhow::Result<()> {
        let answer = send(&self.admin, Method::PATCH, path, MERGE_PATCH, Some(change)).await?;
        ensure!(answer.is_accepted(), "{path} {change}: {}", answer.message());
        Ok(())
    }

    /// Deletes an object at once.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let path = format!("{path}?gracePeriodSeconds=0");
        let answer = send(&self.admin, Method::DELETE, &path, OBJECT, None).await?;
        ensure!(answer.is_accepted(), "{path}: {}", answer.message());
        Ok(())
    }

    /// Waits until the log holds a text.
    ///
    /// # Errors
    /// It never does.
    pub(crate) async fn says(&self, text: &str) -> anyhow::Result<()> {
        let look = || async {
            match self.manager.log_text() {
                Ok(log) if log.contains(text) => Ok(()),
                Ok(log) => Err(log),
                Err(error) => Err(format!("{error:#}")),
            }
        };
        self.rig.wait_for(&format!("the log to say {text:?}"), DEADLINE, look).await
    }

    /// Waits until there were so many passes and nothing is left to look at.
    ///
    /// # Errors
    /// That never comes.
    pub(crate) async fn quiet(&self, passes: usize) -> anyhow::Result<()> {
        let look = || async {
            let done = self.counted("causeway_reconcile_passes_total").await;
            let depth = self.counted("causeway_reconcile_queue_depth").await;
            match (done, depth) {
                (Ok(done), Ok(0)) if done >= passes => Ok(()),
                seen => Err(format!("passes and depth {seen:?}")),
            }
        };
        self.rig.wait_for("the cluster manager to be quiet", DEADLINE, look).await
    }

    /// Sum over a metric's labels; 0 if there is none yet. Of passes and queues, the room's that mirrors.
    ///
    /// # Errors
    /// No metrics are served.
    pub(crate) async fn counted(&self, metric: &str) -> anyhow::Result<usize> {
        let text = self.node.exec(["curl", "-sf", &format!("http://{METRICS}/metrics")]).await?;
        let mut sum = 0;
        let of_metric = text.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
        for line in
            of_metric.filter(|line| !line.contains("room=") || line.contains("room=\"endpointslice\""))
        {
            let value = line.rsplit_once(' ').map(|(_, value)| value).context("a value")?;
            sum += value.parse::<usize>().with_context(|| line.to_owned())?;
        }
        Ok(sum)
    }
}

/// Creates an object, and the status that it comes with.
///
/// # Errors
/// It is refused.
pub(crate) async fn create(admin: &Client, object: &Value) -> anyhow::Result<()> {
    let word = |path: &str| object.pointer(path).and_then(Value::as_str);
    let (kind, api) = (word("/kind").context("a kind")?, word("/apiVersion").context("a version")?);
    let root = if api == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api}") };
    let plural = match kind {
        "NetworkAttachmentDefinition" => "network-attachment-definitions".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let namespace =
        word("/metadata/namespace").map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let collection = format!("{root}{namespace}/{plural}");
    let answer = send(admin, Method::POST, &collection, OBJECT, Some(object)).await?;
    ensure!(answer.code == 201, "{object} is refused: {}", answer.message());
    if let Some(status) = object.get("status") {
        let path = format!("{collection}/{}/status", word("/metadata/name").context("a name")?);
        let body = json!({ "status": status });
        let answer = send(admin, Method::PATCH, &path, MERGE_PATCH, Some(&body)).await?;
        ensure!(answer.is_accepted(), "{path}: {}", answer.message());
    }
    Ok(())
}
