//! An API server with everything installed, and a place where a cluster manager runs with the account that it has in
//! production: no more rights, and no fewer.
//!
//! In: options of the rig, flags of the cluster manager. Out: [`Control`], what people do there and see. Never decides what
//! is right: that is the business of tests.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{KUBECONFIG, Node, Process, Program, Rig, RigOptions, Side};
use http::Method;
use kube::Client;
use serde_json::Value;

use crate::access::{self, Account};
use crate::manifests;
use crate::rest::{MERGE_PATCH, OBJECT, send};

/// How long a busy machine may take for what usually takes milliseconds.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// Where a cluster manager that was told so serves its metrics, inside its node.
const METRICS: &str = "127.0.0.1:9102";

/// The flag that tells it so.
pub const SERVE_METRICS: &str = "--metrics-bind-address=127.0.0.1:9102";

/// One API server and what runs beside it.
pub struct Control {
    /// The rig.
    pub rig: Rig,
    /// Whoever may do everything.
    pub admin: Client,
    node: Node,
}

/// A rig of an API server that is stricter than by default: `blockOwnerDeletion` needs a right on the owner.
#[must_use]
pub fn strict() -> RigOptions {
    RigOptions {
        api_flags: vec!["--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned()],
        ..RigOptions::bare()
    }
}

impl Control {
    /// One with all definitions, roles and policies, on which no cluster manager runs yet.
    ///
    /// # Errors
    /// It cannot be made.
    pub async fn start(options: RigOptions) -> anyhow::Result<Self> {
        let rig = Rig::start(options).await?;
        rig.apply(&manifests::folder("crds")?).await?;
        access::install(&rig).await?;
        let token = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        access::wait_roles(&rig, &token).await?;
        let node = rig.node("control").unregistered().start().await?;
        node.write(KUBECONFIG, rig.kubeconfig_of(&token, Side::Inside)?)?;
        Ok(Self { admin: rig.client(), rig, node })
    }

    /// Starts a cluster manager; its log has this name.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn manager(&self, name: &str, flags: &[&str]) -> anyhow::Result<Process> {
        let program = Program::built("cluster-manager").named(name).args(flags);
        self.node.spawn(program.args(["--k8s-kubeconfig", KUBECONFIG])).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// It is refused.
    pub async fn create(&self, object: &Value) -> anyhow::Result<()> {
        create(&self.admin, object).await
    }

    /// Creates an object in a collection, as it is.
    ///
    /// # Errors
    /// It is refused.
    pub async fn create_in(&self, collection: &str, object: &Value) -> anyhow::Result<()> {
        let answer = send(&self.admin, Method::POST, collection, OBJECT, Some(object)).await?;
        ensure!(
            answer.is_accepted(),
            "{collection}: {} {:?} for {object}",
            answer.message(),
            answer.warnings
        );
        Ok(())
    }

    /// Creates some.
    ///
    /// # Errors
    /// One is refused.
    pub async fn create_all(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            self.create(object).await?;
        }
        Ok(())
    }

    /// Changes an object.
    ///
    /// # Errors
    /// It is refused.
    pub async fn merge(&self, path: &str, change: &Value) -> anyhow::Result<()> {
        let answer = send(&self.admin, Method::PATCH, path, MERGE_PATCH, Some(change)).await?;
        ensure!(answer.is_accepted(), "{path} {change}: {}", answer.message());
        Ok(())
    }

    /// Deletes an object at once.
    ///
    /// # Errors
    /// It is refused.
    pub async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let path = format!("{path}?gracePeriodSeconds=0");
        let answer = send(&self.admin, Method::DELETE, &path, OBJECT, None).await?;
        ensure!(answer.is_accepted(), "{path}: {}", answer.message());
        Ok(())
    }

    /// An object; none where there is none.
    ///
    /// # Errors
    /// The API server does not say.
    pub async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let answer = send(&self.admin, Method::GET, path, OBJECT, None).await?;
        match answer.code {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            _ => anyhow::bail!("{path}: {}", answer.message()),
        }
    }

    /// All objects of a collection.
    ///
    /// # Errors
    /// The API server does not say.
    pub async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let answer = send(&self.admin, Method::GET, path, OBJECT, None).await?;
        ensure!(answer.is_accepted(), "{path}: {}", answer.message());
        let items = answer.body.pointer("/items").and_then(Value::as_array).context("items")?;
        Ok(items.clone())
    }

    /// Lines of the cluster manager's metrics that begin like this, with their values.
    ///
    /// # Errors
    /// None are served.
    pub async fn lines(&self, beginning: &str) -> anyhow::Result<Vec<(String, usize)>> {
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

    /// Sum over the same.
    ///
    /// # Errors
    /// None are served.
    pub async fn sum(&self, beginning: &str) -> anyhow::Result<usize> {
        Ok(self.lines(beginning).await?.iter().map(|(_, value)| value).sum())
    }

    /// Waits for something, and shows the logs if it never comes.
    ///
    /// # Errors
    /// It never comes.
    pub async fn until<T, E: Display, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        look: impl FnMut() -> F,
    ) -> anyhow::Result<T> {
        let reached = self.rig.wait_for(what, DEADLINE, look).await;
        reached.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.rig.log_tails()))
    }
}

/// Creates an object, and the status that it comes with.
///
/// # Errors
/// It is refused.
pub async fn create(client: &Client, object: &Value) -> anyhow::Result<()> {
    let collection = collection_of(object)?;
    let answer = send(client, Method::POST, &collection, OBJECT, Some(object)).await?;
    ensure!(answer.code == 201, "{object} is refused: {} {:?}", answer.message(), answer.warnings);
    // Where the status has a resource of its own, it was not taken over.
    if let Some(status) = object.get("status")
        && answer.body.get("status") != Some(status)
    {
        let path = format!("{}/status", path_of(object)?);
        let body = serde_json::json!({ "status": status });
        let answer = send(client, Method::PATCH, &path, MERGE_PATCH, Some(&body)).await?;
        ensure!(answer.is_accepted(), "{path}: {}", answer.message());
    }
    Ok(())
}

/// Path of the collection that an object belongs to.
///
/// # Errors
/// It is no object.
pub fn collection_of(object: &Value) -> anyhow::Result<String> {
    let word = |place: &str| object.pointer(place).and_then(Value::as_str);
    let (kind, api) = (word("/kind").context("a kind")?, word("/apiVersion").context("a version")?);
    let root = if api == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api}") };
    let plural = match kind {
        "NetworkAttachmentDefinition" => "network-attachment-definitions".to_owned(),
        "RouteAdvertisements" => "routeadvertisements".to_owned(),
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let namespace = word("/metadata/namespace").map(|namespace| format!("/namespaces/{namespace}"));
    Ok(format!("{root}{}/{plural}", namespace.unwrap_or_default()))
}

/// Path of an object.
///
/// # Errors
/// It is no object.
pub fn path_of(object: &Value) -> anyhow::Result<String> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).context("a name")?;
    Ok(format!("{}/{name}", collection_of(object)?))
}
