//! All links of the namespace, with their lookups.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::model::Link;
use crate::name::{IfIndex, InterfaceName};

/// All links. A clone shares everything with its original.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    pub(crate) rows: OrdMap<IfIndex, Arc<Link>>,
    by_name: OrdMap<InterfaceName, IfIndex>,
    by_alt_name: OrdMap<Arc<str>, IfIndex>,
    by_master: OrdSet<(IfIndex, IfIndex)>,
    by_parent: OrdSet<(IfIndex, IfIndex)>,
}

impl Links {
    /// The link with this number.
    #[must_use]
    pub fn get(&self, index: IfIndex) -> Option<&Arc<Link>> {
        self.rows.get(&index)
    }

    /// The link with this name. Alternative names do not count.
    #[must_use]
    pub fn by_name(&self, name: &InterfaceName) -> Option<&Arc<Link>> {
        self.get(*self.by_name.get(name)?)
    }

    /// The link with this name or alternative name, as the kernel resolves names.
    #[must_use]
    pub fn by_any_name(&self, name: &str) -> Option<&Arc<Link>> {
        let by_name = name.parse().ok().and_then(|name| self.by_name(&name));
        by_name.or_else(|| self.get(*self.by_alt_name.get(name)?))
    }

    /// The links that belong to a bridge, bond or VRF, by index.
    pub fn members(&self, master: IfIndex) -> impl Iterator<Item = &Arc<Link>> {
        self.by_master
            .range((master, IfIndex::MIN)..)
            .take_while(move |(of, _)| *of == master)
            .filter_map(|(_, index)| self.get(*index))
    }

    /// The links whose parent is `parent`, by index: VLANs and macvlans on it, the other end of a veth pair.
    pub fn children(&self, parent: IfIndex) -> impl Iterator<Item = &Arc<Link>> {
        self.by_parent
            .range((parent, IfIndex::MIN)..)
            .take_while(move |(of, _)| *of == parent)
            .filter_map(|(_, index)| self.get(*index))
    }

    /// All links, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.rows.values()
    }

    /// How many links there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no link at all, not even loopback.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes the newest row of a link. An equal row changes nothing.
    pub(crate) fn upsert(&mut self, link: Link) {
        if let Some(old) = self.rows.get(&link.index) {
            if **old == link {
                return;
            }
            let old = Arc::clone(old);
            self.forget(&old);
        }
        let index = link.index;
        self.by_name.insert(link.name, index);
        for name in link.alt_names() {
            self.by_alt_name.insert(Arc::from(&**name), index);
        }
        if let Some(master) = link.master {
            self.by_master.insert((master, index));
        }
        if let Some(parent) = link.local_parent() {
            self.by_parent.insert((parent, index));
        }
        self.rows.insert(index, Arc::new(link));
    }

    pub(crate) fn remove(&mut self, index: IfIndex) {
        if let Some(old) = self.rows.remove(&index) {
            self.forget(&old);
        }
    }

    /// Takes a complete dump.
    pub(crate) fn replace_all(&mut self, rows: Vec<Link>) {
        let mut gone: BTreeSet<IfIndex> = self.rows.keys().copied().collect();
        for row in &rows {
            gone.remove(&row.index);
        }
        for index in gone {
            self.remove(index);
        }
        for row in rows {
            self.upsert(row);
        }
    }

    /// Drops the lookups of a row. A name that another link has taken meanwhile stays with that link.
    fn forget(&mut self, old: &Link) {
        if self.by_name.get(&old.name) == Some(&old.index) {
            self.by_name.remove(&old.name);
        }
        for name in old.alt_names() {
            if self.by_alt_name.get(&**name) == Some(&old.index) {
                self.by_alt_name.remove(&**name);
            }
        }
        if let Some(master) = old.master {
            self.by_master.remove(&(master, old.index));
        }
        if let Some(parent) = old.local_parent() {
            self.by_parent.remove(&(parent, old.index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{LinkDetails, LinkFlags, LinkKind, LinkParent, NetnsId, OperState};
    use crate::mac::HardwareAddress;

    fn link(index: u32, name: &str) -> Link {
        Link {
            index: IfIndex::new(index).unwrap(),
            name: name.parse().unwrap(),
            flags: LinkFlags::from_kernel(0),
            mtu: 1500,
            oper_state: OperState::Unknown,
            carrier: None,
            address: HardwareAddress::Absent,
            master: None,
            parent: None,
            kind: LinkKind::Device,
            details: None,
        }
    }

    fn named(links: &Links, name: &str) -> Option<u32> {
        links.by_any_name(name).map(|link| link.index.get())
    }

    #[test]
    fn a_name_that_moved_to_another_link_stays_there() {
        let mut links = Links::default();
        links.upsert(link(1, "eth0"));
        links.upsert(link(2, "eth1"));
        // The events of a swap, seen after both renames: 2 already has the name that 1 gives up.
        links.upsert(link(2, "eth0"));
        links.upsert(link(1, "eth1"));
        assert_eq!((named(&links, "eth0"), named(&links, "eth1")), (Some(2), Some(1)));
    }

    #[test]
    fn alternative_names_and_masters_follow_the_newest_row() {
        let mut links = Links::default();
        let mut row = link(3, "port");
        row.master = IfIndex::new(9);
        row.details =
            Some(Box::new(LinkDetails { alt_names: ["other".into()].into(), ..Default::default() }));
        links.upsert(row);
        assert_eq!(named(&links, "other"), Some(3));
        assert_eq!(links.members(IfIndex::new(9).unwrap()).count(), 1);
        links.upsert(link(3, "port"));
        assert_eq!(named(&links, "other"), None);
        assert_eq!(links.members(IfIndex::new(9).unwrap()).count(), 0);
    }

    #[test]
    fn children_are_those_whose_parent_is_in_this_namespace() {
        let mut links = Links::default();
        for (index, netns) in [(3, None), (4, Some(NetnsId(0)))] {
            let mut row = link(index, "vlan");
            row.parent = Some(LinkParent { index: IfIndex::MIN, netns });
            links.upsert(row);
        }
        assert_eq!(links.children(IfIndex::MIN).map(|l| l.index.get()).collect::<Vec<_>>(), [3]);
        links.remove(IfIndex::new(3).unwrap());
        assert_eq!(links.children(IfIndex::MIN).count(), 0);
    }

    #[test]
    fn a_dump_removes_what_it_lacks_and_shares_what_is_equal() {
        let mut links = Links::default();
        links.upsert(link(1, "lo"));
        links.upsert(link(2, "gone"));
        let before = links.clone();
        links.replace_all(vec![link(1, "lo"), link(3, "new")]);
        assert_eq!(links.iter().map(|l| l.index.get()).collect::<Vec<_>>(), [1, 3]);
        let lo = IfIndex::MIN;
        assert!(Arc::ptr_eq(links.get(lo).unwrap(), before.get(lo).unwrap()));
    }
}
