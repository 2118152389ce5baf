//! Accounts of Causeway's programs on a rig, as an administrator and a cluster give them: nothing runs with more rights
//! than in production.
//!
//! In: `deploy/rbac` and `deploy/admission`. Out: tokens. A program in a pod gets a token that is bound to the pod (here
//! a Pod object that no kubelet runs stands for it); a card gets a token that is bound to the Node it serves, and the
//! Node says so (docs/access.md).

use std::time::Duration;

use anyhow::Context;
use causeway_api::label::PRIMARY_NETWORK;
use causeway_rig::{Rig, Side};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::manifests;

/// Namespace of the programs.
pub const NAMESPACE: &str = "ovn-kubernetes";
/// Namespace of the cards' accounts.
pub const CARDS: &str = "causeway-dpus";
/// Annotation of a Node with the user name of its card.
pub const DPU_IDENTITY: &str = "causeway.internal/dpu-identity";

/// How long the API server may hold on to a policy that is gone.
const LIFTED: Duration = Duration::from_secs(30);

/// A kept rig lives longer than an hour.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// How long the API server may take to heed new roles.
const HEEDED: Duration = Duration::from_secs(30);

/// A program in a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// Controllers of the cluster.
    ClusterManager,
    /// The host's side of a node with a card.
    HostAgent,
    /// Both sides of a regular node.
    NodeAgent,
}

impl Account {
    /// Name of its ServiceAccount.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterManager => "causeway-cluster-manager",
            Self::HostAgent => "causeway-host-agent",
            Self::NodeAgent => "causeway-node-agent",
        }
    }
}

/// Applies namespaces, accounts, roles and policies. Custom resources have to be there.
///
/// # Errors
/// A manifest is refused.
pub async fn install(rig: &Rig) -> anyhow::Result<()> {
    rig.apply(&manifests::folder("rbac")?).await?;
    rig.apply(&manifests::folder("admission")?).await?;
    Ok(())
}

/// Lifts the policy that the label of namespaces with primary networks stays as it was made.
///
/// # Errors
/// It is not there, or the API server goes on with it.
pub async fn thaw_namespaces(rig: &Rig) -> anyhow::Result<()> {
    let binding = "validatingadmissionpolicybinding/user-defined-networks-namespace-label-binding";
    rig.kubectl(["delete", binding]).await?;
    // The API server looks at its policies from time to time: until then it may hold on to one that is gone.
    let namespaces: Api<Namespace> = Api::all(rig.client());
    let label = Patch::Merge(json!({"metadata": {"labels": {PRIMARY_NETWORK: ""}}}));
    let trial = PatchParams { dry_run: true, ..PatchParams::default() };
    let look = || async { namespaces.patch("default", &trial, &label).await.map(drop) };
    rig.wait_for("the API server to let namespaces change", LIFTED, look).await
}

/// The token of a program's pod on a node. The pod is made on first use.
///
/// # Errors
/// The API server refuses.
pub async fn pod_token(rig: &Rig, account: Account, node: &str) -> anyhow::Result<String> {
    let pods: Api<Pod> = Api::namespaced(rig.client(), NAMESPACE);
    let name = format!("{}-{node}", account.name());
    let pod = match pods.get_opt(&name).await? {
        Some(pod) => pod,
        None => pods.create(&PostParams::default(), &stand_in(&name, account, node)?).await?,
    };
    token(rig, NAMESPACE, account.name(), Some(("Pod", &name, pod.uid()))).await
}

fn stand_in(name: &str, account: Account, node: &str) -> anyhow::Result<Pod> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "serviceAccountName": account.name(),
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "one", "image": "none"}],
        },
    });
    serde_json::from_value(pod).context("a pod")
}

/// Makes `card` the card of `node` and gives its token: what an administrator does for a new card.
///
/// # Errors
/// The API server refuses.
pub async fn enrol_card(rig: &Rig, card: &str, node: &str) -> anyhow::Result<String> {
    make_card(rig, card).await?;
    let identity = json!({"metadata": {"annotations": {DPU_IDENTITY: card_user(card)}}});
    let nodes: Api<Node> = Api::all(rig.client());
    nodes
        .patch(node, &PatchParams::default(), &Patch::Merge(identity))
        .await
        .context("annotating the Node")?;
    card_token(rig, card, node).await
}

/// The user name of a card.
#[must_use]
pub fn card_user(card: &str) -> String {
    format!("system:serviceaccount:{CARDS}:{card}")
}

/// Makes the account of a card, if it is not there.
///
/// # Errors
/// The API server refuses.
pub async fn make_card(rig: &Rig, card: &str) -> anyhow::Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(rig.client(), CARDS);
    if accounts.get_opt(card).await?.is_none() {
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(card.to_owned());
        accounts.create(&PostParams::default(), &account).await.context("making the card's account")?;
    }
    Ok(())
}

/// A token of a card for the Node that it serves.
///
/// # Errors
/// The API server refuses.
pub async fn card_token(rig: &Rig, card: &str, node: &str) -> anyhow::Result<String> {
    let nodes: Api<Node> = Api::all(rig.client());
    let uid = nodes.get(node).await.context("reading the Node")?.uid();
    token(rig, CARDS, card, Some(("Node", node, uid))).await
}

/// A token of an account, bound to an object (kind, name, uid) or to none.
///
/// # Errors
/// The API server refuses.
pub async fn token(
    rig: &Rig,
    namespace: &str,
    account: &str,
    bound: Option<(&str, &str, Option<String>)>,
) -> anyhow::Result<String> {
    let bound_object_ref = bound.map(|(kind, name, uid)| BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        uid,
    });
    let spec = TokenRequestSpec {
        bound_object_ref,
        expiration_seconds: Some(TOKEN_SECONDS),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(rig.client(), namespace);
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let answer = answer.with_context(|| format!("asking for a token of {namespace}/{account}"))?;
    let status = answer.status.context("the API server answered without a status")?;
    status.token.context("the API server answered without a token")
}

/// A client outside the rig for whoever `token` belongs to.
///
/// # Errors
/// The kubeconfig cannot be used.
pub async fn client_of(rig: &Rig, token: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(&rig.kubeconfig_of(token, Side::Outside)?)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("making a client")
}

/// Waits until the API server heeds the role by which whoever `token` belongs to lists Uplinks.
///
/// # Errors
/// It does not.
pub async fn wait_roles(rig: &Rig, token: &str) -> anyhow::Result<()> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client_of(rig, token).await?);
    let review: SelfSubjectAccessReview = serde_json::from_value(json!({
        "spec": {"resourceAttributes": {"group": "k8s.ovn.org", "resource": "uplinks", "verb": "list"}},
    }))?;
    let allowed = || async {
        let answer =
            reviews.create(&PostParams::default(), &review).await.map_err(|error| error.to_string())?;
        match answer.status {
            Some(status) if status.allowed => Ok(()),
            status => Err(format!("{status:?}")),
        }
    };
    // Boxed: the future is large.
    Box::pin(rig.wait_for("roles to be heeded", HEEDED, allowed)).await
}
