//! What is known of one route.

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};

use crate::addr::Scope;
use crate::name::IfIndex;
use crate::prefix::{Family, Prefix};

/// Number of the main routing table.
pub const TABLE_MAIN: u32 = 254;
/// Number of the table that holds the host's own addresses.
pub const TABLE_LOCAL: u32 = 255;

/// What a routing table is sorted by. Several routes can share a key (IPv6 link-local prefixes of many links; IPv4
/// routes that were appended).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// Number of the table.
    pub table: u32,
    /// Destination.
    pub destination: Prefix,
    /// Metric; the lowest wins.
    pub priority: u32,
    /// Type of service; IPv4 only.
    pub tos: u8,
}

/// One route.
///
/// Left out: caches, lifetimes, and the flags "dead" and "linkdown" of a next hop. The kernel changes those without an
/// event; they follow from the state of the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Table, destination, metric, type of service.
    pub key: RouteKey,
    /// Unicast, local, blackhole and so on.
    pub kind: RouteKind,
    /// Who made it.
    pub protocol: RouteProtocol,
    /// How far its destination is.
    pub scope: Scope,
    /// Where packets go.
    pub hops: NextHops,
    /// Source address for packets that have none yet.
    pub preferred_source: Option<IpAddr>,
    /// What most routes do not have.
    pub details: Option<Box<RouteDetails>>,
}

impl Route {
    /// Family of the destination.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.key.destination.family()
    }

    /// Whether this is a default route that forwards packets.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.key.destination.is_everything() && self.kind == RouteKind::Unicast
    }

    /// Source prefix that the route is limited to (IPv6 subtrees).
    #[must_use]
    pub fn source(&self) -> Option<Prefix> {
        self.details.as_deref()?.source
    }

    /// The nexthop object that the hops come from.
    #[must_use]
    pub fn nexthop_object(&self) -> Option<NextHopId> {
        self.details.as_deref()?.nexthop_object
    }

    /// The interfaces of the hops; one that occurs twice comes twice.
    pub fn links(&self) -> impl Iterator<Item = IfIndex> {
        self.hops.as_slice().iter().filter_map(|hop| hop.link)
    }

    /// Whether IPv6 can merge the route with others of its key into one multipath route.
    /// Source: `rt6_qualify_for_ecmp` in include/net/ip6_route.h.
    pub(crate) fn can_be_sibling(&self) -> bool {
        self.protocol != RouteProtocol::RA
            && self.nexthop_object().is_none()
            && !self.hops.as_slice().is_empty()
            && self.hops.as_slice().iter().all(|hop| hop.gateway.is_some())
    }
}

/// What most routes do not have; kept apart so that the others stay small.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteDetails {
    /// Source prefix (IPv6 subtrees).
    pub source: Option<Prefix>,
    /// MTU of the path, in bytes.
    pub mtu: Option<u32>,
    /// The nexthop object that the hops come from (`ip nexthop`, FRR).
    pub nexthop_object: Option<NextHopId>,
}

/// Number of a nexthop object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(pub NonZeroU32);

/// The next hops of a route. IPv6 hops are sorted: the kernel lists them starting anywhere in the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextHops {
    /// None: blackhole, unreachable, prohibit, throw.
    None,
    /// One.
    One(NextHop),
    /// Several, by weight.
    Many(Box<[NextHop]>),
}

impl NextHops {
    /// The hops as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[NextHop] {
        match self {
            Self::None => &[],
            Self::One(hop) => std::slice::from_ref(hop),
            Self::Many(hops) => hops,
        }
    }
}

impl From<Vec<NextHop>> for NextHops {
    fn from(hops: Vec<NextHop>) -> Self {
        match <[NextHop; 1]>::try_from(hops) {
            Ok([hop]) => Self::One(hop),
            Err(hops) if hops.is_empty() => Self::None,
            Err(hops) => Self::Many(hops.into()),
        }
    }
}

/// One way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// Output interface.
    pub link: Option<IfIndex>,
    /// Gateway; of the other family where the route says `via inet6`.
    pub gateway: Option<IpAddr>,
    /// Share of the traffic, 1 to 256.
    pub weight: NonZeroU16,
    /// The gateway is taken to be on the link even if no prefix says so.
    pub on_link: bool,
    /// Encapsulation type (linux/lwtunnel.h), if packets are wrapped.
    pub encapsulation: Option<NonZeroU16>,
}

impl NextHop {
    /// A hop with weight 1 and nothing special.
    #[must_use]
    pub const fn new(link: Option<IfIndex>, gateway: Option<IpAddr>) -> Self {
        Self { link, gateway, weight: NonZeroU16::MIN, on_link: false, encapsulation: None }
    }
}

/// Who made a route. Source: linux/rtnetlink.h, `RTPROT_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteProtocol(pub u8);

impl RouteProtocol {
    /// The kernel itself, for its addresses.
    pub const KERNEL: Self = Self(2);
    /// During boot; what `ip route add` uses when not told.
    pub const BOOT: Self = Self(3);
    /// The administrator.
    pub const STATIC: Self = Self(4);
    /// IPv6 router advertisements.
    pub const RA: Self = Self(9);
    /// FRR and other descendants of Zebra.
    pub const ZEBRA: Self = Self(11);
    /// A DHCP client.
    pub const DHCP: Self = Self(16);
    /// BGP.
    pub const BGP: Self = Self(186);
}

/// What a route does with packets. Source: linux/rtnetlink.h, `RTN_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteKind {
    /// Forwards.
    Unicast,
    /// Delivers to this host.
    Local,
    /// Sends as broadcast.
    Broadcast,
    /// Delivers as anycast.
    Anycast,
    /// Multicast.
    Multicast,
    /// Drops.
    Blackhole,
    /// Answers "unreachable".
    Unreachable,
    /// Answers "prohibited".
    Prohibit,
    /// Goes on with the next rule.
    Throw,
    /// Any other.
    Other(u8),
}

impl From<u8> for RouteKind {
    fn from(kind: u8) -> Self {
        match kind {
            1 => Self::Unicast,
            2 => Self::Local,
            3 => Self::Broadcast,
            4 => Self::Anycast,
            5 => Self::Multicast,
            6 => Self::Blackhole,
            7 => Self::Unreachable,
            8 => Self::Prohibit,
            9 => Self::Throw,
            other => Self::Other(other),
        }
    }
}
