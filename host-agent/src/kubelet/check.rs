//! Whether the kernel takes the match on the kubelet's cgroup.
//!
//! A transaction loads the very match in a chain that it removes again: nothing stays, whether it succeeds or not.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use causeway_nft::{Cgroup, InvalidCgroupPath, Match};
use causeway_runtime::settings::CgroupPath;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The chain that lives within one transaction. Source: OVN-Kubernetes, `pkg/node/udn_isolation.go`.
const CHAIN: &str = "udn-isolation-socket-probe";

/// Family and name of the table, which other features share.
const TABLE: &str = "inet ovn-kubernetes";

/// How long `nft` may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why the match cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel lacks it. Source of the text: OVN-Kubernetes, `pkg/node/udn_isolation.go`.
    #[error("the kernel does not support the nftables socket cgroupv2 match: {0}")]
    Match(String),
    /// The same transaction without the match fails too.
    #[error("nftables cannot be used: {0}")]
    Nftables(String),
    /// The path cannot stand in a rule.
    #[error(transparent)]
    Path(#[from] InvalidCgroupPath),
    /// There is no such program.
    #[error("the program {} cannot be run: {error}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It hangs.
    #[error("the program {} has not ended within {DEADLINE:?}", .0.display())]
    Silent(PathBuf),
}

/// Asks the kernel, by `nft`.
///
/// Differs from upstream: the match is blamed only if the transaction works without it.
///
/// # Errors
/// Why the match cannot be used.
///
/// # Cancellation
/// `nft` is killed; its transaction happens whole or not at all.
pub async fn check(nft: &Path, path: &CgroupPath) -> Result<(), Refusal> {
    let Err(said) = load(nft, script(Some(&expression(path)?))).await? else { return Ok(()) };
    match load(nft, script(None)).await? {
        Ok(()) => Err(Refusal::Match(said)),
        Err(said) => Err(Refusal::Nftables(said)),
    }
}

/// The match, as it stands in the rule that isolation loads.
fn expression(path: &CgroupPath) -> Result<String, Refusal> {
    let path = causeway_nft::CgroupPath::parse(path.as_str())?;
    Ok(Match::Cgroup(Cgroup::new(&path, None)).to_string())
}

fn script(expression: Option<&str>) -> String {
    let rule =
        expression.map_or_else(String::new, |words| format!("add rule {TABLE} {CHAIN} {words} accept\n"));
    format!(
        "add table {TABLE}\n\
         add chain {TABLE} {CHAIN} {{ type filter hook output priority 0; \
         comment \"Transient chain, checks kernel support for the socket cgroupv2 match\"; }}\n\
         {rule}delete chain {TABLE} {CHAIN}\n"
    )
}

/// Loads a transaction; the inner error is what `nft` says.
async fn load(nft: &Path, script: String) -> Result<Result<(), String>, Refusal> {
    let failed = |error| Refusal::Program { program: nft.to_owned(), error };
    let mut command = Command::new(nft);
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
    let run = async {
        if let Some(mut input) = child.stdin.take() {
            // A program that does not read its input says why at its end.
            input.write_all(script.as_bytes()).await.ok();
        }
        child.wait_with_output().await
    };
    let output = timeout(DEADLINE, run).await.map_err(|_| Refusal::Silent(nft.to_owned()))?;
    let output = output.map_err(failed)?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    let said = first_error(&String::from_utf8_lossy(&output.stderr));
    Ok(Err(said.unwrap_or_else(|| format!("{} ended with {}", nft.display(), output.status))))
}

/// The first error that `nft` tells, without the place in the script: `/dev/stdin:3:1-9: Error: TEXT`.
fn first_error(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains("Error: ")).or_else(|| said.lines().next())?;
    Some(line.split_once("Error: ").map_or(line, |(_, text)| text).trim().to_owned())
}

#[cfg(test)]
mod tests;
