//! The two replicas of the cluster manager, and what befalls them.

use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{KUBECONFIG, Node, Process, Program, Side, wait_for};
use fastrand::Rng;

use super::world::World;
use crate::bench::probe::Probe;
use crate::bench::stage::{FEATURES, NUMBERS};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a replica may take to end when it is told to.
const ORDERLY: Duration = Duration::from_secs(20);
/// A lease that is over soon: the time in which nobody leads is part of the trouble, but not most of it.
const ELECTION: [&str; 6] = [
    "--cluster-manager-ha-election-lease-duration",
    "3",
    "--cluster-manager-ha-election-renew-deadline",
    "2",
    "--cluster-manager-ha-election-retry-period",
    "1",
];
/// Their names.
const NAMES: [&str; 2] = ["a", "b"];

/// One of them.
struct Replica {
    _place: Node,
    process: Process,
    probe: Probe,
}

/// What befalls a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// It is killed, and started again at once.
    Crash(usize),
    /// It is killed, and the other one has to do.
    Kill(usize),
    /// It is told to stop, and hands over.
    Stop(usize),
    /// Whoever is down is started again.
    Rise,
}

/// Both.
pub struct Replicas([Replica; 2]);

impl Blow {
    /// Draws one.
    pub fn draw(rng: &mut Rng) -> Self {
        let which = rng.usize(0..NAMES.len());
        match rng.u8(0..8) {
            0..=2 => Self::Crash(which),
            3 => Self::Kill(which),
            4 | 5 => Self::Stop(which),
            _ => Self::Rise,
        }
    }

    /// The one after which another one leads.
    #[must_use]
    pub fn at_leader(name: &str) -> Option<Self> {
        NAMES.iter().position(|known| *known == name).map(Self::Stop)
    }
}

impl Replica {
    async fn start(world: &World, name: &str) -> anyhow::Result<Self> {
        let place = world.rig.node(format!("place-{name}")).unregistered().start().await?;
        place.write(KUBECONFIG, world.rig.kubeconfig_of(&world.token, Side::Inside)?)?;
        let program = Program::built("cluster-manager").args(FEATURES).args(ELECTION).args([
            "--metrics-bind-address",
            NUMBERS,
            "--init-cluster-manager",
            name,
        ]);
        let process = place.spawn(program).await?;
        let probe = Probe::new(&place, NUMBERS)?;
        Ok(Self { _place: place, process, probe })
    }

    async fn rise(&self) -> anyhow::Result<()> {
        if self.process.is_running() { Ok(()) } else { self.process.restart().await }
    }

    async fn leads(&self) -> anyhow::Result<bool> {
        Ok(self.probe.numbers().await?.sum("causeway_leader")? > 0.0)
    }
}

impl Replicas {
    /// Starts both, and waits until they are ready.
    ///
    /// # Errors
    /// They do not get ready.
    pub async fn start(world: &World) -> anyhow::Result<Self> {
        let [first, second] = NAMES;
        let this = Self([Replica::start(world, first).await?, Replica::start(world, second).await?]);
        this.all_up().await?;
        Ok(this)
    }

    fn replica(&self, which: usize) -> anyhow::Result<&Replica> {
        self.0.get(which).context("a replica")
    }

    /// Lets something befall one of them. At least one runs afterwards.
    ///
    /// # Errors
    /// It does not end, or does not start.
    pub async fn strike(&self, blow: Blow) -> anyhow::Result<()> {
        match blow {
            Blow::Crash(which) => self.replica(which)?.process.restart().await,
            Blow::Kill(which) => {
                self.replica(which)?.process.kill().await?;
                self.replica(1 - which)?.rise().await
            }
            Blow::Stop(which) => {
                let replica = self.replica(which)?;
                self.replica(1 - which)?.rise().await?;
                if replica.process.is_running() {
                    replica.process.stop(ORDERLY).await?;
                }
                Ok(())
            }
            Blow::Rise => {
                for replica in &self.0 {
                    replica.rise().await?;
                }
                Ok(())
            }
        }
    }

    /// Checks that one of them runs: nobody ends by itself, and no blow leaves both down.
    ///
    /// # Errors
    /// None runs.
    pub fn are_as_left(&self) -> anyhow::Result<()> {
        if self.0.iter().any(|replica| replica.process.is_running()) {
            return Ok(());
        }
        let [first, second] = &self.0;
        anyhow::bail!("no replica runs:\n{}\n{}", first.process.log_text()?, second.process.log_text()?)
    }

    /// Starts whoever is down, and waits until both are ready.
    ///
    /// # Errors
    /// They do not get ready.
    pub async fn all_up(&self) -> anyhow::Result<()> {
        for replica in &self.0 {
            replica.rise().await?;
        }
        for replica in &self.0 {
            replica.probe.ready(&replica.process).await?;
        }
        Ok(())
    }

    /// Kills both and starts them again.
    ///
    /// # Errors
    /// They do not get ready.
    pub async fn restart(&self) -> anyhow::Result<()> {
        for replica in &self.0 {
            replica.process.kill().await?;
        }
        self.all_up().await
    }

    /// Waits until one of them leads, has looked at everything there is, and has nothing to look at.
    ///
    /// # Errors
    /// None does, or the leader ended meanwhile.
    pub async fn leader_looked_at_all(
        &self,
        networks: usize,
        nads: usize,
        nodes: usize,
    ) -> anyhow::Result<()> {
        let counts = [("network", networks), ("nad", nads), ("node", nodes)];
        let look = || async {
            let seen: anyhow::Result<()> = async {
                let mut leader = None;
                for replica in &self.0 {
                    if replica.leads().await? {
                        leader = Some(replica);
                    }
                }
                let numbers = leader.context("nobody leads")?.probe.numbers().await?;
                for (room, keys) in counts {
                    let label = format!("room=\"{room}\"");
                    let passes = numbers
                        .sum_if("causeway_reconcile_passes_total", |labels| labels.contains(&label))?;
                    let keys = f64::from(u32::try_from(keys)?);
                    ensure!(passes >= keys, "{passes} passes over {keys} keys of {room}");
                }
                let due = numbers.sum("causeway_reconcile_unfinished")?;
                ensure!(due == 0.0, "{due} passes are due");
                Ok(())
            }
            .await;
            seen.map_err(|error| format!("{error:#}"))
        };
        wait_for("a leader that has looked at everything", PATIENCE, look).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_blows_and_every_kind_of_them_is_drawn() {
        let draw = |seed| {
            let mut rng = Rng::with_seed(seed);
            (0..64).map(|_| Blow::draw(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        for blow in [Blow::Crash(0), Blow::Crash(1), Blow::Kill(0), Blow::Kill(1), Blow::Rise] {
            assert!(draw(7).contains(&blow), "{blow:?}");
        }
        assert!((0..8).flat_map(draw).any(|blow| matches!(blow, Blow::Stop(_))));
    }
}
