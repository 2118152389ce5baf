//! Random trouble for the main job's cluster, and what has to be true after it.
//!
//! In: a seed. Out: a cluster in which Nodes, links, addresses, routes, bridges, ports and Uplinks changed at random while
//! programs and servers were killed, paused and restarted ([`Churn::shake`]), and a verdict on what it then says
//! ([`verdict::check`]). The same seed draws the same things in the same order; how far each program was meanwhile is the
//! machine's business.
//!
//! First file to read: [`act`], what can happen; then [`fault`], who can be away meanwhile.

pub mod act;
pub mod agents;
pub mod fault;
pub mod journal;
pub mod verdict;

use std::time::{Duration, Instant};

use anyhow::Context;
use fastrand::Rng;

use self::act::Act;
use self::agents::Agent;
use self::fault::{Fault, Reach};
use self::journal::Journal;
use crate::blue::{self, BlueWorld};

/// The longest time between two things, in milliseconds: more than a program takes to start.
const PAUSE: u64 = 400;

/// The cluster and what happened to it.
pub struct Churn {
    /// The cluster.
    pub world: BlueWorld,
    /// What happened.
    pub journal: Journal,
}

impl Churn {
    /// Starts the cluster with everything of Causeway, and with what only churn needs: a second interface with bridge and
    /// wire on both sides.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let mut world = BlueWorld::start().await?;
        for agent in Agent::ALL {
            let process = agent.spawn(&world).await?;
            *agent.slot(&mut world) = Some(process);
        }
        world.rig.apply(blue::UPLINK_YAML).await?;
        Ok(Self { world, journal: Journal::default() })
    }

    /// Lets things happen for a time. Everything runs again when this returns, and most of it has been put right.
    ///
    /// # Errors
    /// A program of Causeway ended by itself, or a part of the rig does not do what is asked of it.
    pub async fn shake(&self, seed: u64, time: Duration) -> anyhow::Result<()> {
        let mut rng = Rng::with_seed(seed);
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.trouble(&mut rng).await?;
        }
        for act in Act::heal(&mut rng) {
            let outcome = act.happen(&self.world).await?;
            self.journal.act(&act, &outcome);
        }
        // What was put right tells everyone anew. The last changes are others, so that one that got lost stays lost.
        self.trouble(&mut rng).await?;
        self.some_acts(&mut rng, Reach::under(&[]), 3).await?;
        for _ in 0..rng.usize(0..8) {
            let act = Act::of_the_kernel(&mut rng);
            let outcome = act.happen(&self.world).await?;
            self.journal.act(&act, &outcome);
        }
        Ok(())
    }

    /// Somebody is away, things happen, everybody comes back.
    async fn trouble(&self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut faults = Fault::draw(rng);
        for fault in &faults {
            self.journal.note(format!("begins: {fault}"));
            fault.begin(&self.world).await.with_context(|| format!("at the beginning of: {fault}"))?;
        }
        self.some_acts(rng, Reach::under(&faults), 6).await?;
        rng.shuffle(&mut faults);
        while let Some(fault) = faults.pop() {
            self.journal.note(format!("ends: {fault}"));
            fault.end(&self.world).await.with_context(|| format!("at the end of: {fault}"))?;
            self.some_acts(rng, Reach::under(&faults), 3).await?;
        }
        Ok(())
    }

    async fn some_acts(&self, rng: &mut Rng, reach: Reach, at_most: usize) -> anyhow::Result<()> {
        for _ in 0..rng.usize(0..=at_most) {
            let act = Act::draw(rng, reach);
            let outcome = act.happen(&self.world).await?;
            self.journal.act(&act, &outcome);
            // Not to wait for anything: things happen while programs are at any point of their work.
            if rng.bool() {
                tokio::time::sleep(Duration::from_millis(rng.u64(0..PAUSE))).await;
            }
        }
        Ok(())
    }
}
