//! Management ports of a regular node: how soon a network has its own on the node, with its address, and what a restart
//! with a hundred of them writes to Open vSwitch.
//!
//! The node has its subnets of all networks before the first one comes: a time begins with the
//! NetworkAttachmentDefinition, and nothing that it needs is missing. The agent writes each network to OVN meanwhile, as
//! it does everywhere. northd and ovn-controller are stopped, as for `topology_*`; ovn-controller would also write to the
//! switch.
//!
//! The kernel says when a port is up and has its address: no start of a program is in a time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use causeway_rig::{FABRIC_V4, Node, Process};
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::sys::SocketAddr;
use rtnetlink::{MulticastGroup, new_multicast_connection};
use serde_json::{Map, Value, json};

use super::hand::{Hand, inside};
use super::journal::Journal;
use super::measure::{Goal, Taken};
use super::rest::counts;
use super::session::Session;
use crate::topology::world::{DEADLINE, Kind, NetworkSpec, ON, World};

/// From a NetworkAttachmentDefinition to the network's port with its address.
const MADE: &str = "management_port_made";
/// Transactions of Open vSwitch for a restart with all ports there.
const RESTART: &str = "management_restart_transactions";

/// Networks on the node at last. The first one is not counted.
const NETWORKS: u8 = 100;
/// The node that [`World`] begins with.
const NODE: &str = "node1";
/// Its bridge that leads out.
const EXIT: &str = "br-ex";
/// Length of the node's subnets.
const LENGTH: u8 = 24;

/// Passes of the agent's management ports that ended well.
const PASSES: &str = r#"causeway_management_reconcile_passes_total{room="management",outcome="done"}"#;
/// Passes that it has to make.
const DUE: &str = "causeway_management_reconcile_unfinished";

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    if !session.wants_any([MADE, RESTART]) {
        return Ok(());
    }
    let world = World::start().await?;
    let [_, _, northd, controller] = world.zone.daemons();
    northd.kill().await?;
    controller.kill().await?;
    // ovn-controller makes it, and may not have come so far.
    let bridge = ["--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev"];
    world.ovs.vsctl(bridge).await?;
    world.annotate(NODE, &[("k8s.ovn.org/node-subnets", Some(&subnets()))]).await?;
    let mut follower = Follower::of(&world.machine)?;
    // Without a way out of the node the agent would not be ready.
    let exit = world.ovs.add_bridge(&world.machine, EXIT).physical("eth1").address("192.0.2.9/24");
    exit.create().await?;
    let hop = FABRIC_V4.to_string();
    let program = world.program("node-agent", ON);
    let program =
        program.args(["--gateway-mode=shared", "--gateway-interface", EXIT, "--gateway-nexthop", &hop]);
    let agent = world.machine.spawn(program).await?;
    world.ready().await?;
    // The API server's first object of a kind takes it two seconds.
    made(&world, &mut follower, 1).await?;
    let mut times = Vec::new();
    for id in 2..=NETWORKS {
        times.push(made(&world, &mut follower, id).await?);
    }
    let taken = Taken::times(MADE, &times).incumbent("127, max 182");
    session.tell(taken.goal(Goal::median(50.0)))?;
    if session.wants(RESTART) {
        let written = restart(&world, &mut follower, &agent).await?;
        session.tell(Taken::values(RESTART, "changes", vec![written]).goal(Goal::max(0.0)))?;
    }
    Ok(())
}

fn spec(id: u8) -> NetworkSpec {
    NetworkSpec::new(&format!("bench_n{id}"), id.into(), Kind::Layer3)
}

/// Name of a network's management port.
fn port(id: u8) -> String {
    format!("ovn-k8s-mp{id}")
}

/// Its address: the second one of the node's subnet.
fn address(id: u8) -> IpAddr {
    Ipv4Addr::new(10, 200, id, 2).into()
}

/// The node's subnets of the default network and of all that are going to come.
fn subnets() -> String {
    let of_network = (1..=NETWORKS).map(|id| (spec(id).name, json!([format!("10.200.{id}.0/{LENGTH}")])));
    let default = ("default".to_owned(), json!(["10.128.1.0/24"]));
    Value::Object(of_network.chain([default]).collect::<Map<String, Value>>()).to_string()
}

/// A network comes: how long until its port is up and has its address.
async fn made(world: &World, follower: &mut Follower, id: u8) -> anyhow::Result<Duration> {
    let network = spec(id);
    let begun = Instant::now();
    // At once: the port may be there before the API server's answer is.
    let ((), at) = tokio::try_join!(world.create(&network), follower.until(id))?;
    Ok(at.saturating_duration_since(begun))
}

/// Kills the agent and starts it again: transactions of the switch's database until it has looked at every port.
async fn restart(world: &World, follower: &mut Follower, agent: &Process) -> anyhow::Result<f64> {
    let journal = Journal::of(&world.machine);
    // The switch has told by then of everything that it made.
    counts(&world.ovs, &journal).await?;
    agent.kill().await?;
    let before = journal.transactions()?;
    agent.restart().await?;
    world.ready().await?;
    let looked = || async {
        let asked = async { anyhow::Ok((world.metric(PASSES).await?, world.metric(DUE).await?)) };
        match asked.await {
            Ok((passes, 0)) if passes > u64::from(NETWORKS) => Ok(()),
            Ok((passes, due)) => Err(format!("{passes} passes, {due} to be made")),
            Err(error) => Err(format!("{error:#}")),
        }
    };
    world.rig.wait_for("the agent to look at every port", DEADLINE, looked).await?;
    // There is one pass at a time, in the order in which they are asked for: once this address is back, the last of the
    // others has written whatever it had to write.
    let hand = Hand::in_node(&world.machine)?;
    let index = hand.index(&port(NETWORKS)).await?;
    hand.set_address(index, (address(NETWORKS), LENGTH), false).await?;
    follower.until(NETWORKS).await?;
    let written = journal.transactions()?.checked_sub(before).context("a journal that got shorter")?;
    Ok(f64::from(u32::try_from(written)?))
}

/// Hears of links and addresses of a node.
struct Follower {
    events: UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>,
    /// Links that are up.
    up: BTreeSet<String>,
}

impl Follower {
    fn of(node: &Node) -> anyhow::Result<Self> {
        let groups = [MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr];
        let (connection, _, events) = inside(node, move || new_multicast_connection(&groups))?;
        tokio::spawn(connection);
        Ok(Self { events, up: BTreeSet::new() })
    }

    /// Waits until a network's port gets its address and is up; says when.
    async fn until(&mut self, id: u8) -> anyhow::Result<Instant> {
        let heard = tokio::time::timeout(DEADLINE, self.hear(id)).await;
        heard.with_context(|| format!("{} does not come with its address", port(id)))?
    }

    async fn hear(&mut self, id: u8) -> anyhow::Result<Instant> {
        let (name, mut has_address) = (port(id), false);
        while let Some((message, _)) = self.events.next().await {
            let at = Instant::now();
            match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => self.note(&link),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(found)) => {
                    has_address |= is(&found, &name, address(id));
                }
                NetlinkPayload::Overrun(_) => bail!("events of the kernel were lost"),
                _ => {}
            }
            if has_address && self.up.contains(&name) {
                return Ok(at);
            }
        }
        bail!("the netlink socket has ended")
    }

    fn note(&mut self, link: &LinkMessage) {
        let names = link.attributes.iter().filter_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        });
        for name in names {
            if link.header.flags.contains(LinkFlags::Up) {
                self.up.insert(name.clone());
            } else {
                self.up.remove(name);
            }
        }
    }
}

/// Whether this is the address of a link. The label of an IPv4 address is the link's name unless someone chose another.
fn is(found: &AddressMessage, link: &str, address: IpAddr) -> bool {
    let has = |wanted: &AddressAttribute| found.attributes.contains(wanted);
    found.header.prefix_len == LENGTH
        && has(&AddressAttribute::Local(address))
        && has(&AddressAttribute::Label(link.to_owned()))
}
