//! States whose names say nothing about whose they are.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_api::uplink_state::UplinkState;
use causeway_rig::wait_object;
use causeway_tests::blue;
use causeway_tests::observer::Observer;
use causeway_tests::states::{self, DEADLINE};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};

use crate::agents::Agent;
use crate::facts::uplink_of;
use crate::world::World;

/// Deletions of one state, each as soon as it is back.
const DELETIONS: usize = 20;

/// An Uplink whose name fills an object's name: its state cannot be named after both. It is resolved, found again by
/// who it belongs to when it is deleted, and made once for each deletion.
pub(crate) async fn hashed(world: &mut World) -> anyhow::Result<()> {
    let label = |length| "u".repeat(length);
    let uplink = [label(62), label(62), label(62), label(61)].join(".");
    let yaml = uplink_of(&uplink, "node-b", blue::BRIDGE);
    let mut observer = Observer::<UplinkState>::start(&world.client()).await?;
    world.rig.apply(&yaml).await?;
    let of_uplink = |seen: &UplinkState| seen.spec.uplink_name == uplink;
    let mut made = BTreeSet::new();
    let seen = observer.until("a state of the Uplink", |seen| of_uplink(&seen.object)).await?;
    let name = seen.object.name_any();
    ensure!(name.starts_with("uplinkstate-a") && !name.contains('.'), "a name that is not hashed: {name}");
    let whole = world.whole_regular();
    let mut state = world.says(&name, &whole).await?;
    for _ in 0..DELETIONS {
        let before = state.uid().context("the uid of a state")?;
        ensure!(made.insert(before.clone()), "an object came back with the uid of the deleted one");
        world.states().delete(&name, &DeleteParams::default()).await?;
        let is_new =
            |state: Option<&UplinkState>| state.is_some_and(|state| state.uid().as_ref() != Some(&before));
        wait_object(world.states(), &name, "another uid", DEADLINE, is_new).await?;
        state = world.says(&name, &whole).await?;
    }
    made.insert(state.uid().context("the uid of a state")?);
    let last = state.resource_version();
    let mut seen = BTreeSet::from_iter(seen.object.uid());
    let what = format!("version {last:?} of {name}");
    observer
        .until(&what, |event| {
            if event.is(&name) {
                seen.extend(event.object.uid());
            }
            event.is(&name) && event.object.resource_version() == last
        })
        .await?;
    ensure!(seen == made, "made for {DELETIONS} deletions: {seen:?}, of which were looked for {made:?}");
    world.rig.delete(&yaml).await?;
    world.state_is_gone(&name).await
}

/// Somebody makes a second object with the identity of a state. Nothing looks for it there, and nobody fills it.
pub(crate) async fn impostors(world: &mut World) -> anyhow::Result<()> {
    let names = [("impostor-a", "node-a"), ("impostor-b", "node-b")];
    for (name, node) in names {
        let yaml = format!(
            "apiVersion: k8s.ovn.org/v1alpha1\nkind: UplinkState\nmetadata:\n  name: {name}\nspec:\n  uplinkName: {}\n  \
             nodeName: {node}\n",
            blue::UPLINK
        );
        world.rig.apply(&yaml).await?;
    }
    let before = world.states().list(&ListParams::default()).await?;
    for agent in Agent::ALL {
        agent.settle(world).await?;
    }
    for (name, _) in names {
        let made = before.items.iter().find(|state| state.name_any() == name);
        let made = made.with_context(|| format!("{name} was not made"))?;
        let now = world.state(name).await?;
        ensure!(
            now.resource_version() == made.resource_version() && now.status.is_none(),
            "somebody wrote: {now:?}"
        );
    }
    states::uplink_says(&world.client(), blue::UPLINK, "True/Ready").await?;
    for (name, _) in names {
        world.states().delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}
