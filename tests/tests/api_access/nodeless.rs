//! A cluster before its first Node and after its last one: nothing that a policy asks is there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_rig::Rig;
use causeway_tests::access::{self, Account, CARDS};
use causeway_tests::manifests;
use http::Method;
use serde_json::{Value, json};

use crate::attempt::{Attempt, Attempts};
use crate::world::{STATES, UPLINKS, state_path};
use causeway_tests::rest::{OBJECT, send};

/// How long the API server may take to heed a policy.
const HEEDED: Duration = Duration::from_mins(1);

/// A policy that asks all Nodes and refuses where there is none, made after all others: once it is heeded, they are, and it
/// is known that there is no Node.
const WITNESS: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: witness.example.com}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: v1, kind: Node}
  matchConstraints:
    resourceRules:
    - {apiGroups: [''], apiVersions: ['*'], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: 'true'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: witness.example.com}
spec:
  policyName: witness.example.com
  validationActions: [Deny]
  paramRef: {selector: {}, parameterNotFoundAction: Deny}
";

fn uplink() -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "Uplink",
        "metadata": {"name": "blue"},
        "spec": {"nodeConfigs": [{"type": "OVSBridge", "nodeSelector": {}, "hostInterfaceName": "br"}]},
    })
}

/// The state of a Node that is gone.
fn state(uplink: &Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "UplinkState",
        "metadata": {"name": "blue.gone", "ownerReferences": [{
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "name": "blue", "uid": uplink,
            "controller": true, "blockOwnerDeletion": true,
        }]},
        "spec": {"uplinkName": "blue", "nodeName": "gone"},
    })
}

pub(crate) async fn no_nodes(rig: Arc<Rig>) -> anyhow::Result<()> {
    rig.apply(&manifests::folder("crds")?).await?;
    let admin = rig.client();
    let made = send(&admin, Method::POST, UPLINKS, OBJECT, Some(&uplink())).await?;
    let state = state(made.body.pointer("/metadata/uid").context("the Uplink's uid")?);
    access::install(&rig).await?;
    rig.apply(WITNESS).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "witness"}});
    let probe = Attempt::create(&admin, "/api/v1/namespaces/default/configmaps", map);
    let heeded = || async {
        match probe.answer().await {
            Ok(answer) if answer.message().contains("no params found") => Ok(()),
            Ok(answer) => Err(format!("{} {}", answer.code, answer.message())),
            Err(error) => Err(format!("{error:#}")),
        }
    };
    rig.wait_for("policies to be heeded", HEEDED, heeded).await?;

    let manager = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
    access::wait_roles(&rig, &manager).await?;
    let manager = access::client_of(&rig, &manager).await?;
    access::make_card(&rig, "card-x").await?;
    let card = access::token(&rig, CARDS, "card-x", None).await?;
    access::wait_roles(&rig, &card).await?;
    let card = access::client_of(&rig, &card).await?;

    let mut attempts = Attempts::default();
    let because = "its token is bound to node \"\"";
    let create = |client| Attempt::create(client, STATES, state.clone());
    attempts.forbidden("a card makes a state", because, create(&card)).await?;
    attempts.allowed("an administrator makes a state", create(&admin)).await?;
    let made = send(&admin, Method::POST, STATES, OBJECT, Some(&state)).await?;
    attempts.allowed("an administrator reads it", Attempt::read(&admin, &state_path("gone"))).await?;
    anyhow::ensure!(made.code == 201, "the state was not made: {} {}", made.code, made.message());
    let half = json!({"status": {"ovsBridge": {"name": "br1"}}});
    let write = |client| Attempt::merge(client, &state_path("gone"), half.clone());
    attempts.forbidden("a card writes its half", because, write(&card)).await?;
    attempts.allowed("an administrator writes", write(&admin)).await?;
    attempts
        .allowed("the cluster manager removes what is left", Attempt::delete(&manager, &state_path("gone")))
        .await?;
    attempts.forbidden("a card removes it", because, Attempt::delete(&card, &state_path("gone"))).await?;
    attempts.finish()
}
