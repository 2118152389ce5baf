//! Laws that hold for every sequence of events, and the same answers as a naive implementation.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Upstream's allocator as one would write it down, with the two improvements: no bitmap, no index, every search from
/// the cursor on over all subnets. What a node keeps is decided by looking through everybody's.
#[derive(Clone, Default)]
struct Naive {
    /// All subnets of a range in the order in which they are handed out, and the cursor.
    ranges: Vec<(Vec<IpNet>, usize)>,
    held: BTreeMap<NodeName, Vec<IpNet>>,
    former: BTreeMap<NodeName, Vec<IpNet>>,
}

impl Naive {
    fn add(&mut self, range: HostRange) {
        let mut all = crate::ipam::range::Range::new(range.network, range.host_length).unwrap();
        self.ranges.push((std::iter::from_fn(|| all.take_next()).collect(), 0));
    }

    fn is_free(&self, subnet: &IpNet) -> bool {
        !self.held.values().flatten().any(|taken| taken == subnet)
    }

    fn next(&mut self, family: Family) -> Option<IpNet> {
        for at in 0..self.ranges.len() {
            let (all, cursor) = self.ranges[at].clone();
            if Family::of(&all[0]) != family {
                continue;
            }
            let order = (0..all.len()).map(|step| (cursor + step) % all.len());
            let found = order.into_iter().find(|index| self.is_free(&all[*index]));
            self.ranges[at].1 = found.map_or(0, |index| index + 1);
            if let Some(index) = found {
                return Some(all[index]);
            }
        }
        None
    }

    fn sync(&mut self, node: &NodeName, families: Families, annotated: &[IpNet]) -> Option<Vec<IpNet>> {
        let mine = self.held.remove(node).unwrap_or_default();
        let mut subnets: Vec<IpNet> = Vec::new();
        for subnet in annotated {
            let known = self.ranges.iter().any(|(all, _)| all.contains(subnet));
            let first = !subnets.iter().any(|kept| Family::of(kept) == Family::of(subnet));
            if known && first && self.is_free(subnet) {
                subnets.push(*subnet);
            }
        }
        let kept = subnets.clone();
        let mut fresh = Vec::new();
        for family in families.iter() {
            if subnets.iter().any(|kept| Family::of(kept) == family) {
                continue;
            }
            let of_family = |subnets: &[IpNet]| subnets.iter().copied().find(|has| Family::of(has) == family);
            let former = of_family(self.former.get(node).map_or(&[], Vec::as_slice));
            let mine = of_family(&mine);
            let found =
                mine.or_else(|| former.filter(|former| self.is_free(former))).or_else(|| self.next(family));
            fresh.extend(found.filter(|_| mine.is_none()));
            if let Some(subnet) = found {
                subnets.push(subnet);
            } else {
                // Nobody got to know of these, so the search goes on where it found them.
                for subnet in fresh {
                    for (all, cursor) in &mut self.ranges {
                        let at = all.iter().position(|has| *has == subnet);
                        *cursor -= usize::from(at.is_some_and(|at| at + 1 == *cursor));
                    }
                }
                self.held.insert(node.clone(), kept);
                return None;
            }
        }
        self.held.insert(node.clone(), subnets.clone());
        Some(subnets)
    }

    fn release(&mut self, node: &NodeName) {
        if let Some(had) = self.held.remove(node).filter(|had| !had.is_empty()) {
            self.former.insert(node.clone(), had);
        }
    }
}

fn range(text: &str, host_length: u8) -> HostRange {
    HostRange { network: text.parse().unwrap(), host_length }
}

/// Ranges as they are added, first to last. Small, so that they are exhausted often; one rotates.
fn growth() -> Vec<HostRange> {
    vec![
        range("10.0.0.0/24", 26),
        range("fd00::/62", 64),
        range("10.1.0.0/22", 25),
        range("10.2.0.0/25", 26),
        range("fd01::/63", 64),
    ]
}

#[derive(Clone, Debug)]
enum Event {
    /// A node is looked at; its annotation holds what it was last told, if the writes got through.
    Sync {
        node: usize,
        written: bool,
    },
    /// A node is looked at, with an annotation that somebody else made up.
    Meddle {
        node: usize,
        subnets: Vec<usize>,
    },
    Leave {
        node: usize,
    },
    Grow,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0_usize..12, any::<bool>()).prop_map(|(node, written)| Event::Sync { node, written }),
        2 => (0_usize..12, prop::collection::vec(0_usize..24, 0..4))
            .prop_map(|(node, subnets)| Event::Meddle { node, subnets }),
        3 => (0_usize..12).prop_map(|node| Event::Leave { node }),
        1 => Just(Event::Grow),
        1 => Just(Event::Restart),
    ]
}

/// All subnets that an annotation could name, and some that no range is cut into.
fn menu() -> Vec<IpNet> {
    let mut all: Vec<IpNet> = Vec::new();
    for range in growth() {
        all.extend(range.network.subnets(range.host_length).unwrap());
    }
    all.extend(["10.0.0.0/25", "192.0.2.0/26", "fd00::/63"].map(|text| text.parse::<IpNet>().unwrap()));
    all
}

fn rebuild(ranges: &[HostRange], annotations: &BTreeMap<NodeName, Vec<IpNet>>) -> NodeSubnets {
    let annotated = annotations.iter().map(|(node, subnets)| (node, subnets.as_slice()));
    NodeSubnets::rebuild(NetworkName::of_cudn("x"), Setup::new(ranges).unwrap(), annotated)
}

/// Everybody's subnets are disjoint, inside the ranges and of their length, and each is counted once.
fn check_sound(state: &NodeSubnets, ranges: &[HostRange]) -> Result<(), TestCaseError> {
    let all: Vec<(&NodeName, IpNet)> = state
        .owners
        .nodes()
        .flat_map(|(node, subnets)| subnets.iter().map(move |subnet| (node, *subnet)))
        .collect();
    for (at, (node, subnet)) in all.iter().enumerate() {
        let fits =
            |range: &HostRange| range.network.contains(subnet) && range.host_length == subnet.prefix_len();
        prop_assert!(ranges.iter().any(fits), "{} of {} is in no range", subnet, node);
        prop_assert_eq!(state.owner(subnet), Some(*node));
        for (_, other) in &all[at + 1..] {
            prop_assert!(
                !subnet.contains(other) && !other.contains(subnet),
                "{} and {} overlap",
                subnet,
                other
            );
        }
    }
    let counted = state.usage(Family::V4).allocated + state.usage(Family::V6).allocated;
    prop_assert_eq!(counted, all.len());
    // No leak: what is taken in the ranges is what nodes have.
    let total = state.usage(Family::V4).total + state.usage(Family::V6).total;
    let mut copy = state.clone();
    let free =
        [Family::V4, Family::V6].map(|family| std::iter::from_fn(|| copy.pools.take_next(family)).count());
    prop_assert_eq!(u128::try_from(free[0] + free[1] + all.len()).unwrap(), total);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_history_gives_what_a_naive_implementation_gives(events in prop::collection::vec(event(), 1..80)) {
        let (growth, menu) = (growth(), menu());
        let mut grown = 2;
        let mut state = rebuild(&growth[..grown], &BTreeMap::new());
        let mut naive = Naive::default();
        growth[..grown].iter().for_each(|range| naive.add(*range));
        // What the API server holds.
        let mut annotations: BTreeMap<NodeName, Vec<IpNet>> = BTreeMap::new();
        for event in events {
            match event {
                Event::Sync { node, written } => {
                    let node = NodeName::from(format!("n{node}"));
                    let annotated = annotations.get(&node).cloned().unwrap_or_default();
                    let found = state.sync(&node, &annotated);
                    prop_assert_eq!(found.clone().ok().map(|found| found.subnets),
                                    naive.sync(&node, Families::Both, &annotated));
                    if let Ok(found) = found {
                        let again = state.sync(&node, &annotated).unwrap();
                        prop_assert_eq!(&again.subnets, &found.subnets, "a failed write changes the offer");
                        if written {
                            let settled = state.sync(&node, &found.subnets).unwrap();
                            prop_assert!(!settled.changed, "a written node is written again");
                            annotations.insert(node, found.subnets);
                        }
                    }
                }
                Event::Meddle { node, subnets } => {
                    let node = NodeName::from(format!("n{node}"));
                    let claimed: Vec<IpNet> = subnets.iter().map(|at| menu[at % menu.len()]).collect();
                    let found = state.sync(&node, &claimed).ok().map(|found| found.subnets);
                    prop_assert_eq!(&found, &naive.sync(&node, Families::Both, &claimed));
                    annotations.insert(node, found.unwrap_or(claimed));
                }
                Event::Leave { node } => {
                    let node = NodeName::from(format!("n{node}"));
                    state.release(&node);
                    naive.release(&node);
                    annotations.remove(&node);
                }
                Event::Grow if grown < growth.len() => {
                    let before: Vec<(NodeName, Vec<IpNet>)> =
                        state.nodes().map(|(node, subnets)| (node.clone(), subnets.to_vec())).collect();
                    naive.add(growth[grown]);
                    grown += 1;
                    state.expand(&growth[..grown]).unwrap();
                    for (node, subnets) in before {
                        prop_assert_eq!(state.of(&node), subnets, "growth moves a node");
                    }
                }
                Event::Grow => {}
                Event::Restart => {
                    state = rebuild(&growth[..grown], &annotations);
                    // A restart forgets the cursor, who was there before, and offers that were never written.
                    naive = Naive::default();
                    growth[..grown].iter().for_each(|range| naive.add(*range));
                    for (node, subnets) in &annotations {
                        let (kept, _) = state.keep(node, subnets);
                        prop_assert_eq!(&kept, state.of(node));
                        naive.held.insert(node.clone(), kept);
                    }
                }
            }
            check_sound(&state, &growth[..grown])?;
        }
        // Whoever is annotated with a complete set has the same after a rebuild, in whatever order they are read.
        let settled: BTreeMap<NodeName, Vec<IpNet>> = state.nodes()
            .filter(|(_, subnets)| subnets.len() == 2).map(|(node, subnets)| (node.clone(), subnets.to_vec())).collect();
        let mut rebuilt = rebuild(&growth[..grown], &settled);
        let backwards = settled.iter().rev().map(|(node, subnets)| (node, subnets.as_slice()));
        let mut other = NodeSubnets::rebuild(
            NetworkName::of_cudn("x"), Setup::new(&growth[..grown]).unwrap(), backwards);
        for (node, subnets) in &settled {
            prop_assert!(!rebuilt.sync(node, subnets).unwrap().changed);
            prop_assert!(!other.sync(node, subnets).unwrap().changed);
        }
        let newcomer = NodeName::from("newcomer");
        prop_assert_eq!(rebuilt.sync(&newcomer, &[]), other.sync(&newcomer, &[]));
    }
}
