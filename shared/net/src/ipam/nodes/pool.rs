//! The ranges of a network: which one holds a subnet, and the next free subnet of a family.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{BadSetup, Families, Family, HostRange};
use crate::ipam::range::Range;

/// Ranges in the order in which they are searched.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    ranges: Vec<Range>,
    /// Position of a range by its first address: as ranges do not overlap, the last one that begins at or below an
    /// address is the only one that can hold it.
    index: BTreeMap<IpAddr, usize>,
}

/// How many subnets there are and how many are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Subnets that can be given to nodes.
    pub total: u128,
    /// Subnets that nodes have.
    pub allocated: usize,
}

/// What a foreign block of addresses takes from one range.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) foreign: IpNet,
    range: IpNet,
    runs: Vec<(u128, u128)>,
}

impl Pools {
    /// Takes over a list of ranges that has all those that are there, in its order.
    pub(super) fn expand(&mut self, wanted: &[HostRange]) -> Result<Families, BadSetup> {
        let families = Families::of(wanted.iter().map(|range| &range.network)).ok_or(BadSetup::Empty)?;
        check_disjoint(wanted)?;
        let by_network: BTreeMap<IpNet, &HostRange> =
            wanted.iter().map(|range| (range.network.trunc(), range)).collect();
        for range in &self.ranges {
            let old = HostRange { network: range.network(), host_length: range.host_length() };
            match by_network.get(&range.network()) {
                None => return Err(BadSetup::Removed(old)),
                Some(new) if new.host_length != old.host_length => {
                    return Err(BadSetup::Recut { old, new: **new });
                }
                Some(_) => {}
            }
        }
        let ranges = wanted.iter().map(|range| self.range_for(range)).collect::<Result<Vec<_>, _>>()?;
        self.index = ranges.iter().enumerate().map(|(at, range)| (range.network().network(), at)).collect();
        self.ranges = ranges;
        Ok(families)
    }

    /// The range that is there, else a new one.
    fn range_for(&self, wanted: &HostRange) -> Result<Range, BadSetup> {
        let there = self.ranges.iter().find(|range| range.network() == wanted.network.trunc());
        match there {
            Some(range) => Ok(range.clone()),
            None => Range::new(wanted.network, wanted.host_length)
                .map_err(|cause| BadSetup::Range { range: *wanted, cause }),
        }
    }

    /// The range that holds the first address of a subnet, and how it is cut.
    pub(super) fn range_of(&self, subnet: &IpNet) -> Option<(IpNet, u8)> {
        let range = self.holding(subnet)?;
        Some((range.network(), range.host_length()))
    }

    fn holding(&self, subnet: &IpNet) -> Option<&Range> {
        self.ranges.get(self.position(subnet)?)
    }

    fn holding_mut(&mut self, subnet: &IpNet) -> Option<&mut Range> {
        let at = self.position(subnet)?;
        self.ranges.get_mut(at)
    }

    fn position(&self, subnet: &IpNet) -> Option<usize> {
        let (_, &at) = self.index.range(..=subnet.addr()).next_back()?;
        self.ranges.get(at).filter(|range| range.network().contains(&subnet.addr())).map(|_| at)
    }

    pub(super) fn is_cut_into(&self, subnet: &IpNet) -> bool {
        self.holding(subnet).is_some_and(|range| range.is_cut_into(subnet))
    }

    pub(super) fn is_taken(&self, subnet: &IpNet) -> bool {
        self.holding(subnet).is_some_and(|range| range.is_taken(subnet))
    }

    pub(super) fn take(&mut self, subnet: &IpNet) -> bool {
        self.holding_mut(subnet).is_some_and(|range| range.take(subnet))
    }

    pub(super) fn release(&mut self, subnet: &IpNet) {
        if let Some(range) = self.holding_mut(subnet) {
            range.release(subnet);
        }
    }

    /// Frees a subnet that was just handed out and that nobody got to know of.
    pub(super) fn give_back(&mut self, subnet: &IpNet) {
        if let Some(range) = self.holding_mut(subnet) {
            range.give_back(subnet);
        }
    }

    /// The next free subnet of a family: the first range that has one wins.
    pub(super) fn take_next(&mut self, family: Family) -> Option<IpNet> {
        self.of_family_mut(family).find_map(Range::take_next)
    }

    pub(super) fn has_ranges(&self, family: Family) -> bool {
        self.of_family(family).next().is_some()
    }

    pub(super) fn capacity(&self, family: Family) -> u128 {
        self.of_family(family).map(Range::capacity).sum()
    }

    fn of_family(&self, family: Family) -> impl Iterator<Item = &Range> {
        self.ranges.iter().filter(move |range| Family::of(&range.network()) == family)
    }

    fn of_family_mut(&mut self, family: Family) -> impl Iterator<Item = &mut Range> {
        self.ranges.iter_mut().filter(move |range| Family::of(&range.network()) == family)
    }

    /// Takes what a foreign block touches, range by range: an entry for each, also where nothing of it is free.
    pub(super) fn block(&mut self, foreign: &IpNet) -> Vec<Block> {
        let block = |range: &mut Range| Block {
            foreign: *foreign,
            range: range.network(),
            runs: range.block(foreign),
        };
        self.ranges.iter_mut().map(block).collect()
    }

    pub(super) fn unblock(&mut self, block: &Block) {
        if let Some(range) = self.holding_mut(&block.range) {
            range.unblock(&block.runs);
        }
    }
}

/// No two ranges share an address. Sorted by first address, only neighbours can.
fn check_disjoint(ranges: &[HostRange]) -> Result<(), BadSetup> {
    let mut sorted: Vec<&HostRange> = ranges.iter().collect();
    sorted.sort_by_key(|range| (range.network.network(), range.network.prefix_len()));
    for pair in sorted.windows(2) {
        if let [one, other] = pair
            && one.network.contains(&other.network.network())
        {
            return Err(BadSetup::Overlap(**one, **other));
        }
    }
    Ok(())
}
