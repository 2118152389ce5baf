//! The eyes of one side of a node.

use std::collections::BTreeSet;

use causeway_api::uplink_state::{DiscoveryReason, UplinkStateStatus};
use causeway_net::facts::NodeFacts;
use causeway_net::host_data::HostData;
use causeway_net::publish::{Failure, Findings};
use causeway_net::role::Role;
use causeway_net::wire::Wire;

/// One side of a node: what it sees of the world outside Kubernetes.
pub trait Half: Send + Sync + 'static {
    /// Which side this is.
    fn role(&self) -> Role;

    /// What this side finds for an interface, from its newest snapshots. Quick and synchronous.
    ///
    /// # Errors
    /// [`NotObserved`] if a snapshot is not complete: then nothing can be concluded, and what was published stays.
    fn discover(&self, ask: &Ask<'_>) -> Result<Found, NotObserved>;
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The node.
    pub node: &'a NodeFacts,
    /// The interface that the Uplink's entry for this node names.
    pub interface: &'a str,
    /// The state as it is now: on a card the host's half is in there.
    pub status: &'a UplinkStateStatus,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What to publish.
    pub findings: Findings,
    /// What the findings rest on.
    pub relied_on: RelyOn,
}

/// Names that an answer rests on. A change of one of them asks again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelyOn {
    /// The host's interface.
    pub interface: Option<String>,
    /// The bridge.
    pub bridge: Option<String>,
    /// Links on the way out; their state and MTU count.
    pub links: BTreeSet<String>,
    /// Whether the answer is complete. Without it any change may bring what is missing.
    pub complete: bool,
}

/// Something that has to be seen could not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotObserved {
    /// Reason to publish for a state that says nothing yet.
    pub reason: DiscoveryReason,
    /// What could not be seen and why.
    pub message: String,
}

/// The host's side of a regular node, as the side with the bridge sees it: one machine, two crates.
pub trait HostSide: Send + Sync + 'static {
    /// The gateway identity of an interface, or why it has none.
    ///
    /// # Errors
    /// [`NotObserved`] as in [`Half::discover`].
    fn host_data(&self, interface: &str) -> Result<Result<HostData, Failure>, NotObserved>;

    /// The host's end of the wire: the interface and its addresses.
    ///
    /// # Errors
    /// [`NotObserved`] as in [`Half::discover`].
    fn wire(&self, interface: &str) -> Result<Wire, NotObserved>;
}
