//! From `RTM_NEWROUTE` and `RTM_DELROUTE` to [`Route`]. Source: linux/rtnetlink.h.

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};

use super::model::{NextHop, NextHopId, NextHops, Route, RouteDetails, RouteKey, RouteProtocol};
use crate::addr::Scope;
use crate::name::IfIndex;
use crate::prefix::{Family, Prefix};
use crate::wire::{
    AF_INET, AF_INET6, Attribute, Malformed, after_header, attributes, ip, u8_at, u16_at, u32_at,
};

pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_DELROUTE: u16 = 25;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTM_NEWNEXTHOP: u16 = 104;
pub(crate) const RTM_DELNEXTHOP: u16 = 105;

/// Length of `struct rtmsg`.
const HEADER_LEN: usize = 12;
/// Length of `struct rtnexthop`.
const HOP_HEADER_LEN: usize = 8;
/// Length of `struct nhmsg`.
const NEXTHOP_HEADER_LEN: usize = 8;

/// The route is a cache entry. Source: linux/rtnetlink.h.
const RTM_F_CLONED: u32 = 0x200;
const RTNH_F_ONLINK: u8 = 4;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_NH_ID: u16 = 30;
const RTAX_MTU: u16 = 2;
const NHA_ID: u16 = 1;

/// The route in a message, or `None` for cache entries and other families (multicast routing, MPLS).
pub(crate) fn decode(payload: &[u8]) -> Result<Option<Route>, Malformed> {
    let body = after_header(payload, HEADER_LEN)?;
    let byte = |offset| u8_at(payload, offset).ok_or(Malformed("short fixed header"));
    let family = match byte(0)? {
        AF_INET => Family::V4,
        AF_INET6 => Family::V6,
        _ => return Ok(None),
    };
    let flags = u32_at(payload, 8).ok_or(Malformed("short fixed header"))?;
    if flags & RTM_F_CLONED != 0 {
        return Ok(None);
    }
    let mut fields = Fields { table: u32::from(byte(4)?), ..Fields::default() };
    for attribute in attributes(body) {
        fields.take(&attribute?)?;
    }
    let destination = prefix(family, fields.destination, byte(1)?)?;
    let source = match byte(2)? {
        0 => None,
        length => Some(prefix(family, fields.source, length)?),
    };
    let details = RouteDetails { source, mtu: fields.mtu, nexthop_object: fields.nexthop_object };
    let kind = byte(7)?.into();
    Ok(Some(Route {
        key: RouteKey { table: fields.table, destination, priority: fields.priority, tos: byte(3)? },
        kind,
        protocol: RouteProtocol(byte(5)?),
        scope: Scope(byte(6)?),
        preferred_source: fields.preferred_source,
        // The lowest byte of the route's flags are those of its only hop.
        hops: fields.hops(family, flags.to_le_bytes()[0]),
        details: (details != RouteDetails::default()).then(|| Box::new(details)),
    }))
}

/// Number of the nexthop object in an `RTM_NEWNEXTHOP` or `RTM_DELNEXTHOP` message. Source: linux/nexthop.h.
pub(crate) fn nexthop_object(payload: &[u8]) -> Result<Option<NextHopId>, Malformed> {
    for attribute in attributes(after_header(payload, NEXTHOP_HEADER_LEN)?) {
        let attribute = attribute?;
        if attribute.kind == NHA_ID {
            return Ok(NonZeroU32::new(attribute.u32()?).map(NextHopId));
        }
    }
    Ok(None)
}

fn prefix(family: Family, address: Option<IpAddr>, length: u8) -> Result<Prefix, Malformed> {
    let address = address.unwrap_or(family.unspecified());
    if Family::of(address) != family {
        return Err(Malformed("prefix of another family than its route"));
    }
    Prefix::new(address, length).map_err(|_| Malformed("impossible prefix length"))
}

#[derive(Default)]
struct Fields {
    table: u32,
    destination: Option<IpAddr>,
    source: Option<IpAddr>,
    priority: u32,
    preferred_source: Option<IpAddr>,
    mtu: Option<u32>,
    nexthop_object: Option<NextHopId>,
    hop: Hop,
    multipath: Vec<NextHop>,
}

impl Fields {
    fn take(&mut self, attribute: &Attribute<'_>) -> Result<(), Malformed> {
        match attribute.kind {
            RTA_DST => self.destination = Some(attribute.ip()?),
            RTA_SRC => self.source = Some(attribute.ip()?),
            RTA_OIF => self.hop.link = IfIndex::new(attribute.u32()?),
            RTA_PRIORITY => self.priority = attribute.u32()?,
            RTA_PREFSRC => self.preferred_source = Some(attribute.ip()?),
            RTA_METRICS => {
                for metric in attributes(attribute.value) {
                    let metric = metric?;
                    if metric.kind == RTAX_MTU {
                        self.mtu = Some(metric.u32()?);
                    }
                }
            }
            RTA_MULTIPATH => self.multipath = multipath(attribute.value)?,
            RTA_TABLE => self.table = attribute.u32()?,
            RTA_NH_ID => self.nexthop_object = NonZeroU32::new(attribute.u32()?).map(NextHopId),
            _ => self.hop.take(attribute)?,
        }
        Ok(())
    }

    fn hops(self, family: Family, flags: u8) -> NextHops {
        let mut hops = self.multipath;
        if hops.is_empty() && (self.hop.link.is_some() || self.hop.gateway.is_some()) {
            hops.push(self.hop.finish(flags, 0));
        }
        if family == Family::V6 {
            hops.sort_unstable();
        }
        hops.into()
    }
}

#[derive(Default)]
struct Hop {
    link: Option<IfIndex>,
    gateway: Option<IpAddr>,
    encapsulation: Option<NonZeroU16>,
}

impl Hop {
    fn take(&mut self, attribute: &Attribute<'_>) -> Result<(), Malformed> {
        match attribute.kind {
            RTA_GATEWAY => self.gateway = Some(attribute.ip()?),
            // struct rtvia: the family in two bytes, then the address.
            RTA_VIA => self.gateway = Some(ip(after_header(attribute.value, 2)?)?),
            RTA_ENCAP_TYPE => self.encapsulation = NonZeroU16::new(attribute.u16()?),
            _ => {}
        }
        Ok(())
    }

    /// `rtnh_hops` is the weight less one.
    fn finish(self, flags: u8, rtnh_hops: u8) -> NextHop {
        NextHop {
            link: self.link,
            gateway: self.gateway,
            weight: NonZeroU16::MIN.saturating_add(u16::from(rtnh_hops)),
            on_link: flags & RTNH_F_ONLINK != 0,
            encapsulation: self.encapsulation,
        }
    }
}

fn multipath(mut bytes: &[u8]) -> Result<Vec<NextHop>, Malformed> {
    let mut hops = Vec::new();
    while !bytes.is_empty() {
        let short = Malformed("short next hop");
        let length = usize::from(u16_at(bytes, 0).ok_or(short)?);
        let (flags, weight) = (u8_at(bytes, 2).ok_or(short)?, u8_at(bytes, 3).ok_or(short)?);
        let mut hop = Hop { link: IfIndex::new(u32_at(bytes, 4).ok_or(short)?), ..Hop::default() };
        for attribute in attributes(bytes.get(HOP_HEADER_LEN..length).ok_or(short)?) {
            hop.take(&attribute?)?;
        }
        hops.push(hop.finish(flags, weight));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(hops)
}

#[cfg(test)]
mod tests;
