//! What events do to the snapshot, and what they leave open. Pure: bytes in, state out.
//!
//! Not every change in the kernel has an event, and not every event says all. What must be asked for afterwards is
//! kept as [`Doubts`]; the snapshot is not published while there are any. The kernel's silences, with their source:
//!
//! * A link that goes down or away takes its IPv4 routes without an event (`fib_sync_down_dev`, `fib_flush` in
//!   net/ipv4/fib_frontend.c). So does the last IPv4 address of a link (`fib_disable_ip`).
//! * An address that goes takes the IPv4 routes that prefer it as source; kernels before 6.6 do not say so
//!   (`fib_sync_down_addr`). IPv6 clears the preference in the routes and never says so (`fib6_remove_prefsrc`).
//! * A deleted nexthop object takes its IPv4 routes without an event (`__remove_nexthop_fib`).
//! * The end of a veth pair that is made first is announced before it has a peer, and not again when it gets one; nor is
//!   the end whose peer moves to another namespace (`veth_newlink`, `dev_change_net_namespace`).
//! * An event about an address does not say where in the link's list it is.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::addr::{self, Placement, RTM_DELADDR, RTM_NEWADDR};
use crate::devlink::{self, DEVLINK_CMD_PORT_DEL, DEVLINK_CMD_PORT_NEW};
use crate::link::{self, LinkKind, RTM_DELLINK, RTM_NEWLINK};
use crate::name::IfIndex;
use crate::prefix::Family;
use crate::route::{self, Effect, How, RTM_DELNEXTHOP, RTM_DELROUTE, RTM_NEWNEXTHOP, RTM_NEWROUTE};
use crate::rule::{self, RTM_DELRULE, RTM_NEWRULE, Rule, Seen};
use crate::snapshot::Snapshot;
use crate::wire::{Malformed, Message};

/// What has to be asked for before the snapshot is true again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Doubts {
    /// Links whose own row is uncertain.
    pub(super) links: BTreeSet<IfIndex>,
    /// Links whose address list has an uncertain order.
    pub(super) addresses_of: BTreeSet<IfIndex>,
    /// Links whose routes may be gone.
    pub(super) routes_through: BTreeSet<IfIndex>,
    /// Addresses whose routes may be gone.
    pub(super) preferred_sources: BTreeSet<IpAddr>,
    /// Families whose routes are uncertain as a whole.
    pub(super) routes: BTreeSet<Family>,
    /// Families whose rules are uncertain.
    pub(super) rules: BTreeSet<Family>,
}

impl Doubts {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The snapshot in the making.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) now: Snapshot,
    pub(super) doubts: Doubts,
    /// Families in which the kernel may have one rule twice: a delete then says nothing until the rules are read.
    pub(super) doubled_rules: BTreeSet<Family>,
}

impl World {
    /// Takes one message of the rtnetlink event socket.
    pub(super) fn apply(&mut self, message: &Message<'_>) -> Result<(), Malformed> {
        match message.kind {
            RTM_NEWLINK => self.link_came(message.payload),
            RTM_DELLINK => self.link_went(message.payload),
            RTM_NEWADDR => self.address_came(message.payload),
            RTM_DELADDR => self.address_went(message.payload),
            RTM_NEWROUTE => self.route_came(message),
            RTM_DELROUTE => self.route_went(message.payload),
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => self.nexthop_object_changed(message.payload),
            RTM_NEWRULE => self.rule_came(message.payload),
            RTM_DELRULE => self.rule_went(message.payload),
            _ => Ok(()),
        }
    }

    /// Takes one message of the devlink family.
    pub(super) fn apply_devlink(&mut self, command: u8, payload: &[u8]) -> Result<(), Malformed> {
        match command {
            DEVLINK_CMD_PORT_NEW => self.now.devlink_ports.upsert(devlink::decode(payload)?),
            DEVLINK_CMD_PORT_DEL => self.now.devlink_ports.remove(&devlink::decode(payload)?.id),
            _ => {}
        }
        Ok(())
    }

    /// Takes a complete dump of the rules of one family.
    pub(super) fn replace_rules(&mut self, family: Family, rows: Vec<Rule>) {
        match self.now.rules.replace_family(family, rows) {
            Seen::First => self.doubled_rules.remove(&family),
            Seen::Again => self.doubled_rules.insert(family),
        };
    }

    fn link_came(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(link) = link::decode(payload)? else { return Ok(()) };
        if !link.flags.is_up() {
            self.doubts.routes_through.insert(link.index);
        }
        if link.kind == LinkKind::Veth && link.parent.is_none() {
            self.doubts.links.insert(link.index);
        }
        self.now.links.upsert(link);
        Ok(())
    }

    fn link_went(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(link) = link::decode(payload)? else { return Ok(()) };
        self.doubts.links.extend(self.now.links.children(link.index).map(|child| child.index));
        self.now.links.remove(link.index);
        self.now.addresses.remove_link(link.index);
        self.now.routes.remove_link(link.index);
        self.doubts.links.remove(&link.index);
        self.doubts.addresses_of.remove(&link.index);
        self.doubts.routes_through.remove(&link.index);
        Ok(())
    }

    fn address_came(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(address) = addr::decode(payload)? else { return Ok(()) };
        let link = address.link;
        if self.now.addresses.upsert(address) == Placement::Uncertain {
            self.doubts.addresses_of.insert(link);
        }
        Ok(())
    }

    fn address_went(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(address) = addr::decode(payload)? else { return Ok(()) };
        self.now.addresses.remove(&address);
        self.doubts.preferred_sources.insert(address.ip());
        if address.prefix.family() == Family::V4 {
            self.doubts.routes_through.insert(address.link);
        }
        Ok(())
    }

    fn route_came(&mut self, message: &Message<'_>) -> Result<(), Malformed> {
        let Some(route) = route::decode(message.payload)? else { return Ok(()) };
        let family = route.family();
        if self.now.routes.insert(route, How::from_flags(message.flags)) == Effect::Uncertain {
            self.doubts.routes.insert(family);
        }
        Ok(())
    }

    fn route_went(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(route) = route::decode(payload)? else { return Ok(()) };
        if self.now.routes.remove(&route) == Effect::Uncertain {
            self.doubts.routes.insert(route.family());
        }
        Ok(())
    }

    fn nexthop_object_changed(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        if let Some(id) = route::nexthop_object(payload)?
            && self.now.routes.has_nexthop_object(id)
        {
            self.doubts.routes.extend([Family::V4, Family::V6]);
        }
        Ok(())
    }

    fn rule_came(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(rule) = rule::decode(payload)? else { return Ok(()) };
        let family = rule.family;
        if self.now.rules.insert(rule) == Seen::Again {
            self.doubled_rules.insert(family);
        }
        Ok(())
    }

    fn rule_went(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(rule) = rule::decode(payload)? else { return Ok(()) };
        self.now.rules.remove(&rule);
        if self.doubled_rules.contains(&rule.family) {
            self.doubts.rules.insert(rule.family);
        }
        Ok(())
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
