//! Which bridge an Uplink uses.
//!
//! In: Open vSwitch, devices and devlink ports, the Uplink's entry, and the host's half: out of the state on a card, as a
//! value on a regular node. Out: the findings that `causeway-agent` publishes. Never reads the host's interface.
//!
//! [`observe`] reads the stores, [`plan`] decides over [`ovs`] and [`representor`], [`bridge`] judges the bridge,
//! [`listen`] maps what changes to Uplinks.

pub mod bridge;
pub mod listen;
pub mod observe;
pub mod ovs;
pub mod plan;
pub mod representor;

use causeway_agent::half::{Ask, Found, Half, HostSide, NotObserved, RelyOn};
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::host_data::HostData;
use causeway_net::publish::Failure;
use causeway_net::role::Role;
use causeway_net::wire::Wire;

pub use self::observe::BridgeEyes;
use self::ovs::OvsView;
use self::plan::{Planned, View};

/// The half of the side that holds the bridge.
pub struct BridgeHalf {
    eyes: BridgeEyes,
    host: HostSource,
}

/// Where the host's half comes from.
pub enum HostSource {
    /// The host is another machine and publishes in the state: this is a card.
    Published,
    /// The host is this machine: a regular node.
    Local(Box<dyn HostSide>),
}

impl BridgeHalf {
    /// A half with eyes on bridges and devices, and a source of the host's half.
    #[must_use]
    pub fn new(eyes: BridgeEyes, host: HostSource) -> Self {
        Self { eyes, host }
    }
}

impl Half for BridgeHalf {
    fn role(&self) -> Role {
        match self.host {
            HostSource::Published => Role::Dpu,
            HostSource::Local(_) => Role::Full,
        }
    }

    fn discover(&self, ask: &Ask<'_>) -> Result<Found, NotObserved> {
        // The host's side first: what is wrong there is told even while Open vSwitch is away.
        let local = match &self.host {
            HostSource::Published => None,
            HostSource::Local(host) => Some(host.host_data(ask.interface)?),
        };
        let snapshot = self.eyes.ovs()?;
        let representors = self.eyes.representors()?;
        let view = View {
            ovs: OvsView::new(&snapshot),
            representors: &representors,
            node: &ask.node.name,
            default_gateway: &ask.node.default_gateway,
        };
        let planned = match local {
            Some(host) => {
                plan::full(view, ask.interface, host, self.eyes.local_function(ask.interface).as_ref())
            }
            None => plan::dpu(view, published(ask)),
        };
        let mut wire = match &self.host {
            HostSource::Published => Wire::default(),
            HostSource::Local(host) => host.wire(ask.interface)?,
        };
        if let Some(way) = &planned.way {
            self.eyes.follow(way, &mut wire);
            wire.vlans = view.ovs.vlan_of(&way.host_port).zip(view.ovs.vlan_of(&way.uplink));
        }
        let relied_on = relied_on(ask, &planned);
        Ok(Found { findings: planned.findings, wire, relied_on })
    }
}

fn published(ask: &Ask<'_>) -> Result<HostData, Failure> {
    HostData::from_status(ask.status, ask.interface)
        .map_err(|waiting| Failure::new(DiscoveryReason::WaitingForDpuHost, waiting.to_string()))
}

fn relied_on(ask: &Ask<'_>, planned: &Planned) -> RelyOn {
    let way = planned.way.iter().flat_map(|way| [&way.host_port, &way.bridge, &way.uplink]);
    RelyOn {
        interface: Some(ask.interface.to_owned()),
        bridge: planned.findings.bridge.clone(),
        links: way.cloned().collect(),
        // Without a bridge, any bridge or representor that appears may be the one.
        complete: planned.findings.bridge.is_some(),
    }
}
