//! The conditions `NetworkAllocationSucceeded` and `NodesSelected` of networks.

use causeway_api::condition::{self, ConditionStatus, Wanted};
use causeway_api::manager::FieldManager;
use causeway_api::network_condition::{AllocationReason, NetworkCondition};
use causeway_net::activity::Mode;
use causeway_net::network::name::{NadKey, NetworkName};
use causeway_net::network_condition::{allocation_succeeded, nodes_selected};
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::writer::{WriteError, Writer};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client};

use super::Book;
use super::ledger::Fare;
use super::nads::Refused;
use crate::expected::Expected;
use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey, WatchedCudn, WatchedUdn};

/// Tells how networks fare.
#[derive(Clone)]
pub(super) struct Statuses {
    client: Client,
    /// Of `NetworkAllocationSucceeded`.
    allocation: Writer,
    /// Of `NodesSelected`.
    activity: Writer,
    book: Book,
    stores: Stores,
    refused: Refused,
    expected: Expected<CrKey>,
}

/// Why the condition of a network could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status of {network}")]
pub(super) struct StatusError {
    /// The object.
    network: CrKey,
    /// Why.
    #[source]
    source: WriteError,
}

impl Retryable for StatusError {
    fn retry(&self) -> Retry {
        self.source.retry()
    }
}

impl Room for Statuses {
    const NAME: &'static str = "network-allocation";
    type Key = NetworkName;
    type Error = StatusError;

    async fn reconcile(&self, network: &NetworkName) -> Result<Requeue, StatusError> {
        let Some(key) = CrKey::of_network(network) else { return Ok(Requeue::Gone) };
        if self.book.turns.waits(network) {
            return Ok(Requeue::Done);
        }
        // An object that cannot be read is told nothing.
        let Ok(Some(cr)) = self.stores.cr(&key) else {
            self.expected.set(&key, Vec::new());
            return Ok(Requeue::Gone);
        };
        let told = condition::find(&cr.conditions, NetworkCondition::NetworkAllocationSucceeded.as_str());
        let told = told.map(|told| told.message.as_str());
        let own = self.stores.index.controlled_by(&key);
        let (known, mode) = {
            let mut ledger = self.book.lock();
            let is_it = ledger.is_of(network, &own);
            (is_it.then(|| (ledger.fare(network, told), ledger.rendered(network))), ledger.plan().mode)
        };
        let (fare, rendered) = known.unwrap_or_else(|| (self.refusal(&own), None));
        // What was said of a network that has no definition any more: nobody lacks anything, and it is on no node. And where
        // networks do not follow pods any more nobody counts nodes.
        let is_nowhere = own.is_empty();
        let counted = condition::find(&cr.conditions, NetworkCondition::NodesSelected.as_str()).is_some();
        let rests = (is_nowhere && told.is_some()).then(|| allocation_succeeded(None));
        let rendered = rendered.or((is_nowhere && counted && mode != Mode::Everywhere).then_some(0));
        let generation = |wanted: Wanted| Wanted { observed_generation: cr.generation, ..wanted };
        let allocated = allocated(fare).or(rests).map(generation);
        let selected = rendered.map(nodes_selected).map(generation);
        self.expected.set(&key, allocated.iter().chain(&selected).cloned().collect());
        if cr.terminating {
            return Ok(Requeue::Done);
        }
        for (writer, wanted) in [(&self.allocation, allocated), (&self.activity, selected)] {
            if let Some(wanted) = wanted.filter(|wanted| !wanted.is_met_by(&cr.conditions)) {
                let condition = wanted.against(&cr.conditions, Timestamp::now());
                self.tell(&key, writer, &[condition]).await?;
            }
        }
        if counted && mode == Mode::Everywhere {
            self.tell(&key, &self.activity, &[]).await?;
        }
        Ok(Requeue::Done)
    }
}

impl Statuses {
    pub(super) fn new(
        client: &Client,
        hand: impl Fn(&'static str) -> Writer,
        book: &Book,
        stores: &Stores,
        refused: Refused,
    ) -> Self {
        Self {
            client: client.clone(),
            allocation: hand(FieldManager::NetworkCluster.as_str()),
            activity: hand(FieldManager::ClusterManager.as_str()),
            book: book.clone(),
            stores: stores.clone(),
            refused,
            expected: Expected::default(),
        }
    }

    /// How a network fares whose NetworkAttachmentDefinitions, if there are any, are of none: as one of them was told.
    fn refusal(&self, own: &[NadKey]) -> Fare {
        // One that is broken by hand is put right in a moment.
        let is_readable = |nad: &&NadKey| {
            let nad = self.stores.nad(nad).ok().flatten();
            nad.is_some_and(|nad| nad.content.is_ok())
        };
        let why = own.iter().filter(is_readable).find_map(|nad| self.refused.why(nad));
        why.map_or(Fare::NotManaged, |why| Fare::Badly(None, why))
    }

    /// A new term begins: nobody has been told anything.
    pub(super) fn begin(&self) {
        self.expected.forget_all();
    }

    /// Makes these the conditions of a writer; what else it said is withdrawn.
    async fn tell(&self, key: &CrKey, writer: &Writer, conditions: &[Condition]) -> Result<(), StatusError> {
        let body = key.status_body(conditions);
        let name = key.name();
        let written = match key {
            CrKey::Udn(nad) => {
                let api: Api<WatchedUdn> = Api::namespaced(self.client.clone(), nad.namespace().as_str());
                writer.apply_status(&api, name, &body).await.map(Cr::of_udn)
            }
            CrKey::Cudn(_) => {
                let api: Api<WatchedCudn> = Api::all(self.client.clone());
                writer.apply_status(&api, name, &body).await.map(Cr::of_cudn)
            }
        };
        match written {
            Ok(written) => {
                if let Some(written) = written {
                    self.stores.written_crs.remember(key, written);
                }
                Ok(())
            }
            Err(WriteError::NotFound(_)) => Ok(()),
            Err(source) => Err(StatusError { network: key.clone(), source }),
        }
    }

    /// Whether a change of an object concerns what is told here. Most changes are finalizers, conditions of others and what this
    /// process wrote itself.
    pub(super) fn is_news(&self, key: &CrKey, old: Option<&Cr>, new: Option<&Cr>) -> bool {
        let Some((old, new)) = old.zip(new) else { return true };
        let is_other =
            old.uid != new.uid || old.generation != new.generation || old.terminating != new.terminating;
        let own = [NetworkCondition::NetworkAllocationSucceeded, NetworkCondition::NodesSelected];
        let says_otherwise = own
            .map(NetworkCondition::as_str)
            .iter()
            .any(|type_| condition::find(&old.conditions, type_) != condition::find(&new.conditions, type_));
        is_other || (says_otherwise && !self.expected.are_met_by(key, &new.conditions))
    }
}

/// What `NetworkAllocationSucceeded` should say; none for a network that nothing is given out for.
fn allocated(fare: Fare) -> Option<Wanted> {
    match fare {
        Fare::NotManaged => None,
        Fare::Well => Some(allocation_succeeded(None)),
        Fare::Badly(Some(node), _) => Some(allocation_succeeded(Some(&node))),
        Fare::Badly(None, message) => Some(Wanted {
            type_: NetworkCondition::NetworkAllocationSucceeded.as_str(),
            status: ConditionStatus::False,
            reason: AllocationReason::InternalError.as_str(),
            message,
            observed_generation: None,
        }),
    }
}
