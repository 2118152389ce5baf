//! Controllers that need only the API server.
//!
//! In: settings, and the API server. Out: conditions, finalizers and deletions, each by one room: [`uplink`].
//!
//! Never does: touch a node's kernel, Open vSwitch or OVN. Runs as one replica in this version.
//!
//! First file to read: [`uplink`]; [`set_up`] puts the rooms together.

#![forbid(unsafe_code)]

pub mod uplink;

use causeway_runtime::client;
use causeway_runtime::engine::EngineMetrics;
use causeway_runtime::start::{Context, Failure};
use causeway_runtime::watch::WatchMetrics;
use causeway_runtime::writer::WriteMetrics;
use prometheus_client::registry::Registry;
use tracing::info;

/// Metrics that all rooms share.
#[derive(Debug, Clone)]
pub struct Meters {
    /// Of the engine.
    pub engine: EngineMetrics,
    /// Of watches.
    pub watches: WatchMetrics,
    /// Of writes.
    pub writes: WriteMetrics,
}

impl Meters {
    /// Adds them to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            engine: EngineMetrics::register(registry),
            watches: WatchMetrics::register(registry),
            writes: WriteMetrics::register(registry),
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
    let controller = uplink::Controller::new(&client, &meters, &mut context.registry);
    controller.start(&context.tasks, &context.readiness, &meters, context.settings.resync);
    info!(identity = context.settings.identity, "Uplink controller started");
    Ok(())
}
