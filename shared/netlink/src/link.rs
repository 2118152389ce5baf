//! Network interfaces.

mod decode;
mod model;
mod table;

pub(crate) use decode::{RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK, decode};
pub use model::{Link, LinkDetails, LinkFlags, LinkKind, LinkParent, NetnsId, OperState, ParentDevice};
pub use table::Links;
