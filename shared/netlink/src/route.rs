//! Routes of all tables, both families.

mod decode;
mod model;
mod table;

pub(crate) use decode::{
    RTM_DELNEXTHOP, RTM_DELROUTE, RTM_GETROUTE, RTM_NEWNEXTHOP, RTM_NEWROUTE, decode, nexthop_object,
};
pub use model::{
    NextHop, NextHopId, NextHops, Route, RouteDetails, RouteKey, RouteKind, RouteProtocol, TABLE_LOCAL,
    TABLE_MAIN,
};
pub use table::Routes;
pub(crate) use table::{Effect, How};
