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
pub mod seen;

use causeway_agent::half::{Ask, Found, Half, HostSide, NotObserved, RelyOn};
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::host_data::HostData;
use causeway_net::publish::{Failure, Findings};
use causeway_net::role::Role;
use causeway_net::wire::Wire;
use tracing::warn;

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
        let host = match &self.host {
            HostSource::Published => published(ask),
            HostSource::Local(host) => host.host_data(ask.interface)?,
        };
        let mut wire = match &self.host {
            HostSource::Published => Wire::default(),
            HostSource::Local(host) => host.wire(ask.interface)?,
        };
        let host = match host {
            Ok(host) => host,
            Err(failure) => return Ok(without_host(ask, failure, wire)),
        };
        let snapshot = self.eyes.ovs()?;
        let representors = self.eyes.representors()?;
        let view = View {
            ovs: OvsView::new(&snapshot),
            representors: &representors,
            node: &ask.node.name,
            default_gateway: &ask.node.default_gateway,
        };
        let (certain, planned) = match &self.host {
            HostSource::Published => (plan::leads_by_function(view, &host), plan::dpu(view, Ok(host))),
            HostSource::Local(_) => {
                let local = self.eyes.local_function(ask.interface);
                (true, plan::full(view, ask.interface, Ok(host), local.as_ref()))
            }
        };
        if let Some(cause) = &planned.instead_of_function {
            let interface = ask.interface;
            warn!(interface, cause, "Bridge found by the host's MAC address, not by the published function");
        }
        if let Some(way) = &planned.way {
            self.eyes.follow(way, &mut wire);
            wire.vlans = view.ovs.vlan_of(&way.host_port).zip(view.ovs.vlan_of(&way.uplink));
        }
        let relied_on = relied_on(ask, &planned, certain);
        Ok(Found { findings: Findings { wire, ..planned.findings }, relied_on })
    }
}

fn published(ask: &Ask<'_>) -> Result<HostData, Failure> {
    HostData::from_status(ask.status, ask.interface)
        .map_err(|waiting| Failure::new(DiscoveryReason::WaitingForDpuHost, waiting.to_string()))
}

/// The host has no half that a bridge could be looked for with. Only the host can change that: its interface on a
/// regular node, the state on a card.
fn without_host(ask: &Ask<'_>, failure: Failure, wire: Wire) -> Found {
    let interface = Some(ask.interface.to_owned());
    let relied_on = RelyOn { interface, complete: true, ..RelyOn::default() };
    Found { findings: Findings { wire, ..Findings::failed(failure) }, relied_on }
}

/// What the answer rests on. `certain` says that no other bridge can be a better one.
fn relied_on(ask: &Ask<'_>, planned: &Planned, certain: bool) -> RelyOn {
    let way = planned.way.iter().flat_map(|way| [&way.host_port, &way.bridge, &way.uplink]);
    RelyOn {
        interface: Some(ask.interface.to_owned()),
        bridge: planned.findings.bridge.clone(),
        links: way.cloned().collect(),
        // What is missing may appear on any bridge, and the port that a refusal tells of can be on another one.
        complete: certain && planned.way.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use causeway_api::uplink_state::UplinkStateStatus;
    use causeway_net::facts::NodeFacts;

    use super::plan::Way;
    use super::*;

    #[test]
    fn only_a_certain_bridge_that_serves_spares_looks_at_other_bridges() {
        let node = NodeFacts::of("node-a", BTreeMap::new(), &BTreeMap::new());
        let ask = Ask { node: &node, interface: "eth0-16", status: &UplinkStateStatus::default() };
        let refusal = || Failure::new(DiscoveryReason::BridgeUplinkNotFound, "eth1 is on bridge br-other");
        let way = || Way { host_port: "rep0-16".into(), bridge: "br-a".into(), uplink: "p0".into() };
        let found = |bridge: Option<&str>, way: Option<Way>| {
            let verdict = way.as_ref().map(|_| String::new()).ok_or_else(refusal);
            let bridge = bridge.map(str::to_owned);
            let findings = Findings { host: None, bridge, verdict, wire: Wire::default() };
            Planned { findings, way, instead_of_function: None }
        };
        let complete = |planned: &Planned, certain| relied_on(&ask, planned, certain).complete;
        assert!(complete(&found(Some("br-a"), Some(way())), true));
        assert!(!complete(&found(Some("br-a"), Some(way())), false), "the function may appear elsewhere");
        assert!(!complete(&found(Some("br-a"), None), true), "the cause may be on another bridge");
        assert!(!complete(&found(None, None), true), "the bridge may be any");
        // Open vSwitch plays no part where the host has nothing to look for.
        assert!(without_host(&ask, refusal(), Wire::default()).relied_on.complete);
    }
}
