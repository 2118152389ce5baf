//! Nodes, cards and everyone who logs in.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use causeway_rig::Rig;
use causeway_tests::access::{self, Account};
use causeway_tests::manifests;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::attempt::Attempt;
use causeway_tests::rest::{OBJECT, send};

/// How long the API server may take to heed a policy.
const HEEDED: Duration = Duration::from_mins(1);
pub(crate) const STATES: &str = "/apis/k8s.ovn.org/v1alpha1/uplinkstates";
pub(crate) const UPLINKS: &str = "/apis/k8s.ovn.org/v1alpha1/uplinks";
pub(crate) const NODES: &str = "/api/v1/nodes";

/// Hosts with cards `a` and `d`, the regular nodes `b` and `e`, and `c` whose card works without a host agent. Each has
/// a state of Uplink `blue` in which both halves are filled.
pub(crate) struct World {
    pub(crate) rig: Arc<Rig>,
    pub(crate) admin: Client,
    pub(crate) host_a: Client,
    pub(crate) card_a: Client,
    pub(crate) node_b: Client,
    pub(crate) card_c: Client,
    pub(crate) manager: Client,
    /// uid of Uplink `blue`.
    uplink: String,
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
        rig.apply(&manifests::folder("crds")?).await?;
        let admin = rig.client();
        for (name, labels) in [
            ("a", json!({"k8s.ovn.org/dpu-host": ""})),
            ("b", json!({})),
            ("c", json!({})),
            ("d", json!({"k8s.ovn.org/dpu-host": ""})),
            ("e", json!({})),
        ] {
            let node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
            made(&admin, NODES, &node).await?;
        }
        let uplink = json!({
            "apiVersion": "k8s.ovn.org/v1alpha1",
            "kind": "Uplink",
            "metadata": {"name": "blue", "finalizers": ["example.com/other"]},
            "spec": {"nodeConfigs": [{"type": "OVSBridge", "nodeSelector": {}, "hostInterfaceName": "br"}]},
        });
        let uplink = made(&admin, UPLINKS, &uplink).await?;
        access::install(&rig).await?;
        let manager = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        let clients = [
            access::pod_token(&rig, Account::HostAgent, "a").await?,
            access::enrol_card(&rig, "card-a", "a").await?,
            access::pod_token(&rig, Account::NodeAgent, "b").await?,
            access::enrol_card(&rig, "card-c", "c").await?,
            manager,
        ];
        access::enrol_card(&rig, "card-d", "d").await?;
        let mut made_clients = Vec::new();
        for token in &clients {
            access::wait_roles(&rig, token).await?;
            made_clients.push(access::client_of(&rig, token).await?);
        }
        let [host_a, card_a, node_b, card_c, manager]: [Client; 5] =
            made_clients.try_into().ok().context("five clients")?;
        let world = Self { rig, admin, host_a, card_a, node_b, card_c, manager, uplink };
        for node in ["a", "b", "c", "d", "e"] {
            made(&world.admin, STATES, &world.full(node)).await?;
        }
        world.wait_policies().await?;
        Ok(world)
    }

    /// Nothing tells when the API server heeds a policy, but answers that it gives.
    async fn wait_policies(&self) -> anyhow::Result<()> {
        let bridge = json!({"status": {"ovsBridge": {"name": "other"}}});
        let stranger = self.card("stranger", "a").await?;
        let probe = |client, body: &Value| Attempt::merge(client, &state_path("a"), body.clone());
        for (what, want, attempt) in [
            ("the policy about agents", 403, probe(&self.host_a, &bridge)),
            ("the policy about cards", 403, probe(&stranger, &bridge)),
            ("the card's Node", 200, probe(&self.card_a, &bridge)),
            (
                "the policy about the cluster manager",
                403,
                Attempt::merge(
                    &self.manager,
                    &format!("{UPLINKS}/blue"),
                    json!({"metadata": {"labels": {"a": "b"}}}),
                ),
            ),
        ] {
            let heeded = || async {
                match attempt.answer().await {
                    Ok(answer) if answer.code == want => Ok(()),
                    Ok(answer) => Err(format!("{} {}", answer.code, answer.message())),
                    Err(error) => Err(format!("{error:#}")),
                }
            };
            self.rig.wait_for(&format!("{what} to be heeded"), HEEDED, heeded).await?;
        }
        Ok(())
    }

    /// A card that no Node names, with a token bound to a Node.
    ///
    /// # Errors
    /// The API server refuses.
    pub(crate) async fn card(&self, card: &str, node: &str) -> anyhow::Result<Client> {
        access::make_card(&self.rig, card).await?;
        let token = access::card_token(&self.rig, card, node).await?;
        access::wait_roles(&self.rig, &token).await?;
        access::client_of(&self.rig, &token).await
    }

    /// A state as an agent creates it, without status.
    pub(crate) fn bare(&self, uplink: &str, node: &str) -> Value {
        json!({
            "apiVersion": "k8s.ovn.org/v1alpha1",
            "kind": "UplinkState",
            "metadata": {"name": format!("{uplink}.{node}"), "ownerReferences": [self.owner()]},
            "spec": {"uplinkName": uplink, "nodeName": node},
        })
    }

    /// The owner reference that agents write.
    pub(crate) fn owner(&self) -> Value {
        json!({
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "name": "blue", "uid": self.uplink,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// The state of `blue` on a node, with both halves.
    fn full(&self, node: &str) -> Value {
        let mut state = self.bare("blue", node);
        let mut status = json!({"conditions": CONDITIONS.map(|(kind, _)| condition(kind, "False"))});
        for field in fields() {
            status[field.name] = field.value.clone();
        }
        state["status"] = status;
        state
    }
}

/// Creates an object as administrator and gives its uid.
async fn made(admin: &Client, collection: &str, object: &Value) -> anyhow::Result<String> {
    let answer = send(admin, Method::POST, collection, OBJECT, Some(object)).await?;
    anyhow::ensure!(answer.code == 201, "{object} is refused: {}", answer.message());
    Ok(answer.body["metadata"]["uid"].as_str().context("a uid")?.to_owned())
}

/// Path of the state of `blue` on a node.
pub(crate) fn state_path(node: &str) -> String {
    format!("{STATES}/blue.{node}")
}

/// Who may write something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Host,
    Card,
    Both,
}

/// Conditions of a state and who writes them. Source: shared/api, `StateCondition`.
pub(crate) const CONDITIONS: [(&str, Side); 6] = [
    ("HostDataReady", Side::Host),
    ("HostGatewayReady", Side::Host),
    ("HostLinkConsistent", Side::Host),
    ("Resolved", Side::Card),
    ("GatewayReady", Side::Card),
    ("LinkConsistent", Side::Card),
];

pub(crate) fn condition(kind: &str, status: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// A field of the status.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    /// What it is at first.
    pub(crate) value: Value,
    /// What somebody makes of it.
    pub(crate) other: Value,
}

/// Every field of the status but the conditions.
pub(crate) fn fields() -> Vec<Field> {
    let field = |name, side, value, other| Field { name, side, value, other };
    vec![
        field("type", Side::Both, json!("OVSBridge"), json!("OVSBridge")),
        field("hostInterfaceName", Side::Host, json!("eth0"), json!("eth1")),
        field("macAddress", Side::Host, json!("02:00:00:00:00:01"), json!("02:00:00:00:00:02")),
        field("hostFunction", Side::Host, json!({"pfID": 0, "vfID": 1}), json!({"pfID": 0, "vfID": 2})),
        field("ipAddresses", Side::Host, json!(["192.0.2.1/24"]), json!(["192.0.2.2/24"])),
        field("defaultGateways", Side::Host, json!(["192.0.2.254"]), json!(["192.0.2.253"])),
        field("ovsBridge", Side::Card, json!({"name": "br0"}), json!({"name": "br1"})),
    ]
}
