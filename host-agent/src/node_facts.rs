//! What the host tells about its node: its addresses, and the ranges of its masquerade addresses.
//!
//! In: addresses of this network namespace. Out: facts that `causeway-agent` writes as annotations. On the host of a card
//! also the address of its gateway interface, which the card cannot see.
//!
//! [`plan`] decides, [`listen`] tells when to look again.

pub mod listen;
pub mod plan;

use causeway_agent::kernel;
use causeway_agent::node_facts::view::NodeView;
use causeway_agent::node_facts::{Facts, Source};
use causeway_netlink::{NetlinkStore, Sysfs};
use causeway_runtime::settings::{GatewayMode, NodeMode, Settings};
use causeway_runtime::start::Context;
use kube::Client;
use tracing::info;

use self::plan::{Found, Options};
use crate::discovery::HostEyes;

/// Starts to tell the facts of the host of a card: tasks run under `context`. Without a gateway mode they are somebody
/// else's to tell, and nothing is started.
pub fn start(context: &mut Context, client: &Client, netlink: &NetlinkStore) {
    if context.settings.gateway_mode == GatewayMode::Disabled {
        info!("No gateway mode; facts of the node are somebody else's to tell");
        return;
    }
    let facts = HostFacts::new(&context.settings, netlink.clone());
    let waker = causeway_agent::node_facts::start(context, client, vec![Box::new(facts)]);
    let stop = context.tasks.stop();
    context.tasks.spawn("node-facts-kernel", listen::listen(netlink.clone(), waker, stop));
}

/// Eyes on the facts of the host.
pub struct HostFacts {
    options: Options,
    netlink: NetlinkStore,
    eyes: HostEyes,
}

impl HostFacts {
    /// Looks through this store.
    #[must_use]
    pub fn new(settings: &Settings, netlink: NetlinkStore) -> Self {
        let eyes = HostEyes::new(netlink.clone(), Sysfs::new("/sys"), crate::families(settings), false);
        let options = Options {
            families: settings.families,
            masquerade: settings.masquerade,
            has_card: settings.node_mode == NodeMode::DpuHost,
            gateway_interface: settings.gateway.interface.clone(),
        };
        Self { options, netlink, eyes }
    }
}

impl Source for HostFacts {
    fn look(&self, node: &NodeView) -> Facts {
        let snapshot = match kernel::current(&self.netlink) {
            Ok(snapshot) => snapshot,
            Err(why) => {
                let mut facts = Facts::default();
                facts.wait(why);
                return facts;
            }
        };
        let found = snapshot.addresses.iter().filter_map(|address| {
            let interface = snapshot.links.get(address.link)?.name.to_string();
            let prefix = address.prefix.length();
            let net = ipnet::IpNet::new(address.ip(), prefix).ok()?;
            Some(Found { interface, net })
        });
        plan::facts(&self.options, node, &found.collect::<Vec<_>>(), &self.eyes)
    }
}
