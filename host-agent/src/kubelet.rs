//! The kubelet's cgroup: which it is, whether the kernel can match on it, and when rules must be loaded again.
//!
//! In: the cgroup tree, `/proc`, the option `--kubelet-cgroup-path`, `nft`, systemd's private socket. Out: [`Kubelet`] by a
//! watch, Events on the Node, numbers. The kernel keeps the number of a cgroup, not its path, so a cgroup that is removed
//! and made again needs its rules loaded again: [`Kubelet::Cgroup`] then has a greater generation. Noticed by the directory
//! (`inotify`, on every init system) and by systemd; either is enough.
//!
//! Whatever is missing, this goes on looking and the process runs: without a cgroup the rule for the kubelet is left out
//! and isolation is closed. Never loads rules that stay.
//!
//! [`find`] looks, [`state`] decides, [`check`] asks the kernel, [`unit`] and [`systemd`] follow restarts, [`eyes`] watches
//! directories.

pub mod check;
mod eyes;
pub mod find;
mod metrics;
mod process;
pub mod section;
#[cfg(test)]
mod simulated;
mod state;
mod systemd;
pub mod unit;
mod voice;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use causeway_runtime::backoff::{Backoff, jittered};
use causeway_runtime::events::{EventMetrics, Publisher, Reporter};
use causeway_runtime::settings::{CgroupPath, Settings};
use causeway_runtime::start::Context;
use causeway_runtime::telemetry::chain;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::eyes::Eyes;
use self::find::{Found, NotFound, Places};
pub use self::metrics::Metrics;
pub use self::state::Telling;
use self::state::{Cause, Next, State};
use self::systemd::Words;
pub use self::voice::Voice;

/// The program, as Events name it.
const PROGRAM: &str = "causeway-isolation";

/// systemd's private socket. Source: systemd, `src/shared/bus-util.c`.
const SYSTEMD: &str = "/run/systemd/private";

/// Times between looks that nothing asks for.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// While no cgroup was ever found: a kubelet may start in one that exists, which nothing tells.
    searching: Duration,
    /// Otherwise, in case an event was missed.
    resync: Duration,
}

const PACE: Pace = Pace { searching: Duration::from_secs(15), resync: Duration::from_mins(1) };

/// How the kubelet is told apart from other processes of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kubelet {
    /// Still looking, or looking again after the cgroup went.
    Unknown,
    /// By its cgroup, which the kernel can match on.
    Cgroup {
        /// Relative to the cgroup root.
        path: String,
        /// Grows whenever the rules must be loaded again.
        generation: u64,
    },
    /// Not at all: its probes are dropped like everything else.
    Unsupported {
        /// Why, for people.
        reason: String,
    },
}

impl Kubelet {
    /// The mode in one word.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Unknown => "looking",
            Self::Cgroup { .. } => "kubelet",
            Self::Unsupported { .. } => "closed",
        }
    }
}

/// Starts following the kubelet's cgroup: its task runs under `context`. Returns what rules have to follow, and what there
/// is to tell to those who ask the agent.
pub fn start(context: &mut Context, client: &Client) -> (watch::Receiver<Kubelet>, section::KubeletRoom) {
    let node = context.settings.identity.clone();
    let metrics = Metrics::register(&mut context.registry);
    let reporter = Reporter { program: PROGRAM, instance: node.clone() };
    // Two Events in a lifetime: not worth numbers of their own beside those of the rooms.
    let events = EventMetrics::register(&mut Registry::default());
    let (recorder, publisher) = Publisher::new(client.clone(), reporter, events);
    let follower = Follower::new(Options::of(&context.settings), Voice::new(&node, recorder), metrics);
    let (kubelet, section, stop) = (follower.kubelet(), follower.section(), context.tasks.stop());
    context.tasks.spawn("kubelet-events", publisher.run(stop.clone()));
    context.tasks.spawn("kubelet", follower.run(stop));
    (kubelet, section)
}

/// Where to look and what to ask.
#[derive(Clone, Debug)]
pub struct Options {
    /// File systems.
    pub places: Places,
    /// What `--kubelet-cgroup-path` names.
    pub configured: Option<CgroupPath>,
    /// The program `nft`.
    pub nft: PathBuf,
    /// systemd's private socket.
    pub systemd: PathBuf,
}

impl Options {
    /// Those of the machine, as the settings say.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self {
            places: Places::default(),
            configured: settings.kubelet_cgroup_path.clone(),
            nft: "nft".into(),
            systemd: SYSTEMD.into(),
        }
    }
}

/// All that is known, for those who ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) kubelet: Kubelet,
    pub(crate) source: Option<find::Source>,
    /// Whether a restart would be noticed by systemd; `None`: it was not asked yet.
    pub(crate) systemd: Option<Result<(), String>>,
    /// Whether a restart would be noticed by the directory.
    pub(crate) directories: Result<(), String>,
}

/// Follows the kubelet's cgroup, in a task of its own.
#[derive(Debug)]
pub struct Follower {
    options: Options,
    voice: Voice,
    metrics: Metrics,
    kubelet: watch::Sender<Kubelet>,
    account: watch::Sender<Account>,
    pauses: Backoff,
    pace: Pace,
}

impl Follower {
    /// A follower that has not looked yet.
    #[must_use]
    pub fn new(options: Options, voice: Voice, metrics: Metrics) -> Self {
        let (kubelet, directories) = (Kubelet::Unknown, Ok(()));
        metrics.published(&kubelet);
        let account = Account { kubelet: kubelet.clone(), source: None, systemd: None, directories };
        Self {
            options,
            voice,
            metrics,
            kubelet: watch::Sender::new(kubelet),
            account: watch::Sender::new(account),
            pauses: systemd::PAUSES,
            pace: PACE,
        }
    }

    /// What rules have to follow.
    #[must_use]
    pub fn kubelet(&self) -> watch::Receiver<Kubelet> {
        self.kubelet.subscribe()
    }

    /// What `causewayctl` may ask.
    #[must_use]
    pub fn section(&self) -> section::KubeletRoom {
        section::KubeletRoom::new(self.account.subscribe())
    }

    /// Runs until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let words = Words::default();
        let unit = watch::Sender::new(None);
        let following =
            systemd::follow(self.options.systemd.clone(), unit.subscribe(), words.clone(), self.pauses);
        tokio::select! {
            () = stop.cancelled() => {}
            () = following => {}
            () = self.look_for_ever(&words, &unit) => {}
        }
    }

    async fn look_for_ever(&self, words: &Words, unit: &watch::Sender<Option<String>>) {
        let mut state = State::default();
        let mut link = words.link.subscribe();
        let (mut eyes, mut sight) = opened(Eyes::open());
        let mut cause = Cause::Start;
        loop {
            self.look(&mut state, cause).await;
            name_unit(&state, unit);
            let turned = match &mut eyes {
                Some(eyes) => turn(eyes, self.watched(&state), &mut sight),
                None => false,
            };
            self.tell_tracking(&mut state, words.link.borrow().clone(), &sight);
            if turned {
                // What happened before the watch was set was not told.
                cause = Cause::Changed;
                continue;
            }
            let pause = if state.last().is_none() { self.pace.searching } else { self.pace.resync };
            cause = tokio::select! {
                biased;
                () = words.active.notified() => Cause::Restarted,
                _ = link.changed() => Cause::Changed,
                seen = changed(&mut eyes) => {
                    if let Err(error) = seen {
                        (eyes, sight) = (None, Err(error.to_string()));
                    }
                    Cause::Changed
                }
                () = sleep(jittered(pause)) => Cause::Slow,
            };
        }
    }

    /// One look, with the kernel's word where it is needed.
    async fn look(&self, state: &mut State, cause: Cause) {
        let found = self.find(state.held().cloned()).await;
        let next = match state.looked(found, cause) {
            Next::Check(found) => {
                let answer = check::check(&self.options.nft, &found.path).await;
                // A cgroup that went meanwhile is not the kernel's fault.
                match self.find(Some(found.clone())).await {
                    Ok(now) if now.path == found.path && (answer.is_ok() || now.id == found.id) => {
                        state.checked(now, answer)
                    }
                    // Told by the watch, or looked at again when time has passed.
                    Ok(_) => Next::Nothing,
                    Err(reason) => state.looked(Err(reason), cause),
                }
            }
            next => next,
        };
        if let Next::Publish(kubelet) = next {
            self.publish(state, &kubelet);
        }
    }

    async fn find(&self, held: Option<Found>) -> Result<Found, NotFound> {
        let (places, configured) = (self.options.places.clone(), self.options.configured.clone());
        let root = places.cgroups.clone();
        let looked = spawn_blocking(move || find::find(&places, configured.as_ref(), held.as_ref())).await;
        looked.unwrap_or_else(|error| Err(NotFound::Unreadable { root, error: io::Error::other(error) }))
    }

    fn publish(&self, state: &mut State, kubelet: &Kubelet) {
        match kubelet {
            Kubelet::Cgroup { path, generation: 1 } => {
                info!(cgroup = path, "Kubelet found");
                warn!(cgroup = path, "Every process in this cgroup can reach pods of primary networks");
            }
            Kubelet::Cgroup { path, generation } => {
                info!(cgroup = path, generation, "Kubelet's cgroup is to be matched anew");
            }
            Kubelet::Unknown => warn!("Kubelet's cgroup is gone; looking for it"),
            Kubelet::Unsupported { .. } => {}
        }
        let new = self.kubelet.send_if_modified(|published| {
            let new = published != kubelet;
            published.clone_from(kubelet);
            new
        });
        if !new {
            return;
        }
        self.metrics.published(kubelet);
        let source = state.held().map(|found| found.source);
        self.account.send_modify(|account| {
            account.kubelet.clone_from(kubelet);
            account.source = source;
        });
        if let Some(telling) = state.tell_probes(kubelet) {
            self.voice.tell(&telling);
        } else if let Kubelet::Unsupported { reason } = kubelet {
            warn!(reason, "Kubelet's probes are not told apart");
        }
    }

    fn watched(&self, state: &State) -> eyes::Watched {
        let root = &self.options.places.cgroups;
        let target = self.options.configured.as_ref().or(state.last().map(|found| &found.path));
        let way = target.map(|path| eyes::way_to(root, path)).unwrap_or_default();
        if state.held().is_some() || self.options.configured.is_some() {
            return way;
        }
        eyes::joined(eyes::upper_part(root), way)
    }

    fn tell_tracking(&self, state: &mut State, link: Option<Result<(), String>>, sight: &Result<(), String>) {
        let without = state.held().and_then(|found| unit::unit_of(&found.path).err());
        let systemd = without.map(|error| Err(error.to_string())).or(link);
        self.metrics.tracked("systemd", matches!(systemd, Some(Ok(()))));
        self.metrics.tracked("directory", sight.is_ok());
        self.account.send_if_modified(|account| {
            let new = (&account.systemd, &account.directories) != (&systemd, sight);
            account.systemd.clone_from(&systemd);
            account.directories.clone_from(sight);
            new
        });
        // An attempt that has not ended says nothing.
        if let Some(systemd) = systemd
            && let Some(telling) = state.tell_tracking(&systemd, sight)
        {
            self.voice.tell(&telling);
        }
    }
}

/// systemd is asked about the unit of the cgroup that was used last: while it is gone, its start is what counts.
fn name_unit(state: &State, unit: &watch::Sender<Option<String>>) {
    let wanted = state.last().and_then(|found| unit::unit_of(&found.path).ok().map(str::to_owned));
    unit.send_if_modified(|unit| {
        let new = *unit != wanted;
        *unit = wanted;
        new
    });
}

fn opened(eyes: io::Result<Eyes>) -> (Option<Eyes>, Result<(), String>) {
    match eyes {
        Ok(eyes) => (Some(eyes), Ok(())),
        Err(error) => {
            warn!(error = %chain(&error), "Cgroups cannot be watched");
            (None, Err(error.to_string()))
        }
    }
}

/// Turns the eyes and notes whether they see what they should; tells whether there is something new to look at.
fn turn(eyes: &mut Eyes, watched: eyes::Watched, sight: &mut Result<(), String>) -> bool {
    match eyes.turn_to(watched) {
        Ok(new) => {
            *sight = Ok(());
            new
        }
        Err(error) => {
            if sight.is_ok() {
                warn!(error = %chain(&error), "Cgroups cannot be watched");
            }
            *sight = Err(error.to_string());
            false
        }
    }
}

/// Waits for a change; for ever, where nothing can be seen.
async fn changed(eyes: &mut Option<Eyes>) -> io::Result<()> {
    match eyes {
        Some(eyes) => eyes.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
