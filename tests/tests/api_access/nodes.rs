//! Who says what a Node is.

use std::sync::Arc;

use causeway_rig::Rig;
use causeway_tests::access::{self, DPU_IDENTITY};
use http::{HeaderName, HeaderValue};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::attempt::{Attempt, Attempts};
use crate::world::{NODES, world};

const ADMINISTRATORS: &str = "causeway-dpu-administrator gives this right";

/// A kubelet's rights come from the node authorizer, which the rig does not run; the role is the same. `ann` may patch
/// Nodes, `bob` also says what they are.
const PEOPLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kubelets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node"}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:nodes"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: node-patcher}
rules: [{apiGroups: [""], resources: [nodes, nodes/status], verbs: [get, patch, update, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: node-patcher}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: node-patcher}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: ann}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dpu-administrators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: causeway-dpu-administrator}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: bob}]
"#;

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

fn patch(key: &str, name: &str, value: &Value) -> Value {
    json!({"metadata": {key: {name: value}}})
}

pub(crate) async fn roles(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    world.rig.apply(PEOPLE).await?;
    let kubelet = as_user(&world.rig, "system:node:a", &["system:nodes", "system:authenticated"]).await?;
    let ann = as_user(&world.rig, "ann", &["system:authenticated"]).await?;
    let bob = as_user(&world.rig, "bob", &["system:authenticated"]).await?;
    let (node, status) = (format!("{NODES}/a"), format!("{NODES}/a/status"));
    let harmless = patch("annotations", "example.com/note", &json!("x"));
    for (client, path) in
        [(&kubelet, &node), (&kubelet, &status), (&ann, &node), (&ann, &status), (&bob, &node)]
    {
        let attempt = Attempt::merge(client, path, harmless.clone());
        let heeded = || async {
            let answer = attempt.answer().await.map_err(|error| format!("{error:#}"))?;
            if answer.is_accepted() { Ok(()) } else { Err(answer.message().to_owned()) }
        };
        world
            .rig
            .wait_for("the roles of people to be heeded", std::time::Duration::from_secs(20), heeded)
            .await?;
    }

    let mut attempts = Attempts::default();
    let mallory = json!(access::card_user("card-d"));
    let changes = [
        ("another card", patch("annotations", DPU_IDENTITY, &mallory)),
        ("no card", patch("annotations", DPU_IDENTITY, &Value::Null)),
        ("no label of a host", patch("labels", "k8s.ovn.org/dpu-host", &Value::Null)),
        ("another value of the label", patch("labels", "k8s.ovn.org/dpu-host", &json!("no"))),
        ("the label of a card", patch("labels", "k8s.ovn.org/dpu", &json!(""))),
    ];
    for (what, change) in changes {
        for (who, client) in [("the kubelet", &kubelet), ("a patcher of nodes", &ann)] {
            for path in [&node, &status] {
                let attempt = Attempt::merge(client, path, change.clone());
                attempts
                    .forbidden(&format!("{who} writes {what} to {path}"), ADMINISTRATORS, attempt)
                    .await?;
            }
        }
        let attempt = Attempt::merge(&bob, &node, change.clone());
        attempts.allowed(&format!("an administrator of cards writes {what}"), attempt).await?;
        attempts
            .allowed(&format!("the admin writes {what}"), Attempt::merge(&world.admin, &node, change))
            .await?;
    }
    let new = |key: &str, name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new", key: {name: "x"}}});
    let labelled = Attempt::create(&ann, NODES, new("labels", "k8s.ovn.org/dpu-host"));
    attempts.allowed("a new Node comes with its label", labelled).await?;
    let identified = Attempt::create(&ann, NODES, new("annotations", DPU_IDENTITY));
    attempts.forbidden("a new Node comes with a card", ADMINISTRATORS, identified).await?;
    for (who, client) in
        [("the host", &world.host_a), ("the card", &world.card_a), ("a regular node", &world.node_b)]
    {
        let attempt = Attempt::merge(client, &node, harmless.clone());
        attempts
            .forbidden(&format!("{who} writes a Node"), "cannot patch resource \"nodes\"", attempt)
            .await?;
    }
    attempts.finish()
}
