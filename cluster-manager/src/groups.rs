//! Keys by what they have in common; a group is gone with its last key.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Groups of keys.
#[derive(Debug)]
pub(crate) struct Groups<G, K>(HashMap<G, BTreeSet<K>>);

impl<G, K> Default for Groups<G, K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<G: Hash + Eq, K: Ord + Clone> Groups<G, K> {
    /// Puts a key into a group.
    pub(crate) fn insert(&mut self, group: G, key: K) {
        self.0.entry(group).or_default().insert(key);
    }

    /// Takes a key out of a group.
    pub(crate) fn remove<Q>(&mut self, group: &Q, key: &K)
    where
        G: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(keys) = self.0.get_mut(group) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(group);
            }
        }
    }

    /// The keys of a group, in their order.
    pub(crate) fn of<Q>(&self, group: &Q) -> Vec<K>
    where
        G: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.in_group(group).cloned().collect()
    }

    /// The same, borrowed.
    pub(crate) fn in_group<Q>(&self, group: &Q) -> impl Iterator<Item = &K>
    where
        G: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get(group).into_iter().flatten()
    }

    /// Whether a group has a key.
    pub(crate) fn has<Q>(&self, group: &Q) -> bool
    where
        G: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.contains_key(group)
    }

    /// Every group that has a key.
    pub(crate) fn names(&self) -> impl Iterator<Item = &G> {
        self.0.keys()
    }

    /// Every key, once for each group that it is in.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.values().flatten()
    }

    /// Whether there is no key.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_gone_with_its_last_key() {
        let mut groups: Groups<String, u8> = Groups::default();
        groups.insert("even".to_owned(), 4);
        groups.insert("even".to_owned(), 2);
        groups.insert("odd".to_owned(), 1);
        groups.remove("even", &4);
        groups.remove("even", &7);
        groups.remove("none", &1);
        assert_eq!((groups.of("even"), groups.of("odd"), groups.of("none")), (vec![2], vec![1], vec![]));
        groups.remove("even", &2);
        assert!(!groups.has("even") && groups.has("odd"));
        assert_eq!((groups.names().count(), groups.keys().count()), (1, 1));
        groups.remove("odd", &1);
        assert!(groups.is_empty());
    }
}
