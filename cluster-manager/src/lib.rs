//! Controllers that need only the API server.
//!
//! In: settings, and the API server. Out: conditions, finalizers and deletions, each by one room: [`uplink`].
//!
//! Never does: touch a node's kernel, Open vSwitch or OVN, or write while another replica leads.
//!
//! First file to read: [`uplink`]; [`set_up`] puts the rooms together.

#![forbid(unsafe_code)]

pub mod endpointslice;
mod side_by_side;
pub mod uplink;
mod written;

use causeway_runtime::client;
use causeway_runtime::engine::EngineMetrics;
use causeway_runtime::events::{EventMetrics, Publisher, Recorder, Reporter};
use causeway_runtime::leader::{Candidate, Elector, LeaderMetrics, Leadership};
use causeway_runtime::start::{Context, Failure};
use causeway_runtime::watch::WatchMetrics;
use causeway_runtime::writer::WriteMetrics;
use kube::Client;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

/// Metrics that all rooms share.
#[derive(Debug, Clone)]
pub struct Meters {
    /// Of the engine.
    pub engine: EngineMetrics,
    /// Of watches.
    pub watches: WatchMetrics,
    /// Of writes.
    pub writes: WriteMetrics,
    /// Of elections.
    pub leader: LeaderMetrics,
    /// Of Events.
    pub events: EventMetrics,
}

/// What every room needs.
pub struct Surroundings {
    /// The API server.
    pub client: Client,
    /// Metrics that all rooms share.
    pub meters: Meters,
    /// Whether this replica leads.
    pub leadership: Leadership,
    /// Tells people.
    pub recorder: Recorder,
}

impl Meters {
    /// Adds them to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            engine: EngineMetrics::register(registry),
            watches: WatchMetrics::register(registry),
            writes: WriteMetrics::register(registry),
            leader: LeaderMetrics::register(registry),
            events: EventMetrics::register(registry),
        }
    }
}

/// Starts the rooms that the settings switch on.
///
/// # Errors
/// Credentials that cannot be used. An API server that is away is none: it is waited for.
pub async fn set_up(context: &mut Context) -> Result<(), Failure> {
    let features = context.settings.features;
    if !features.uplinks() {
        info!(
            multi_network = features.multi_network,
            network_segmentation = features.network_segmentation,
            uplink = features.uplink,
            "Uplinks are switched off: nothing to do (needs --enable-multi-network, \
             --enable-network-segmentation and --enable-uplink)"
        );
        return Ok(());
    }
    let client = client::connect(&context.settings.kube).await?;
    let meters = Meters::register(&mut context.registry);
    let (recorder, publisher) = Publisher::new(client.clone(), reporter(context), meters.events.clone());
    context.tasks.spawn("events", publisher.run(context.tasks.stop()));
    let leadership = stand(context, &client, &meters, &recorder);
    let surroundings = Surroundings { client, meters, leadership, recorder };
    let controller = uplink::Controller::new(&surroundings, &mut context.registry);
    controller.start(&context.tasks, &context.readiness, &surroundings.meters, context.settings.resync);
    info!(identity = context.settings.identity, "Uplink controller started");
    Ok(())
}

fn reporter(context: &Context) -> Reporter {
    Reporter { program: "causeway-cluster-manager", instance: context.settings.identity.clone() }
}

/// Stands for election, unless the settings say that this is the only replica.
fn stand(context: &Context, client: &Client, meters: &Meters, recorder: &Recorder) -> Leadership {
    let settings = &context.settings;
    let stop = context.tasks.stop();
    if !settings.leader_elect {
        warn!("No leader election: a second replica would write as well");
        return Leadership::alone(&stop, &meters.leader);
    }
    let candidate = Candidate {
        identity: settings.identity.clone(),
        namespace: settings.namespace.clone(),
        timing: settings.leader_election,
    };
    let (elector, leadership) =
        Elector::new(client, candidate, meters.leader.clone(), &meters.watches, recorder.clone());
    context.tasks.spawn("leader election", elector.run(stop));
    let remark = leadership.clone();
    context.readiness.remark("leader", move || remark.standby());
    leadership
}
