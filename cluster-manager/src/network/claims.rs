//! Namespaces in which a primary network is being made.
//!
//! Passes over two networks run side by side, and neither sees what the other makes before the watch shows it. Who claims a
//! namespace first makes its network there; the other one is told, and waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_net::network::name::{NadKey, Namespace};

use crate::observed::cr::CrKey;

/// The claims. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Arc<Mutex<HashMap<Namespace, CrKey>>>);

impl Claims {
    /// Claims a namespace; the other network that did so before, if one did.
    pub(super) fn claim(&self, namespace: &Namespace, by: &CrKey) -> Result<(), CrKey> {
        let mut claims = self.lock();
        match claims.get(namespace) {
            Some(other) if other != by => Err(other.clone()),
            _ => {
                claims.insert(namespace.clone(), by.clone());
                Ok(())
            }
        }
    }

    /// The watch shows a NetworkAttachmentDefinition: everybody sees it from now on.
    pub(super) fn seen(&self, nad: &NadKey) {
        let mut claims = self.lock();
        let namespace = nad.namespace();
        if claims.get(namespace).is_some_and(|by| by.nad_in(namespace) == *nad) {
            claims.remove(namespace);
        }
    }

    /// Gives up what a network has claimed, except in these namespaces. Returns where that is.
    pub(super) fn keep_only(&self, by: &CrKey, namespaces: &BTreeSet<Namespace>) -> Vec<Namespace> {
        let is_over =
            |namespace: &Namespace, claimant: &CrKey| claimant == by && !namespaces.contains(namespace);
        self.lock().extract_if(|namespace, claimant| is_over(namespace, claimant)).map(|(at, _)| at).collect()
    }

    /// Forgets everything: another process may have made networks since.
    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Namespace, CrKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cudn(name: &str) -> CrKey {
        CrKey::Cudn(name.into())
    }

    #[test]
    fn one_network_at_a_time_claims_a_namespace() {
        let (claims, blue) = (Claims::default(), Namespace::from("blue"));
        assert_eq!(claims.claim(&blue, &cudn("a")), Ok(()));
        assert_eq!(claims.claim(&blue, &cudn("b")), Err(cudn("a")));
        assert_eq!(claims.claim(&blue, &cudn("a")), Ok(()), "its own claim is in nobody's way");
        assert_eq!(claims.claim(&"red".into(), &cudn("b")), Ok(()));
    }

    #[test]
    fn only_what_was_being_made_ends_a_claim_when_it_is_seen() {
        let (claims, blue) = (Claims::default(), Namespace::from("blue"));
        claims.claim(&blue, &cudn("a")).unwrap();
        claims.seen(&"blue/other".parse().unwrap());
        assert_eq!(claims.claim(&blue, &cudn("b")), Err(cudn("a")));
        claims.seen(&"blue/a".parse().unwrap());
        assert_eq!(claims.claim(&blue, &cudn("b")), Ok(()));
    }

    #[test]
    fn a_network_gives_up_its_own_claims_alone() {
        let (claims, [blue, red, green]) = (Claims::default(), ["blue", "red", "green"].map(Namespace::from));
        claims.claim(&blue, &cudn("a")).unwrap();
        claims.claim(&red, &cudn("a")).unwrap();
        claims.claim(&green, &cudn("b")).unwrap();
        assert_eq!(claims.keep_only(&cudn("a"), &BTreeSet::from([red.clone()])), vec![blue.clone()]);
        assert_eq!(claims.claim(&blue, &cudn("b")), Ok(()));
        assert_eq!(claims.claim(&red, &cudn("b")), Err(cudn("a")));
        assert_eq!(claims.keep_only(&cudn("c"), &BTreeSet::new()), []);
        assert_eq!(claims.claim(&green, &cudn("a")), Err(cudn("b")));
    }
}
