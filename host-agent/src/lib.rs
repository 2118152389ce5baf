//! The host side of a node: what an Uplink's interface looks like to the host, and which pods its processes may reach.
//!
//! In: links, addresses, routes and sysfs of this network namespace; the Uplinks of this node; pods. Out: the host's half of
//! each UplinkState, or on a regular node a value that the card side publishes together with its own half; rules of nftables;
//! annotations of the Node with what the host knows about itself.
//!
//! Never talks to Open vSwitch or OVN: there is none on the host of a card.
//!
//! First file to read: [`discovery`], then [`isolation`]. [`start`] puts the role together.

#![forbid(unsafe_code)]

pub mod discovery;
pub mod isolation;
pub mod kubelet;
pub mod node_facts;

use causeway_agent::discovery::{Discovery, Metrics};
use causeway_agent::heard;
use causeway_agent::introspect::{Introspection, Section};
use causeway_agent::kernel;
use causeway_net::host_data::InterfaceAddress;
use causeway_net::role::Role;
use causeway_netlink::{NetlinkStore, Sysfs};
use causeway_runtime::settings::Settings;
use causeway_runtime::start::{Context, Failure};
use kube::Client;
use tokio::sync::watch;
use tracing::warn;

use self::discovery::plan::Families;
use self::discovery::{DpuHostHalf, HostEyes, listen, seen};
use self::kubelet::Kubelet;

/// What of the settings discovery of interfaces depends on.
#[must_use]
pub fn families(settings: &Settings) -> Families {
    let (v4, v6) = (settings.masquerade.v4, settings.masquerade.v6);
    Families {
        ipv4: settings.families.ipv4,
        ipv6: settings.families.ipv6,
        masquerade: vec![
            InterfaceAddress { address: v4.addr().into(), prefix: v4.prefix_len() },
            InterfaceAddress { address: v6.addr().into(), prefix: v6.prefix_len() },
        ],
    }
}

/// The eyes of the host's side, on these stores.
#[must_use]
pub fn eyes(settings: &Settings, netlink: NetlinkStore) -> HostEyes {
    HostEyes::new(netlink, Sysfs::new("/sys"), families(settings), settings.simulate_dpu)
}

/// Starts isolation of pods from the processes of this host, on a regular node and on a host that has a card. Returns what
/// it has to tell to those who ask the agent.
pub fn isolate(context: &mut Context, client: &Client) -> Vec<Box<dyn Section>> {
    if !context.settings.features.user_defined_networks() {
        // What is left of it is removed; nobody has to be let through.
        let (_, kubelet) = watch::channel(Kubelet::Unknown);
        isolation::start(context, client, kubelet);
        return Vec::new();
    }
    let (kubelet, room) = kubelet::start(context, client);
    let pods = isolation::start(context, client, kubelet);
    let pods = pods.map(|pods| -> Box<dyn Section> { Box::new(pods) });
    [Some(Box::new(room) as Box<dyn Section>), pods].into_iter().flatten().collect()
}

/// Starts the role of a host that has a card: its tasks run under `context`.
///
/// # Errors
/// Nothing here waits for the kernel or the API server; an error is a failure to set up.
pub fn start(context: &mut Context, client: &Client, netlink: &NetlinkStore) -> Result<(), Failure> {
    let sections = isolate(context, client);
    node_facts::start(context, client, netlink);
    let settings = &context.settings;
    let node = settings.identity.clone();
    let introspection = Introspection::new(Role::DpuHost, &node).sections(sections);
    if !settings.features.uplinks() {
        warn!("Uplinks are off; interfaces are not looked for");
        introspection.serve(context);
        return Ok(());
    }
    let metrics = Metrics::register(&mut context.registry);
    let half = DpuHostHalf(eyes(settings, netlink.clone()));
    let discovery = Discovery::new(client, &node, settings.resync, metrics, half);
    let seen = {
        let netlink = netlink.clone();
        move || seen::candidates(&netlink)
    };
    introspection
        .section(discovery.section().candidates(seen))
        .store("kernel", kernel::check(netlink))
        .serve(context);
    let store = netlink.clone();
    heard::Stores::default()
        .store("kernel", move || store.last_event(), kernel::check(netlink))
        .register(&mut context.registry);
    let stores = discovery.stores();
    context.readiness.add("api", move || stores.readiness(&node).map_err(|error| error.to_string()));
    let listener = listen::listen(netlink.clone(), discovery.looker(), context.tasks.stop());
    context.tasks.spawn("host-listener", listener);
    let stop = context.tasks.stop();
    context.tasks.spawn("discovery", discovery.run(stop));
    Ok(())
}
