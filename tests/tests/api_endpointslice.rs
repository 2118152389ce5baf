//! Mirrored EndpointSlices: the cluster manager as a process on a real API server, with the rights that it has in
//! production. What upstream's was recorded to make, and what a version of the source alone would never show.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value of another shape than expected ends the test, as it should"
)]

#[path = "api_endpointslice/causes.rs"]
mod causes;
#[path = "api_endpointslice/recorded.rs"]
mod recorded;
#[path = "api_endpointslice/seen.rs"]
mod seen;
#[path = "api_endpointslice/world.rs"]
mod world;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Suite};

use self::recorded::{meant, steps};
use self::seen::{becomes, versions};
use self::world::World;

/// How long the process may take to end when it is told to.
const ORDERLY: Duration = Duration::from_secs(2);
/// The step before which upstream's was started again.
const RESTARTED: u32 = 27;

fn main() -> ExitCode {
    Suite::new()
        .test(Level::Api, "the_recorded_run_comes_out_step_by_step_and_a_restart_writes_nothing", replay)
        .test(Level::Api, "the_documentations_example_comes_out", causes::example)
        .test(Level::Api, "pods_and_networks_wake_what_rests_on_them", causes::wakes)
        .test(Level::Api, "slices_of_others_stay_as_they_are", causes::neighbours)
        .test(Level::Api, "a_virtual_machine_that_moves_keeps_its_endpoint_ready", causes::machines)
        .test(
            Level::Api,
            "a_manager_that_is_killed_while_it_mirrors_leaves_one_mirror_of_each",
            causes::killed,
        )
        .test(Level::Api, "people_see_on_the_service_what_cannot_be_reached", causes::told)
        .test(Level::Api, "without_network_segmentation_nothing_is_mirrored", causes::switched_off)
        .run()
}

async fn replay() -> anyhow::Result<()> {
    let (steps, mut meant) = (steps()?, meant()?);
    let last = steps.last().context("no steps")?.number;
    let world = World::start().await?;
    for step in steps {
        let what = || format!("step {} ({})", step.number, step.title);
        if step.number == RESTARTED {
            restart(&world).await.with_context(what)?;
        }
        for request in &step.requests {
            request.send(&world.admin).await.with_context(what)?;
        }
        let reached = becomes(&world, &step.ours).await.with_context(what);
        reached.map_err(|error| anyhow::anyhow!("{error:#}\n{}", world.rig.log_tails()))?;
        let judged = meant.judge(step.number, &step.differing()?);
        judged.map_err(|wrong| anyhow::anyhow!("{}:\n{}", what(), wrong.join("\n")))?;
    }
    meant.finish(last, &[])
}

/// A restart of what has nothing to do writes nothing, and it is at work again.
async fn restart(world: &World) -> anyhow::Result<()> {
    world.quiet(1).await?;
    let before = versions(&world.admin).await?;
    ensure!(before.len() > 20, "too little is there: {before:?}");
    let exit = world.manager.stop(ORDERLY).await?;
    ensure!(exit.code() == Some(0), "told to end, it ended with {exit}");
    world.manager.restart().await?;
    let sources = before.values().filter(|slice| slice.is_looked_at()).count();
    ensure!(sources > 10, "too little is to be looked at: {sources}");
    world.quiet(sources).await?;
    let after = versions(&world.admin).await?;
    ensure!(after == before, "{before:?}\nbecame\n{after:?}");
    let writes = world.counted("causeway_api_writes_total").await?;
    ensure!(writes == 0, "{writes} writes");
    Ok(())
}
