//! Traffic between two zones with the kernel's datapath, in a test kernel: the cases of `cluster_topology_traffic`.
//!
//! One kernel runs all cases: this program, started again inside. Each test tells the outcome of its case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use causeway_rig::{Level, PROGRAMS, Rig, RigOptions, SharedRig, Suite, UML_OUT};
use causeway_tests::traffic::cases::Case;
use causeway_tests::traffic::guest::Guest;
use causeway_tests::traffic::place::Place;
use causeway_tests::traffic::world::World;
use tokio::sync::Mutex;

/// How long the kernel may take for all cases on a busy machine.
const DEADLINE: Duration = Duration::from_secs(165);

/// The word that starts the side inside the kernel.
const INSIDE: &str = "inside-the-kernel";

/// Where traces of pairs that do not meet are kept: `target/tmp`.
const KEEP: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/kernel_topology_traffic");

/// What became of each case, once the kernel has run.
type Outcomes = BTreeMap<String, Result<(), String>>;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(INSIDE) {
        return match inside() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let rig = SharedRig::new(RigOptions::bare());
    let shared: Arc<Mutex<Option<Result<Outcomes, String>>>> = Arc::default();
    let suite = Case::ALL.into_iter().fold(Suite::new(), |suite, (_, name)| {
        let shared = shared.clone();
        suite.test_in(&rig, Level::Kernel, name, move |rig| async move {
            let mut slot = shared.lock().await;
            if slot.is_none() {
                *slot = Some(outside(&rig).await.map_err(|error| format!("{error:#}")));
            }
            let outcomes =
                slot.as_ref().context("the kernel")?.as_ref().map_err(|text| anyhow::anyhow!("{text}"))?;
            match outcomes.get(name).context("the kernel did not come to this case")? {
                Ok(()) => Ok(()),
                Err(text) => bail!("{text}"),
            }
        })
    });
    suite.run()
}

/// Boots a kernel that runs all cases.
async fn outside(rig: &Rig) -> anyhow::Result<Outcomes> {
    let program = std::env::current_exe()?;
    let name = program.file_name().and_then(|name| name.to_str()).context("the name of this program")?;
    let command = [format!("{PROGRAMS}/deps/{name}"), INSIDE.to_owned()];
    let kernel = rig.uml("traffic").memory_mib(1024).command(command).boot().await?;
    let output = kernel.finish(DEADLINE).await?;
    let traces = kernel.out().join("traces");
    if traces.exists() {
        copy(&traces, Path::new(KEEP)).context("keeping traces")?;
    }
    ensure!(output.status == 0, "status {}:\n{}", output.status, output.console);
    let text = std::fs::read_to_string(kernel.out().join("outcomes.json"))?;
    Ok(serde_json::from_str::<BTreeMap<String, Option<String>>>(&text)?
        .into_iter()
        .map(|(name, error)| (name, error.map_or(Ok(()), |text| Err(text.replace(&traces_inside(), KEEP)))))
        .collect())
}

fn traces_inside() -> String {
    format!("{UML_OUT}/traces")
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The side inside the kernel.
fn inside() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcomes = runtime.block_on(async {
        let begin = Instant::now();
        // For whoever reads the console of a kernel that took too long.
        let reached = |what: &str| println!("{what}: {:?}", begin.elapsed());
        let [west, east] = Guest::start().await?.map(|guest| Place::Guest(Box::new(guest)));
        reached("servers run");
        let world = World::start(west, east, &PathBuf::from(traces_inside())).await?;
        reached("zones are wired");
        let mut outcomes = BTreeMap::new();
        for (case, name) in Case::ALL {
            let error = case.run(&world).await.err().map(|error| format!("{error:#}"));
            outcomes.insert(name, error);
            reached(name);
        }
        anyhow::Ok(outcomes)
    })?;
    std::fs::write(format!("{UML_OUT}/outcomes.json"), serde_json::to_vec(&outcomes)?)?;
    Ok(())
}
