//! Live snapshots of one network namespace: links, addresses, routes, rules and devlink ports; and facts from sysfs.
//!
//! **In:** rtnetlink and devlink (dumps and events), sysfs files.
//! **Out:** [`Snapshot`]s (cheap to clone), [`Batch`]es of [`Change`]s, [`Readiness`]; answers of [`Sysfs`].
//! **Never:** decides anything, knows Kubernetes or policy, publishes an incomplete observation, polls. Stores never write;
//! a [`KernelWriter`] changes what it is told to change.
//!
//! ```no_run
//! # use causeway_netlink::{NetlinkStore, Batch};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let stop = tokio_util::sync::CancellationToken::new();
//! let (store, task) = NetlinkStore::open()?; // of this thread's namespace
//! let running = tokio::spawn(task.run(stop.clone()));
//! let mut changes = store.subscribe(); // first subscribe, then look
//! let snapshot = store.ready().await?;
//! let uplink = snapshot.links.by_name(&"eth1".parse()?);
//! while let Some(batch) = changes.next().await {
//!     // Batch::Resync or Batch::Changes; store.snapshot() has them already
//! }
//! # Ok(()) }
//! ```
//!
//! First file to read: `store/task.rs`, then `store/world.rs` (what events do) and `route/table.rs` (the hardest
//! table). `link`, `addr`, `route`, `rule`, `devlink` each have `model` (the row), `decode` (bytes to row), `table`
//! (all rows and their lookups).

#![forbid(unsafe_code)]

mod addr;
mod change;
mod devlink;
mod error;
mod link;
mod mac;
mod name;
mod prefix;
mod route;
mod rule;
mod snapshot;
mod socket;
mod store;
pub mod sysfs;
mod wire;
mod write;

pub use addr::{Address, AddressFlags, Addresses, Scope};
pub use change::{Batch, Change, Changes};
pub use devlink::{DevlinkPort, DevlinkPortId, DevlinkPorts, PortFlavour, PortFunction, PortNetdev};
pub use error::{DumpError, KernelError, OpenError, StoreError, Subject};
pub use link::{Link, LinkDetails, LinkFlags, LinkKind, LinkParent, Links, NetnsId, OperState, ParentDevice};
pub use mac::{HardwareAddress, MacAddress, MacAddressError};
pub use name::{IfIndex, InterfaceName, InterfaceNameError};
pub use prefix::{Family, Prefix, PrefixError};
pub use route::{
    NextHop, NextHopId, NextHops, Route, RouteDetails, RouteKey, RouteKind, RouteProtocol, Routes,
    TABLE_LOCAL, TABLE_MAIN,
};
pub use rule::{PortRange, Rule, RuleAction, Rules, UidRange};
pub use snapshot::Snapshot;
pub use store::{Ended, NetlinkStore, NetlinkTask, Options, Readiness};
pub use sysfs::Sysfs;
pub use wire::Malformed;
pub use write::{KernelWriter, Neighbour, Via, WriteError};
