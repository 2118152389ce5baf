//! Reading netlink bytes: messages of a datagram, attributes of a message, fixed header fields.
//!
//! The rows of this crate are decoded attribute by attribute here rather than through the message types of
//! netlink-packet-route. Those refuse a whole message when one attribute, even one that nobody reads, has a form they
//! do not expect (a link alias that is not UTF-8 is enough), and a refused link is a link that does not exist. They
//! also build every statistic and option of a link only to drop it. Requests are built with them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of `struct nlmsghdr`, in bytes.
pub(crate) const HEADER_LEN: usize = 16;
/// Length of `struct nlattr`, in bytes.
const ATTRIBUTE_HEADER_LEN: usize = 4;
/// Type bits of `nla_type`; the two upper bits say "nested" and "network byte order".
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;
/// The dump saw changes while it ran. Source: linux/netlink.h, `NLM_F_DUMP_INTR`.
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
/// Address family number of IPv4 in netlink headers.
pub(crate) const AF_INET: u8 = 2;
/// Address family number of IPv6 in netlink headers.
pub(crate) const AF_INET6: u8 = 10;

/// Bytes that are not what the kernel's headers promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed netlink message: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// One message of a datagram, still undecoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// The messages of one datagram, in order. Ends after the first malformed one.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = first_message(rest);
        rest = match &message {
            Ok((_, after)) => after,
            Err(_) => &[],
        };
        Some(message.map(|(message, _)| message))
    })
}

fn first_message(bytes: &[u8]) -> Result<(Message<'_>, &[u8]), Malformed> {
    let length = u32_at(bytes, 0).ok_or(Malformed("short header"))? as usize;
    let (Some(kind), Some(flags), Some(sequence)) = (u16_at(bytes, 4), u16_at(bytes, 6), u32_at(bytes, 8))
    else {
        return Err(Malformed("short header"));
    };
    let payload = bytes.get(HEADER_LEN..length).ok_or(Malformed("length exceeds datagram"))?;
    let after = bytes.get(aligned(length)..).unwrap_or_default();
    Ok((Message { kind, flags, sequence, payload }, after))
}

/// One attribute of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
}

/// The attributes in `bytes`, in order. Ends after the first malformed one.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = Result<Attribute<'_>, Malformed>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let attribute = first_attribute(rest);
        rest = match &attribute {
            Ok((_, after)) => after,
            Err(_) => &[],
        };
        Some(attribute.map(|(attribute, _)| attribute))
    })
}

fn first_attribute(bytes: &[u8]) -> Result<(Attribute<'_>, &[u8]), Malformed> {
    let (Some(length), Some(kind)) = (u16_at(bytes, 0), u16_at(bytes, 2)) else {
        return Err(Malformed("short attribute"));
    };
    let length = usize::from(length);
    let value =
        bytes.get(ATTRIBUTE_HEADER_LEN..length).ok_or(Malformed("attribute length exceeds message"))?;
    let after = bytes.get(aligned(length)..).unwrap_or_default();
    Ok((Attribute { kind: kind & ATTRIBUTE_TYPE_MASK, value }, after))
}

/// Everything behind a fixed header of `length` bytes.
pub(crate) fn after_header(payload: &[u8], length: usize) -> Result<&[u8], Malformed> {
    payload.get(length..).ok_or(Malformed("short fixed header"))
}

const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk::<N>().copied()
}

pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

impl<'a> Attribute<'a> {
    fn array<const N: usize>(&self) -> Result<[u8; N], Malformed> {
        array_at(self.value, 0).ok_or(Malformed("attribute too short for its type"))
    }

    pub(crate) fn u8(&self) -> Result<u8, Malformed> {
        self.array::<1>().map(u8::from_ne_bytes)
    }

    pub(crate) fn u16(&self) -> Result<u16, Malformed> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u16_be(&self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn i32(&self) -> Result<i32, Malformed> {
        self.array().map(i32::from_ne_bytes)
    }

    /// Text up to the first NUL. Bytes that are not UTF-8 become U+FFFD: text of a link is free-form in the kernel.
    pub(crate) fn text(&self) -> std::borrow::Cow<'a, str> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        String::from_utf8_lossy(self.value.get(..end).unwrap_or_default())
    }

    /// An IPv4 or IPv6 address, told apart by its length.
    pub(crate) fn ip(&self) -> Result<IpAddr, Malformed> {
        ip(self.value)
    }
}

/// An IPv4 or IPv6 address in network byte order, told apart by its length.
pub(crate) fn ip(bytes: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::V4(Ipv4Addr::from(four)));
    }
    let sixteen = <[u8; 16]>::try_from(bytes).map_err(|_| Malformed("address is neither 4 nor 16 bytes"))?;
    Ok(IpAddr::V6(Ipv6Addr::from(sixteen)))
}

#[cfg(test)]
pub(crate) mod build {
    //! Builds messages for tests, the way the kernel lays them out.

    /// An attribute with its padding.
    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).expect("test attribute fits");
        let mut bytes = Vec::from(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(super::aligned(bytes.len()), 0);
        bytes
    }

    /// A nested attribute.
    pub(crate) fn nested(kind: u16, inner: &[Vec<u8>]) -> Vec<u8> {
        attribute(kind | 0x8000, &inner.concat())
    }

    /// A text attribute with its NUL.
    pub(crate) fn text(kind: u16, value: &str) -> Vec<u8> {
        attribute(kind, format!("{value}\0").as_bytes())
    }

    /// A whole message.
    pub(crate) fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len() + super::HEADER_LEN).expect("test message fits");
        let mut bytes = Vec::from(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(super::aligned(bytes.len()), 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_datagram_yields_its_messages_in_order() {
        let datagram =
            [build::message(16, 2, 7, &[1, 2, 3]), build::message(17, NLM_F_DUMP_INTR, 8, &[])].concat();
        let seen: Vec<Message<'_>> = messages(&datagram).map(Result::unwrap).collect();
        assert_eq!(
            seen,
            [
                Message { kind: 16, flags: 2, sequence: 7, payload: &[1, 2, 3] },
                Message { kind: 17, flags: NLM_F_DUMP_INTR, sequence: 8, payload: &[] },
            ]
        );
    }

    #[test]
    fn a_cut_off_datagram_is_malformed_not_short() {
        let whole = build::message(16, 0, 1, &[0; 32]);
        let seen: Vec<_> = messages(&whole[..40]).collect();
        assert_eq!(seen, [Err(Malformed("length exceeds datagram"))]);
    }

    #[test]
    fn attribute_types_are_read_without_their_flag_bits() {
        let bytes = build::nested(18, &[build::text(1, "vrf")]);
        let outer = attributes(&bytes).next().unwrap().unwrap();
        assert_eq!(outer.kind, 18);
        let inner = attributes(outer.value).next().unwrap().unwrap();
        assert_eq!((inner.kind, inner.text().as_ref()), (1, "vrf"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_always_end(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            for message in messages(&bytes).flatten() {
                prop_assert!(message.payload.len() <= bytes.len());
                prop_assert!(attributes(message.payload).count() <= bytes.len());
            }
            prop_assert!(attributes(&bytes).count() <= bytes.len() + 1);
        }
    }
}
