//! The room that keeps OVN's databases as the topology wants them.
//!
//! In: NetworkAttachmentDefinitions, Nodes, UplinkStates of this node, the few Services that networks reach; changes that
//! others make to the databases. Out: transactions with what differs, Events about what cannot be written, what became of
//! each network for who asks.
//!
//! * Nothing is watched before the Northbound database was reached: a machine without OVN has no such room.
//! * Each network is written by itself, so that one that cannot be leaves the others alone; a change of a node writes that
//!   node's part of each network it concerns, a change of a row by others the part that the row is of.
//! * What nobody wants any more is removed once everything that is wanted is known and was compared.
//!
//! Never writes from an incomplete observation, and never because of what it wrote itself: a row that is right stays.
//!
//! First file to read: `room/pass.rs`; `room/touched.rs` says whom a changed row concerns.

mod book;
mod chassis;
mod error;
mod inbox;
mod ledger;
mod listen;
mod metrics;
mod nodes;
mod pass;
pub mod section;
mod sent;
mod services;
mod tell;
mod touched;
mod watched;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::nad::NetworkAttachmentDefinition;
use causeway_api::uplink_state::UplinkState;
use causeway_net::network::name::{NadKey, NetworkName, NodeName};
use causeway_net::selector::Selector;
use causeway_netlink::NetlinkStore;
use causeway_runtime::engine::{self, Limits};
use causeway_runtime::events::{Publisher, Reporter};
use causeway_runtime::settings::{DatabaseSettings, Settings};
use causeway_runtime::start::{Context, Failure};
use causeway_runtime::watch::{self, Change, Store, Watch};
use kube::{Api, Client};
use ovsdb::{LostReason, Status};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::chassis::Chassis;
use self::inbox::{Inbox, Key, Stir};
use self::ledger::Ledger;
use self::metrics::Metrics;
use self::nodes::{Networks, concern};
use self::pass::{SharedBook, TopologyRoom};
use self::section::TopologyRoomSection;
use self::sent::Sent;
use self::services::{ServiceWatch, Services};
use self::tell::Voice;
use self::watched::{Nad, NodeFacts, WatchedNode};
use super::chassis_settings;
use super::cluster::Cluster;
use super::configured::nad_mode;
use super::plan::{Part, ZoneOptions, zone};
use super::service::ServiceName;
use super::write::Zone;
use super::{northbound, southbound};

/// The program, as Events name it.
const PROGRAM: &str = "causeway-topology";

/// Starts the room where user-defined networks are on: its tasks run under `context`. Returns what it has to tell. `is_node`
/// says whether this machine is the node that it works for; a card is not.
///
/// # Errors
/// An address cannot be understood, or the cluster's settings leave no room for networks. Nothing here waits for a server.
pub fn start(
    context: &mut Context,
    client: &Client,
    netlink: &NetlinkStore,
    is_node: bool,
) -> Result<Option<TopologyRoomSection>, Failure> {
    if !context.settings.features.user_defined_networks() {
        return Ok(None);
    }
    let metrics = Metrics::register(&mut context.registry);
    let settings = &context.settings;
    let cluster = Cluster::of(settings);
    if settings.ovn.northbound.configured {
        cluster.check().map_err(|error| too_small(&error))?;
    }
    let (databases, drivers) = Databases::new(settings)?;
    databases.sent().register(&mut context.registry);
    let node = NodeName::from(settings.identity.as_str());
    let reporter = Reporter { program: PROGRAM, instance: node.to_string() };
    let (recorder, publisher) = Publisher::new(client.clone(), reporter, metrics.events.clone());
    let (inbox, book, ledger) = (Inbox::default(), SharedBook::default(), Ledger::default());
    let watches = Watches::new(client, settings, &cluster, &metrics, &inbox, &book)?;
    let known = watches.known();
    let room = TopologyRoom {
        zone: Zone {
            node: node.clone(),
            default_join: cluster.join.clone(),
            rows: zone(&cluster, node.as_str(), &ZoneOptions::default()),
        },
        dynamic: settings.features.dynamic_networks(),
        chassis: Chassis {
            store: databases.vswitch.clone(),
            netlink: netlink.clone(),
            nodes: known.nodes.clone(),
            node: node.to_string(),
            is_node,
            ovn: settings.ovn.clone(),
        },
        cluster,
        northbound: databases.northbound.clone(),
        southbound: databases.southbound.clone(),
        nads: known.nads.clone(),
        nodes: known.nodes.clone(),
        states: known.states.clone(),
        services: known.services.clone(),
        book,
        inbox,
        ledger: ledger.clone(),
        voice: Voice::new(recorder),
        metrics,
        zone_done: tokio::sync::Mutex::new(false),
    };
    readiness(context, &databases, &known, &ledger);
    let section = section(&databases, &known, &ledger);
    let whole = Whole { room, watches, known, databases, publisher, resync: settings.resync };
    let (tasks, stop) = (context.tasks.clone(), context.tasks.stop());
    tasks.spawn("northbound", drivers.northbound.run(stop.clone()));
    tasks.spawn_fallible("topology", whole.run(drivers.southbound, drivers.vswitch, stop));
    Ok(Some(section))
}

/// The databases that the room reads and writes.
#[derive(Clone)]
struct Databases {
    northbound: ovsdb::Store,
    southbound: ovsdb::Store,
    vswitch: ovsdb::Store,
    /// Whether somebody said where the Northbound database is.
    configured: bool,
}

struct Drivers {
    northbound: ovsdb::Driver,
    southbound: ovsdb::Driver,
    vswitch: ovsdb::Driver,
}

impl Databases {
    fn new(settings: &Settings) -> Result<(Self, Drivers), Failure> {
        let ovn = &settings.ovn;
        let (northbound, nb) = northbound::declare(database(&ovn.northbound, "OVN_Northbound")?).build();
        let (southbound, sb) = southbound::declare(database(&ovn.southbound, "OVN_Southbound")?).build();
        let remotes: ovsdb::Remotes = settings.ovsdb_address.parse()?;
        let (vswitch, ovs) = ovsdb::Store::builder(remotes, "Open_vSwitch")
            .table::<chassis_settings::Settings>()
            .table::<chassis_settings::Exporter>()
            .build();
        let databases = Self { northbound, southbound, vswitch, configured: ovn.northbound.configured };
        Ok((databases, Drivers { northbound: nb, southbound: sb, vswitch: ovs }))
    }

    fn sent(&self) -> Sent<3> {
        Sent([
            ("northbound", self.northbound.clone()),
            ("southbound", self.southbound.clone()),
            ("vswitch", self.vswitch.clone()),
        ])
    }
}

/// All that runs.
struct Whole {
    room: TopologyRoom,
    watches: Watches,
    known: Known,
    databases: Databases,
    publisher: Publisher,
    resync: Option<Duration>,
}

impl Whole {
    /// Runs until `stop` is cancelled. The databases' other connections and the watches begin once the Northbound database
    /// was reached.
    async fn run(
        self,
        southbound: ovsdb::Driver,
        vswitch: ovsdb::Driver,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        let Self { room, watches, known, databases, publisher, resync } = self;
        let mut nb_status = databases.northbound.status();
        let reached = nb_status.wait_for(Status::is_synced);
        if stop.run_until_cancelled(reached).await.is_none() {
            return Ok(());
        }
        room.cluster.check().map_err(|error| too_small(&error))?;
        info!(zone = %room.zone.node, "Northbound database reached");
        let passes = async {
            if stop.run_until_cancelled(known.wait_synced()).await.is_some() {
                // Listening begins before the first look, so that nothing happens unheard between the two.
                let listening = listen::all(&room, &databases);
                begin(&room);
                let (queue, metrics) = (room.inbox.queue(), room.metrics.engine.clone());
                let limits = Limits { resync, ..Limits::default() };
                let engine = engine::run(room, queue, limits, &metrics, stop.clone());
                tokio::join!(stop.run_until_cancelled(listening), engine);
            }
        };
        tokio::join!(
            southbound.run(stop.clone()),
            vswitch.run(stop.clone()),
            watches.run(&stop),
            publisher.run(stop.clone()),
            passes,
        );
        Ok(())
    }
}

/// Everything is to be compared once: the zone, the default network, all others, then what nobody wants.
fn begin(room: &TopologyRoom) {
    let (inbox, default) = (&room.inbox, NetworkName::default_network());
    let mut networks: BTreeSet<NetworkName> = room.book.lock().names().cloned().collect();
    networks.insert(default.clone());
    room.ledger.begin(networks.clone());
    inbox.key(Key::Zone);
    inbox.key(Key::Services);
    // Others rest on the default network's management port.
    inbox.network(&default, Stir::All);
    inbox.networks(networks.iter().filter(|network| !network.is_default()), &Stir::All);
    inbox.key(Key::Chassis);
    inbox.key(Key::Settings);
}

fn too_small(error: &causeway_net::network::masquerade::RangeTooSmall) -> String {
    format!(
        "user-defined networks do not fit into the masquerade subnet: {error}; give --gateway-v4-masquerade-subnet and \
         --gateway-v6-masquerade-subnet, for example 169.254.0.0/17 and fd69::/112, to every program of the cluster"
    )
}

fn database(settings: &DatabaseSettings, name: &str) -> Result<ovsdb::StoreBuilder, Failure> {
    let remotes: ovsdb::Remotes = settings.address.parse()?;
    let tls = settings.tls.clone().map(|[private_key, certificate, ca_certificate]| ovsdb::TlsFiles {
        private_key,
        certificate,
        ca_certificate,
    });
    Ok(ovsdb::Store::builder(remotes, name).options(ovsdb::Options { tls, ..ovsdb::Options::default() }))
}

/// Whether what is known of a database is complete and current, and why not.
fn check(name: &'static str, store: &ovsdb::Store) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
    let status = store.status();
    move || {
        let status = status.borrow();
        if status.is_synced() { Ok(()) } else { Err(format!("OVN {name} database {}", *status)) }
    }
}

/// A machine without OVN is ready without it, and says so; one whose OVN was reached once, or is meant to be there, is not.
/// Until the first attempt to reach it has ended, nobody knows which of the two this is.
fn readiness(context: &Context, databases: &Databases, known: &Known, ledger: &Ledger) {
    let is_meant = is_meant(databases);
    let (meant, all) = (is_meant.clone(), ready(databases, known, ledger));
    let southbound = check("Southbound", &databases.southbound);
    context.readiness.add("topology", move || {
        if !meant() {
            return Ok(());
        }
        all()?;
        southbound()
    });
    let (northbound, ledger) = (check("Northbound", &databases.northbound), ledger.clone());
    context.readiness.remark("topology", move || {
        if is_meant() {
            return ledger.remark();
        }
        northbound().err().map(|why| format!("networks are not written: {why}"))
    });
}

/// Whether there is meant to be an OVN: somebody said where, or it was reached once, or it is not known yet.
fn is_meant(databases: &Databases) -> impl Fn() -> bool + Clone + Send + Sync + use<> {
    let (configured, northbound) = (databases.configured, databases.northbound.clone());
    let status = northbound.status();
    move || configured || northbound.last_event().is_some() || !is_absent(&status.borrow())
}

/// Whether nobody answers where a database would be.
fn is_absent(status: &Status) -> bool {
    matches!(status, Status::Lost { why } if matches!(**why, LostReason::Connection(_)))
}

/// Whether everything is known that rows are made of, and was compared with them once.
fn ready(databases: &Databases, known: &Known, ledger: &Ledger) -> section::Check {
    let northbound = check("Northbound", &databases.northbound);
    let (known, ledger) = (known.clone(), ledger.clone());
    Box::new(move || {
        northbound()?;
        known.readiness()?;
        ledger.readiness()
    })
}

fn section(databases: &Databases, known: &Known, ledger: &Ledger) -> TopologyRoomSection {
    TopologyRoomSection {
        ledger: ledger.clone(),
        stores: vec![
            ("northbound", Box::new(check("Northbound", &databases.northbound))),
            ("southbound", Box::new(check("Southbound", &databases.southbound))),
        ],
        is_meant: Box::new(is_meant(databases)),
        ready: ready(databases, known, ledger),
    }
}

/// What rows are made of.
#[derive(Clone)]
struct Known {
    nads: Store<NadKey, Nad>,
    nodes: Store<String, NodeFacts>,
    states: Option<Store<String, UplinkState>>,
    services: Services,
}

impl Known {
    fn readiness(&self) -> Result<(), String> {
        let states = self.states.as_ref().map_or(Ok(()), Store::readiness);
        let all = self.nads.readiness().and_then(|()| self.nodes.readiness()).and(states);
        all.map_err(|error| error.to_string())?;
        self.services.readiness()
    }

    async fn wait_synced(&self) {
        self.nads.wait_synced().await;
        self.nodes.wait_synced().await;
        if let Some(states) = &self.states {
            states.wait_synced().await;
        }
        self.services.wait_tried().await;
    }
}

/// The watches that fill [`Known`].
struct Watches {
    nads: Watch<NetworkAttachmentDefinition, NadKey, Nad>,
    nodes: Watch<WatchedNode, String, NodeFacts>,
    states: Option<Watch<UplinkState, String, UplinkState>>,
    services: Vec<(ServiceName, ServiceWatch)>,
}

impl Watches {
    fn new(
        client: &Client,
        settings: &Settings,
        cluster: &Cluster,
        metrics: &Metrics,
        inbox: &Inbox,
        book: &SharedBook,
    ) -> Result<Self, Failure> {
        let selector = |text: &String| {
            let selector = text.parse::<Selector>();
            selector.map_err(|error| Failure::from(format!("--no-hostsubnet-nodes: {error}")))
        };
        let without_subnets = settings.no_host_subnet.as_ref().map(selector).transpose()?;
        let mode = nad_mode(settings);
        let node = settings.identity.clone();
        let (cluster, in_nads, in_nodes) = (cluster.clone(), inbox.clone(), inbox.clone());
        let nads = Watch::new(Api::all(client.clone()), watch::config(), watched::nad_key, move |nad| {
            Nad::of(&nad, mode, &cluster)
        });
        let service = |(name, watch): (ServiceName, ServiceWatch)| {
            let (changed, book, inbox) = (name.clone(), book.clone(), inbox.clone());
            let watch = watch.metered(&metrics.watch);
            (name, watch.on_change(move |_| service_changed(&changed, &book, &inbox)))
        };
        let services: Vec<_> = services::watches(client, settings).into_iter().map(service).collect();
        let names: Vec<ServiceName> = services.iter().map(|(name, _)| name.clone()).collect();
        let (of_nads, of_nodes) = (book.clone(), book.clone());
        let nads =
            nads.metered(&metrics.watch).on_change(move |change| nad_changed(change, &of_nads, &in_nads));
        let nodes = Watch::new(Api::all(client.clone()), watch::config(), watch::name, move |node| {
            NodeFacts::of(node, without_subnets.as_ref())
        });
        let own = node.clone();
        let nodes = nodes
            .metered(&metrics.watch)
            .on_change(move |change| node_changed(change, &own, &names, &of_nodes, &in_nodes));
        let states = settings.features.uplinks().then(|| {
            let of_node = watch::config().fields(&format!("spec.nodeName={node}"));
            let watch =
                Watch::new(Api::all(client.clone()), of_node, watch::name, |mut state: UplinkState| {
                    state.metadata.managed_fields = None;
                    Some(state)
                });
            let (book, inbox) = (book.clone(), inbox.clone());
            watch.metered(&metrics.watch).on_change(move |change| state_changed(change, &book, &inbox))
        });
        Ok(Self { nads, nodes, states, services })
    }

    fn known(&self) -> Known {
        let states = self.states.as_ref().map(Watch::store);
        let services = self.services.iter().map(|(name, watch)| (name.clone(), watch.store()));
        let services = Services(services.collect());
        Known { nads: self.nads.store(), nodes: self.nodes.store(), states, services }
    }

    async fn run(self, stop: &CancellationToken) {
        let states = async {
            if let Some(states) = self.states {
                states.run(stop.clone()).await;
            }
        };
        let services = self.services.into_iter().map(|(_, watch)| watch.run(stop.clone()));
        let services = futures::future::join_all(services);
        tokio::join!(self.nads.run(stop.clone()), self.nodes.run(stop.clone()), states, services);
    }
}

fn nad_changed(change: &Change<'_, NadKey, Nad>, book: &SharedBook, inbox: &Inbox) {
    if change.unreadable.is_some() {
        return; // it is there, and what it says may be what it said before
    }
    let networks = book.lock().update(change.key, change.new.as_ref());
    inbox.networks(&networks, &Stir::All);
}

fn node_changed(
    change: &Change<'_, String, NodeFacts>,
    own: &str,
    services: &[ServiceName],
    book: &SharedBook,
    inbox: &Inbox,
) {
    let is_own = change.key == own;
    if change.unreadable.is_some() {
        return; // nothing is known of it, not even that it is gone
    }
    let concern = concern(is_own, change.old.as_deref(), change.new.as_deref());
    let stir = || {
        if is_own { Stir::local(services) } else { Stir::remote(&NodeName::from(change.key.as_str())) }
    };
    let default = NetworkName::default_network();
    match concern.networks {
        Networks::All => {
            let networks: Vec<NetworkName> = book.lock().names().cloned().collect();
            inbox.networks(networks.iter().chain([&default]), &stir());
        }
        Networks::Some(networks) => {
            let known = |network: &&NetworkName| network.is_default() || book.lock().knows(network);
            inbox.networks(networks.iter().filter(known), &stir());
        }
    }
    if concern.chassis {
        inbox.key(Key::Chassis);
    }
    if concern.settings {
        inbox.key(Key::Settings);
    }
}

fn state_changed(change: &Change<'_, String, UplinkState>, book: &SharedBook, inbox: &Inbox) {
    let uplinks: BTreeSet<&str> =
        change.old.iter().chain(&change.new).map(|state| state.spec.uplink_name.as_str()).collect();
    let leaves = |network: &Arc<super::network::Network>| {
        let uplink = network.primary().and_then(|primary| primary.uplink.as_deref());
        uplink.is_some_and(|uplink| uplinks.contains(uplink))
    };
    let networks: Vec<NetworkName> = book
        .lock()
        .networks()
        .filter(|network| leaves(network))
        .map(|network| network.name.clone())
        .collect();
    inbox.networks(&networks, &Stir::exit());
}

/// A Service that networks reach is there, is another one, or is gone.
fn service_changed(name: &ServiceName, book: &SharedBook, inbox: &Inbox) {
    let networks: Vec<NetworkName> = book
        .lock()
        .networks()
        .filter(|network| network.primary().is_some())
        .map(|network| network.name.clone())
        .collect();
    inbox.networks(&networks, &Stir::part(Part::Service(name.clone())));
    inbox.key(Key::Services);
}
