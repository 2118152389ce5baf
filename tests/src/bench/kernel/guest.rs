//! The side inside the test kernel: makes changes and reads from the agents how long they took.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use causeway_rig::UML_OUT;
use tokio::time::sleep;

use super::BEGIN;
use crate::bench::hand::Hand;
use crate::bench::probe::{Numbers, get};

/// The agents' metric, but for the endings.
const METRIC: &str = "causeway_uplink_discovery_reaction_seconds";
/// Makes ports of the card's device, and takes them away.
const DEVICE: &str = "/sys/bus/netdevsim/devices/netdevsim1";
/// Number of the port that comes and goes.
const PORT: &str = "2";
/// How long an agent may take to notice a change.
const PATIENCE: Duration = Duration::from_secs(20);
/// So long nothing more follows from a change: between two looks.
const QUIET: Duration = Duration::from_millis(30);

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A port of the card's device, known by devlink, comes and goes.
    Devlink,
    /// A VLAN interface goes down and up.
    Vlan,
    /// A bond that is a bridge's way out goes down and up.
    Bond,
    /// An interface moves into a VRF and out of it.
    Vrf,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Devlink, Self::Vlan, Self::Bond, Self::Vrf];

    /// Name of the measure.
    #[must_use]
    pub fn measure(self) -> &'static str {
        match self {
            Self::Devlink => "react_kernel_devlink",
            Self::Vlan => "react_kernel_vlan",
            Self::Bond => "react_kernel_bond",
            Self::Vrf => "react_kernel_vrf",
        }
    }

    /// Where the agent whom it concerns tells its numbers.
    fn agent(self) -> SocketAddr {
        let port = match self {
            Self::Devlink => 9411,
            Self::Vlan | Self::Vrf => 9412,
            Self::Bond => 9413,
        };
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    async fn change(self, hand: &Hand, odd: bool) -> anyhow::Result<()> {
        match self {
            Self::Devlink => {
                let file = if odd { "del_port" } else { "new_port" };
                let path = Path::new(DEVICE).join(file);
                return std::fs::write(&path, PORT).with_context(|| format!("writing {}", path.display()));
            }
            Self::Vlan => hand.set_up(hand.index("up0.100").await?, odd).await?,
            Self::Bond => hand.set_up(hand.index("bond9").await?, odd).await?,
            Self::Vrf => {
                let master = if odd { 0 } else { hand.index("blue").await? };
                hand.set_master(hand.index("up0").await?, master).await?
            }
        };
        Ok(())
    }
}

/// Waits to be let begin, then makes each change so many times and leaves the samples in files.
///
/// # Errors
/// An agent does not notice a change.
pub async fn run(changes: usize) -> anyhow::Result<()> {
    let out = Path::new(UML_OUT);
    // What is outside can only leave files, and nobody tells of them.
    while !out.join(BEGIN).exists() {
        sleep(QUIET).await;
    }
    let hand = Hand::here()?;
    for kind in Kind::ALL {
        let mut samples = Vec::with_capacity(changes);
        let mut before = quiet(kind.agent()).await?;
        for round in 0..changes.next_multiple_of(2) {
            kind.change(&hand, round % 2 == 1).await.with_context(|| format!("{kind:?}"))?;
            noticed(kind, before).await?;
            let after = quiet(kind.agent()).await?;
            // One change can be several events; each is asked for a decision.
            samples.push((after.sum - before.sum) / (after.count - before.count) * 1000.0);
            before = after;
        }
        std::fs::write(out.join(kind.measure()), serde_json::to_string(&samples)?)
            .context("writing samples")?;
    }
    Ok(())
}

/// How many decisions there were, and how long all took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reactions {
    count: f64,
    sum: f64,
}

fn reactions(agent: SocketAddr) -> anyhow::Result<Reactions> {
    let (status, text) = get(agent, "/metrics")?;
    ensure!(status == 200, "status {status}: {text}");
    let numbers = Numbers(text);
    let [count, sum] = ["count", "sum"].map(|ending| numbers.sum(&format!("{METRIC}_{ending}")));
    Ok(Reactions { count: count?, sum: sum? })
}

async fn noticed(kind: Kind, before: Reactions) -> anyhow::Result<()> {
    let begun = Instant::now();
    while reactions(kind.agent())?.count <= before.count {
        if begun.elapsed() > PATIENCE {
            bail!("{kind:?} was not noticed within {PATIENCE:?}");
        }
        sleep(QUIET).await;
    }
    Ok(())
}

/// What there was when nothing followed any more.
async fn quiet(agent: SocketAddr) -> anyhow::Result<Reactions> {
    let mut before = reactions(agent)?;
    loop {
        sleep(QUIET).await;
        let now = reactions(agent)?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}
