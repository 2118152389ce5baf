//! What an Uplink's interface looks like to the host.
//!
//! In: links, addresses, routes and sysfs of this network namespace. Out: the host's half of the state, on the host of a
//! card through [`DpuHostHalf`], on a regular node as a value through [`HostEyes`]. Never looks at a bridge.
//!
//! [`observe`] reads the stores, [`plan`] decides, [`listen`] maps what changes in the kernel to Uplinks.

pub mod listen;
pub mod observe;
pub mod plan;
pub mod seen;

use causeway_agent::half::{Ask, Found, Half, HostSide, NotObserved, RelyOn};
use causeway_net::host_data::HostData;
use causeway_net::publish::{Failure, Findings};
use causeway_net::role::Role;
use causeway_net::wire::Wire;

pub use self::observe::HostEyes;

/// Message of the true condition. Source: OVN-Kubernetes, `pkg/node/uplink/controller.go`.
const DISCOVERED: &str = "Uplink host interface data discovered";

impl HostSide for HostEyes {
    fn host_data(&self, interface: &str) -> Result<Result<HostData, Failure>, NotObserved> {
        let view = self.view(interface)?;
        Ok(plan::host_data(interface, view.as_ref(), self.families()))
    }

    fn wire(&self, interface: &str) -> Result<Wire, NotObserved> {
        Ok(self.view(interface)?.map(|view| plan::wire(interface, &view)).unwrap_or_default())
    }
}

/// The half that the host of a card publishes.
pub struct DpuHostHalf(pub HostEyes);

impl Half for DpuHostHalf {
    fn role(&self) -> Role {
        Role::DpuHost
    }

    fn discover(&self, ask: &Ask<'_>) -> Result<Found, NotObserved> {
        let view = self.0.view(ask.interface)?;
        let wire = view.as_ref().map(|view| plan::wire(ask.interface, view)).unwrap_or_default();
        let findings = match plan::host_data(ask.interface, view.as_ref(), self.0.families()) {
            Ok(host) => Findings { host: Some(host), bridge: None, verdict: Ok(DISCOVERED.to_owned()), wire },
            Err(failure) => Findings { wire, ..Findings::failed(failure) },
        };
        // The interface's name is all that the answer rests on, found or not.
        let relied_on =
            RelyOn { interface: Some(ask.interface.to_owned()), complete: true, ..RelyOn::default() };
        Ok(Found { findings, relied_on })
    }
}
