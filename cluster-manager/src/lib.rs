//! Controllers that need only the API server.
//!
//! In: settings, and the API server. Out: conditions, finalizers, objects and deletions, each by one room: [`uplink`],
//! [`network`] (NetworkAttachmentDefinitions), [`allocation`] (ids and subnets), [`endpointslice`]. What several of them
//! watch stands in [`observed`].
//!
//! Never does: touch a node's kernel, Open vSwitch or OVN, or write while another replica leads.
//!
//! First file to read: [`uplink`]; [`set_up`] puts the rooms together.

#![forbid(unsafe_code)]

mod allocation;
pub mod endpointslice;
mod expected;
mod groups;
mod network;
mod observed;
mod scale;
mod side_by_side;
pub mod uplink;
mod wake;
mod written;

use causeway_api::nad::{DEFAULT_NETWORK, Defaults};
use causeway_net::activity::Mode;
use causeway_net::ipam::nodes::{Families, HostRange};
use causeway_net::network::name::NadKey;
use causeway_net::overlap::Internal;
use causeway_net::render::Cluster;
use causeway_net::selector::Selector;
use causeway_net::uplinks_ready::GatewayMode;
use causeway_runtime::client;
use causeway_runtime::engine::EngineMetrics;
use causeway_runtime::events::{EventMetrics, Publisher, Recorder, Reporter};
use causeway_runtime::leader::{Candidate, Elector, LeaderMetrics, Leadership};
use causeway_runtime::settings::{self, Settings, SubnetPair};
use causeway_runtime::start::{Context, Failure};
use causeway_runtime::watch::WatchMetrics;
use causeway_runtime::writer::WriteMetrics;
use ipnet::IpNet;
use jiff::SignedDuration;
use kube::Client;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

use crate::allocation::{Allocation, Book, ClusterPlan};
use crate::network::OwnWatches;
use crate::observed::Sources;
use crate::scale::ScaleMetrics;

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
    if !features.user_defined_networks() {
        info!(
            multi_network = features.multi_network,
            network_segmentation = features.network_segmentation,
            "User-defined networks are switched off: nothing to do (needs --enable-multi-network and \
             --enable-network-segmentation)"
        );
        return Ok(());
    }
    let client = client::connect(&context.settings.kube).await?;
    let meters = Meters::register(&mut context.registry);
    let (recorder, publisher) = Publisher::new(client.clone(), reporter(context), meters.events.clone());
    context.tasks.spawn("events", publisher.run(context.tasks.stop()));
    let leadership = stand(context, &client, &meters, &recorder);
    let surroundings = Surroundings { client, meters, leadership, recorder };
    networks(context, &surroundings)
}

/// Starts the rooms: they share what they watch and who has which number.
fn networks(context: &mut Context, surroundings: &Surroundings) -> Result<(), Failure> {
    let settings = context.settings.clone();
    let cluster = cluster(&settings);
    let ranges = settings.cluster_subnets.iter();
    let plan = ClusterPlan {
        ranges: ranges
            .map(|entry| HostRange { network: entry.subnet, host_length: entry.host_prefix })
            .collect(),
        transit: (settings.transit.v4, settings.transit.v6),
        defaults: Defaults { mtu: settings.mtu, ..Defaults::default() },
        mode: if settings.features.dynamic_networks() {
            let grace = SignedDuration::try_from(settings.network_grace).unwrap_or(SignedDuration::MAX);
            Mode::OnDemand { grace }
        } else {
            Mode::Everywhere
        },
        without_subnets: without_subnets(&settings)?,
    };
    let upstream = context.upstream.sub_registry_with_prefix("clustermanager");
    let scale =
        if settings.scale_metrics { ScaleMetrics::register(upstream) } else { ScaleMetrics::default() };
    let (mode, watches) = (cluster.gateway_mode, &surroundings.meters.watches);
    let sources = Sources::new(&surroundings.client, mode, &plan.mode, watches);
    let book = Book::new(plan, &cluster, &surroundings.leadership).scaled(scale);
    let stores = sources.stores.clone();
    let (networks, sources, own) = network::Controller::new(surroundings, cluster, &settings, &book, sources);
    networks.count_objects(upstream);
    book.count_subnets(upstream);
    let preconfigured = settings.features.preconfigured_udn_addresses();
    let default_nad = preconfigured.then(|| NadKey::new(settings.namespace.as_str(), DEFAULT_NETWORK));
    let (allocation, sources, egress) =
        Allocation::new(surroundings, &book, default_nad, settings.features, sources);
    egress.start(&context.tasks, &context.readiness);
    let (sources, own) = uplinks(context, surroundings, &book, sources, own);
    own.start(&context.tasks, &context.readiness);
    let sources = mirrors(context, surroundings, sources);
    sources.start(&context.tasks, &context.readiness);

    let (meters, leadership) = (surroundings.meters.clone(), surroundings.leadership.clone());
    let (stop, resync) = (context.tasks.stop(), settings.resync);
    context.tasks.spawn("networks", async move {
        let synced = async {
            tokio::join!(stores.wait_synced(), networks.wait_synced(), allocation.wait_synced());
        };
        if stop.run_until_cancelled(synced).await.is_none() {
            return;
        }
        while let Some(term) = leadership.term(&stop).await {
            // From here on changes wake the rooms; what came before is in the snapshots.
            stores.forget_written();
            allocation.begin();
            networks.begin();
            let over = term.over();
            tokio::join!(networks.run(&meters, resync, &over), allocation.run(&meters, resync, &over));
        }
    });
    info!(identity = settings.identity, "Network controllers started");
    Ok(())
}

/// The nodes that get no subnets.
fn without_subnets(settings: &Settings) -> Result<Option<Selector>, Failure> {
    let parse = |text: &String| {
        let selector = text.parse();
        selector.map_err(|error| Failure::from(format!("--no-hostsubnet-nodes: {error}")))
    };
    settings.no_host_subnet.as_ref().map(parse).transpose()
}

/// Starts the room of Uplinks, if they are switched on.
fn uplinks(
    context: &mut Context,
    surroundings: &Surroundings,
    book: &Book,
    sources: Sources,
    own: OwnWatches,
) -> (Sources, OwnWatches) {
    if !context.settings.features.uplinks() {
        info!("Uplinks are switched off (need --enable-uplink); what exists of them is left alone");
        return (sources, own);
    }
    let (controller, sources) = uplink::Controller::new(
        surroundings,
        &mut context.registry,
        gateway_mode(&context.settings),
        book,
        own.advertisers(),
        sources,
    );
    let own = own.heard_by(controller.advertised());
    controller.start(&context.tasks, &context.readiness, &surroundings.meters, context.settings.resync);
    info!(identity = context.settings.identity, "Uplink controller started");
    (sources, own)
}

/// How the cluster is configured, as far as it decides what a network looks like.
fn cluster(settings: &Settings) -> Cluster {
    let pair = |pair: &SubnetPair| vec![IpNet::V4(pair.v4), IpNet::V6(pair.v6)];
    let families = match (settings.families.ipv4, settings.families.ipv6) {
        (true, true) => Families::Both,
        (false, true) => Families::V6,
        (true | false, false) => Families::V4,
    };
    Cluster {
        internal: Internal {
            cluster: settings.cluster_subnets.iter().map(|entry| entry.subnet).collect(),
            services: settings.service_cidrs.clone(),
            join: pair(&settings.join),
            masquerade: pair(&settings.masquerade),
            transit: pair(&settings.transit),
            user_join: Defaults::default().join_subnets.iter().filter_map(|text| text.parse().ok()).collect(),
        },
        families,
        gateway_mode: gateway_mode(settings).into(),
        mtu: settings.mtu,
        features: network::features(settings),
    }
}

const fn gateway_mode(settings: &Settings) -> GatewayMode {
    match settings.gateway_mode {
        settings::GatewayMode::Shared => GatewayMode::Shared,
        settings::GatewayMode::Local => GatewayMode::Local,
        settings::GatewayMode::Disabled => GatewayMode::Disabled,
    }
}

/// Starts the room that mirrors EndpointSlices.
fn mirrors(context: &mut Context, surroundings: &Surroundings, sources: Sources) -> Sources {
    let (mirrors, sources) = endpointslice::Controller::new(surroundings, &mut context.registry, sources);
    mirrors.start(&context.tasks, &context.readiness, &surroundings.meters, context.settings.resync);
    info!(identity = context.settings.identity, "Mirror controller of EndpointSlices started");
    sources
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
