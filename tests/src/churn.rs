//! Random trouble for the main job's cluster, and what has to be true after it.
//!
//! In: a seed. Out: a cluster in which Nodes, links, addresses, routes, bridges, ports and Uplinks changed at random while
//! programs and servers were killed, paused and restarted ([`Churn::shake`]), and a verdict on what it then says
//! ([`verdict::check`]). The same seed draws the same things in the same order; how far each program was meanwhile is the
//! machine's business.
//!
//! First file to read: [`act`], what can happen; then [`fault`], who can be away meanwhile, and [`last`], how a round ends.

pub mod act;
pub mod agents;
pub mod fault;
pub mod isolation;
pub mod journal;
pub mod last;
pub mod verdict;

use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_api::uplink_state::UplinkState;
use fastrand::Rng;
use kube::Api;

use self::act::Act;
use self::agents::{Agent, PATIENCE};
use self::fault::{Fault, Reach};
use self::journal::Journal;
use crate::blue::{self, BlueWorld};
use crate::states::verdict as verdict_of;

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

    /// Lets things happen for a time. Everything runs again when this returns.
    ///
    /// # Errors
    /// A program of Causeway ended by itself, a part of the rig does not do what is asked of it, or what was put right is
    /// not resolved.
    pub async fn shake(&self, seed: u64, time: Duration) -> anyhow::Result<()> {
        let mut rng = Rng::with_seed(seed);
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.trouble(&mut rng).await?;
        }
        self.all_happen(Act::heal(&mut rng)).await?;
        // What was put right tells everyone anew. The last changes are others, so that one that got lost stays lost.
        self.trouble(&mut rng).await?;
        if rng.u8(0..4) == 0 {
            // From whatever there is by now: little of it may be resolved.
            return self.some_acts(&mut rng, Reach::under(&[]), 8).await;
        }
        self.all_happen(last::basis()).await?;
        self.is_resolved().await?;
        self.last_changes(&mut rng).await
    }

    async fn all_happen(&self, acts: impl IntoIterator<Item = Act>) -> anyhow::Result<()> {
        for act in acts {
            let outcome = act.happen(&self.world).await?;
            self.journal.act(&act, &outcome);
        }
        Ok(())
    }

    /// Waits until every state of the basis is resolved.
    async fn is_resolved(&self) -> anyhow::Result<()> {
        for name in last::STATES {
            let accept = |state: Option<&UplinkState>| {
                state.is_some_and(|state| verdict_of(state.conditions(), "Resolved") == "True/Resolved")
            };
            let states = Api::all(self.world.client());
            causeway_rig::wait_object(states, name, "Resolved", PATIENCE, accept)
                .await
                .context("after everything was put right")?;
        }
        self.journal.note("all resolved; the last changes:");
        Ok(())
    }

    /// One fact after the other changes, in half of the rounds with somebody away for some of them.
    async fn last_changes(&self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut changes = last::changes(rng);
        if rng.bool() {
            // A Node object that is made anew is new in everything.
            let mut faults = Fault::draw(rng);
            faults.retain(Fault::leaves_objects);
            let reach = Reach::under(&faults);
            let (now, later): (Vec<_>, Vec<_>) =
                changes.into_iter().partition(|act| rng.bool() && act.can_happen(reach));
            self.begin(&faults).await?;
            self.all_happen(now).await?;
            for fault in &faults {
                self.journal.note(format!("ends: {fault}"));
                fault.end(&self.world).await.with_context(|| format!("at the end of: {fault}"))?;
            }
            changes = later;
        }
        for act in changes {
            self.pause(rng).await;
            self.all_happen([act]).await?;
        }
        Ok(())
    }

    async fn begin(&self, faults: &[Fault]) -> anyhow::Result<()> {
        for fault in faults {
            self.journal.note(format!("begins: {fault}"));
            fault.begin(&self.world).await.with_context(|| format!("at the beginning of: {fault}"))?;
        }
        Ok(())
    }

    /// Not to wait for anything: things happen while programs are at any point of their work.
    async fn pause(&self, rng: &mut Rng) {
        if rng.bool() {
            tokio::time::sleep(Duration::from_millis(rng.u64(0..PAUSE))).await;
        }
    }

    /// Somebody is away, things happen, everybody comes back.
    async fn trouble(&self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut faults = Fault::draw(rng);
        self.begin(&faults).await?;
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
            self.pause(rng).await;
        }
        Ok(())
    }
}
