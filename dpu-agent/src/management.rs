//! Management ports: the node's own interface in its default network and in each primary network, `ovn-k8s-mp<ID>`.
//!
//! In: NetworkAttachmentDefinitions with a primary network, the node's subnets from its Node; ports of the integration
//! bridge; links, addresses and routes of this machine. Out: an internal port on the integration bridge for each network,
//! and its address, state and settings in the kernel; for the default network also routes and the router as neighbour.
//! Removes ports of networks that are gone, and touches no port that is not marked as a management port.
//!
//! Never makes the integration bridge (ovn-controller does), rows of OVN (the topology's), VRFs or rules. On a card and on
//! its host, where management ports are functions of the card, this version makes none.
//!
//! [`network`] says what a network's port is, [`rows`] compares it with Open vSwitch, [`plan`] with the kernel; [`room`]
//! applies, [`listen`] tells when to look again.

mod index;
mod listen;
pub mod network;
pub mod plan;
mod room;
pub mod rows;
mod sysctl;

use std::sync::{Arc, Mutex, PoisonError};

use causeway_agent::kernel;
use causeway_agent::node_facts::view::{NodeView, WatchedNode};
use causeway_api::nad::NetworkAttachmentDefinition;
use causeway_netlink::{KernelWriter, NetlinkStore};
use causeway_runtime::engine::{self, EngineMetrics, KeyQueue, Limits};
use causeway_runtime::start::{Context, Failure};
use causeway_runtime::watch::{self, NamespacedName, Watch, WatchMetrics};
use kube::{Api, Client};
use tracing::info;

use self::index::{Index, Nad};
use self::room::{ManagementRoom, Progress};
use crate::topology::cluster::Cluster;
use crate::topology::configured::nad_mode;

/// A port by the id of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PortKey(pub(crate) u16);

impl std::fmt::Display for PortKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", network::PREFIX, self.0)
    }
}

/// Starts management ports of a regular node: tasks run under `context`. `ovs` has the tables of [`rows::tables`].
///
/// # Errors
/// The kernel refuses a socket.
pub fn start(
    context: &mut Context,
    client: &Client,
    netlink: &NetlinkStore,
    ovs: ovsdb::Store,
) -> Result<(), Failure> {
    let settings = &context.settings;
    let registry = context.registry.sub_registry_with_prefix("management");
    let engine_metrics = EngineMetrics::register(registry);
    let watch_metrics = WatchMetrics::register(registry);
    let node = settings.identity.clone();
    let (queue, index) = (KeyQueue::default(), Index::default());
    let the_node = watch::config().fields(&format!("metadata.name={node}"));
    let nodes: Watch<WatchedNode, String, NodeView> =
        Watch::new(Api::all(client.clone()), the_node, watch::name, NodeView::of);
    let nodes = nodes.metered(&watch_metrics).on_change({
        let (queue, index) = (queue.clone(), index.clone());
        move |change| {
            queue.enqueue_all(index.of_node(change.old.as_deref(), change.new.as_deref()));
        }
    });
    let cluster = Arc::new(Cluster::of(settings));
    let nads = settings.features.user_defined_networks().then(|| {
        let (mode, cluster) = (nad_mode(settings), Arc::clone(&cluster));
        let slim = move |nad: NetworkAttachmentDefinition| Nad::of(&nad, mode, &cluster);
        let all = Watch::<NetworkAttachmentDefinition, NamespacedName, Nad>::new(
            Api::all(client.clone()),
            watch::config(),
            watch::namespaced_name,
            slim,
        );
        let (queue, index) = (queue.clone(), index.clone());
        all.metered(&watch_metrics).on_change(move |change| {
            queue.enqueue_all(index.change(change.key, change.new.as_ref()));
        })
    });
    let progress = Progress::default();
    let room = ManagementRoom {
        node: node.clone(),
        mtu: settings.mtu,
        cluster,
        nodes: nodes.store(),
        index: index.clone(),
        ovs: ovs.clone(),
        netlink: netlink.clone(),
        kernel: KernelWriter::open()?,
        sysctls: sysctl::Sysctls::new("/proc/sys"),
        progress: progress.clone(),
    };
    let check = kernel::check(netlink);
    context.readiness.add("management-ports", move || {
        check()?;
        progress.lock().unwrap_or_else(PoisonError::into_inner).values().next().cloned().map_or(Ok(()), Err)
    });
    // One pass at a time: each one changes the same row of the integration bridge.
    let limits = Limits { parallelism: 1, resync: settings.resync, ..Limits::default() };
    let stop = context.tasks.stop();
    let (node_store, nad_store) = (nodes.store(), nads.as_ref().map(Watch::store));
    context.tasks.spawn("management-node", nodes.run(stop.clone()));
    if let Some(nads) = nads {
        context.tasks.spawn("management-nads", nads.run(stop.clone()));
    }
    let listening = (ovs.clone(), queue.clone(), index.clone(), stop.clone());
    context.tasks.spawn("management-ovs", listen::to_ovs(listening.0, listening.1, listening.2, listening.3));
    context.tasks.spawn("management-kernel", listen::to_kernel(netlink.clone(), queue.clone(), stop.clone()));
    context.tasks.spawn("management", async move {
        let known = async {
            node_store.wait_synced().await;
            if let Some(nads) = nad_store {
                nads.wait_synced().await;
            }
            // Ports of networks that went while nobody looked are found on the bridge.
            ovs.status().wait_for(ovsdb::Status::is_synced).await.map(drop).ok();
        };
        if stop.run_until_cancelled(known).await.is_some() {
            index.complete();
            queue.enqueue_all(rows::present(&ovs.last_known()));
            queue.enqueue_all(index.all());
            engine::run(room, queue, limits, &engine_metrics, stop).await;
        }
    });
    info!("Management ports started");
    Ok(())
}

/// How far each port is; for readiness: what is missing.
type Missing = std::collections::BTreeMap<PortKey, String>;

/// What is missing, by port.
type SharedMissing = Arc<Mutex<Missing>>;

/// A cluster for tests.
#[cfg(test)]
fn cluster_of_test() -> Cluster {
    use crate::topology::cluster::{ACL_LOG_RATE, COPP_RATE};

    Cluster {
        subnets: vec!["10.128.0.0/14".parse().unwrap()],
        join: vec!["100.64.0.0/16".parse().unwrap()],
        masquerade: vec!["169.254.0.0/17".parse().unwrap()],
        mtu: 1400,
        node_ports: false,
        port_range: None,
        multicast: false,
        copp_rate: COPP_RATE,
        acl_log_rate: ACL_LOG_RATE,
        geneve_port: None,
    }
}
