//! Taken positions of a space, and the next free one.

use std::collections::BTreeMap;

/// Taken positions as runs that neither overlap nor touch, with a cursor: positions are handed out round robin, so that
/// a released one is not used again at once.
///
/// Positions at or above `size` can be taken by name but are never handed out: a space may be larger than the part of
/// it that is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    /// First position to last position, both taken.
    runs: BTreeMap<u128, u128>,
    size: u128,
    next: u128,
    skip: Skip,
}

/// Which positions are never handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// Every position is.
    None,
    /// Those whose low 16 bits are zero are not.
    Low16Zero,
}

impl Skip {
    fn covers(self, position: u128) -> bool {
        match self {
            Self::None => false,
            Self::Low16Zero => position.trailing_zeros() >= 16,
        }
    }
}

impl Slots {
    pub(super) fn new(size: u128, skip: Skip) -> Self {
        Self { runs: BTreeMap::new(), size, next: 0, skip }
    }

    /// How many positions can be handed out at most.
    pub(super) fn capacity(&self) -> u128 {
        match self.skip {
            Skip::None => self.size,
            Skip::Low16Zero => self.size - self.size.div_ceil(1 << 16),
        }
    }

    pub(super) fn is_taken(&self, position: u128) -> bool {
        self.run_of(position).is_some()
    }

    /// The run that holds a position.
    fn run_of(&self, position: u128) -> Option<(u128, u128)> {
        let (&first, &last) = self.runs.range(..=position).next_back()?;
        (last >= position).then_some((first, last))
    }

    /// Takes the next free position, from the cursor on and once around. A search that finds none begins at the first
    /// position the next time.
    pub(super) fn take_next(&mut self) -> Option<u128> {
        let found = self.free_in(self.next, self.size).or_else(|| self.free_in(0, self.next));
        self.next = found.map_or(0, |position| position + 1);
        if let Some(position) = found {
            self.insert(position, position);
        }
        found
    }

    /// The first position in `from..to` that can be handed out.
    fn free_in(&self, from: u128, to: u128) -> Option<u128> {
        let mut position = from;
        // Each step leaves a run or a skipped position behind; there are few of the latter, as they lie 2^16 apart.
        while position < to.min(self.size) {
            if let Some((_, last)) = self.run_of(position) {
                position = last + 1;
            } else if self.skip.covers(position) {
                position += 1;
            } else {
                return Some(position);
            }
        }
        None
    }

    /// Takes one position; false if it is taken already. The cursor stays.
    pub(super) fn take(&mut self, position: u128) -> bool {
        if self.is_taken(position) {
            return false;
        }
        self.insert(position, position);
        true
    }

    /// Takes what is free in `first..=last` and says which runs that was.
    pub(super) fn take_run(&mut self, first: u128, last: u128) -> Vec<(u128, u128)> {
        let mut gaps = Vec::new();
        let mut position = first;
        while position <= last {
            if let Some((_, end)) = self.run_of(position) {
                position = end + 1;
                continue;
            }
            let end = self.runs.range(position..=last).next().map_or(last, |(&start, _)| start - 1);
            gaps.push((position, end));
            position = end + 1;
        }
        for &(first, last) in &gaps {
            self.insert(first, last);
        }
        gaps
    }

    /// Frees a run of taken positions. The cursor stays.
    pub(super) fn release(&mut self, first: u128, last: u128) {
        let Some((start, end)) = self.run_of(first).filter(|(_, end)| *end >= last) else { return };
        self.runs.remove(&start);
        if start < first {
            self.runs.insert(start, first - 1);
        }
        if last < end {
            self.runs.insert(last + 1, end);
        }
    }

    /// Frees a position that was just handed out and that nobody got to know of: the next search finds it again.
    pub(super) fn give_back(&mut self, position: u128) {
        self.release(position, position);
        if self.next == position + 1 {
            self.next = position;
        }
    }

    /// Adds a run that is free, together with its neighbours.
    fn insert(&mut self, first: u128, last: u128) {
        let mut run = (first, last);
        if let Some(end) = self.runs.remove(&(last + 1)) {
            run.1 = end;
        }
        let before = first.checked_sub(1).and_then(|before| self.run_of(before));
        if let Some((start, _)) = before {
            run.0 = start;
        }
        self.runs.insert(run.0, run.1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_are_handed_out_round_robin_and_a_failed_search_begins_anew() {
        let mut slots = Slots::new(3, Skip::None);
        assert_eq!(slots.take_next(), Some(0));
        slots.release(0, 0);
        assert_eq!([slots.take_next(), slots.take_next(), slots.take_next()], [Some(1), Some(2), Some(0)]);
        assert_eq!(slots.take_next(), None);
        slots.release(0, 0);
        slots.release(2, 2);
        assert_eq!([slots.take_next(), slots.take_next(), slots.take_next()], [Some(0), Some(2), None]);
    }

    #[test]
    fn positions_with_low_bits_zero_are_never_handed_out_but_can_be_taken() {
        let mut slots = Slots::new(1 << 17, Skip::Low16Zero);
        assert_eq!(slots.capacity(), (1 << 17) - 2);
        assert_eq!(slots.take_next(), Some(1));
        assert!(slots.take(0));
        slots.take_run(1, 65_535);
        assert_eq!(slots.take_next(), Some(65_537));
    }

    #[test]
    fn what_is_given_back_is_found_again_at_once() {
        let mut slots = Slots::new(3, Skip::None);
        slots.take_next();
        let unused = slots.take_next().unwrap();
        slots.give_back(unused);
        assert_eq!(slots.take_next(), Some(unused));
        slots.give_back(0);
        assert_eq!(
            [slots.take_next(), slots.take_next()],
            [Some(2), Some(0)],
            "only the last one is found at once"
        );
    }

    #[test]
    fn a_run_takes_only_what_is_free() {
        let mut slots = Slots::new(10, Skip::None);
        assert!(slots.take(3) && slots.take(4) && !slots.take(3));
        assert_eq!(slots.take_run(2, 6), [(2, 2), (5, 6)]);
        assert_eq!(slots.take_run(2, 6), []);
    }

    proptest! {
        #[test]
        fn the_runs_behave_like_a_set(steps in prop::collection::vec((0_u8..4, 0_u128..40, 0_u128..6), 0..200)) {
            let mut slots = Slots::new(32, Skip::None);
            let mut model = BTreeSet::new();
            let mut next = 0;
            for (what, position, length) in steps {
                match what {
                    0 => prop_assert_eq!(slots.take(position), model.insert(position)),
                    1 => {
                        let free = (0..32).map(|step| (next + step) % 32).find(|at| !model.contains(at));
                        prop_assert_eq!(slots.take_next(), free);
                        next = free.map_or(0, |at| at + 1);
                        model.extend(free);
                    }
                    2 => {
                        let taken: Vec<u128> = slots.take_run(position, position + length).into_iter()
                            .flat_map(|(first, last)| first..=last).collect();
                        let want: Vec<u128> =
                            (position..=position + length).filter(|at| model.insert(*at)).collect();
                        prop_assert_eq!(taken, want);
                    }
                    _ => if model.remove(&position) {
                        slots.release(position, position);
                    },
                }
                for at in 0..48 {
                    prop_assert_eq!(slots.is_taken(at), model.contains(&at));
                }
                let runs: Vec<_> = slots.runs.iter().collect();
                prop_assert!(runs.windows(2).all(|pair| *pair[0].1 + 1 < *pair[1].0), "runs touch: {:?}", runs);
            }
        }
    }
}
