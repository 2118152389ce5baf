//! Isolation of pods with a primary network of their own from processes of their hosts.
//!
//! Such a pod has an interface on the default network for the kubelet's probes alone. OVN lets only the node through to
//! it, and any process of the host can speak as the node; so what this machine itself sends there is dropped, but for the
//! kubelet and for what the pod's owner opened ([`ports`]).
//!
//! In: pods of the whole cluster, the kubelet's cgroup, word of changes to the table by others. Out: one chain and six sets
//! of the table `inet ovn-kubernetes`, Events on pods whose annotation cannot be used.
//!
//! * Rules come first, before any pod is known; sets that an earlier process left stay valid until all pods are.
//! * Nothing is removed when the process stops, and what cannot be known opens nothing.
//! * A pass is one transaction at most, with what changed. A restart with nothing to do makes none.
//! * Where networks are off, what is left of isolation is removed.
//!
//! Never does: touch other chains and sets of the table, or filter what the machine forwards.
//!
//! First file to read: [`plan`].

mod error;
pub mod ledger;
mod metrics;
pub mod plan;
pub mod pod;
pub mod ports;
mod removal;
mod room;
pub mod section;
mod tell;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_nft::{Nft, Watcher};
use causeway_runtime::backoff::Backoff;
use causeway_runtime::engine::{self, KeyQueue, Limits};
use causeway_runtime::events::{Publisher, Reporter};
use causeway_runtime::start::Context;
use causeway_runtime::watch::{self, Store, Watch};
use kube::{Api, Client};
use tokio::sync::watch as cell;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::metrics::Metrics;
use self::plan::OWNED;
use self::pod::{PodFacts, WatchedPod};
use self::removal::Removal;
use self::room::{IsolationRoom, News, Progress, Table};
use self::tell::Voice;
use crate::kubelet::Kubelet;

/// The program, as Events name it.
const PROGRAM: &str = "causeway-isolation";

/// Where the tree of cgroups is. Source: nft, `src/datatype.c`, `cgroupv2_get_path`, which looks there too.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Delays between attempts to listen to the kernel.
const LISTEN: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// One room that passes on one key.
const LIMITS: Limits = Limits { parallelism: 1, resync: None, drain: Duration::from_millis(1500) };

/// Starts isolation, or its removal where networks are off: its tasks run under `context`. Returns what it has to tell;
/// nothing where it is off.
pub fn start(
    context: &mut Context,
    client: &Client,
    kubelet: cell::Receiver<Kubelet>,
) -> Option<section::PodRoom> {
    let metrics = Metrics::register(&mut context.registry);
    let queue = KeyQueue::default();
    queue.enqueue(Table);
    if !context.settings.features.user_defined_networks() {
        let removal = Removal { nft: Nft::default(), metrics: metrics.clone() };
        let stop = context.tasks.stop();
        context.tasks.spawn("isolation-removal", async move {
            engine::run(removal, queue, LIMITS, &metrics.engine, stop).await;
        });
        return None;
    }
    let (settings, nft, news) = (&context.settings, Nft::default(), News::new(queue.clone()));
    let node = settings.identity.clone();
    let reporter = Reporter { program: PROGRAM, instance: node.clone() };
    let (recorder, publisher) = Publisher::new(client.clone(), reporter, metrics.events.clone());
    let watch = pods(client, &node, &metrics, &news);
    let progress: Progress = Arc::new(Mutex::new(Err("the rules are not in place yet".to_owned())));
    let room = IsolationRoom {
        families: settings.families,
        resync: settings.resync,
        cgroups: Path::new(CGROUPS).to_owned(),
        nft: nft.clone(),
        pods: watch.store(),
        kubelet: kubelet.clone(),
        news: news.clone(),
        progress: Arc::clone(&progress),
        voice: Voice::new(recorder),
        metrics: metrics.clone(),
        memory: tokio::sync::Mutex::default(),
    };
    let told = section::PodRoom::new(settings.families, watch.store());
    let (store, limits) = (watch.store(), Limits { resync: settings.resync, ..LIMITS });
    let (tasks, stop) = (context.tasks.clone(), context.tasks.stop());
    readiness(context, store.clone(), progress);
    tasks.spawn("isolation-events", publisher.run(stop.clone()));
    tasks.spawn("isolation-pods", watch.run(stop.clone()));
    tasks.spawn("isolation-news", tell_news(store, kubelet, news.clone(), stop.clone()));
    tasks.spawn("isolation", async move {
        // Listening begins before the first look, so that nothing happens unheard between the two.
        let watcher = listen(&nft);
        let engine = engine::run(room, queue, limits, &metrics.engine, stop.clone());
        tokio::join!(engine, hear(watcher, &nft, &news, &metrics, &stop));
    });
    info!("Host isolation started");
    Some(told)
}

/// The watch of pods.
fn pods(
    client: &Client,
    node: &str,
    metrics: &Metrics,
    news: &News,
) -> Watch<WatchedPod, watch::NamespacedName, PodFacts> {
    let (node, news) = (node.to_owned(), news.clone());
    Watch::new(Api::all(client.clone()), pod::config(), watch::namespaced_name, move |pod| {
        PodFacts::of(pod, &node)
    })
    .metered(&metrics.watch)
    .on_change(move |change| news.pod(change.key))
}

fn readiness(context: &Context, pods: Store<watch::NamespacedName, PodFacts>, progress: Progress) {
    context.readiness.add("isolation", move || {
        pods.readiness().map_err(|error| error.to_string())?;
        progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    });
}

/// Asks for a pass when all pods are known, and whenever the kubelet's cgroup is another.
async fn tell_news(
    pods: Store<watch::NamespacedName, PodFacts>,
    mut kubelet: cell::Receiver<Kubelet>,
    news: News,
    stop: CancellationToken,
) {
    let all_pods = async {
        pods.wait_synced().await;
        news.wake();
    };
    let kubelets = async {
        // Whoever looks for it has ended when this fails: it stays as it is.
        while kubelet.changed().await.is_ok() {
            news.wake();
        }
    };
    let both = async { tokio::join!(all_pods, kubelets) };
    stop.run_until_cancelled(both).await;
    stop.cancelled().await;
}

fn listen(nft: &Nft) -> Option<Watcher> {
    let opened = Watcher::open(OWNED, nft.own_writes());
    opened.inspect_err(|error| warn!(%error, "Changes of nftables by others go unheard")).ok()
}

/// Asks for a look whenever somebody else has changed something, or may have.
async fn hear(
    mut watcher: Option<Watcher>,
    nft: &Nft,
    news: &News,
    metrics: &Metrics,
    stop: &CancellationToken,
) {
    let mut failures = 0_u32;
    let hearing = async {
        loop {
            let heard = match &mut watcher {
                Some(watcher) => watcher.foreign_change().await.is_ok(),
                None => false,
            };
            if heard {
                failures = 0;
                metrics.foreign.inc();
                warn!(table = OWNED.table, "Somebody else changed host isolation, or may have");
            } else {
                failures = failures.saturating_add(1);
                sleep(LISTEN.random_delay(failures)).await;
                watcher = listen(nft);
            }
            news.look();
        }
    };
    stop.run_until_cancelled(hearing).await;
}
