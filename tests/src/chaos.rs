//! Random trouble for tenant networks in the control plane, and what has to be true after it.
//!
//! In: a seed. Out: a control plane in which networks, Namespaces and Nodes came and went, and people took away or spoiled
//! what the cluster manager had written, while its two replicas were killed at random points and handed over to each
//! other ([`Chaos::shake`]); and a verdict on what is there then ([`Chaos::settles`]). The same seed draws the same things
//! in the same order; how far the cluster manager was meanwhile is the machine's business.
//!
//! First file to read: [`act`], what can happen; then [`verdict`].

pub mod act;
pub mod replicas;
pub mod verdict;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use causeway_rig::Rig;
use fastrand::Rng;
use futures::future::join_all;

use self::act::{Act, Outcome, Population};
use self::replicas::{Blow, Replicas};
use self::world::World;

/// Networks that are there before the trouble begins, and about which their number moves.
const NETWORKS: usize = 200;
/// The longest time between two bursts, in milliseconds.
const PAUSE: u64 = 150;
/// How long the cluster manager may be silent while something is not as it has to be: its waits between attempts have grown, to
/// half a minute at most.
const PATIENCE: Duration = Duration::from_secs(45);

/// The control plane and what happened to it.
pub struct Chaos {
    world: World,
    replicas: Replicas,
    population: Population,
    done: AtomicUsize,
    refused: AtomicUsize,
    blows: usize,
    /// Who led when somebody last looked, and how often it was another one than before.
    leader: Option<String>,
    hand_overs: usize,
}

impl Chaos {
    /// Starts the control plane with both replicas.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let world = World::start().await?;
        let replicas = Replicas::start(&world).await?;
        let (population, done, refused) = Default::default();
        Ok(Self { world, replicas, population, done, refused, blows: 0, leader: None, hand_overs: 0 })
    }

    /// The rig, for its logs.
    #[must_use]
    pub fn rig(&self) -> &Rig {
        &self.world.rig
    }

    /// Lets things happen for a time. Both replicas run when this returns.
    ///
    /// # Errors
    /// A replica ended by itself, or most of what was tried is refused.
    pub async fn shake(&mut self, seed: u64, time: Duration) -> anyhow::Result<()> {
        let mut rng = Rng::with_seed(seed);
        let first: Vec<Act> = self.population.founding(&mut rng, NETWORKS);
        for burst in first.chunks(64) {
            self.happen(burst).await?;
        }
        let end = Instant::now() + time;
        // Trouble there has to be, however slow the machine, and a hand-over, wherever the blows fell.
        while Instant::now() < end || self.hand_overs == 0 {
            self.replicas.are_as_left()?;
            let blow = match self.who_leads().await? {
                Some(leader) if Instant::now() >= end => Blow::at_leader(&leader),
                _ => (rng.u8(0..6) == 0).then(|| Blow::draw(&mut rng)),
            };
            if let Some(blow) = blow {
                self.replicas.strike(blow).await.with_context(|| format!("{blow:?}"))?;
                self.blows += 1;
            }
            let burst: Vec<Act> =
                (0..rng.usize(1..=16)).map(|_| Act::draw(&mut rng, &mut self.population, NETWORKS)).collect();
            self.happen(&burst).await?;
            if rng.bool() {
                // Not to wait for anything: things happen while the cluster manager is at any point of its work.
                tokio::time::sleep(Duration::from_millis(rng.u64(0..PAUSE))).await;
            }
        }
        self.replicas.all_up().await?;
        let (done, refused) = (self.done.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        ensure!(done > 4 * refused, "{refused} acts were refused, and {done} were not");
        Ok(())
    }

    /// Who leads now, if anybody does.
    async fn who_leads(&mut self) -> anyhow::Result<Option<String>> {
        let now = self.world.leader().await?;
        if now.is_some() && now != self.leader {
            self.hand_overs += usize::from(self.leader.is_some());
            self.leader.clone_from(&now);
        }
        Ok(now)
    }

    async fn happen(&self, burst: &[Act]) -> anyhow::Result<()> {
        let outcomes = join_all(burst.iter().map(|act| act.happen(&self.world))).await;
        for (act, outcome) in burst.iter().zip(outcomes) {
            let count = match outcome.with_context(|| format!("{act:?}"))? {
                Outcome::Done => &self.done,
                Outcome::Refused => &self.refused,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until everything is as it has to be and stays so, and until a restart of both replicas writes nothing.
    ///
    /// # Errors
    /// Something is not as it has to be.
    pub async fn settles(&self) -> anyhow::Result<()> {
        let (mut mark, mut heard) = (self.world.audit.mark()?, Instant::now());
        loop {
            let problems = verdict::problems(&self.world.inventory().await?);
            if problems.is_empty() {
                break;
            }
            let now = self.world.audit.mark()?;
            if !self.world.writes(mark)?.is_empty() {
                (mark, heard) = (now, Instant::now());
            }
            ensure!(heard.elapsed() < PATIENCE, "after the trouble:\n{}", problems.join("\n"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.world.comes_to_rest(PATIENCE).await?;
        let before = self.world.inventory().await?;
        let problems = verdict::problems(&before);
        ensure!(problems.is_empty(), "at rest, after all was well once:\n{}", problems.join("\n"));

        let mark = self.world.audit.mark()?;
        self.replicas.restart().await?;
        let networks = before.cudns.len() + before.udns.len();
        self.replicas.leader_looked_at_all(networks, before.nads.len(), before.nodes.len()).await?;
        self.world.comes_to_rest(PATIENCE).await?;
        let writes = self.world.writes(mark)?;
        if !writes.is_empty() {
            let after = self.world.inventory().await?;
            bail!("a restart wrote: {writes:#?}\n{}", verdict::told_differently(&before, &after).join("\n"));
        }
        Ok(())
    }

    /// What happened so far.
    #[must_use]
    pub fn summary(&self) -> String {
        let (done, refused) = (self.done.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        format!(
            "{done} acts, {refused} refused, {} blows, {} hand-overs; {}",
            self.blows, self.hand_overs, self.population
        )
    }
}
