//! A map of texts in one piece of memory.

use std::collections::BTreeMap;
use std::fmt;

/// Pairs of texts, sorted by key: for columns of many rows with a few short pairs each, as `external_ids` are. It takes the
/// room of its texts and two bytes a pair; a map of `String`s takes 48 bytes a pair and two allocations.
///
/// Looking up costs a walk over the pairs, and what changes it is made anew.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TextMap {
    /// Key, value, key, value, …, each after its length.
    text: Box<str>,
}

/// Bits of a length that one character carries. A character of a length is ASCII, so it takes a byte.
const BITS: u32 = 6;
/// Says that another character of the length follows.
const MORE: u8 = 1 << BITS;

impl TextMap {
    /// Without pairs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    /// Whether there is such a key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Number of pairs. Costs a walk over them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The pairs, by key.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.text }
    }

    /// Adds a pair, or replaces the one with this key.
    pub fn insert(&mut self, key: &str, value: &str) {
        self.extend([(key, value)]);
    }

    /// Takes the pair with this key away; returns whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        let there = self.contains_key(key);
        if there {
            *self = Self::sorted(self.iter().filter(|(own, _)| *own != key));
        }
        there
    }

    /// Takes all pairs away.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// From pairs in order of their keys, each key once.
    fn sorted<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> Self {
        let mut text = String::new();
        for part in pairs.flat_map(<[&str; 2]>::from) {
            let mut length = part.len();
            while length >= usize::from(MORE) {
                // Less than `MORE`, so it fits.
                text.push(char::from(MORE | u8::try_from(length % usize::from(MORE)).unwrap_or_default()));
                length >>= BITS;
            }
            text.push(char::from(u8::try_from(length).unwrap_or_default()));
            text.push_str(part);
        }
        Self { text: text.into() }
    }
}

/// The pairs of a [`TextMap`].
#[derive(Clone, Debug)]
pub struct Iter<'t> {
    rest: &'t str,
}

impl<'t> Iter<'t> {
    fn part(&mut self) -> Option<&'t str> {
        let (mut length, mut shift) = (0, 0);
        let mut bytes = self.rest.bytes();
        loop {
            let byte = bytes.next()?;
            length |= usize::from(byte & (MORE - 1)) << shift;
            shift += BITS;
            if byte & MORE == 0 {
                break;
            }
        }
        let start = self.rest.len() - bytes.len();
        let (part, rest) = self.rest.get(start..)?.split_at_checked(length)?;
        self.rest = rest;
        Some(part)
    }
}

impl<'t> Iterator for Iter<'t> {
    type Item = (&'t str, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.part()?, self.part()?))
    }
}

impl<'t> IntoIterator for &'t TextMap {
    type Item = (&'t str, &'t str);
    type IntoIter = Iter<'t>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for TextMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut map = Self::default();
        map.extend(pairs);
        map
    }
}

impl<K: AsRef<str>, V: AsRef<str>> Extend<(K, V)> for TextMap {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        let new: Vec<(K, V)> = pairs.into_iter().collect();
        let new = new.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        // Of several pairs with one key the last counts.
        let all: BTreeMap<&str, &str> = self.iter().chain(new).collect();
        *self = Self::sorted(all.into_iter());
    }
}

impl serde::Serialize for TextMap {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self)
    }
}

impl fmt::Debug for TextMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Texts = Vec<(String, String)>;

    fn texts() -> impl Strategy<Value = Texts> {
        let text = prop_oneof!["[a-c]{0,2}", "\\PC{0,70}"];
        proptest::collection::vec((text.clone(), text), 0..8)
    }

    fn same(map: &TextMap, tree: &BTreeMap<String, String>) -> bool {
        map.iter().eq(tree.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    proptest! {
        #[test]
        fn it_is_the_map_that_a_tree_would_be(first in texts(), more in texts(), gone in "[a-c]{0,2}") {
            let mut map: TextMap = first.iter().map(|(key, value)| (key, value)).collect();
            let mut tree: BTreeMap<String, String> = first.into_iter().collect();
            prop_assert!(same(&map, &tree));
            prop_assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
            for (key, value) in more {
                prop_assert_eq!(map.get(&key), tree.get(&key).map(String::as_str));
                map.insert(&key, &value);
                tree.insert(key, value);
            }
            prop_assert_eq!(map.remove(&gone), tree.remove(&gone).is_some());
            prop_assert!(same(&map, &tree), "{map:?} {tree:?}");
            prop_assert_eq!(tree.iter().collect::<TextMap>(), map);
        }
    }

    #[test]
    fn texts_may_be_long() {
        let long = "x".repeat(300_000);
        let map: TextMap = [("a", long.as_str()), ("b", "y")].into_iter().collect();
        assert_eq!((map.get("a"), map.get("b"), map.get("c")), (Some(long.as_str()), Some("y"), None));
    }
}
