//! Changes of one network namespace, one request each, and the permanent neighbours of a link.
//!
//! **In:** what should be. **Out:** what the kernel answered. **Never:** looks whether a change is needed, or tells that it
//! was made: the store hears of it as of anybody else's.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use rtnetlink::packet_core::Emitable;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::{LinkFlags, LinkMessage};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol as WireProtocol, RouteScope, RouteType,
};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use tokio::sync::Mutex;

use crate::addr::{RTM_DELADDR, RTM_NEWADDR};
use crate::error::{DumpError, KernelError};
use crate::mac::{HardwareAddress, MacAddress};
use crate::name::IfIndex;
use crate::prefix::{Family, Prefix};
use crate::route::{RTM_NEWROUTE, RouteProtocol, TABLE_MAIN};
use crate::socket::{Request, RequestSocket};
use crate::wire::{Malformed, Message, after_header, attributes, u8_at, u16_at, u32_at};

const RTM_SETLINK: u16 = 19;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_GETNEIGH: u16 = 30;
/// Source: linux/netlink.h.
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
/// Length of `struct ndmsg`. Source: linux/neighbour.h.
const NEIGHBOUR_HEADER_LEN: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct WriteError {
    what: String,
    /// What the kernel said, or why it was not heard.
    #[source]
    source: DumpError,
}

impl WriteError {
    /// What the kernel said, if it is the kernel who refused.
    #[must_use]
    pub const fn kernel(&self) -> Option<KernelError> {
        match self.source {
            DumpError::Kernel(error) => Some(error),
            _ => None,
        }
    }
}

/// A route by one router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Via {
    /// Destination.
    pub destination: Prefix,
    /// The router, of the same family.
    pub gateway: IpAddr,
    /// Interface that it is reached through.
    pub link: IfIndex,
    /// Who makes it.
    pub protocol: RouteProtocol,
}

/// A neighbour that the kernel does not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Where packets to it go.
    pub mac: MacAddress,
}

/// Changes the namespace of the thread that opened it. Requests wait for each other.
#[derive(Debug)]
pub struct KernelWriter(Mutex<Socket>);

struct Socket(RequestSocket);

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Socket")
    }
}

impl KernelWriter {
    /// Opens a writer of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses the socket, or there is no tokio runtime on this thread.
    pub fn open() -> io::Result<Self> {
        let mut socket = RequestSocket::open(NETLINK_ROUTE)?;
        socket.set_strict();
        Ok(Self(Mutex::new(Socket(socket))))
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_up(&self, link: IfIndex) -> Result<(), WriteError> {
        let mut message = LinkMessage::default();
        message.header.index = link.get();
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.tell(RTM_SETLINK, 0, &message, || format!("setting link {link} up")).await
    }

    /// Gives a link an address; that it has it already is success.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn add_address(&self, link: IfIndex, prefix: Prefix) -> Result<(), WriteError> {
        let message = address(link, prefix);
        let what = || format!("adding address {prefix} to link {link}");
        unless(KernelError::Exists, self.tell(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &message, what).await)
    }

    /// Takes an address from a link; that it has none is success.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn delete_address(&self, link: IfIndex, prefix: Prefix) -> Result<(), WriteError> {
        let what = || format!("removing address {prefix} from link {link}");
        unless(KernelError::Absent, self.tell(RTM_DELADDR, 0, &address(link, prefix), what).await)
    }

    /// Makes a route of the main table, in place of another one to the same destination with the same metric.
    ///
    /// # Errors
    /// The kernel refuses: the router has to be reachable, for example.
    pub async fn replace_route(&self, via: &Via) -> Result<(), WriteError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(via.destination.family());
        message.header.destination_prefix_length = via.destination.length();
        message.header.table = u8::try_from(TABLE_MAIN).unwrap_or_default();
        message.header.protocol = WireProtocol::from(via.protocol.0);
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::from(via.destination.address())),
            RouteAttribute::Gateway(RouteAddress::from(via.gateway)),
            RouteAttribute::Oif(via.link.get()),
        ];
        let what = || format!("adding route {} via {} over link {}", via.destination, via.gateway, via.link);
        self.tell(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &message, what).await
    }

    /// Says where packets to a neighbour go, for ever.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_neighbour(&self, link: IfIndex, neighbour: Neighbour) -> Result<(), WriteError> {
        let Neighbour { address, mac } = neighbour;
        let message = neighbour_message(link, address, Some(mac));
        let what = || format!("setting neighbour {address} at {mac} on link {link}");
        self.tell(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &message, what).await
    }

    /// Forgets a neighbour; that there is none is success.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn delete_neighbour(&self, link: IfIndex, address: IpAddr) -> Result<(), WriteError> {
        let message = neighbour_message(link, address, None);
        let what = || format!("removing neighbour {address} from link {link}");
        unless(KernelError::Absent, self.tell(RTM_DELNEIGH, 0, &message, what).await)
    }

    /// The permanent neighbours of a link. The store does not follow neighbours: most of them change all the time.
    ///
    /// # Errors
    /// The kernel does not answer completely. A link that is gone has no neighbours.
    pub async fn neighbours(&self, link: IfIndex) -> Result<Vec<Neighbour>, WriteError> {
        let mut message = NeighbourMessage::default();
        message.attributes.push(NeighbourAttribute::IfIndex(link.get()));
        let payload = emit(&message);
        let request = Request { kind: RTM_GETNEIGH, payload: &payload, dump: true };
        let answer = self.0.lock().await.0.ask(&request, |message| of_link(message, link)).await;
        match answer {
            Err(DumpError::Kernel(KernelError::Absent)) => Ok(Vec::new()),
            answer => answer.map_err(|source| {
                let what = format!("reading the neighbours of link {link}");
                WriteError { what, source }
            }),
        }
    }

    async fn tell(
        &self,
        kind: u16,
        flags: u16,
        message: &impl Emitable,
        what: impl FnOnce() -> String,
    ) -> Result<(), WriteError> {
        let told = self.0.lock().await.0.tell(kind, flags, &emit(message)).await;
        told.map_err(|source| WriteError { what: what(), source })
    }
}

/// Success also where the kernel says that it is so already.
fn unless(already: KernelError, result: Result<(), WriteError>) -> Result<(), WriteError> {
    match result {
        Err(error) if error.kernel() == Some(already) => Ok(()),
        result => result,
    }
}

fn emit(message: &impl Emitable) -> Vec<u8> {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload);
    payload
}

const fn family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

fn address(link: IfIndex, prefix: Prefix) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(prefix.family());
    message.header.prefix_len = prefix.length();
    message.header.scope = AddressScope::Universe;
    message.header.index = link.get();
    message.attributes.push(AddressAttribute::Local(prefix.address()));
    message.attributes.push(AddressAttribute::Address(prefix.address()));
    if let IpAddr::V4(ip) = prefix.address()
        && prefix.length() < 31
    {
        // The kernel makes none by itself; ip(8) does with `brd +`.
        let host_bits = u32::MAX.checked_shr(u32::from(prefix.length())).unwrap_or(0);
        let broadcast = Ipv4Addr::from_bits(ip.to_bits() | host_bits);
        message.attributes.push(AddressAttribute::Broadcast(broadcast));
    }
    message
}

fn neighbour_message(link: IfIndex, address: IpAddr, mac: Option<MacAddress>) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(Family::of(address));
    message.header.ifindex = link.get();
    message.header.state = NeighbourState::Permanent;
    message.header.kind = RouteType::Unicast;
    message.attributes.push(NeighbourAttribute::Destination(match address {
        IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
        IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
    }));
    message.attributes.extend(mac.map(|mac| NeighbourAttribute::LinkLayerAddress(mac.octets().to_vec())));
    message
}

/// A permanent neighbour of one link in a message; a kernel without filtered dumps answers with all links.
fn of_link(message: &Message<'_>, link: IfIndex) -> Result<Option<Neighbour>, Malformed> {
    if message.kind != RTM_NEWNEIGH {
        return Ok(None);
    }
    let body = after_header(message.payload, NEIGHBOUR_HEADER_LEN)?;
    let is_internet = matches!(u8_at(message.payload, 0), Some(2 | 10));
    let is_permanent = u16_at(message.payload, 8).is_some_and(|state| state & NUD_PERMANENT != 0);
    if !is_internet || !is_permanent || u32_at(message.payload, 4) != Some(link.get()) {
        return Ok(None);
    }
    let (mut address, mut mac) = (None, None);
    for attribute in attributes(body) {
        let attribute = attribute?;
        match attribute.kind {
            NDA_DST => address = Some(attribute.ip()?),
            NDA_LLADDR => mac = HardwareAddress::from(attribute.value).usable_mac(),
            _ => {}
        }
    }
    Ok(address.zip(mac).map(|(address, mac)| Neighbour { address, mac }))
}
