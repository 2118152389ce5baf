//! The mirror controller of EndpointSlices: next to each slice of a namespace with a primary network, a second one with the
//! addresses that its pods have there.
//!
//! Kubernetes knows pods by their addresses on the default network, so its slices are no use to the load balancers of
//! another network; those read the mirrors.
//!
//! In: a watch of EndpointSlices, and what several rooms see of pods and NetworkAttachmentDefinitions. Out: mirrored EndpointSlices, and Events on
//! Services some of whose endpoints have no address on the network. The key is the slice that is mirrored, also one that
//! does not exist: its mirrors have to go.
//!
//! * A mirror rests on its source, on the pods that it names, on those of the same virtual machine, and on the namespace's
//!   network; a change of any of them wakes it, and nothing else does.
//! * Mirrors are deleted only if every kind has been listed and the newest snapshots say so; where the network is what is
//!   missing, the API server itself confirms it ([`confirm`]). The request names the object's uid.
//! * Only the leader writes. A change names the version that it rests on.
//!
//! Never does: touch a slice that is neither marked as a mirror nor says of what, or write what is already so.
//!
//! First file to read: [`plan`].

mod apply;
mod confirm;
mod error;
#[cfg(test)]
mod fixtures;
mod metrics;
mod migration;
mod observe;
mod plan;
mod tell;
#[cfg(test)]
mod tests;
mod watched;

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing, Requeue, Room};
use causeway_runtime::health::Readiness;
use causeway_runtime::leader::Leadership;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, NamespacedName, Watch};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use prometheus_client::registry::Registry;
use tracing::debug;

use self::apply::Hand;
use self::confirm::Reader;
use self::error::MirrorError;
use self::metrics::Metrics;
use self::observe::{Index, Stores, primary};
use self::plan::Step;
use self::tell::Voice;
use self::watched::{KUBERNETES, MANAGED_BY, MIRRORS, Slice, SliceKey};
use crate::observed::Sources;
use crate::observed::nad::Nad;
use crate::observed::pod::{Machine, Pod, Reach};
use crate::wake::Wake;
use crate::written::{UNSEEN, Written};
use crate::{Meters, Surroundings};

/// Shortest time between two looks at one slice that events ask for: the pods of a Service get their addresses together.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The room that the engine runs.
#[derive(Clone)]
struct MirroredSlices {
    stores: Stores,
    reader: Reader,
    hand: Hand,
    metrics: Metrics,
    voice: Voice,
}

impl Room for MirroredSlices {
    const NAME: &'static str = "endpointslice";
    type Key = SliceKey;
    type Error = MirrorError;

    async fn reconcile(&self, key: &SliceKey) -> Result<Requeue, MirrorError> {
        let world = observe::world(key, &self.stores)?;
        let plan = plan::mirrors(key, &world);
        self.metrics.omitted(key, &plan.omitted);
        if plan.steps.is_empty() {
            debug!(slice = %key, "Nothing to do");
        }
        confirm::no_network(key, &plan, &self.reader).await?;
        apply::run(key, &plan, &self.hand, &self.metrics).await?;
        self.voice.tell(key, &world, &plan);
        // One that is gone before the watch showed it is missed by nobody else.
        let made = plan.steps.iter().any(|step| matches!(step, Step::Create { .. }));
        Ok(match world.source {
            _ if made || world.unseen => Requeue::After(UNSEEN),
            Some(_) => Requeue::Done,
            None => Requeue::Gone,
        })
    }
}

/// The controller with its watch, before it is started.
pub struct Controller {
    slices: Watch<EndpointSlice, SliceKey, Slice>,
    queue: KeyQueue<SliceKey>,
    room: MirroredSlices,
    leadership: Leadership,
}

impl Controller {
    /// A controller over this connection, with its metrics in `registry`, subscribed to what it needs.
    #[must_use]
    pub(crate) fn new(
        surroundings: &Surroundings,
        registry: &mut Registry,
        sources: Sources,
    ) -> (Self, Sources) {
        let Surroundings { client, meters, leadership, recorder } = surroundings;
        let queue = KeyQueue::new(Pacing { min_interval: Some(MIN_INTERVAL), ..Pacing::default() });
        // Those of headless Services come along: a mirror that somebody gave their label must not vanish from sight.
        let ours = watch::config().labels(&format!("{MANAGED_BY} in ({KUBERNETES},{MIRRORS})"));
        let slices = Watch::new(Api::all(client.clone()), ours, SliceKey::of, Slice::of);
        let stores = Stores {
            slices: slices.store(),
            shared: sources.stores.clone(),
            index: Index::default(),
            written: Written::default(),
        };
        let bells = Bells { wake: Wake::new(&queue, leadership), stores: stores.clone() };
        let (slices, sources) = (bells.subscribe(slices), bells.subscribe_shared(sources));
        let written = stores.written.clone();
        let room = MirroredSlices {
            reader: Reader::new(client.clone(), stores.shared.mode()),
            stores,
            hand: Hand::new(client.clone(), meters.writes.clone(), leadership.clone(), written),
            metrics: Metrics::register(registry),
            voice: Voice::new(recorder.clone()),
        };
        let slices = slices.metered(&meters.watches);
        (Self { slices, queue, room, leadership: leadership.clone() }, sources)
    }

    /// Starts the watch, and in each term of leadership the engine, once every kind has been listed. An API server
    /// that is away is waited for; `readiness` says so meanwhile. A standby has the same snapshots as the leader, so it
    /// takes over without reading anything.
    pub fn start(self, tasks: &Tasks, readiness: &Readiness, meters: &Meters, resync: Option<Duration>) {
        let stores = self.room.stores.clone();
        readiness.add("endpointslice", move || stores.readiness().map_err(|error| error.to_string()));

        let stop = tasks.stop();
        tasks.spawn("watch of EndpointSlices", self.slices.run(stop.clone()));

        let (room, queue, metrics, leadership) =
            (self.room, self.queue, meters.engine.clone(), self.leadership);
        let limits = Limits { resync, ..Limits::default() };
        tasks.spawn("endpointslice", async move {
            if stop.run_until_cancelled(room.stores.wait_synced()).await.is_none() {
                return;
            }
            while let Some(term) = leadership.term(&stop).await {
                // From here on changes wake the room; what came before is in the snapshots.
                room.stores.written.forget_all();
                queue.enqueue_all(room.everything());
                engine::run(room.clone(), queue.clone(), limits, &metrics, term.over()).await;
                room.metrics.forget();
            }
        });
    }
}

impl MirroredSlices {
    /// Every key that there can be something to do for: nothing is done about the slices of other namespaces.
    fn everything(&self) -> BTreeSet<SliceKey> {
        self.stores.of_concern()
    }
}

/// What each change wakes: the slices that it concerns.
#[derive(Clone)]
struct Bells {
    wake: Wake<SliceKey>,
    stores: Stores,
}

impl Bells {
    /// To the kind of this room.
    fn subscribe(
        &self,
        slices: Watch<EndpointSlice, SliceKey, Slice>,
    ) -> Watch<EndpointSlice, SliceKey, Slice> {
        let bells = self.clone();
        slices.on_change(move |change| {
            let (key, old, new) = (change.key, change.old.as_deref(), change.new.as_deref());
            bells.stores.index.slice(key, old, new);
            bells.stores.written.seen(key, new.and_then(Slice::mirror));
            let concerned: BTreeSet<SliceKey> =
                old.into_iter().chain(new).map(|slice| slice.concerns(key)).collect();
            bells.wake.up(concerned.into_iter().filter(|source| bells.stores.is_of_concern(source)));
        })
    }

    /// To the kinds that several rooms see.
    fn subscribe_shared(&self, sources: Sources) -> Sources {
        let bells = self.clone();
        let pods = sources.pods.on_change(move |change| {
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            // Without a value before it may have been unreadable, which mirrors show too.
            if old.is_none() || change.unreadable.is_some() || is_seen(old, new) {
                bells.pod(change.key, old, new);
            }
        });
        let bells = self.clone();
        let nads = sources.nads.on_change(move |change| {
            let network =
                |nad: Option<&Nad>| nad.and_then(|nad| Some((primary(nad)?.to_owned(), nad.created)));
            let same = network(change.old.as_deref()) == network(change.new.as_deref());
            // Without a value before it may have been unreadable, and then nothing was done in its namespace.
            if !same || change.old.is_none() {
                let sources = bells.stores.index.sources_in(change.key.namespace().as_str()).into_iter();
                bells.wake.up(sources.filter(|source| !same || bells.stores.is_of_concern(source)));
            }
        });
        Sources { nads, pods, ..sources }
    }

    fn pod(&self, key: &NamespacedName, old: Option<&Pod>, new: Option<&Pod>) {
        let index = &self.stores.index;
        index.pod(key, new);
        let mut pods = BTreeSet::from([key.clone()]);
        // Whether a machine moves shows in all its pods.
        for machine in [old, new].into_iter().flatten().filter_map(|pod| pod.machine.as_ref()) {
            pods.extend(self.stores.pods_of_machine(&key.namespace, machine));
        }
        let slices = index.slices_of(&pods).into_iter();
        self.wake.up(slices.filter(|source| self.stores.is_of_concern(source)));
    }
}

/// Whether a change of a pod is one that mirrors can show. A pod that says nothing is as good as none.
fn is_seen(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    shown(old) != shown(new)
}

fn shown(pod: Option<&Pod>) -> (Reach<'_>, Option<&Machine>) {
    pod.map_or((Reach::Networks(&[]), None), |pod| (pod.reach(), pod.machine.as_deref()))
}
