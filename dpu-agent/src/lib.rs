//! The side of a node that holds the bridge: the card, or a regular node itself.
//!
//! In: Open vSwitch, links, devlink and sysfs of this machine; the Uplinks and UplinkStates of the node it serves; networks
//! and nodes. Out: which bridge an Uplink uses, in the UplinkState; every network's rows in OVN.
//!
//! Never reads the host's interface by itself: on a card the host publishes it in the state, on a regular node the
//! host side hands it over as a value.
//!
//! First file to read: [`discovery`], then [`topology`]. [`start`] puts the role together.

#![forbid(unsafe_code)]

pub mod discovery;
pub mod management;
pub mod node_facts;
pub mod topology;
pub mod vswitch;

use causeway_agent::discovery::{Discovery, Metrics};
use causeway_agent::half::Half;
use causeway_agent::heard;
use causeway_agent::introspect::{Introspection, Section};
use causeway_agent::kernel;
use causeway_net::role::Role;
use causeway_netlink::{NetlinkStore, Sysfs};
use causeway_runtime::start::{Context, Failure};
use kube::Client;
use tracing::warn;

use self::discovery::{BridgeEyes, BridgeHalf, HostSource, listen, seen};
use self::vswitch::{Bridge, Interface, Port};

/// Starts the role of the side that holds the bridge: its tasks run under `context`. Returns how the listeners of the
/// host's side ask for another look; none if Uplinks are off. `told` is what other rooms of the process have to tell.
///
/// # Errors
/// The address of the Open vSwitch database cannot be understood. Nothing here waits for a server.
pub fn start(
    context: &mut Context,
    client: &Client,
    netlink: &NetlinkStore,
    host: HostSource,
    told: Vec<Box<dyn Section>>,
) -> Result<Option<causeway_agent::look::Looker>, Failure> {
    let is_node = matches!(host, HostSource::Local(_));
    let topology = topology::room::start(context, client, netlink, is_node)?;
    let topology = topology.map(|section| -> Box<dyn Section> { Box::new(section) });
    let told = told.into_iter().chain(topology);
    let settings = &context.settings;
    if !settings.features.uplinks() {
        warn!("Uplinks are off; bridges are not looked for");
        let role = if is_node { Role::Full } else { Role::Dpu };
        Introspection::new(role, &settings.identity).sections(told).serve(context);
        return Ok(None);
    }
    let remotes: ovsdb::Remotes = settings.ovsdb_address.parse()?;
    let (ovs, driver) = ovsdb::Store::builder(remotes, "Open_vSwitch")
        .table::<Bridge>()
        .table::<Port>()
        .table::<Interface>()
        .build();
    let node = settings.identity.clone();
    let simulated = settings.simulate_dpu.then(|| node.clone());
    let metrics = Metrics::register(&mut context.registry);
    let eyes = || BridgeEyes::new(ovs.clone(), netlink.clone(), Sysfs::new("/sys"), simulated.clone());
    let half = BridgeHalf::new(eyes(), host);
    let (role, seen) = (half.role(), eyes());
    let discovery = Discovery::new(client, &node, settings.resync, metrics, half);
    Introspection::new(role, &node)
        .sections(told)
        .section(discovery.section().candidates(move || seen::candidates(&seen)))
        .store("kernel", kernel::check(netlink))
        .store("ovsdb", check(&ovs))
        .serve(context);

    let (kernel_store, ovs_store) = (netlink.clone(), ovs.clone());
    heard::Stores::default()
        .store("kernel", move || kernel_store.last_event(), kernel::check(netlink))
        .store("ovsdb", move || ovs_store.last_event(), check(&ovs))
        .register(&mut context.registry);
    let stores = discovery.stores();
    context.readiness.add("api", move || stores.readiness(&node).map_err(|error| error.to_string()));
    context.readiness.add("ovsdb", check(&ovs));
    let (looker, stop) = (discovery.looker(), context.tasks.stop());
    context.tasks.spawn("ovsdb", driver.run(stop.clone()));
    context.tasks.spawn("ovs-listener", listen::to_ovs(ovs, looker.clone(), stop.clone()));
    context.tasks.spawn("device-listener", listen::to_devices(netlink.clone(), looker.clone(), stop.clone()));
    context.tasks.spawn("discovery", discovery.run(stop));
    Ok(Some(looker))
}

/// Whether what is known of Open vSwitch is complete and current, and why not.
fn check(ovs: &ovsdb::Store) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let status = ovs.status();
    move || {
        let status = status.borrow();
        if status.is_synced() { Ok(()) } else { Err(format!("Open vSwitch database {}", *status)) }
    }
}
