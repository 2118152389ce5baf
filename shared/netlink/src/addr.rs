//! Addresses of interfaces.

mod decode;
mod model;
mod table;

pub(crate) use decode::{RTM_DELADDR, RTM_GETADDR, RTM_NEWADDR, decode};
pub use model::{Address, AddressFlags, Scope};
pub use table::Addresses;
pub(crate) use table::Placement;
