//! Traffic between two zones with the userspace datapath: each topology's pods meet as they should, and tenants do not.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::traffic::cases::Case;
use causeway_tests::traffic::place::Place;
use causeway_tests::traffic::pods::Side;
use causeway_tests::traffic::world::World;
use tokio::sync::Mutex;

/// Where traces of pairs that do not meet are kept: `target/tmp`.
const KEEP: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cluster_topology_traffic");

/// The zones, which no case changes. One at a time: cases count what pods hear.
type Shared = Arc<Mutex<Option<World>>>;

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::bare());
    let shared = Shared::default();
    let suite = Case::ALL.into_iter().fold(Suite::new(), |suite, (case, name)| {
        let shared = shared.clone();
        suite.test_in(&rig, Level::Cluster, name, move |rig| async move {
            let mut slot = shared.lock().await;
            if slot.is_none() {
                *slot = Some(start(&rig).await?);
            }
            case.run(slot.as_ref().context("the zones")?).await
        })
    });
    // The closures hold it as long as there are tests to come; the rig ends after them.
    drop(shared);
    suite.run()
}

async fn start(rig: &Rig) -> anyhow::Result<World> {
    let (west, east) = (Place::node(rig, Side::West).await?, Place::node(rig, Side::East).await?);
    World::start(west, east, Path::new(KEEP)).await
}
