//! What makes a card the card of a node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_rig::Rig;
use causeway_tests::access::{self, Account, CARDS};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::attempt::{Attempt, Attempts};
use crate::world::{NODES, World, state_path, world};
use causeway_tests::rest::{MERGE_PATCH, OBJECT, send};

/// How long the API server may take to see a change of a Node.
const SEEN: Duration = Duration::from_secs(20);

fn own_half() -> Value {
    json!({"status": {"ovsBridge": {"name": "br1"}}})
}

fn write<'a>(client: &'a Client, node: &str) -> Attempt<'a> {
    Attempt::merge(client, &state_path(node), own_half())
}

pub(crate) async fn identity(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    attempts.allowed("the card of the node", write(&world.card_a, "a")).await?;

    let unknown = world.card("unknown", "a").await?;
    let because = "is not the card of node \"a\"";
    attempts.forbidden("an account that no Node names", because, write(&unknown, "a")).await?;
    let neighbour = world.card("card-d", "a").await?;
    attempts
        .forbidden("another node's card with a token for this node", because, write(&neighbour, "a"))
        .await?;
    let regular = world.card("card-a", "b").await?;
    let because = "is not the card of node \"b\"";
    attempts.forbidden("a card with a token for a node without card", because, write(&regular, "b")).await?;

    let unbound = access::token(&world.rig, CARDS, "card-a", None).await?;
    let unbound = access::client_of(&world.rig, &unbound).await?;
    let because = "its token is bound to node \"\"";
    attempts.forbidden("the card with a token for no node", because, write(&unbound, "a")).await?;
    let in_pod = access::client_of(&world.rig, &pod_of_card(world).await?).await?;
    let because = "never to a pod";
    attempts.forbidden("the card's account in a pod on the host", because, write(&in_pod, "a")).await?;
    let unbound = access::token(&world.rig, access::NAMESPACE, Account::HostAgent.name(), None).await?;
    let unbound = access::client_of(&world.rig, &unbound).await?;
    let host_half = json!({"status": {"macAddress": "02:00:00:00:00:09"}});
    let host = Attempt::merge(&unbound, &state_path("a"), host_half);
    attempts.forbidden("the host agent with a token for no node", "bound to node \"\"", host).await?;
    attempts.finish()
}

/// A token such as a kubelet gets for a pod on its node.
async fn pod_of_card(world: &World) -> anyhow::Result<String> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "intruder", "namespace": CARDS},
        "spec": {
            "nodeName": "a",
            "serviceAccountName": "card-a",
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "one", "image": "none", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }}],
        },
    });
    let pods = format!("/api/v1/namespaces/{CARDS}/pods");
    let answer = send(&world.admin, Method::POST, &pods, OBJECT, Some(&pod)).await?;
    ensure!(answer.code == 201, "the pod is refused: {}", answer.message());
    let uid = answer.body["metadata"]["uid"].as_str().context("a uid")?.to_owned();
    access::token(&world.rig, CARDS, "card-a", Some(("Pod", "intruder", Some(uid)))).await
}

pub(crate) async fn struck_off(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "f"}});
    let made = send(&world.admin, Method::POST, NODES, OBJECT, Some(&node)).await?;
    ensure!(made.code == 201, "{}", made.message());
    access::enrol_card(&world.rig, "card-f", "f").await?;
    let card = world.card("card-f", "f").await?;
    let create = Attempt::create(&card, crate::world::STATES, world.bare("blue", "f"));
    wait_code(world, "the new card to be known", &create, 201).await?;

    let nobody = json!({"metadata": {"annotations": {access::DPU_IDENTITY: null}}});
    send(&world.admin, Method::PATCH, &format!("{NODES}/f"), MERGE_PATCH, Some(&nobody)).await?;
    wait_code(world, "the card to be struck off", &create, 403).await?;

    // With the Node goes every token that is bound to it.
    send(&world.admin, Method::DELETE, &format!("{NODES}/f"), OBJECT, None).await?;
    let read = Attempt::read(&card, crate::world::STATES);
    wait_code(world, "the token to be refused", &read, 401).await
}

async fn wait_code(world: &World, what: &str, attempt: &Attempt<'_>, code: u16) -> anyhow::Result<()> {
    let probe = || async {
        match attempt.answer().await {
            Ok(answer) if answer.code == code => Ok(()),
            Ok(answer) => Err(format!("{} {}", answer.code, answer.message())),
            Err(error) => Err(format!("{error:#}")),
        }
    };
    world.rig.wait_for(what, SEEN, probe).await
}

pub(crate) async fn many_nodes(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let make = |number: usize| async move {
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("many-{number}")}});
        send(&world.admin, Method::POST, NODES, OBJECT, Some(&node)).await
    };
    for first in (0..1000).step_by(50) {
        futures::future::try_join_all((first..first + 50).map(make)).await?;
    }
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let answer = write(&world.card_a, "a").answer().await?;
        times.push(start.elapsed());
        ensure!(answer.is_accepted(), "{} {}", answer.code, answer.message());
    }
    times.sort();
    let median = times.get(times.len() / 2).context("times")?;
    println!("a card's write among 1000 nodes: median {median:?}");
    Ok(())
}
