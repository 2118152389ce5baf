//! Ids of EVPN networks while this process leads: who has which, and who waits for one.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_api::network::{Evpn, Transport};
use causeway_net::ipam::evpn::EvpnIds;
use causeway_net::render::Vids;

use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey};
use crate::observed::nad::Nad;

/// The ids of all networks. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Domains(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    ids: EvpnIds,
    /// What each network that has ids asked for last.
    asked: HashMap<CrKey, Evpn>,
    /// Networks that were refused.
    refused: BTreeSet<CrKey>,
}

impl fmt::Debug for Domains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domains").finish_non_exhaustive()
    }
}

impl Domains {
    /// Makes the table anew from what NetworkAttachmentDefinitions carry: of two networks that claim one id the older keeps
    /// it, and the other one gets new ones when it is looked at.
    pub(super) fn rebuild(&self, stores: &Stores) {
        let nads = stores.nads();
        let cudns = stores.cudns();
        let mut carried: Vec<(i64, &str, &Nad)> = Vec::new();
        for (key, cr) in cudns.iter().filter(|(_, cr)| cr.network.transport == Some(Transport::Evpn)) {
            let own = stores.index.controlled_by(key).into_iter().filter_map(|nad| nads.get(&nad));
            let mut own =
                own.filter(|nad| nad.is_of(&cr.uid) && nad.config().is_some_and(|c| c.evpn.is_some()));
            if let Some(nad) = own.next() {
                carried.push((cr.created, key.name(), nad));
            }
        }
        carried.sort_by_key(|(created, name, _)| (*created, *name));
        let configs = carried.iter().filter_map(|(_, name, nad)| Some((*name, nad.config()?.evpn.as_ref()?)));
        let (ids, _again) = EvpnIds::rebuild(configs);
        *self.lock() = Table { ids, ..Table::default() };
    }

    /// The VLAN ids of a network, and who may get what it no longer asks for. A network without EVPN has none.
    ///
    /// # Errors
    /// It cannot have what it asks for; the text is for people. It is woken once something is free.
    pub(super) fn vids(&self, key: &CrKey, cr: &Cr) -> (Result<Vids, String>, Vec<CrKey>) {
        let asks = cr.network.evpn.as_ref().filter(|_| cr.network.transport == Some(Transport::Evpn));
        let Some(spec) = asks else { return (Ok(Vids::default()), Vec::new()) };
        let mut table = self.lock();
        match table.ids.allocate(key.name(), spec) {
            Ok(vids) => {
                table.refused.remove(key);
                let before = table.asked.insert(key.clone(), spec.clone());
                let freed = before.is_some_and(|before| before != *spec);
                (Ok(vids), if freed { table.relieved() } else { Vec::new() })
            }
            Err(error) => {
                table.refused.insert(key.clone());
                (Err(error.to_string()), Vec::new())
            }
        }
    }

    /// Frees what a network has that is gone. Returns who may get it.
    pub(super) fn release(&self, key: &CrKey) -> Vec<CrKey> {
        let mut table = self.lock();
        table.refused.remove(key);
        table.ids.release(key.name());
        if table.asked.remove(key).is_some() { table.relieved() } else { Vec::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn relieved(&mut self) -> Vec<CrKey> {
        std::mem::take(&mut self.refused).into_iter().collect()
    }
}
