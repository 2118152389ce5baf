//! From `RTM_NEWADDR` and `RTM_DELADDR` to [`Address`]. Source: linux/if_addr.h.

use super::model::{Address, AddressFlags, Scope};
use crate::name::IfIndex;
use crate::prefix::Prefix;
use crate::wire::{AF_INET, AF_INET6, Malformed, after_header, attributes, u8_at, u32_at};

pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
pub(crate) const RTM_GETADDR: u16 = 22;

/// Length of `struct ifaddrmsg`.
const HEADER_LEN: usize = 8;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_FLAGS: u16 = 8;

/// The address in a message, or `None` if it is of another family.
pub(crate) fn decode(payload: &[u8]) -> Result<Option<Address>, Malformed> {
    let body = after_header(payload, HEADER_LEN)?;
    if !matches!(u8_at(payload, 0), Some(AF_INET | AF_INET6)) {
        return Ok(None);
    }
    let short = Malformed("short fixed header");
    let length = u8_at(payload, 1).ok_or(short)?;
    // The header has room for the lower eight flags only; IFA_FLAGS has them all.
    let mut flags = u32::from(u8_at(payload, 2).ok_or(short)?);
    let scope = Scope(u8_at(payload, 3).ok_or(short)?);
    let link = u32_at(payload, 4).and_then(IfIndex::new).ok_or(Malformed("address without link"))?;
    let (mut address, mut local, mut label) = (None, None, None);
    for attribute in attributes(body) {
        let attribute = attribute?;
        match attribute.kind {
            IFA_ADDRESS => address = Some(attribute.ip()?),
            IFA_LOCAL => local = Some(attribute.ip()?),
            IFA_LABEL => label = Some(attribute.text().into()),
            IFA_FLAGS => flags = attribute.u32()?,
            _ => {}
        }
    }
    // IFA_ADDRESS is the prefix address, which is the other end's on a point-to-point link; IFA_LOCAL is our own, and
    // IPv6 leaves it out unless there is another end.
    let own = local.or(address).ok_or(Malformed("address message without address"))?;
    let prefix = Prefix::new(own, length).map_err(|_| Malformed("impossible prefix length"))?;
    let peer = address.filter(|address| *address != own);
    Ok(Some(Address { link, prefix, peer, flags: AddressFlags::from_kernel(flags), scope, label }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::build::{attribute, text};

    fn message(family: u8, length: u8, flags: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        [vec![family, length, flags, 0, 5, 0, 0, 0], attributes.concat()].concat()
    }

    #[test]
    fn all_flags_come_from_the_attribute() {
        let bytes = message(
            AF_INET6,
            64,
            0x80,
            &[
                attribute(IFA_ADDRESS, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
                attribute(IFA_FLAGS, &0x2a0_u32.to_ne_bytes()),
            ],
        );
        let address = decode(&bytes).unwrap().unwrap();
        assert_eq!(address.prefix.to_string(), "fe80::1/64");
        assert!(address.flags.has_no_prefix_route() && address.flags.is_deprecated());
        assert_eq!((address.peer, address.label), (None, None));
    }

    #[test]
    fn a_point_to_point_address_is_our_own_with_its_peer() {
        let bytes = message(
            AF_INET,
            32,
            0x80,
            &[
                attribute(IFA_ADDRESS, &[192, 0, 2, 2]),
                attribute(IFA_LOCAL, &[192, 0, 2, 1]),
                text(IFA_LABEL, "eth0:vip"),
            ],
        );
        let address = decode(&bytes).unwrap().unwrap();
        assert_eq!(address.prefix.to_string(), "192.0.2.1/32");
        assert_eq!(address.peer, Some("192.0.2.2".parse().unwrap()));
        assert_eq!(address.label.as_deref(), Some("eth0:vip"));
        assert!(address.flags.is_permanent());
    }

    #[test]
    fn other_families_are_passed_over() {
        assert_eq!(decode(&message(45, 8, 0, &[])), Ok(None));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            if let Ok(Some(address)) = decode(&bytes) {
                prop_assert!(address.prefix.length() <= address.prefix.family().bits());
            }
            let inside = message(AF_INET6, 64, 0, std::slice::from_ref(&attribute(IFA_ADDRESS, &bytes)));
            prop_assert_eq!(decode(&inside).is_ok(), matches!(bytes.len(), 4 | 16) && (bytes.len() == 16));
        }
    }
}
