//! What the store asks the kernel.

use std::collections::BTreeSet;
use std::io;

use rtnetlink::packet_core::Emitable;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage};
use rtnetlink::packet_route::rule::RuleMessage;
use rtnetlink::sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};

use crate::addr::{self, Address};
use crate::devlink::{
    self, CONTROL_FAMILY, CTRL_CMD_NEWFAMILY, DEVLINK_CMD_PORT_GET, DEVLINK_CMD_PORT_NEW, DevlinkFamily,
    DevlinkPort,
};
use crate::error::{DumpError, KernelError, StoreError, Subject};
use crate::link::{self, Link};
use crate::name::IfIndex;
use crate::prefix::Family;
use crate::route::{self, Route};
use crate::rule::{self, Rule};
use crate::socket::{Request, RequestSocket};
use crate::wire::{Malformed, Message, u8_at};

/// Asks for everything, or for what concerns one link. Answers are complete or an error.
pub(super) struct Reader {
    route: RequestSocket,
    generic: RequestSocket,
}

impl Reader {
    pub(super) fn open() -> io::Result<Self> {
        let mut route = RequestSocket::open(NETLINK_ROUTE)?;
        route.set_strict();
        Ok(Self { route, generic: RequestSocket::open(NETLINK_GENERIC)? })
    }

    pub(super) async fn links(&mut self) -> Result<Vec<Link>, StoreError> {
        let mut request = LinkMessage::default();
        // Statistics are most of a link's message, and nobody here reads them.
        request.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        self.dump(Subject::Links, link::RTM_GETLINK, &request, of_kind(link::RTM_NEWLINK, link::decode)).await
    }

    /// One link; `None` if it is gone.
    pub(super) async fn link(&mut self, index: IfIndex) -> Result<Option<Link>, StoreError> {
        let mut request = LinkMessage::default();
        request.header.index = index.get();
        request.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let payload = emit(&request);
        let request = Request { kind: link::RTM_GETLINK, payload: &payload, dump: false };
        let answer = self.route.ask(&request, of_kind(link::RTM_NEWLINK, link::decode)).await;
        let answer = answer.map_err(|source| StoreError::Dump { subject: Subject::Links, source });
        Ok(none_if_absent(answer)?.pop())
    }

    /// The addresses of one family, of all links or of one.
    pub(super) async fn addresses(
        &mut self,
        family: Family,
        link: Option<IfIndex>,
    ) -> Result<Vec<Address>, StoreError> {
        let mut request = AddressMessage::default();
        request.header.family = number(family);
        request.header.index = link.map_or(0, IfIndex::get);
        let decode = of_kind(addr::RTM_NEWADDR, addr::decode);
        let answer = self.dump(Subject::Addresses, addr::RTM_GETADDR, &request, decode).await;
        let mut rows = if link.is_some() { none_if_absent(answer)? } else { answer? };
        // A kernel without filtered dumps answers with all links.
        rows.retain(|row: &Address| link.is_none_or(|link| row.link == link));
        Ok(rows)
    }

    /// The routes of one family in all tables.
    pub(super) async fn routes(&mut self, family: Family) -> Result<Vec<Route>, StoreError> {
        let mut request = RouteMessage::default();
        request.header.address_family = number(family);
        let decode = of_kind(route::RTM_NEWROUTE, route::decode);
        self.dump(Subject::Routes, route::RTM_GETROUTE, &request, decode).await
    }

    /// The routes of one family with a hop through `link`.
    pub(super) async fn routes_through(
        &mut self,
        family: Family,
        link: IfIndex,
    ) -> Result<Vec<Route>, StoreError> {
        let mut request = RouteMessage::default();
        request.header.address_family = number(family);
        request.attributes.push(RouteAttribute::Oif(link.get()));
        let decode = of_kind(route::RTM_NEWROUTE, route::decode);
        let answer = self.dump(Subject::Routes, route::RTM_GETROUTE, &request, decode).await;
        let mut rows = none_if_absent(answer)?;
        rows.retain(|row| row.links().any(|of_hop| of_hop == link));
        Ok(rows)
    }

    pub(super) async fn rules(&mut self, family: Family) -> Result<Vec<Rule>, StoreError> {
        let mut request = RuleMessage::default();
        request.header.family = number(family);
        let decode = of_kind(rule::RTM_NEWRULE, rule::decode);
        self.dump(Subject::Rules, rule::RTM_GETRULE, &request, decode).await
    }

    /// The devlink family, or `None` where the kernel has none.
    pub(super) async fn devlink_family(&mut self) -> Result<Option<DevlinkFamily>, StoreError> {
        let request = Request { kind: CONTROL_FAMILY, payload: &devlink::family_request(), dump: false };
        let answer = self.generic.ask(&request, |message| match command(message) {
            Some(CTRL_CMD_NEWFAMILY) => devlink::family(message.payload),
            _ => Ok(None),
        });
        let answer =
            answer.await.map_err(|source| StoreError::Dump { subject: Subject::DevlinkFamily, source });
        Ok(none_if_absent(answer)?.pop())
    }

    pub(super) async fn devlink_ports(
        &mut self,
        family: DevlinkFamily,
    ) -> Result<Vec<DevlinkPort>, StoreError> {
        let request = Request { kind: family.id, payload: &[DEVLINK_CMD_PORT_GET, 1, 0, 0], dump: true };
        let answer = self.generic.ask(&request, |message| match command(message) {
            Some(DEVLINK_CMD_PORT_NEW) if message.kind == family.id => {
                devlink::decode(message.payload).map(Some)
            }
            _ => Ok(None),
        });
        answer.await.map_err(|source| StoreError::Dump { subject: Subject::DevlinkPorts, source })
    }

    async fn dump<T>(
        &mut self,
        subject: Subject,
        kind: u16,
        request: &impl Emitable,
        decode: impl Fn(&Message<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, StoreError> {
        let payload = emit(request);
        let request = Request { kind, payload: &payload, dump: true };
        self.route.ask(&request, decode).await.map_err(|source| StoreError::Dump { subject, source })
    }
}

fn emit(message: &impl Emitable) -> Vec<u8> {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload);
    payload
}

/// The command of a generic netlink message.
pub(super) fn command(message: &Message<'_>) -> Option<u8> {
    u8_at(message.payload, 0)
}

/// Both families, in the order in which the kernel lists addresses.
pub(super) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Above this many links one dump of all is cheaper than one dump each.
pub(super) const MANY_LINKS: usize = 16;

/// Whether a set of links is small enough to ask for each.
pub(super) fn are_few(links: &BTreeSet<IfIndex>) -> bool {
    links.len() <= MANY_LINKS
}

fn of_kind<T>(
    kind: u16,
    decode: impl Fn(&[u8]) -> Result<Option<T>, Malformed>,
) -> impl Fn(&Message<'_>) -> Result<Option<T>, Malformed> {
    move |message| if message.kind == kind { decode(message.payload) } else { Ok(None) }
}

const fn number(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

/// What is asked about something that does not exist has no rows.
fn none_if_absent<T>(answer: Result<Vec<T>, StoreError>) -> Result<Vec<T>, StoreError> {
    match answer {
        Err(StoreError::Dump { source: DumpError::Kernel(KernelError::Absent), .. }) => Ok(Vec::new()),
        answer => answer,
    }
}
