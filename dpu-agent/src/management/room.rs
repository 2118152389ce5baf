//! The pass of one management port: its rows in Open vSwitch, then its link in the kernel.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use causeway_agent::kernel;
use causeway_agent::node_facts::view::NodeView;
use causeway_net::mac::MacAddress;
use causeway_netlink::{
    IfIndex, KernelWriter, Link, Neighbour, NetlinkStore, Prefix, PrefixError, RouteProtocol, Scope,
    Snapshot, TABLE_MAIN, Via, WriteError,
};
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::telemetry::chain;
use causeway_runtime::watch::{Lookup, Store};
use ipnet::IpNet;
use ovsdb::{TransactError, Transaction};
use tracing::{info, warn};

use super::index::Index;
use super::network::{ManagedNetwork, NoPort};
use super::plan::{Seen, Step, steps, sysctls};
use super::rows::{self, PortError};
use super::sysctl::Sysctls;
use super::{Missing, PortKey, SharedMissing};
use crate::topology::cluster::Cluster;
use crate::topology::network::Network;
use crate::topology::node::ZoneNode;

/// How long a change of our own may take to come back from Open vSwitch's database.
const ECHO: Duration = Duration::from_secs(5);

/// What is missing, by port; for readiness.
pub(super) type Progress = SharedMissing;

/// Makes and removes management ports.
pub(super) struct ManagementRoom {
    pub(super) node: String,
    pub(super) mtu: u32,
    pub(super) cluster: Arc<Cluster>,
    pub(super) nodes: Store<String, NodeView>,
    pub(super) index: Index,
    pub(super) ovs: ovsdb::Store,
    pub(super) netlink: NetlinkStore,
    pub(super) kernel: KernelWriter,
    pub(super) sysctls: Sysctls,
    pub(super) progress: Progress,
}

/// Why a pass did not end well.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManagementError {
    /// The port's rows cannot be as they should.
    #[error("management port {port}")]
    Rows {
        /// Which.
        port: PortKey,
        /// Why.
        #[source]
        source: PortError,
    },
    /// Open vSwitch's database did not take the rows.
    #[error("writing management port {port} to Open vSwitch")]
    Transact {
        /// Which.
        port: PortKey,
        /// Why.
        #[source]
        source: TransactError,
    },
    /// The kernel did not take a change.
    #[error("management port {port}")]
    Kernel {
        /// Which.
        port: PortKey,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// A setting of the kernel could not be written.
    #[error("management port {port}: setting {path} to {value}")]
    Sysctl {
        /// Which.
        port: PortKey,
        /// The setting.
        path: String,
        /// Its value.
        value: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// An address or destination is none that the kernel knows.
    #[error("management port {port}")]
    Prefix {
        /// Which.
        port: PortKey,
        /// Why.
        #[source]
        source: PrefixError,
    },
}

impl Retryable for ManagementError {
    fn retry(&self) -> Retry {
        match self {
            // ovn-controller's bridge, and that another's port goes, are events.
            Self::Rows { source: PortError::NoBridge | PortError::Foreign(_), .. } | Self::Prefix { .. } => {
                Retry::Never
            }
            Self::Rows { .. } | Self::Transact { .. } | Self::Kernel { .. } | Self::Sysctl { .. } => {
                Retry::Backoff
            }
        }
    }
}

impl Room for ManagementRoom {
    const NAME: &'static str = "management";
    type Key = PortKey;
    type Error = ManagementError;

    async fn reconcile(&self, key: &PortKey) -> Result<Requeue, ManagementError> {
        let result = self.pass(*key).await;
        let missing = match &result {
            Ok(Outcome::Waiting(what)) => Some(what.clone()),
            Ok(Outcome::Done | Outcome::Gone) => None,
            Err(error) => Some(chain(error).to_string()),
        };
        note(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner), *key, missing);
        result.map(|outcome| if matches!(outcome, Outcome::Gone) { Requeue::Gone } else { Requeue::Done })
    }
}

fn note(progress: &mut Missing, key: PortKey, missing: Option<String>) {
    match missing {
        Some(what) => drop(progress.insert(key, format!("{key}: {what}"))),
        None => drop(progress.remove(&key)),
    }
}

/// How a pass ended.
enum Outcome {
    /// The port is as it should be.
    Done,
    /// There is none and should be none.
    Gone,
    /// Something is not known yet; an event will tell.
    Waiting(String),
}

impl ManagementRoom {
    async fn pass(&self, key: PortKey) -> Result<Outcome, ManagementError> {
        let Ok(have) = self.ovs.current() else {
            return Ok(Outcome::Waiting(format!("Open vSwitch database {}", *self.ovs.status().borrow())));
        };
        let network = match (key, self.index.get(key)) {
            (PortKey(0), _) => Arc::new(Network::default_network(&self.cluster)),
            (_, Some(Ok(network))) => network,
            (_, Some(Err(cause))) => return Ok(Outcome::Waiting(cause)),
            // Absence means something only when all were listed.
            (_, None) if !self.index.is_complete() => return Ok(Outcome::Done),
            (_, None) => {
                let change = rows::unwanted(key, &have);
                let change = change.map_err(|source| ManagementError::Rows { port: key, source })?;
                self.transact(key, &change, "Management port removed").await?;
                return Ok(Outcome::Gone);
            }
        };
        let port = match self.port(&network) {
            Ok(Some(port)) => port,
            Ok(None) => return Ok(Outcome::Gone),
            Err(waiting) => return Ok(Outcome::Waiting(waiting)),
        };
        let change = rows::wanted(&port, &have);
        let change = change.map_err(|source| ManagementError::Rows { port: key, source })?;
        self.transact(key, &change, "Management port changed").await?;
        self.link(key, &port).await
    }

    /// What the port should be, none where the network is not here, or what is not known yet.
    fn port(&self, network: &Network) -> Result<Option<ManagedNetwork>, String> {
        let nodes = self.nodes.snapshot();
        let node = match nodes.lookup(&self.node) {
            Lookup::Present(node) => node,
            Lookup::Absent => return Err(format!("there is no Node named {}", self.node)),
            Lookup::Unreadable(cause) => return Err(format!("Node {} cannot be read: {cause}", self.node)),
        };
        let node = ZoneNode::of(&self.node, &node.annotations);
        match ManagedNetwork::of(network, &node, &self.cluster, self.mtu) {
            Ok(port) => Ok(port),
            // Not every network is on every node: one without a subnet here is nobody's trouble until it gets one.
            Err(NoPort::Untold(untold)) if untold.is_missing() && !network.is_default() => Ok(None),
            Err(error) => {
                let is_missing = matches!(&error, NoPort::Untold(untold) if untold.is_missing());
                if !is_missing {
                    warn!(network = %network.name, error = %chain(&error), "Management port cannot be told");
                }
                Err(error.to_string())
            }
        }
    }

    async fn transact(
        &self,
        port: PortKey,
        change: &Transaction,
        what: &'static str,
    ) -> Result<(), ManagementError> {
        if change.is_empty() {
            return Ok(());
        }
        let committed = self.ovs.transact(change).await;
        let committed = committed.map_err(|source| ManagementError::Transact { port, source })?;
        info!(iface = %port, "{what}");
        // A pass must not plan from before its own write; whoever waits in vain looks again at the next event.
        if let Err(error) = self.ovs.observed(&committed, ECHO).await {
            warn!(iface = %port, error = %chain(&error), "A change of Open vSwitch did not come back yet");
        }
        Ok(())
    }

    /// Makes the link as it should be, once the switch has made it.
    async fn link(&self, key: PortKey, port: &ManagedNetwork) -> Result<Outcome, ManagementError> {
        let snapshot = match kernel::current(&self.netlink) {
            Ok(snapshot) => snapshot,
            Err(why) => return Ok(Outcome::Waiting(why)),
        };
        let name = port.interface().parse().ok();
        let Some(link) = name.and_then(|name| snapshot.links.by_name(&name)) else {
            return Ok(Outcome::Waiting("Open vSwitch has not made the interface yet".to_owned()));
        };
        let seen = self.seen(key, port, link, &snapshot).await?;
        if !seen.up && seen.mac != Some(port.mac) {
            return Ok(Outcome::Waiting(format!("the interface does not have MAC address {} yet", port.mac)));
        }
        for step in steps(port, &seen) {
            self.step(key, link.index, &step).await?;
            info!(iface = %key, step = %step, "Management port set");
        }
        Ok(Outcome::Done)
    }

    async fn seen(
        &self,
        key: PortKey,
        port: &ManagedNetwork,
        link: &Link,
        snapshot: &Snapshot,
    ) -> Result<Seen, ManagementError> {
        let addresses =
            snapshot.addresses.of(link.index).iter().filter(|address| address.scope != Scope::LINK);
        let routes = snapshot.routes.through(link.index).filter(|route| route.key.table == TABLE_MAIN);
        let routes = routes.filter_map(|route| {
            let [hop] = route.hops.as_slice() else { return None };
            Some((net(route.key.destination)?, hop.gateway?))
        });
        // Only the default network's port has some.
        let neighbours = if port.default.is_some() {
            let read = self.kernel.neighbours(link.index).await;
            read.map_err(|source| ManagementError::Kernel { port: key, source })?
        } else {
            Vec::new()
        };
        let settings = sysctls(port).into_iter();
        let settings = settings.filter_map(|(path, _)| Some((path.clone(), self.sysctls.read(&path)?)));
        Ok(Seen {
            up: link.flags.is_up(),
            mac: link.address.usable_mac().map(|mac| MacAddress::new(mac.octets())),
            addresses: addresses.filter_map(|address| net(address.prefix)).collect(),
            routes: routes.collect(),
            neighbours: neighbours
                .into_iter()
                .map(|known| (known.address, MacAddress::new(known.mac.octets())))
                .collect(),
            sysctls: settings.collect::<BTreeMap<_, _>>(),
        })
    }

    async fn step(&self, port: PortKey, link: IfIndex, step: &Step) -> Result<(), ManagementError> {
        let prefix = |net: &IpNet| {
            Prefix::new(net.addr(), net.prefix_len())
                .map_err(|source| ManagementError::Prefix { port, source })
        };
        let done = match step {
            Step::Sysctl { path, value } => {
                return self.sysctls.write(path, value).map_err(|source| ManagementError::Sysctl {
                    port,
                    path: path.clone(),
                    value,
                    source,
                });
            }
            Step::SetUp => self.kernel.set_up(link).await,
            Step::RemoveAddress(net) => self.kernel.delete_address(link, prefix(net)?).await,
            Step::AddAddress(net) => self.kernel.add_address(link, prefix(net)?).await,
            Step::Route { destination, gateway } => {
                // As upstream makes them: with the protocol of `ip route add`.
                let (destination, protocol) = (prefix(destination)?, RouteProtocol::BOOT);
                let via = Via { destination, gateway: *gateway, link, protocol };
                self.kernel.replace_route(&via).await
            }
            Step::Neighbour { address, mac } => {
                let mac = causeway_netlink::MacAddress::new(mac.octets());
                self.kernel.set_neighbour(link, Neighbour { address: *address, mac }).await
            }
        };
        done.map_err(|source| ManagementError::Kernel { port, source })
    }
}

fn net(prefix: Prefix) -> Option<IpNet> {
    IpNet::new(prefix.address(), prefix.length()).ok()
}
