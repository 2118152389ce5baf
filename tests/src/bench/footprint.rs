//! What Causeway costs when nothing happens: size, memory, CPU time, and what a restart writes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_rig::{Process, built_programs};

use super::measure::{Conditions, Goal, Measure, Stat};
use crate::blue::{BlueWorld, UPLINK, UPLINK_YAML};
use crate::observer::Observer;
use crate::states::uplink_says;

/// How long is watched whether anything happens.
const IDLE: Duration = Duration::from_mins(1);
/// How long after a restart a write would still come.
const SETTLED: Duration = Duration::from_secs(5);

/// Size in MB of the incumbent's one stripped binary. Source: the project's measurements of ovn-kubernetes 8871cd9c on a
/// machine of this kind.
const INCUMBENT_BINARY: f64 = 84.3;
/// Its idle cluster manager's resident memory, in MB; same source.
const INCUMBENT_MANAGER: f64 = 123.0;
/// Its node process's resident memory with the default network alone, in MB; same source.
const INCUMBENT_NODE: f64 = 139.0;

/// Name of each program and what the incumbent's counterpart takes of memory.
const PROGRAMS: [(&str, f64); 4] = [
    ("cluster-manager", INCUMBENT_MANAGER),
    ("host-agent", INCUMBENT_NODE),
    ("dpu-agent", INCUMBENT_NODE),
    ("node-agent", INCUMBENT_NODE),
];

/// Takes every measure of this kind.
///
/// # Errors
/// One could not be taken.
pub async fn all(conditions: &Conditions) -> anyhow::Result<Vec<Measure>> {
    let mut measures = binaries(conditions)?;
    let mut world = BlueWorld::start().await?;
    world.start_causeway().await?;
    world.rig.apply(UPLINK_YAML).await?;
    uplink_says(&world.client(), UPLINK, "True/Ready").await?;
    measures.extend(idle(&world, conditions).await?);
    measures.extend(restarts(&world, conditions).await?);
    Ok(measures)
}

fn binaries(conditions: &Conditions) -> anyhow::Result<Vec<Measure>> {
    let folder = built_programs()?;
    let size = |name: &str| -> anyhow::Result<f64> {
        let path = folder.join(name);
        let metadata = std::fs::metadata(&path).with_context(|| format!("the size of {}", path.display()))?;
        megabytes(metadata.len())
    };
    let goal = Goal { stat: Stat::Max, below: 20.0 };
    PROGRAMS
        .iter()
        .map(|(name, _)| {
            let measure = format!("binary_{}", name.replace('-', "_"));
            Measure::of_values(&measure, "MB", &[size(name)?], INCUMBENT_BINARY, goal, conditions.clone())
        })
        .collect()
}

async fn idle(world: &BlueWorld, conditions: &Conditions) -> anyhow::Result<Vec<Measure>> {
    let programs = programs(world)?;
    let mut before = Vec::new();
    for (process, ..) in &programs {
        before.push(cpu(process)?);
    }
    tokio::time::sleep(IDLE).await;
    let mut measures = Vec::new();
    for ((process, name, incumbent), before) in programs.iter().zip(before) {
        let spent = cpu(process)?.saturating_sub(before).as_secs_f64() * 1000.0;
        let name = name.replace('-', "_");
        let goal = Goal { stat: Stat::Max, below: 50.0 };
        // Four idle nodes of the incumbent took under a tenth of a core: no figure for one process.
        measures.push(Measure::of_values(
            &format!("idle_cpu_{name}"),
            "ms",
            &[spent],
            goal.below,
            goal,
            conditions.clone(),
        )?);
        let goal = Goal { stat: Stat::Max, below: 16.0 };
        let resident = [resident(process)?];
        measures.push(Measure::of_values(
            &format!("memory_{name}"),
            "MB",
            &resident,
            *incumbent,
            goal,
            conditions.clone(),
        )?);
    }
    Ok(measures)
}

/// Writes that a watch shows after each program was killed and started again.
async fn restarts(world: &BlueWorld, conditions: &Conditions) -> anyhow::Result<Vec<Measure>> {
    let client = world.client();
    let mut measures = Vec::new();
    for (process, name, _) in programs(world)? {
        let mut states = Observer::<UplinkState>::start(&client).await?;
        let mut uplinks = Observer::<Uplink>::start(&client).await?;
        process.restart().await?;
        let (states, uplinks) = tokio::join!(states.count_for(SETTLED), uplinks.count_for(SETTLED));
        ensure!(process.is_running(), "{name} did not come up again:\n{}", process.log_text()?);
        let writes = u32::try_from(states + uplinks).context("a number of writes")?;
        let measure = format!("restart_writes_{}", name.replace('-', "_"));
        let goal = Goal { stat: Stat::Max, below: 0.0 };
        measures.push(Measure::of_values(
            &measure,
            "writes",
            &[writes.into()],
            1.0,
            goal,
            conditions.clone(),
        )?);
    }
    Ok(measures)
}

fn programs(world: &BlueWorld) -> anyhow::Result<Vec<(&Process, &'static str, f64)>> {
    let agents = &world.agents;
    let processes = [&agents.cluster_manager, &agents.host, &agents.dpu, &agents.node];
    let pairs = processes.into_iter().zip(PROGRAMS);
    pairs
        .map(|(process, (name, incumbent))| {
            let process = process.as_ref().with_context(|| format!("{name} was never started"))?;
            Ok((process, name, incumbent))
        })
        .collect()
}

/// User and system time so far. Source: proc(5), `/proc/pid/stat`, fields 14 and 15, in clock ticks of 10 ms.
fn cpu(process: &Process) -> anyhow::Result<Duration> {
    let path = format!("/proc/{}/stat", program_pid(process)?);
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let (_, after_name) = text.rsplit_once(')').with_context(|| path.clone())?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| -> anyhow::Result<u64> {
        fields
            .get(index)
            .and_then(|field| field.parse().ok())
            .with_context(|| format!("field {index} of {path}"))
    };
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// Resident memory in MB.
fn resident(process: &Process) -> anyhow::Result<f64> {
    let path = format!("/proc/{}/status", program_pid(process)?);
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).with_context(|| path.clone())?;
    let kilobytes: u64 =
        line.trim().trim_end_matches(" kB").parse().with_context(|| format!("VmRSS{line}"))?;
    megabytes(kilobytes * 1024)
}

/// The program itself: a process that only waits for it may stand in front.
fn program_pid(process: &Process) -> anyhow::Result<u32> {
    let mut pid = process.pid();
    loop {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).context("a program's file")?;
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if PROGRAMS.iter().any(|(known, _)| *known == name) {
            return Ok(pid);
        }
        let children =
            std::fs::read_to_string(Path::new("/proc").join(format!("{pid}/task/{pid}/children")))?;
        let child = children.split_whitespace().next();
        pid = child.with_context(|| format!("{name} is not one of ours and has no child"))?.parse()?;
    }
}

fn megabytes(bytes: u64) -> anyhow::Result<f64> {
    let kilobytes = u32::try_from(bytes / 1000).context("a size beyond four terabytes")?;
    Ok(f64::from(kilobytes) / 1000.0)
}
