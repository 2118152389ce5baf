//! The mirror controller of EndpointSlices: next to each slice of a namespace with a primary network, a second one with the
//! addresses that its pods have there.
//!
//! Kubernetes knows pods by their addresses on the default network, so its slices are no use to the load balancers of
//! another network; those read the mirrors.
//!
//! In: watches of EndpointSlices, pods and NetworkAttachmentDefinitions. Out: mirrored EndpointSlices, and Events on
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
mod written;

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_api::nad::{GatewayMode, NetworkAttachmentDefinition};
use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing, Requeue, Room};
use causeway_runtime::health::Readiness;
use causeway_runtime::leader::Leadership;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, Watch};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use tracing::debug;

use self::apply::Hand;
use self::confirm::Reader;
use self::error::MirrorError;
use self::metrics::Metrics;
use self::observe::{Index, Stores};
use self::tell::Voice;
use self::watched::{
    AttachmentKey, KUBERNETES, MANAGED_BY, MIRRORS, Mirror, Pod, PodKey, Primary, Slice, SliceKey, WatchedPod,
};
use self::written::Written;
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
        Ok(if world.source.is_some() { Requeue::Done } else { Requeue::Gone })
    }
}

/// The controller with its watches, before it is started.
pub struct Controller {
    slices: Watch<EndpointSlice, SliceKey, Slice>,
    pods: Watch<WatchedPod, PodKey, Pod>,
    primaries: Watch<NetworkAttachmentDefinition, AttachmentKey, Primary>,
    queue: KeyQueue<SliceKey>,
    room: MirroredSlices,
    leadership: Leadership,
}

impl Controller {
    /// A controller over this connection, with its metrics in `registry`, for a cluster of this gateway mode.
    #[must_use]
    pub fn new(surroundings: &Surroundings, mode: GatewayMode, registry: &mut Registry) -> Self {
        let Surroundings { client, meters, leadership, recorder } = surroundings;
        let queue = KeyQueue::new(Pacing { min_interval: Some(MIN_INTERVAL), ..Pacing::default() });
        let wake = Wake { queue: queue.clone(), leadership: leadership.clone() };
        let (slices, pods, primaries, stores) = watches(client, mode, &wake);
        let written = stores.written.clone();
        let room = MirroredSlices {
            stores,
            reader: Reader::new(client.clone(), mode),
            hand: Hand::new(client.clone(), meters.writes.clone(), leadership.clone(), written),
            metrics: Metrics::register(registry),
            voice: Voice::new(recorder.clone()),
        };
        Self {
            slices: slices.metered(&meters.watches),
            pods: pods.metered(&meters.watches),
            primaries: primaries.metered(&meters.watches),
            queue,
            room,
            leadership: leadership.clone(),
        }
    }

    /// Starts the watches, and in each term of leadership the engine, once every kind has been listed. An API server
    /// that is away is waited for; `readiness` says so meanwhile. A standby has the same snapshots as the leader, so it
    /// takes over without reading anything.
    pub fn start(self, tasks: &Tasks, readiness: &Readiness, meters: &Meters, resync: Option<Duration>) {
        let stores = self.room.stores.clone();
        readiness.add("endpointslice", move || stores.readiness().map_err(|error| error.to_string()));

        let stop = tasks.stop();
        tasks.spawn("watch of EndpointSlices", self.slices.run(stop.clone()));
        tasks.spawn("watch of pods for EndpointSlices", self.pods.run(stop.clone()));
        tasks.spawn("watch of primary networks for EndpointSlices", self.primaries.run(stop.clone()));

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
        self.stores.index.of_concern()
    }
}

/// What changes are passed on to. A standby is not woken: it looks at everything when it takes over, and keys that nobody
/// takes would pile up.
#[derive(Clone)]
struct Wake {
    queue: KeyQueue<SliceKey>,
    leadership: Leadership,
}

impl Wake {
    fn up(&self, keys: impl IntoIterator<Item = SliceKey>) {
        if self.leadership.leads() {
            self.queue.enqueue_all(keys);
        }
    }
}

type Watches = (
    Watch<EndpointSlice, SliceKey, Slice>,
    Watch<WatchedPod, PodKey, Pod>,
    Watch<NetworkAttachmentDefinition, AttachmentKey, Primary>,
    Stores,
);

/// The three watches, each of which wakes the room for the slices that a change concerns.
fn watches(client: &Client, mode: GatewayMode, wake: &Wake) -> Watches {
    // Those of headless Services come along: a mirror that somebody gave their label must not vanish from sight.
    let ours = watch::config().labels(&format!("{MANAGED_BY} in ({KUBERNETES},{MIRRORS})"));
    let slices = Watch::new(Api::all(client.clone()), ours, SliceKey::of, Slice::of);
    let pods = Watch::new(Api::all(client.clone()), watch::config(), PodKey::of, Pod::of);
    let primaries = Watch::new(
        Api::all(client.clone()),
        watch::config(),
        AttachmentKey::of,
        move |attachment: NetworkAttachmentDefinition| Primary::of(&attachment, mode),
    );
    let stores = Stores {
        slices: slices.store(),
        pods: pods.store(),
        primaries: primaries.store(),
        index: Index::default(),
        written: Written::default(),
    };

    let (woken, all) = (wake.clone(), stores.clone());
    let slices = slices.on_change(move |change| {
        let (key, old, new) = (change.key, change.old.as_deref(), change.new.as_deref());
        let concerned: BTreeSet<SliceKey> =
            old.into_iter().chain(new).map(|slice| slice.concerns(key)).collect();
        all.index.slice(key, old, new);
        all.written.seen(mirror(old), mirror(new));
        woken.up(concerned.into_iter().filter(|source| all.index.is_of_concern(source)));
    });
    let (woken, all) = (wake.clone(), stores.clone());
    let pods = pods.on_change(move |change| {
        let (key, old, new) = (change.key, change.old.as_deref(), change.new.as_deref());
        all.index.pod(key, new);
        let mut pods = BTreeSet::from([key.clone()]);
        // Whether a machine moves shows in all its pods.
        for machine in [old, new].into_iter().flatten().filter_map(|pod| pod.machine.as_ref()) {
            pods.extend(all.pods_of_machine(key.namespace(), machine));
        }
        woken.up(all.index.slices_of(&pods).into_iter().filter(|source| all.index.is_of_concern(source)));
    });
    let (woken, all) = (wake.clone(), stores.clone());
    let primaries = primaries.on_change(move |change| {
        all.index.primary(change.key, change.new.as_deref());
        woken.up(all.index.sources_in(change.key.namespace()));
    });
    (slices, pods, primaries, stores)
}

fn mirror(slice: Option<&Slice>) -> Option<&Mirror> {
    match slice {
        Some(Slice::Mirror(mirror)) => Some(mirror),
        Some(Slice::Source(_)) | None => None,
    }
}
