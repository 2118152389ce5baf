//! All addresses of the namespace, by interface and in kernel order.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use super::model::Address;
use crate::name::IfIndex;
use crate::prefix::Family;

/// All addresses. A clone shares everything with its original.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    pub(crate) by_link: OrdMap<IfIndex, Arc<[Arc<Address>]>>,
}

/// What became of an address that an event reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// It is where the kernel has it.
    Known,
    /// It is in the list, but where the kernel put it the event does not say.
    Uncertain,
}

impl Addresses {
    /// The addresses of one interface as the kernel lists them: IPv4 first, then IPv6.
    #[must_use]
    pub fn of(&self, link: IfIndex) -> &[Arc<Address>] {
        self.by_link.get(&link).map_or(&[], |list| list)
    }

    /// All addresses, by interface.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Address>> {
        self.by_link.values().flat_map(|list| list.iter())
    }

    /// How many addresses there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_link.values().map(|list| list.len()).sum()
    }

    /// Whether there is no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_link.is_empty()
    }

    /// Takes the newest row of an address.
    ///
    /// The kernel sorts by scope and by primary before secondary, with rules that changed between versions, so a new
    /// place among others of its family is asked for, not computed.
    pub(crate) fn upsert(&mut self, address: Address) -> Placement {
        let family = address.prefix.family();
        let mut list = self.of(address.link).to_vec();
        let (place, placement) = match list.iter().position(|known| known.is_same(&address)) {
            Some(at) => {
                let Some(known) = list.get_mut(at) else { return Placement::Known };
                if **known == address {
                    return Placement::Known;
                }
                // A secondary address that is promoted also moves.
                let moved =
                    known.flags.is_secondary_or_temporary() != address.flags.is_secondary_or_temporary();
                let placement =
                    if moved && family == Family::V4 { Placement::Uncertain } else { Placement::Known };
                let link = address.link;
                *known = Arc::new(address);
                self.by_link.insert(link, list.into());
                return placement;
            }
            None if list.iter().any(|known| known.prefix.family() == family) => {
                (list.partition_point(|known| known.prefix.family() <= family), Placement::Uncertain)
            }
            None => (list.partition_point(|known| known.prefix.family() <= family), Placement::Known),
        };
        let link = address.link;
        list.insert(place, Arc::new(address));
        self.by_link.insert(link, list.into());
        placement
    }

    pub(crate) fn remove(&mut self, address: &Address) {
        let mut list = self.of(address.link).to_vec();
        let before = list.len();
        list.retain(|known| !known.is_same(address));
        if list.is_empty() {
            self.by_link.remove(&address.link);
        } else if list.len() < before {
            self.by_link.insert(address.link, list.into());
        }
    }

    pub(crate) fn remove_link(&mut self, link: IfIndex) {
        self.by_link.remove(&link);
    }

    /// Takes a complete dump of one interface, in kernel order.
    pub(crate) fn replace_link(&mut self, link: IfIndex, rows: Vec<Address>) {
        let old = self.of(link);
        let list: Vec<Arc<Address>> = rows.into_iter().map(|row| shared(old, row)).collect();
        if list.is_empty() {
            self.by_link.remove(&link);
        } else if list.as_slice() != old {
            self.by_link.insert(link, list.into());
        }
    }

    /// Takes a complete dump of all interfaces, IPv4 before IPv6.
    pub(crate) fn replace_all(&mut self, rows: Vec<Address>) {
        let mut lists: BTreeMap<IfIndex, Vec<Address>> =
            self.by_link.keys().map(|link| (*link, Vec::new())).collect();
        for row in rows {
            lists.entry(row.link).or_default().push(row);
        }
        for (link, list) in lists {
            self.replace_link(link, list);
        }
    }
}

fn shared(old: &[Arc<Address>], row: Address) -> Arc<Address> {
    match old.iter().find(|known| ***known == row) {
        Some(known) => Arc::clone(known),
        None => Arc::new(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{AddressFlags, Scope};

    fn address(prefix: &str, flags: u32) -> Address {
        Address {
            link: IfIndex::MIN,
            prefix: prefix.parse().unwrap(),
            peer: None,
            flags: AddressFlags::from_kernel(flags),
            scope: Scope::UNIVERSE,
            label: None,
        }
    }

    fn listed(addresses: &Addresses) -> Vec<String> {
        addresses.of(IfIndex::MIN).iter().map(|a| a.prefix.to_string()).collect()
    }

    #[test]
    fn the_first_address_of_a_family_has_a_certain_place() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.upsert(address("2001:db8::1/64", 0x80)), Placement::Known);
        assert_eq!(addresses.upsert(address("192.0.2.1/24", 0x80)), Placement::Known);
        assert_eq!(addresses.upsert(address("192.0.2.2/24", 0x81)), Placement::Uncertain);
        assert_eq!(listed(&addresses), ["192.0.2.1/24", "192.0.2.2/24", "2001:db8::1/64"]);
    }

    #[test]
    fn a_promoted_secondary_address_has_an_uncertain_place() {
        let mut addresses = Addresses::default();
        addresses.upsert(address("192.0.2.1/24", 0x80));
        addresses.upsert(address("192.0.2.2/24", 0x81));
        addresses.remove(&address("192.0.2.1/24", 0x80));
        assert_eq!(addresses.upsert(address("192.0.2.2/24", 0x80)), Placement::Uncertain);
        assert_eq!(listed(&addresses), ["192.0.2.2/24"]);
    }

    #[test]
    fn an_equal_row_changes_nothing() {
        let mut addresses = Addresses::default();
        addresses.upsert(address("192.0.2.1/24", 0x80));
        let before = addresses.clone();
        addresses.upsert(address("192.0.2.1/24", 0x80));
        addresses.replace_all(vec![address("192.0.2.1/24", 0x80)]);
        assert!(addresses.by_link.ptr_eq(&before.by_link));
    }

    #[test]
    fn a_dump_sets_the_kernels_order_and_drops_the_rest() {
        let mut addresses = Addresses::default();
        addresses.upsert(address("192.0.2.1/24", 0x80));
        addresses.replace_link(
            IfIndex::MIN,
            vec![address("198.51.100.1/24", 0x80), address("203.0.113.1/24", 0x80)],
        );
        assert_eq!(listed(&addresses), ["198.51.100.1/24", "203.0.113.1/24"]);
        addresses.replace_all(vec![]);
        assert!(addresses.is_empty());
    }
}
