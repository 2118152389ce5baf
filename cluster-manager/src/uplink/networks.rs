//! The condition `UplinksReady` of ClusterUserDefinedNetworks: whether each node that needs the network can use its Uplink.
//!
//! In: the network, its Uplinks, their states, the nodes that need the network. Out: one condition, by server-side apply as
//! `clustermanager-uplink-controller`. A network without an Uplink has it too, from the one who makes the network
//! ([`crate::network`]): it needs no write of its own there.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::condition::{self, Wanted};
use causeway_api::network::Transport;
use causeway_net::facts::UplinkFacts;
use causeway_net::network::name::NodeName;
use causeway_net::state_name::StateName;
use causeway_net::uplinks_ready::{
    self, ActiveNodes, Carrier, Found, GatewayMode, Network, StateFacts, Verdict, View,
};
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::watch::{Lookup, Snapshot};
use causeway_runtime::writer::{WriteError, Writer};
use jiff::Timestamp;
use kube::Api;
use tracing::info;

use super::observe::Stores;
use super::rivals::{self, Advertisers, Rivals};
use super::watched::{State, StateKey, Uplink, UplinkName};
use crate::allocation::{Book, Needed};
use crate::expected::Expected;
use crate::observed::Unreadable;
use crate::observed::cr::{Cr, CrKey, WatchedCudn};
use crate::observed::place::Node;
use crate::wake::Wake;

/// Tells networks whether their Uplinks are ready.
#[derive(Clone, Debug)]
pub(super) struct Networks {
    /// Networks, Uplinks, their states, Nodes.
    pub(super) stores: Stores,
    /// Which node needs which network.
    pub(super) book: Book,
    /// How nodes reach the outside.
    pub(super) mode: GatewayMode,
    /// Writes as the Uplink controller.
    pub(super) writer: Writer,
    /// Networks of the API server.
    pub(super) api: Api<WatchedCudn>,
    /// What networks were told.
    pub(super) expected: Expected<CrKey>,
    /// Who tells routers about networks.
    pub(super) advertisers: Advertisers,
    /// What networks need for themselves.
    pub(super) rivals: Rivals,
    /// Wakes this room.
    pub(super) wake: Wake<CrKey>,
}

/// Why a pass over one network failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    /// It exists, but not in a form that this version understands.
    #[error("{network} cannot be read ({error}); what it says of its Uplinks is left alone")]
    Unreadable {
        /// Which.
        network: CrKey,
        /// What is wrong with it.
        error: Unreadable,
    },
    /// Its condition could not be written.
    #[error("cannot write the status of {network}")]
    Status {
        /// Which.
        network: CrKey,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for NetworkError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unreadable { .. } => Retry::Never,
            Self::Status { source, .. } => source.retry(),
        }
    }
}

impl Room for Networks {
    const NAME: &'static str = "uplinks-ready";
    type Key = CrKey;
    type Error = NetworkError;

    async fn reconcile(&self, key: &CrKey) -> Result<Requeue, NetworkError> {
        let cr = self.stores.shared.cr(key);
        let cr = cr.map_err(|error| NetworkError::Unreadable { network: key.clone(), error })?;
        let Some(cr) = cr else {
            self.expected.set(key, Vec::new());
            self.wake.up(self.rivals.set(key, BTreeSet::new()));
            return Ok(Requeue::Gone);
        };
        if cr.uplinks.is_empty() {
            self.expected.set(key, Vec::new());
            self.wake.up(self.rivals.set(key, BTreeSet::new()));
            return Ok(Requeue::Done);
        }
        let Some(verdict) = self.verdict(key, &cr) else { return Ok(Requeue::Done) };
        let wanted = verdict.wanted();
        // A deletion is a new generation, too: nobody needs to hear again what was said of the one before.
        let said = condition::find(&cr.conditions, wanted.type_).filter(|_| cr.terminating);
        let generation = said.map_or(cr.generation, |said| said.observed_generation);
        let wanted = Wanted { observed_generation: generation, ..wanted };
        self.expected.set(key, vec![wanted.clone()]);
        if wanted.is_met_by(&cr.conditions) {
            return Ok(Requeue::Done);
        }
        let condition = wanted.against(&cr.conditions, Timestamp::now());
        let body = key.status_body(std::slice::from_ref(&condition));
        match self.writer.apply_status(&self.api, key.name(), &body).await {
            Ok(written) => {
                if let Some(written) = Cr::of_cudn(written) {
                    self.stores.shared.written_crs.remember(key, written);
                }
                info!(
                    network = %key,
                    status = condition.status,
                    reason = condition.reason,
                    detail = condition.message,
                    "Network's Uplinks told"
                );
                Ok(Requeue::Done)
            }
            Err(WriteError::NotFound(_)) => Ok(Requeue::Done),
            Err(source) => Err(NetworkError::Status { network: key.clone(), source }),
        }
    }
}

impl Networks {
    /// What the condition should say; none as long as nobody knows where the network is needed.
    fn verdict(&self, key: &CrKey, cr: &Cr) -> Option<Verdict> {
        let carrier = match &cr.network.transport {
            Some(Transport::Evpn) => Carrier::Evpn,
            Some(Transport::NoOverlay | Transport::Unknown(_)) | None => Carrier::Supported,
        };
        let network = Network { name: key.name(), uplinks: &cr.uplinks, carrier };
        let nodes = self.stores.shared.nodes();
        if !self.rivals.are_complete() {
            // Otherwise the first ones would be told that they are alone.
            for (other, cr) in self.stores.shared.cudns().iter().filter(|(_, cr)| !cr.uplinks.is_empty()) {
                let active = self.active(other, &nodes)?;
                self.claim(other, cr, &active, &self.sight(cr));
            }
            self.rivals.complete();
        }
        let active = self.active(key, &nodes)?;
        let mut sight = self.sight(cr);
        self.wake.up(self.claim(key, cr, &active, &sight));
        if self.rivals.needs_anything(key) {
            sight.rivals = self.rivals_on(key, cr, &active, &sight);
        }
        Some(uplinks_ready::verdict(network, self.mode, &active, &sight))
    }

    /// The nodes that need a network; none as long as nobody knows.
    fn active<'n>(&self, key: &CrKey, nodes: &'n Snapshot<NodeName, Node>) -> Option<ActiveNodes<'n>> {
        let needed = match self.book.needed_on(&key.network()) {
            Needed::Unknown => return None,
            Needed::Everywhere => None,
            Needed::On(nodes) => Some(nodes),
        };
        let labels = nodes.iter().map(|(name, node)| (name.clone(), &node.labels));
        Some(labels.filter(|(name, _)| needed.as_ref().is_none_or(|needed| needed.contains(name))).collect())
    }

    /// Who else needs the Uplinks of a network on its nodes, where somebody does.
    fn rivals_on(&self, key: &CrKey, cr: &Cr, active: &ActiveNodes<'_>, sight: &Sight) -> RivalNames {
        let pairs = active.keys().flat_map(|node| cr.uplinks.iter().map(move |uplink| (uplink, node)));
        let found = pairs.filter_map(|(uplink, node)| {
            let found = self.rivals.of(key, uplink, rivals::bridge(sight, uplink, node), node);
            let names: Vec<String> = found.iter().map(|other| other.name().to_owned()).collect();
            (!names.is_empty()).then(|| ((uplink.clone(), node.clone()), names))
        });
        found.collect()
    }

    /// Takes over what a network needs for itself; returns the others that this concerns.
    fn claim(&self, key: &CrKey, cr: &Cr, active: &ActiveNodes<'_>, sight: &Sight) -> BTreeSet<CrKey> {
        // Where nothing can be told, it is as it was.
        let claims = rivals::claims(cr, active, &self.advertisers, sight);
        claims.map(|claims| self.rivals.set(key, claims)).unwrap_or_default()
    }

    fn sight(&self, cr: &Cr) -> Sight {
        // States first: see `observe::world`.
        let states = self.stores.states.snapshot();
        let snapshot = self.stores.uplinks.snapshot();
        let look = |name: &String| {
            let key = UplinkName::from(name.as_str());
            let watched = snapshot.lookup(name.as_str());
            match watched {
                Lookup::Unreadable(error) => Some((name.clone(), Err(error.to_owned()))),
                _ => self.stores.written.newest(&key, &watched).map(|uplink| (name.clone(), Ok(uplink))),
            }
        };
        let uplinks = cr.uplinks.iter().filter_map(look).collect();
        Sight { uplinks, states, rivals: BTreeMap::new() }
    }
}

/// The Uplinks of one network, and all states.
struct Sight {
    uplinks: BTreeMap<String, Result<std::sync::Arc<Uplink>, String>>,
    states: Snapshot<StateKey, State>,
    rivals: RivalNames,
}

/// Who else needs an Uplink on a node.
type RivalNames = BTreeMap<(String, NodeName), Vec<String>>;

impl View for Sight {
    fn uplink(&self, name: &str) -> Found<'_, UplinkFacts> {
        match self.uplinks.get(name) {
            Some(Ok(uplink)) => Found::Present(&uplink.facts),
            Some(Err(error)) => Found::Unreadable(error),
            None => Found::Absent,
        }
    }

    fn state(&self, name: &StateName) -> Found<'_, StateFacts> {
        match self.states.lookup(name.as_str()) {
            Lookup::Present(state) => Found::Present(&state.facts),
            Lookup::Unreadable(error) => Found::Unreadable(error),
            Lookup::Absent => Found::Absent,
        }
    }

    fn rivals(&self, uplink: &str, node: &NodeName) -> Vec<String> {
        self.rivals.get(&(uplink.to_owned(), node.clone())).cloned().unwrap_or_default()
    }
}
