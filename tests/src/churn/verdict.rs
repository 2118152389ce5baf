//! What has to be true when everything runs again and has come to rest, whatever happened before.
//!
//! A fresh run is the judge: programs that start anew on what is there compute the same, and what is made anew says the
//! same as what grew.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::agents::{Agent, PATIENCE};
use super::journal::Journal;
use crate::blue::BlueWorld;
use crate::observer::Observer;

/// Longer than any wait between two attempts that the trouble can have left: nothing is away for more than a few seconds.
const REST: Duration = Duration::from_secs(8);
/// Programs that just started have no waits that grew.
const REST_AFTER_START: Duration = Duration::from_secs(2);

/// All that the cluster says of Uplinks.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    /// Name of the state to what it says.
    states: BTreeMap<String, Value>,
    /// Name of the Uplink to its generation and what its status says.
    uplinks: BTreeMap<String, Value>,
    /// Versions of all these objects.
    versions: BTreeMap<String, String>,
    /// Names of states about which a fresh run has nothing to go by: see [`rests_on_history`].
    historic: Vec<String>,
}

/// Checks everything, and leaves the cluster running.
///
/// # Errors
/// What is not as it has to be.
pub async fn check(world: &BlueWorld, journal: &Journal) -> anyhow::Result<()> {
    for agent in Agent::ALL {
        agent.idle(world).await?;
    }
    for ovs in [&world.card_ovs, &world.node_b_ovs] {
        // Returns when the switch has done all that it was asked for.
        ovs.vsctl(["--timeout=60", "set", "Open_vSwitch", ".", "external_ids:churn=over"]).await?;
    }
    rest(world, REST).await.context("after the trouble")?;
    let grown = said(world).await?;
    journal.note(format!(
        "at rest: {} states of {} Uplinks, {} of them resolved, {} that rest on history",
        grown.states.len(),
        grown.uplinks.len(),
        grown.states.values().filter(|status| is_resolved(status)).count(),
        grown.historic.len(),
    ));
    belongs_together(world).await?;

    for agent in Agent::ALL {
        agent.running(world).await?;
        agent.restart(world).await?;
    }
    for agent in Agent::ALL {
        agent.idle(world).await?;
    }
    rest(world, REST_AFTER_START).await.context("after the restart of all programs")?;
    let restarted = said(world).await?;
    same("a restart of all programs", &grown, &restarted)?;
    ensure!(
        grown.versions == restarted.versions,
        "a restart of all programs wrote what was there: {:?}, then {:?}",
        grown.versions,
        restarted.versions
    );
    journal.note("restarted: nothing changed");

    let states: Api<UplinkState> = Api::all(world.client());
    let deleted = grown.states.keys().filter(|name| !grown.historic.contains(name));
    for name in deleted {
        states.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
    }
    let again = || async {
        let now = said(world).await.map_err(|error| format!("{error:#}"))?;
        same("deleting all states", &grown, &now).map_err(|error| format!("{error:#}"))
    };
    causeway_rig::wait_for("the same states again", PATIENCE, again).await?;
    for agent in Agent::ALL {
        let process = agent.running(world).await?;
        let log = process.log_text()?;
        if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
            bail!("{agent:?} has panicked: {line}");
        }
    }
    journal.note("made anew: the same");
    Ok(())
}

/// Waits until nothing was written for a time.
async fn rest(world: &BlueWorld, time: Duration) -> anyhow::Result<()> {
    let client = world.client();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let (mut states, mut uplinks) =
            tokio::try_join!(Observer::<UplinkState>::start(&client), Observer::<Uplink>::start(&client))?;
        let (states, uplinks) = tokio::join!(states.count_for(time), uplinks.count_for(time));
        if states + uplinks == 0 {
            return Ok(());
        }
    }
    let now = said(world).await?;
    bail!("no rest for {time:?} within {PATIENCE:?}; now {now:#?}")
}

async fn said(world: &BlueWorld) -> anyhow::Result<Said> {
    let states: Api<UplinkState> = Api::all(world.client());
    let uplinks: Api<Uplink> = Api::all(world.client());
    let everything = ListParams::default();
    let (states, uplinks) =
        tokio::try_join!(states.list(&everything), uplinks.list(&everything)).context("listing")?;
    let mut said = Said {
        states: BTreeMap::new(),
        uplinks: BTreeMap::new(),
        versions: BTreeMap::new(),
        historic: Vec::new(),
    };
    for uplink in uplinks {
        let name = uplink.name_any();
        said.versions.insert(format!("Uplink {name}"), uplink.resource_version().unwrap_or_default());
        let mut value = without_times(serde_json::to_value(&uplink.status)?);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("generation".to_owned(), uplink.metadata.generation.into());
        }
        said.uplinks.insert(name, value);
    }
    for state in states {
        let name = state.name_any();
        said.versions.insert(format!("UplinkState {name}"), state.resource_version().unwrap_or_default());
        let mut value = without_times(serde_json::to_value(state.status_or_default())?);
        if rests_on_history(&value) {
            said.historic.push(name.clone());
        }
        if let Some(fields) = value.as_object_mut() {
            fields.insert("spec".to_owned(), serde_json::to_value(&state.spec)?);
        }
        said.states.insert(name, value);
    }
    Ok(said)
}

/// Where an Uplink's own entries contradict each other or cannot be read, a state keeps the interface that it had, and a
/// fresh one has none: on purpose.
fn rests_on_history(status: &Value) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        text("reason") == "NodeSelectorOverlap" || text("message").contains("has invalid nodeSelector")
    })
}

fn is_resolved(status: &Value) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let is = |field, text: &str| condition.get(field).and_then(Value::as_str) == Some(text);
        is("type", "Resolved") && is("status", "True")
    })
}

/// A status with its conditions in order and without their times.
fn without_times(mut status: Value) -> Value {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
        conditions.sort_by_key(|condition| condition.get("type").map(ToString::to_string));
    }
    status
}

/// Every state belongs to an Uplink and a Node that are there, and every Uplink has been looked at as it is now.
async fn belongs_together(world: &BlueWorld) -> anyhow::Result<()> {
    let uplinks: Api<Uplink> = Api::all(world.client());
    let states: Api<UplinkState> = Api::all(world.client());
    let uplinks = uplinks.list(&ListParams::default()).await.context("listing Uplinks")?.items;
    for state in states.list(&ListParams::default()).await.context("listing states")? {
        let name = state.name_any();
        let uplink = uplinks.iter().find(|uplink| uplink.name_any() == state.spec.uplink_name);
        let uplink = uplink.with_context(|| format!("{name} is left of a deleted Uplink"))?;
        let owned = state.owner_references().iter().any(|owner| Some(&owner.uid) == uplink.uid().as_ref());
        ensure!(owned, "{name} belongs to an earlier Uplink: {:?}", state.owner_references());
    }
    for uplink in uplinks {
        let name = uplink.name_any();
        ensure!(uplink.metadata.deletion_timestamp.is_none(), "{name} is still terminating");
        let ready = causeway_api::condition::find(uplink.conditions(), "Ready");
        let seen = ready.with_context(|| format!("{name} has no Ready"))?.observed_generation;
        let generation = uplink.metadata.generation;
        ensure!(seen == generation, "Ready of {name} is of generation {seen:?}, not {generation:?}");
    }
    Ok(())
}

fn same(what: &str, before: &Said, after: &Said) -> anyhow::Result<()> {
    for (kind, before, after) in
        [("UplinkState", &before.states, &after.states), ("Uplink", &before.uplinks, &after.uplinks)]
    {
        let names = before.keys().chain(after.keys());
        for name in names {
            let (then, now) = (before.get(name), after.get(name));
            let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            ensure!(
                then == now,
                "{what} changed {kind} {name}:\nbefore: {}\nafter:  {}",
                text(then),
                text(now)
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said_of(status: &Value) -> Said {
        Said {
            states: [("one.node-a".to_owned(), without_times(status.clone()))].into(),
            uplinks: BTreeMap::new(),
            versions: BTreeMap::new(),
            historic: Vec::new(),
        }
    }

    #[test]
    fn times_and_order_of_conditions_make_no_difference_and_everything_else_does() {
        let one = json!({"conditions": [{"type": "A", "lastTransitionTime": "1"}, {"type": "B"}]});
        let two = json!({"conditions": [{"type": "B"}, {"type": "A", "lastTransitionTime": "2"}]});
        let three = json!({"conditions": [{"type": "B"}, {"type": "A", "message": "x"}]});
        same("nothing", &said_of(&one), &said_of(&two)).unwrap();
        let text = same("something", &said_of(&one), &said_of(&three)).unwrap_err().to_string();
        assert!(text.starts_with("something changed UplinkState one.node-a"), "{text}");
    }

    #[test]
    fn a_state_that_is_gone_or_new_is_a_difference() {
        let (some, mut none) = (said_of(&json!({})), said_of(&json!({})));
        none.states.clear();
        assert!(same("x", &some, &none).is_err());
        assert!(same("x", &none, &some).is_err());
    }

    #[test]
    fn only_what_cannot_be_told_rests_on_history() {
        let says =
            |reason: &str, message: &str| json!({"conditions": [{"reason": reason, "message": message}]});
        assert!(rests_on_history(&says("NodeSelectorOverlap", "")));
        assert!(rests_on_history(&says(
            "GatewayInfoUnavailable",
            "nodeConfig 1 has invalid nodeSelector: x"
        )));
        assert!(!rests_on_history(&says("GatewayInfoUnavailable", "no address")));
    }
}
