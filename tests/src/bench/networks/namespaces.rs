//! One network of a thousand namespaces among five thousand.

use std::time::Instant;

use anyhow::Context;
use causeway_api::label::PRIMARY_NETWORK;
use causeway_rig::RigOptions;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::audit::Audit;
use super::super::crowd::all;
use super::super::measure::{Goal, Taken};
use super::super::session::Session;
use super::field::{Field, TENANT, figure, make_namespace, make_network, names, told};
use super::rerun::{self, Empty};
use super::single::NODES;

/// From the creation of a network until it is in all its namespaces and on all Nodes.
const TIME: &str = "networks_1000_namespaces_time";
/// Writes for that.
const WRITES: &str = "networks_1000_namespaces_writes";
/// Writes for one namespace more.
const FLIP: &str = "networks_namespace_label_writes";
/// Namespaces of the network.
const CHOSEN: usize = 1000;
/// Other namespaces.
const OTHERS: usize = 4000;
/// How many of them become the network's, one after the other.
const FLIPS: usize = 20;
/// The network.
const WIDE: &str = "wide";

/// Takes every measure of this kind that is wanted.
pub(super) async fn run(session: &Session) -> anyhow::Result<()> {
    if !session.wants_any([TIME, WRITES, FLIP]) {
        return Ok(());
    }
    let mut field = Field::open(Audit::with_writes(RigOptions::bare())?, NODES).await?;
    let (chosen, others) = (names("in", CHOSEN), names("out", OTHERS));
    let (client, primary) = (field.client.clone(), json!({PRIMARY_NETWORK: ""}));
    let of_it = json!({PRIMARY_NETWORK: "", TENANT: WIDE});
    all(chosen.iter().map(|name| make_namespace(&client, name.clone(), of_it.clone()))).await?;
    all(others.iter().map(|name| make_namespace(&client, name.clone(), primary.clone()))).await?;
    field.quiet().await?;
    let mark = field.crowd.audit.mark()?;
    let start = Instant::now();
    make_network(&client, WIDE).await?;
    let took = field.sight.all_there(1, NODES).await?.duration_since(start);
    field.quiet().await?;
    let written = field.writes(mark)?;
    println!("  writes for {CHOSEN} namespaces: {}", told(&written));
    let lanes = rerun::lanes([rerun::creation(WIDE)], field.crowd.audit.writes_since(mark)?);
    let mut flips = Vec::with_capacity(FLIPS);
    for name in others.iter().take(FLIPS) {
        flips.push(figure(flip(&mut field, name).await?)?);
    }
    drop(field);
    let beside = Empty::open(NODES, &chosen).await?.time(&lanes).await?;
    session.tell(Taken::times(TIME, &[took]).beside(&[beside]).goal(Goal::ratio(1.3)))?;
    // A definition each; the finalizer, three conditions and the subnets of the Nodes.
    let most = figure(CHOSEN + 4 + NODES)?;
    session.tell(Taken::values(WRITES, "writes", vec![figure(written.len())?]).goal(Goal::max(most)))?;
    session.tell(Taken::values(FLIP, "writes", flips).goal(Goal::max(2.0)))
}

/// A namespace becomes one of the network: how many writes that takes.
async fn flip(field: &mut Field, name: &str) -> anyhow::Result<usize> {
    let mark = field.crowd.audit.mark()?;
    let namespaces: Api<Namespace> = Api::all(field.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {TENANT: WIDE}}}));
    namespaces.patch(name, &PatchParams::default(), &label).await.context("labelling a namespace")?;
    let named = format!("{name}/{WIDE}");
    let told_of = field.sight.until(name, |seen| {
        let message = seen.message(WIDE)?;
        (message.contains(&named) || message.contains(name)).then_some(())
    });
    told_of.await?;
    field.quiet().await?;
    let writes = field.writes(mark)?;
    if writes.len() > 2 {
        println!("  writes for {name}: {}", told(&writes));
    }
    Ok(writes.len())
}
