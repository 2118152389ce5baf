//! What a running program has cost so far, as the kernel counts it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use causeway_rig::Process;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// User and system time of all its threads so far, to the nanosecond: clock ticks of 10 ms say little of what takes three.
///
/// # Errors
/// It is not running.
pub fn cpu(process: &Process) -> anyhow::Result<Duration> {
    let pid = program_pid(process)?;
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into().context("a process id")?));
    let spent = clock.and_then(clock_gettime).with_context(|| format!("the CPU time of process {pid}"))?;
    Ok(spent.into())
}

/// Resident memory in MB.
///
/// # Errors
/// It is not running.
pub fn resident(process: &Process) -> anyhow::Result<f64> {
    let path = format!("/proc/{}/status", program_pid(process)?);
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    megabytes(resident_kib(&text).with_context(|| path)? * 1024)
}

fn resident_kib(status: &str) -> anyhow::Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().with_context(|| format!("VmRSS{line}"))
}

/// The program itself: a shell that only waits for it may stand in front.
fn program_pid(process: &Process) -> anyhow::Result<u32> {
    let mut pid = process.pid();
    loop {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).context("a program's file")?;
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name == process.name() {
            return Ok(pid);
        }
        let children =
            std::fs::read_to_string(Path::new("/proc").join(format!("{pid}/task/{pid}/children")))?;
        let child = children.split_whitespace().next();
        pid = child.with_context(|| format!("{name} is not {} and has no child", process.name()))?.parse()?;
    }
}

/// Bytes as MB.
///
/// # Errors
/// More than four terabytes.
pub fn megabytes(bytes: u64) -> anyhow::Result<f64> {
    let kilobytes = u32::try_from(bytes / 1000).context("a size beyond four terabytes")?;
    Ok(f64::from(kilobytes) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_what_the_kernel_prints() {
        assert_eq!(resident_kib("Name:\tx\nVmRSS:\t   12345 kB\n").unwrap(), 12345);
        assert!(resident_kib("Name:\tx\n").is_err());
    }
}
