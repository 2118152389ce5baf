//! Notifications of the kernel about nftables, as bytes.
//!
//! Source: Linux, `include/uapi/linux/netlink.h`, `include/uapi/linux/netfilter/{nfnetlink,nf_tables}.h`; numbers in a
//! netlink header are of this machine's byte order.

/// Length of a netlink header (`struct nlmsghdr`).
const HEADER: usize = 16;
/// Length of what follows it in messages of netfilter (`struct nfgenmsg`).
const GENERIC: usize = 4;
/// `NFNL_SUBSYS_NFTABLES`, the upper byte of a message's type.
const SUBSYSTEM: u16 = 10;
/// `NFPROTO_INET`.
const INET: u8 = 1;
/// The upper two bits of an attribute's type are flags (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;

/// What a message says that somebody changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A table.
    Table { table: String },
    /// A chain, or a rule in it.
    Chain { table: String, chain: String },
    /// A set, or an element of it.
    Set { table: String, set: String },
    /// A transaction is complete; the last message about it.
    Complete,
}

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The netlink port of who made the change.
    pub(crate) by: u32,
    /// What it is about; `None`: something that no table, chain or set of an `inet` table is.
    pub(crate) change: Option<Change>,
}

/// The messages of a datagram; `None` for what is not one, after which nothing can be read.
pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Option<Message>> {
    std::iter::from_fn(move || {
        if datagram.is_empty() {
            return None;
        }
        let whole = u32_at(datagram, 0).and_then(|length| usize::try_from(length).ok());
        let Some(message) =
            whole.filter(|length| *length >= HEADER).and_then(|length| datagram.get(..length))
        else {
            datagram = &[];
            return Some(None);
        };
        datagram = datagram.get(message.len().next_multiple_of(4)..).unwrap_or_default();
        Some(read(message))
    })
}

fn read(message: &[u8]) -> Option<Message> {
    let (kind, by) = (u16_at(message, 4)?, u32_at(message, 12)?);
    let [subsystem, number] = kind.to_be_bytes();
    if u16::from(subsystem) != SUBSYSTEM {
        return Some(Message { by, change: None });
    }
    let family = *message.get(HEADER)?;
    let body = message.get(HEADER + GENERIC..)?;
    // The first attribute of each kind is the table's name (`NFTA_TABLE_NAME`, `NFTA_CHAIN_TABLE`, `NFTA_RULE_TABLE`,
    // `NFTA_SET_TABLE`, `NFTA_SET_ELEM_LIST_TABLE`).
    let named = |attribute| Some((text(body, 1)?, text(body, attribute)?));
    let change = match number {
        // NEWGEN
        15 => Some(Change::Complete),
        _ if family != INET => None,
        // NEWTABLE, DELTABLE
        0 | 2 => Some(Change::Table { table: text(body, 1)? }),
        // NEWCHAIN, DELCHAIN: NFTA_CHAIN_NAME
        3 | 5 => named(3).map(|(table, chain)| Change::Chain { table, chain }),
        // NEWRULE, DELRULE: NFTA_RULE_CHAIN
        6 | 8 => named(2).map(|(table, chain)| Change::Chain { table, chain }),
        // NEWSET, DELSET: NFTA_SET_NAME; NEWSETELEM, DELSETELEM: NFTA_SET_ELEM_LIST_SET
        9 | 11 | 12 | 14 => named(2).map(|(table, set)| Change::Set { table, set }),
        _ => None,
    };
    Some(Message { by, change })
}

/// The text of an attribute.
fn text(mut attributes: &[u8], wanted: u16) -> Option<String> {
    while attributes.len() >= 4 {
        let (length, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        let value = attributes.get(4..length)?;
        if kind & TYPE_MASK == wanted {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            return String::from_utf8(value.get(..end)?.to_vec()).ok();
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message as the kernel writes it, with these attributes.
    pub(crate) fn message(number: u8, family: u8, by: u32, attributes: &[(u16, &str)]) -> Vec<u8> {
        let mut body = vec![family, 0, 0, 0];
        for (kind, text) in attributes {
            let length = u16::try_from(4 + text.len() + 1).unwrap();
            body.extend(length.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(text.bytes());
            body.push(0);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut message = u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes().to_vec();
        message.extend(u16::from_be_bytes([10, number]).to_ne_bytes());
        message.extend([0, 0, 0, 0, 0, 0]);
        message.extend(by.to_ne_bytes());
        message.extend(body);
        message
    }

    type Case<'a> = (u8, u8, &'a [(u16, &'a str)], Option<Change>);

    #[test]
    fn each_kind_of_message_names_what_changed_and_who_did_it() {
        let (table, name) = ("t".to_owned(), "name".to_owned());
        let chain = || Some(Change::Chain { table: table.clone(), chain: name.clone() });
        let set = || Some(Change::Set { table: table.clone(), set: name.clone() });
        let in_table = || Some(Change::Table { table: table.clone() });
        let cases: [Case<'_>; 13] = [
            (0, INET, &[(1, "t")], in_table()),
            (2, INET, &[(1, "t")], in_table()),
            (3, INET, &[(1, "t"), (3, "name")], chain()),
            (5, INET, &[(1, "t"), (2, "handle"), (3, "name")], chain()),
            (6, INET, &[(1, "t"), (2, "name")], chain()),
            (8, INET, &[(1, "t"), (2, "name")], chain()),
            (9, INET, &[(1, "t"), (2, "name")], set()),
            (11, INET, &[(1, "t"), (2, "name")], set()),
            (12, INET, &[(1 | 0x8000, "t"), (2, "name")], set()),
            (14, INET, &[(1, "t"), (2, "name")], set()),
            (15, 0, &[], Some(Change::Complete)),
            (2, 2, &[(1, "t")], None),
            (18, INET, &[(1, "t"), (2, "name")], None),
        ];
        for (number, family, attributes, change) in cases {
            let bytes = message(number, family, 77, attributes);
            let found: Vec<_> = messages(&bytes).collect();
            assert_eq!(found, [Some(Message { by: 77, change })], "message {number}");
        }
    }

    #[test]
    fn several_messages_of_a_datagram_are_read_in_order() {
        let mut bytes = message(0, INET, 1, &[(1, "a")]);
        bytes.extend(message(15, 0, 1, &[]));
        let found: Vec<_> = messages(&bytes).map(|message| message.unwrap().change.unwrap()).collect();
        assert_eq!(found, [Change::Table { table: "a".into() }, Change::Complete]);
    }

    proptest! {
        /// Foreign bytes are read or refused, and the end is reached.
        #[test]
        fn any_bytes_come_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(messages(&bytes).count() <= bytes.len());
        }

        /// A message that was cut off is not taken for a shorter one.
        #[test]
        fn a_message_that_is_cut_off_is_noticed(at in 1_usize..40) {
            let bytes = message(6, INET, 1, &[(1, "table"), (2, "chain")]);
            prop_assume!(at < bytes.len());
            let found: Vec<_> = messages(&bytes[..at]).collect();
            prop_assert_eq!(found, [None]);
        }
    }
}
