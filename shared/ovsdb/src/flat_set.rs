//! A set in one piece of memory.

use std::borrow::Borrow;
use std::ops::Deref;

/// A sorted list without doubles, for columns of many rows with a few elements each: it takes the room of its elements,
/// where a `BTreeSet` takes that of eleven. It is a slice; what changes it is made anew.
///
/// Of our own, because `litemap` has maps only, and its vectors keep a length and a capacity where a slice has one number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlatSet<T>(Box<[T]>);

impl<T> Default for FlatSet<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T: Ord> FlatSet<T> {
    /// Whether it is an element.
    #[must_use]
    pub fn contains<Q: Ord + ?Sized>(&self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.binary_search_by(|own| own.borrow().cmp(element)).is_ok()
    }

    /// Elements that only one of the two has, in order.
    pub fn symmetric_difference<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = &'s T> {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        std::iter::from_fn(move || {
            loop {
                match (left.peek(), right.peek()) {
                    (Some(one), Some(two)) if one == two => {
                        left.next();
                        right.next();
                    }
                    (Some(one), Some(two)) if one > two => return right.next(),
                    (Some(_), _) => return left.next(),
                    (None, _) => return right.next(),
                }
            }
        })
    }
}

impl<T> Deref for FlatSet<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Ord> From<Vec<T>> for FlatSet<T> {
    fn from(mut list: Vec<T>) -> Self {
        list.sort_unstable();
        list.dedup();
        Self(list.into_boxed_slice())
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for FlatSet<T> {
    fn from(list: [T; N]) -> Self {
        Vec::from(list).into()
    }
}

impl<T: Ord> FromIterator<T> for FlatSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        elements.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> IntoIterator for FlatSet<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl<'s, T> IntoIterator for &'s FlatSet<T> {
    type Item = &'s T;
    type IntoIter = std::slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_that_a_tree_would_be(
            one in proptest::collection::vec(0_u8..12, 0..12),
            two in proptest::collection::vec(0_u8..12, 0..12),
        ) {
            let trees = [&one, &two].map(|list| list.iter().copied().collect::<BTreeSet<u8>>());
            let flats = [&one, &two].map(|list| list.iter().copied().collect::<FlatSet<u8>>());
            for (tree, flat) in trees.iter().zip(&flats) {
                prop_assert!(tree.iter().eq(flat.iter()));
                prop_assert!((0..12).all(|number| tree.contains(&number) == flat.contains(&number)));
                prop_assert_eq!(&flat.clone().into_iter().collect::<FlatSet<u8>>(), flat);
            }
            let differing: Vec<u8> = trees[0].symmetric_difference(&trees[1]).copied().collect();
            prop_assert_eq!(flats[0].symmetric_difference(&flats[1]).copied().collect::<Vec<u8>>(), differing);
            prop_assert_eq!(trees[0] == trees[1], flats[0] == flats[1]);
        }
    }
}
