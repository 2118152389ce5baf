//! What a running program has cost so far, as the kernel counts it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use causeway_rig::Process;

/// User and system time so far. Source: proc(5), `/proc/pid/stat`, fields 14 and 15, in clock ticks of 10 ms.
///
/// # Errors
/// It is not running.
pub fn cpu(process: &Process) -> anyhow::Result<Duration> {
    let path = format!("/proc/{}/stat", program_pid(process)?);
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    ticks(&text).with_context(|| path)
}

fn ticks(stat: &str) -> anyhow::Result<Duration> {
    // The name may hold blanks and brackets of its own.
    let (_, after_name) = stat.rsplit_once(')').context("no name")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| -> anyhow::Result<u64> {
        let field = fields.get(index).and_then(|field| field.parse().ok());
        field.with_context(|| format!("no number in field {}", index + 3))
    };
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
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
    fn time_and_memory_are_read_from_what_the_kernel_prints() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 99 1 1";
        assert_eq!(ticks(stat).unwrap(), Duration::from_millis(120));
        assert!(ticks("42 (a) S 1").is_err());
        assert_eq!(resident_kib("Name:\tx\nVmRSS:\t   12345 kB\n").unwrap(), 12345);
        assert!(resident_kib("Name:\tx\n").is_err());
    }
}
