//! What matters for one network object, at one moment, out of the newest snapshots.

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway_net::network::name::{NadKey, Namespace};
use causeway_net::transport::EvpnProblem;
use causeway_runtime::watch::{Lookup, NamespacedName};

use super::error::NetworkError;
use crate::observed::cr::{Cr, CrKey};
use crate::observed::nad::Nad;
use crate::observed::{Stores, Unreadable};

/// Everything that matters for one network object.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// Which it is.
    pub(super) key: CrKey,
    /// The object, if there is one of that name.
    pub(super) cr: Option<Arc<Cr>>,
    /// Its own namespace, where the watch of Namespaces does not show it yet, or shows what cannot be read.
    pub(super) unseen: Option<Namespace>,
    /// Why nothing is to be done about its NetworkAttachmentDefinitions, if so.
    pub(super) halt: Option<Halt>,
    /// The namespaces that it is for.
    pub(super) sites: Vec<Site>,
    /// NetworkAttachmentDefinitions that it controls and that are not wanted.
    pub(super) surplus: Vec<Held>,
    /// NetworkAttachmentDefinitions that our finalizer keeps for an object of this name that is gone.
    pub(super) orphans: Vec<Held>,
}

/// Why a network is left alone, whatever stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It asks for a feature that is off: it is not even protected.
    Ignored(String),
    /// EVPN cannot be its transport.
    Evpn(EvpnProblem),
    /// EVPN cannot be its transport any more: what it has stays as it is, in these namespaces.
    Frozen(Vec<Namespace>),
    /// Nobody can say which namespaces it is for.
    Selector(String),
}

/// One namespace that a network is for.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The namespace.
    pub(super) namespace: Namespace,
    /// Whether primary networks may be made in it.
    pub(super) takes_primary: bool,
    /// What stands there under the network's name.
    pub(super) nad: Result<Option<Arc<Nad>>, Unreadable>,
    /// Whether it was made and the watch does not show it yet.
    pub(super) unseen: bool,
    /// Name of another primary network's NetworkAttachmentDefinition in it, that was first.
    pub(super) rival: Option<String>,
    /// Pods that use the network there.
    pub(super) users: Vec<NamespacedName>,
    /// Pods of which nobody can say what they use.
    pub(super) unreadable: Vec<NamespacedName>,
}

/// A NetworkAttachmentDefinition and who uses it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Which it is.
    pub(super) key: NadKey,
    /// The object.
    pub(super) nad: Arc<Nad>,
    /// Pods that are attached to it.
    pub(super) users: Vec<NamespacedName>,
    /// Pods of its namespace of which nobody can say what they are attached to.
    pub(super) unreadable: Vec<NamespacedName>,
}

/// The world of one network object. `halt` says why a network that exists is to be left alone; it is told in which
/// namespaces the network has something.
///
/// # Errors
/// The object exists and cannot be read: nothing may be concluded from it.
pub(super) fn world(
    key: &CrKey,
    stores: &Stores,
    halt: impl FnOnce(&Cr, &[Namespace]) -> Option<Halt>,
) -> Result<World, NetworkError> {
    let cr = stores.cr(key).map_err(|error| NetworkError::Unreadable { network: key.clone(), error })?;
    let held = held(key, stores);
    let Some(cr) = cr else {
        let orphans = held.into_iter().filter(|held| held.nad.is_protected()).collect();
        let (sites, surplus) = (Vec::new(), Vec::new());
        return Ok(World { key: key.clone(), cr: None, unseen: None, halt: None, sites, surplus, orphans });
    };
    let namespaces = stores.namespaces();
    let unseen = key
        .namespace()
        .filter(|namespace| !cr.terminating && !matches!(namespaces.lookup(*namespace), Lookup::Present(_)));
    let chosen = if cr.terminating { Ok(Vec::new()) } else { chosen(key, &cr, stores) };
    let (wanted, selector) = match chosen {
        Ok(wanted) => (wanted, None),
        Err(error) => (Vec::new(), Some(Halt::Selector(error))),
    };
    let (own, others): (Vec<Held>, Vec<Held>) = held.into_iter().partition(|held| held.nad.is_of(&cr.uid));
    let there = own.iter().filter(|held| !held.nad.terminating);
    let there: Vec<Namespace> = there.map(|held| held.key.namespace().clone()).collect();
    let halt = halt(&cr, &there).or(selector).filter(|_| !cr.terminating);
    let sites = wanted
        .iter()
        .filter(|_| halt.is_none())
        .map(|(namespace, takes_primary)| site(key, &cr, namespace, *takes_primary, stores))
        .collect();
    let wanted: BTreeSet<NadKey> = wanted.iter().map(|(namespace, _)| key.nad_in(namespace)).collect();
    // Nobody can say whether the network is for a namespace that cannot be read: what stands there stays.
    let is_known = |held: &Held| {
        cr.terminating || !matches!(namespaces.lookup(held.key.namespace()), Lookup::Unreadable(_))
    };
    let surplus = own.into_iter().filter(|held| !wanted.contains(&held.key) && is_known(held)).collect();
    let orphans = others.into_iter().filter(|held| held.nad.is_protected()).collect();
    Ok(World { key: key.clone(), cr: Some(cr), unseen: unseen.cloned(), halt, sites, surplus, orphans })
}

/// The namespaces that a network is for, each with whether primary networks may be made there.
fn chosen(key: &CrKey, cr: &Cr, stores: &Stores) -> Result<Vec<(Namespace, bool)>, String> {
    let namespaces = stores.namespaces();
    match key {
        CrKey::Udn(nad) => {
            let takes_primary = match namespaces.lookup(nad.namespace()) {
                Lookup::Present(place) if place.terminating => return Ok(Vec::new()),
                Lookup::Present(place) => place.takes_primary(),
                // The network is left alone then, see [`World::unseen`].
                Lookup::Unreadable(_) | Lookup::Absent => return Ok(Vec::new()),
            };
            Ok(vec![(nad.namespace().clone(), takes_primary)])
        }
        CrKey::Cudn(_) => match &cr.namespaces {
            None => Ok(Vec::new()),
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(selector)) => {
                let selected = stores.selected(selector).into_iter();
                Ok(selected.map(|(namespace, place)| (namespace, place.takes_primary())).collect())
            }
        },
    }
}

fn site(key: &CrKey, cr: &Cr, namespace: &Namespace, takes_primary: bool, stores: &Stores) -> Site {
    let own = key.nad_in(namespace);
    let nad = stores.nad(&own);
    let terminating = matches!(&nad, Ok(Some(nad)) if nad.terminating);
    let rival = match &nad {
        Ok(None) if cr.is_primary() => rival(key, namespace, stores),
        _ => None,
    };
    let unseen = matches!(&nad, Ok(Some(_))) && matches!(stores.nads().lookup(&own), Lookup::Absent);
    Site {
        namespace: namespace.clone(),
        takes_primary,
        nad,
        unseen,
        rival,
        users: if terminating { stores.index.users_of(&own) } else { Vec::new() },
        unreadable: if terminating { stores.index.unreadable_in(namespace) } else { Vec::new() },
    }
}

/// Finds NetworkAttachmentDefinitions of a primary network in namespaces of which `primary` says that another one is the
/// primary one: a leader that died may have been about to make it when the next one took stock.
pub(super) fn second_primaries(
    world: &mut World,
    stores: &Stores,
    primary: impl Fn(&Namespace) -> Option<NadKey>,
) {
    let Some(cr) = world.cr.as_ref().filter(|cr| cr.is_primary()) else { return };
    for site in &mut world.sites {
        let own = world.key.nad_in(&site.namespace);
        if !matches!(&site.nad, Ok(Some(nad)) if nad.is_of(&cr.uid)) {
            continue;
        }
        let first = primary(&site.namespace).filter(|first| *first != own);
        // The ledger may not have heard yet that it is gone.
        let is_there = |first: &NadKey| matches!(stores.nad(first), Ok(Some(nad)) if nad.is_primary());
        if let Some(first) = first.filter(is_there) {
            site.rival = Some(first.name().to_owned());
            site.users = stores.index.users_of(&own);
            site.unreadable = stores.index.unreadable_in(&site.namespace);
        }
    }
}

/// Name of another primary network's NetworkAttachmentDefinition in a namespace. One that a primary network controls counts
/// whatever its config says: somebody may just have edited it, and it is put right.
fn rival(key: &CrKey, namespace: &Namespace, stores: &Stores) -> Option<String> {
    let is_primary = |other: &CrKey| matches!(stores.cr(other), Ok(Some(cr)) if cr.is_primary());
    let own = key.nad_in(namespace);
    let by_config = stores.index.primary_in(namespace).into_iter().filter(|other| *other != own);
    let by_config = by_config.map(|rival| rival.name().to_owned());
    let others = stores.index.networks_in(namespace).into_iter().filter(|other| other != key);
    by_config.chain(others.filter(is_primary).map(|rival| rival.name().to_owned())).min()
}

/// The NetworkAttachmentDefinitions that an object of this name controls, whatever its uid. One that cannot be read stays.
fn held(key: &CrKey, stores: &Stores) -> Vec<Held> {
    let is_its = |nad: &Nad| nad.controller.as_ref().is_some_and(|controller| controller.cr == *key);
    let unseen = stores.written_nads.unseen(is_its);
    let keys: BTreeSet<NadKey> = stores.index.controlled_by(key).into_iter().chain(unseen).collect();
    keys.into_iter()
        .filter_map(|key| {
            let nad = stores.nad(&key).ok()??;
            let users = stores.index.users_of(&key);
            let unreadable = stores.index.unreadable_in(key.namespace());
            is_its(&nad).then_some(Held { key, nad, users, unreadable })
        })
        .collect()
}
