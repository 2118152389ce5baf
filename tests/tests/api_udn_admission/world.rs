//! Who logs in, and requests with the verdict and the words that they must get. All requests that are judged are dry
//! runs, which pass authorization and admission like others.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use causeway_rig::Rig;
use causeway_tests::access::{self, Account};
use http::{HeaderName, HeaderValue, Method};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use causeway_tests::rest::{MERGE_PATCH, OBJECT, send};

/// How long the API server may take to heed roles and policies.
const HEEDED: Duration = Duration::from_mins(1);
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/tenant/pods";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";

/// More than the roles of this version give to anybody: what the policies refuse has to be theirs to refuse.
const RIGHTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything-of-nodes-and-pods}
rules: [{apiGroups: [""], resources: [nodes, nodes/status, pods, pods/status], verbs: [get, list, patch, update, create, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything-of-nodes-and-pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything-of-nodes-and-pods}
subjects:
- {kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:ovn-kubernetes"}
- {kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:causeway-dpus"}
- {kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:nodes"}
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: ann}
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: bob}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: network-administrators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: causeway-network-administrator}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: bob}]
"#;

/// A node with a card, `a`, and a regular one, `b`; those who write about them.
pub(crate) struct World {
    pub(crate) rig: Arc<Rig>,
    pub(crate) admin: Client,
    pub(crate) host: Client,
    pub(crate) card: Client,
    pub(crate) regular: Client,
    pub(crate) manager: Client,
    /// The kubelet of `a`.
    pub(crate) kubelet: Client,
    /// May patch Nodes and pods.
    pub(crate) ann: Client,
    /// May also write what agents write.
    pub(crate) bob: Client,
}

/// The world of all tests of this file.
///
/// # Errors
/// It cannot be made.
pub(crate) async fn world(rig: Arc<Rig>) -> anyhow::Result<&'static World> {
    static WORLD: OnceCell<Result<World, String>> = OnceCell::const_new();
    let make = || async { Box::pin(World::make(rig)).await.map_err(|error| format!("{error:#}")) };
    // The first error is every test's: a second attempt would meet what the first one left.
    WORLD.get_or_init(make).await.as_ref().map_err(|error| anyhow!("{error}"))
}

impl World {
    async fn make(rig: Arc<Rig>) -> anyhow::Result<Self> {
        access::install(&rig).await?;
        rig.apply(RIGHTS).await?;
        let admin = rig.client();
        for name in ["a", "b"] {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            made(&admin, NODES, &node).await?;
        }
        let host = access::pod_token(&rig, Account::HostAgent, "a").await?;
        let card = access::enrol_card(&rig, "card-a", "a").await?;
        let regular = access::pod_token(&rig, Account::NodeAgent, "b").await?;
        let manager = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        let everyone = ["system:authenticated"];
        let world = Self {
            host: access::client_of(&rig, &host).await?,
            card: access::client_of(&rig, &card).await?,
            regular: access::client_of(&rig, &regular).await?,
            manager: access::client_of(&rig, &manager).await?,
            kubelet: as_user(&rig, "system:node:a", &["system:nodes", "system:authenticated"]).await?,
            ann: as_user(&rig, "ann", &everyone).await?,
            bob: as_user(&rig, "bob", &everyone).await?,
            admin,
            rig,
        };
        world.wait_heeded().await?;
        Ok(world)
    }

    /// Nothing tells when the API server heeds roles and policies, but answers that it gives.
    async fn wait_heeded(&self) -> anyhow::Result<()> {
        let remark = json!({"metadata": {"annotations": {"example.com/note": "x"}}});
        let (node, other) = (format!("{NODES}/a"), format!("{NODES}/b"));
        let host_cidrs = json!({"metadata": {"annotations": {"k8s.ovn.org/host-cidrs": "[]"}}});
        let annotated = |name: &str, value: &str| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "annotations": {"v1.multus-cni.io/default-network": value}},
                "spec": {"nodeName": "a", "containers": [{"name": "one", "image": "none"}]},
            })
        };
        made(&self.admin, PODS, &annotated("probe", "one")).await?;
        let pod = format!("{PODS}/probe");
        let label = json!({"metadata": {"labels": {"k8s.ovn.org/primary-user-defined-network": ""}}});
        let networks = json!({"metadata": {"annotations": {"k8s.ovn.org/pod-networks": "{\"default\":1}"}}});
        let other_default = json!({"metadata": {"annotations": {"v1.multus-cni.io/default-network": "two"}}});
        let namespace = format!("{NAMESPACES}/tenant");
        for (what, client, path, body, words) in [
            ("the policy about Nodes", &self.host, &node, &remark, "is not allowed to set"),
            ("the policy about others' Nodes", &self.ann, &node, &host_cidrs, "is not allowed to set"),
            ("the host's rights", &self.host, &other, &remark, "is not allowed to modify"),
            ("the card's rights", &self.card, &other, &remark, "is not allowed to modify"),
            ("the regular node's rights", &self.regular, &node, &remark, "is not allowed to modify"),
            ("the manager's rights", &self.manager, &node, &remark, "is not allowed to set"),
            ("the kubelet's rights", &self.kubelet, &node, &host_cidrs, "is not allowed to set"),
            ("the administrator's right", &self.bob, &node, &host_cidrs, ""),
            ("the policy about pods", &self.host, &pod, &remark, "is not allowed to set"),
            ("the policy about others' pods", &self.ann, &pod, &networks, "is not allowed to set"),
            ("the policy about default networks", &self.admin, &pod, &other_default, "cannot be changed"),
            ("the policy about namespaces", &self.admin, &namespace, &label, "cannot be added"),
        ] {
            let path = format!("{path}?dryRun=All");
            let heeded = || async {
                let answer = send(client, Method::PATCH, &path, MERGE_PATCH, Some(body)).await;
                let answer = answer.map_err(|error| format!("{error:#}"))?;
                let fine = answer.is_accepted() == words.is_empty() && answer.message().contains(words);
                if fine { Ok(()) } else { Err(format!("{} {}", answer.code, answer.message())) }
            };
            self.rig.wait_for(&format!("{what} to be heeded"), HEEDED, heeded).await?;
        }
        Ok(())
    }

    /// Changes an object in earnest, as administrator.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn set(&self, path: &str, body: Value) -> anyhow::Result<()> {
        let answer = send(&self.admin, Method::PATCH, path, MERGE_PATCH, Some(&body)).await?;
        ensure!(answer.is_accepted(), "{path} {body}: {}", answer.message());
        Ok(())
    }
}

/// The administrator as somebody else: the API server sees only them.
async fn as_user(rig: &Rig, user: &str, groups: &[&str]) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(rig.kubeconfig())?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.headers.push((HeaderName::from_static("impersonate-user"), HeaderValue::from_str(user)?));
    for group in groups {
        config.headers.push((HeaderName::from_static("impersonate-group"), HeaderValue::from_str(group)?));
    }
    Ok(Client::try_from(config)?)
}

/// Creates an object in earnest.
///
/// # Errors
/// It is refused.
pub(crate) async fn made(client: &Client, collection: &str, object: &Value) -> anyhow::Result<()> {
    let answer = send(client, Method::POST, collection, OBJECT, Some(object)).await?;
    ensure!(answer.code == 201, "{object} is refused: {}", answer.message());
    Ok(())
}

/// Collects what came out otherwise.
#[derive(Default)]
pub(crate) struct Attempts {
    wrong: Vec<String>,
    number: usize,
}

/// What must come out.
pub(crate) enum Verdict<'a> {
    Allowed,
    /// Forbidden or invalid, by a policy, whose whole sentence this is.
    Refused(&'a str),
}

impl Attempts {
    /// A merge patch.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn merge(
        &mut self,
        what: &str,
        client: &Client,
        path: &str,
        body: &Value,
        verdict: Verdict<'_>,
    ) -> anyhow::Result<()> {
        self.send(what, client, (Method::PATCH, MERGE_PATCH), path, Some(body), verdict).await
    }

    /// Any request.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn send(
        &mut self,
        what: &str,
        client: &Client,
        (method, content): (Method, &str),
        path: &str,
        body: Option<&Value>,
        verdict: Verdict<'_>,
    ) -> anyhow::Result<()> {
        let answer = send(client, method, &format!("{path}?dryRun=All"), content, body).await;
        let answer = answer.with_context(|| what.to_owned())?;
        self.number += 1;
        let message = answer.message();
        let said = message.split_once(" denied request: ").map(|(_, said)| said);
        let right = match verdict {
            Verdict::Allowed => answer.is_accepted() && answer.warnings.is_empty(),
            Verdict::Refused(sentence) => {
                matches!(answer.code, 403 | 422)
                    && message.contains("ValidatingAdmissionPolicy")
                    && said == Some(sentence)
            }
        };
        if !right {
            let wanted = match verdict {
                Verdict::Allowed => "it is allowed".to_owned(),
                Verdict::Refused(sentence) => format!("{sentence:?}"),
            };
            let warnings = &answer.warnings;
            self.wrong.push(format!("{what}: {} {message} {warnings:?} where {wanted}", answer.code));
        }
        Ok(())
    }

    /// # Errors
    /// Everything that came out otherwise.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let (wrong, number) = (self.wrong, self.number);
        ensure!(wrong.is_empty(), "{} of {number} attempts differ:\n{}", wrong.len(), wrong.join("\n"));
        ensure!(number > 0, "nothing was attempted");
        Ok(())
    }
}

/// A patch of one annotation.
pub(crate) fn annotation(key: &str, value: &Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}
