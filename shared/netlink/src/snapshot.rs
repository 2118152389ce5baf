//! Everything known of the namespace at one moment.

use crate::addr::Addresses;
use crate::devlink::DevlinkPorts;
use crate::link::Links;
use crate::route::Routes;
use crate::rule::Rules;

/// Everything known of the namespace at one moment. Cloning costs a handful of reference counts; clones share all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Network interfaces.
    pub links: Links,
    /// Addresses of the interfaces.
    pub addresses: Addresses,
    /// Routes of all tables, both families.
    pub routes: Routes,
    /// Policy routing rules, both families.
    pub rules: Rules,
    /// Devlink ports; none where the kernel has no devlink.
    pub devlink_ports: DevlinkPorts,
}
