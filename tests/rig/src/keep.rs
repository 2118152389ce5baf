//! Rigs that stay up for people, and the ways to end them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};

use crate::folder::{Living, living, sweep};
use crate::rig::Rig;
use crate::wait::wait_for;

/// File in a rig's folder that says: its owner ends it when told by SIGTERM.
const KEPT: &str = "kept";
/// How long an owner may take to end its rig before it is killed.
const END_DEADLINE: Duration = Duration::from_secs(15);

impl Rig {
    /// Keeps the rig until the process gets SIGTERM or SIGINT; `causeway-rig down` and `clean` send the former. Call
    /// `announce` when people may be told about it.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub async fn keep(self, announce: impl FnOnce(&Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("catching SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("catching SIGINT")?;
        std::fs::write(self.folder().join(KEPT), "").context("marking the rig as kept")?;
        announce(&self)?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }
}

impl Living {
    /// Whether it was left up for people; other rigs belong to tests that run at present.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.path.join(KEPT).exists()
    }
}

/// Ends the kept rig called `id`.
///
/// # Errors
/// If there is none, or it belongs to something that runs, or does not end.
pub async fn end_kept(base: &Path, id: &str) -> anyhow::Result<()> {
    let Some(rig) = living(base)?.into_iter().find(|rig| rig.id == id) else {
        bail!("there is no rig called {id}: see `causeway-rig list`")
    };
    if !rig.is_kept() {
        bail!("rig {id} belongs to process {:?}, which ends it itself", rig.owner);
    }
    end(base, &rig).await
}

/// Ends every kept rig and removes what dead ones left. Rigs of running tests stay. Returns the names of the removed.
///
/// # Errors
/// If something stays.
pub async fn clean(base: &Path) -> anyhow::Result<Vec<String>> {
    let mut removed = sweep(base)?;
    for rig in living(base)?.into_iter().filter(Living::is_kept) {
        end(base, &rig).await?;
        removed.push(rig.id);
    }
    Ok(removed)
}

async fn end(base: &Path, rig: &Living) -> anyhow::Result<()> {
    let owner = rig.owner.with_context(|| format!("the owner of rig {} is unknown", rig.id))?;
    send(owner, Signal::SIGTERM)?;
    let gone = || async { if rig.path.exists() { Err("its folder is still there") } else { Ok(()) } };
    if wait_for("the rig to end", END_DEADLINE, gone).await.is_err() {
        // Its processes end with it; the sweep removes the rest.
        send(owner, Signal::SIGKILL)?;
        let swept = || async { sweep(base).map_err(|error| format!("{error:#}")).and_then(|_| gone_or(rig)) };
        wait_for("what the rig left to be removed", END_DEADLINE, swept).await?;
    }
    Ok(())
}

fn gone_or(rig: &Living) -> Result<(), String> {
    if rig.path.exists() { Err(format!("{} is still there", rig.path.display())) } else { Ok(()) }
}

fn send(owner: i32, signal: Signal) -> anyhow::Result<()> {
    match kill(Pid::from_raw(owner), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno).with_context(|| format!("sending {signal} to process {owner}")),
    }
}
