//! What the side that holds the bridge tells about its node: chassis, tunnels, the default gateway.
//!
//! In: Open vSwitch, addresses and default routes of this machine; on a card the addresses that the host wrote on the Node.
//! Out: facts that `causeway-agent` writes as annotations. Never makes a bridge or a port: a gateway that is not there is a
//! problem that the Node is told of.
//!
//! [`plan`] decides, with [`gateway`] on which way leads out and `card` on what a card knows otherwise; [`listen`] tells
//! when to look again.

mod card;
mod gateway;
pub mod listen;
pub mod plan;
pub mod rows;

use causeway_agent::half::HostSide;
use causeway_agent::kernel;
use causeway_agent::node_facts::view::NodeView;
use causeway_agent::node_facts::{Facts, Source};
use causeway_netlink::{NetlinkStore, RouteKind, Snapshot, Sysfs, TABLE_MAIN};
use causeway_runtime::settings::{GatewayMode, NodeMode, Settings};
use causeway_runtime::start::{Context, Failure};
use ipnet::IpNet;
use kube::Client;
use tracing::info;

pub use self::gateway::DefaultRoute;
use self::plan::{Host, Kernel, Options, World};
use self::rows::{BridgeType, Datapath, Root};
use crate::discovery::BridgeEyes;
use crate::vswitch::{Bridge, Interface, Port};

/// Declares what this side reads of the Open_vSwitch database.
#[must_use]
pub fn tables(builder: ovsdb::StoreBuilder) -> ovsdb::StoreBuilder {
    let bridges = builder.table::<Bridge>().table::<Port>().table::<Interface>();
    let own = bridges.table::<Root>().table::<Datapath>().table::<BridgeType>().table::<rows::Port>();
    // Management ports are on the same bridges: one connection serves both.
    crate::management::rows::tables(own)
}

/// The host's side, where it is this machine.
pub struct Local {
    /// What an interface looks like.
    pub eyes: Box<dyn HostSide>,
    /// What the host tells about the node.
    pub facts: Box<dyn Source>,
}

/// Starts to tell the facts of a node: tasks run under `context`. Returns the store of Open vSwitch that they come from.
///
/// Without a gateway mode this process is not in charge of how its node reaches the outside: somebody else is, such as
/// OVN-Kubernetes beside Causeway, and tells these facts. Nothing is started then.
///
/// # Errors
/// The address of the Open vSwitch database cannot be understood. Nothing here waits for a server.
pub fn start(
    context: &mut Context,
    client: &Client,
    netlink: &NetlinkStore,
    local: Option<Local>,
) -> Result<Option<ovsdb::Store>, Failure> {
    let settings = &context.settings;
    if settings.gateway_mode == GatewayMode::Disabled {
        info!("No gateway mode; facts of the node are somebody else's to tell");
        return Ok(None);
    }
    if local.is_none() {
        info!("Management ports over functions of a card are not in this version; none is made here");
    }
    let remotes: ovsdb::Remotes = settings.ovsdb_address.parse()?;
    let (ovs, driver) = tables(ovsdb::Store::builder(remotes, "Open_vSwitch")).build();
    let (eyes, host) = local.map_or((None, None), |local| (Some(local.eyes), Some(local.facts)));
    let bridges = BridgeFacts::new(settings, ovs.clone(), netlink.clone(), eyes);
    let sources = host.into_iter().chain([Box::new(bridges) as Box<dyn Source>]);
    let waker = causeway_agent::node_facts::start(context, client, sources.collect());
    let stop = context.tasks.stop();
    context.tasks.spawn("node-facts-ovsdb", driver.run(stop.clone()));
    context.tasks.spawn("node-facts-ovs", listen::to_ovs(ovs.clone(), waker.clone(), stop.clone()));
    context.tasks.spawn("node-facts-kernel", listen::to_kernel(netlink.clone(), waker, stop));
    Ok(Some(ovs))
}

/// Eyes on the facts of this side.
pub struct BridgeFacts {
    options: Options,
    ovs: ovsdb::Store,
    netlink: NetlinkStore,
    eyes: BridgeEyes,
    host: Option<Box<dyn HostSide>>,
}

impl BridgeFacts {
    /// Looks through a store with [`tables`] and one of the kernel. `host` is the host's side where it is this machine.
    #[must_use]
    pub fn new(
        settings: &Settings,
        ovs: ovsdb::Store,
        netlink: NetlinkStore,
        host: Option<Box<dyn HostSide>>,
    ) -> Self {
        let simulated = settings.simulate_dpu && settings.node_mode == NodeMode::Dpu;
        let simulated = simulated.then(|| settings.identity.clone());
        let eyes = BridgeEyes::new(ovs.clone(), netlink.clone(), Sysfs::new("/sys"), simulated);
        Self { options: options(settings), ovs, netlink, eyes, host }
    }
}

fn options(settings: &Settings) -> Options {
    Options {
        mode: settings.gateway_mode,
        families: settings.families,
        masquerade: vec![IpNet::V4(settings.masquerade.v4), IpNet::V6(settings.masquerade.v6)],
        gateway: settings.gateway.clone(),
        encap_ips: settings.ovn.encap_ips.clone(),
    }
}

impl Source for BridgeFacts {
    fn look(&self, node: &NodeView) -> Facts {
        let mut waiting = Facts::default();
        let Ok(ovs) = self.ovs.current() else {
            waiting.wait(format!("Open vSwitch database {}", *self.ovs.status().borrow()));
            return waiting;
        };
        let (snapshot, representors) = match (kernel::current(&self.netlink), self.eyes.representors()) {
            (Ok(snapshot), Ok(representors)) => (snapshot, representors),
            (Err(why), _) => {
                waiting.wait(why);
                return waiting;
            }
            (_, Err(missed)) => {
                waiting.wait(missed.message);
                return waiting;
            }
        };
        let host = self.host.as_deref().map_or(Host::Elsewhere, Host::Here);
        plan::facts(World {
            options: &self.options,
            node,
            ovs: &ovs,
            kernel: &observe(&snapshot),
            representors: &representors,
            function: &|interface| self.eyes.local_function(interface),
            host,
        })
    }
}

/// Addresses and default routes out of a complete snapshot.
fn observe(snapshot: &Snapshot) -> Kernel {
    let name = |link| snapshot.links.get(link).map(|link| link.name.to_string());
    let addresses = snapshot.addresses.iter().filter_map(|address| {
        let net = IpNet::new(address.ip(), address.prefix.length()).ok()?;
        Some((name(address.link)?, net))
    });
    let main = snapshot.routes.table(TABLE_MAIN);
    let defaults = main.filter(|route| route.is_default() && route.kind == RouteKind::Unicast);
    let defaults = defaults.flat_map(|route| {
        let key = route.key;
        route.hops.as_slice().iter().filter_map(move |hop| {
            let interface = name(hop.link?)?;
            let is_ipv4 = key.destination.address().is_ipv4();
            Some(DefaultRoute { interface, gateway: hop.gateway, metric: key.priority, is_ipv4 })
        })
    });
    Kernel { addresses: addresses.collect(), defaults: defaults.collect() }
}
