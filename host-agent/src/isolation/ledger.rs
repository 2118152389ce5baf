//! Who has which element. An address may be taken by a new pod before the old one is heard to be gone, so elements have
//! owners, and leave with the last of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use causeway_nft::{Contents, Element};
use causeway_runtime::watch::NamespacedName;

use super::plan::{self, SetId};
use super::pod::{DefaultNetwork, PodFacts};

/// The elements that the sets should have, by pod. Work is by the pods that change.
#[derive(Debug, Default)]
pub struct Ledger {
    pods: HashMap<NamespacedName, Entry>,
    owners: BTreeMap<(SetId, Element), u32>,
    counts: BTreeMap<SetId, usize>,
    touched: BTreeSet<(SetId, Element)>,
}

#[derive(Debug, Default)]
struct Entry {
    uid: Box<str>,
    elements: Box<[(SetId, Element)]>,
}

impl Ledger {
    /// Takes over what is known of a pod; `None`: it has nothing in the sets.
    ///
    /// What is not known of a pod changes nothing: an annotation that is spoilt while the pod runs opens nothing.
    pub fn update(&mut self, pod: &NamespacedName, facts: Option<&PodFacts>) {
        let elements = match facts.map(|facts| (&facts.uid, &facts.network)) {
            None => BTreeSet::new(),
            Some((_, DefaultNetwork::Locked { addresses, ports })) => {
                plan::elements(addresses, ports.as_deref().unwrap_or_default())
            }
            Some((uid, DefaultNetwork::Unknown | DefaultNetwork::Unreadable(_))) => {
                match self.pods.get(pod) {
                    Some(entry) if entry.uid == *uid => return,
                    _ => BTreeSet::new(),
                }
            }
        };
        self.replace(pod, facts.map(|facts| &*facts.uid), elements);
    }

    fn replace(&mut self, pod: &NamespacedName, uid: Option<&str>, elements: BTreeSet<(SetId, Element)>) {
        for element in &elements {
            let owners = self.owners.entry(*element).or_default();
            *owners += 1;
            if *owners == 1 {
                *self.counts.entry(element.0).or_default() += 1;
            }
        }
        let old = self.pods.remove(pod).unwrap_or_default();
        for element in &old.elements {
            if let Some(owners) = self.owners.get_mut(element) {
                *owners -= 1;
                if *owners == 0 {
                    self.owners.remove(element);
                    *self.counts.entry(element.0).or_default() -= 1;
                }
            }
        }
        let was: BTreeSet<(SetId, Element)> = old.elements.iter().copied().collect();
        self.touched.extend(was.symmetric_difference(&elements));
        if let Some(uid) = uid.filter(|_| !elements.is_empty()) {
            let entry = Entry { uid: uid.into(), elements: elements.into_iter().collect() };
            self.pods.insert(pod.clone(), entry);
        }
    }

    /// Whether a set should have an element.
    #[must_use]
    pub fn has(&self, set: SetId, element: &Element) -> bool {
        self.owners.contains_key(&(set, *element))
    }

    /// All elements, by set.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let mut contents: Contents =
            SetId::ALL.iter().map(|set| (set.name().to_owned(), BTreeSet::new())).collect();
        for (set, element) in self.owners.keys() {
            contents.entry(set.name().to_owned()).or_default().insert(*element);
        }
        contents
    }

    /// How many elements a set should have.
    #[must_use]
    pub fn count(&self, set: SetId) -> usize {
        self.counts.get(&set).copied().unwrap_or_default()
    }

    /// Elements that may have changed since [`Ledger::settled`], by set.
    pub fn touched(&self) -> impl Iterator<Item = (SetId, BTreeSet<Element>)> {
        SetId::ALL.into_iter().filter_map(|wanted| {
            let of_set = self.touched.iter().filter(|(set, _)| *set == wanted);
            let elements: BTreeSet<Element> = of_set.map(|(_, element)| *element).collect();
            (!elements.is_empty()).then_some((wanted, elements))
        })
    }

    /// The kernel has everything.
    pub fn settled(&mut self) {
        self.touched.clear();
    }
}

#[cfg(test)]
mod tests;
