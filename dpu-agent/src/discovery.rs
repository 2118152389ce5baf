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
use causeway_net::publish::{Failure, Findings};
use causeway_net::role::Role;

pub use self::observe::BridgeEyes;
use self::ovs::OvsView;
use self::plan::View;

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
        let findings = match local {
            Some(host) => {
                plan::full(view, ask.interface, host, self.eyes.local_function(ask.interface).as_ref())
            }
            None => plan::dpu(view, published(ask)),
        };
        Ok(Found { relied_on: relied_on(ask, &findings), findings })
    }
}

fn published(ask: &Ask<'_>) -> Result<HostData, Failure> {
    HostData::from_status(ask.status, ask.interface)
        .map_err(|waiting| Failure::new(DiscoveryReason::WaitingForDpuHost, waiting.to_string()))
}

fn relied_on(ask: &Ask<'_>, findings: &Findings) -> RelyOn {
    RelyOn {
        interface: Some(ask.interface.to_owned()),
        bridge: findings.bridge.clone(),
        // Without a bridge, any bridge or representor that appears may be the one.
        complete: findings.bridge.is_some(),
    }
}
