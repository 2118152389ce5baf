//! The condition `NetworkAllocationSucceeded` of networks.

use causeway_api::condition::{ConditionStatus, Wanted};
use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::manager::FieldManager;
use causeway_api::network_condition::{AllocationReason, NetworkCondition};
use causeway_api::udn::UserDefinedNetwork;
use causeway_net::network::name::NetworkName;
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::writer::{WriteError, Writer};
use jiff::Timestamp;
use kube::{Api, Client};

use super::Book;
use super::ledger::Fare;
use crate::expected::Expected;
use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey};

/// Tells how networks fare.
#[derive(Clone)]
pub(super) struct Statuses {
    client: Client,
    writer: Writer,
    book: Book,
    stores: Stores,
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
        // An object that cannot be read is told nothing.
        let Ok(Some(cr)) = self.stores.cr(&key) else {
            self.expected.set(&key, Vec::new());
            return Ok(Requeue::Gone);
        };
        let fare = self.book.lock().fare(network);
        let Some(wanted) = wanted(&cr, fare) else {
            self.expected.set(&key, Vec::new());
            return Ok(Requeue::Done);
        };
        self.expected.set(&key, vec![wanted.clone()]);
        if wanted.is_met_by(&cr.conditions) || cr.terminating {
            return Ok(Requeue::Done);
        }
        let body = key.status_body(&[wanted.against(&cr.conditions, Timestamp::now())]);
        let name = key.name();
        let written = match &key {
            CrKey::Udn(nad) => {
                let api: Api<UserDefinedNetwork> =
                    Api::namespaced(self.client.clone(), nad.namespace().as_str());
                self.writer.apply_status(&api, name, &body).await.map(Cr::of_udn)
            }
            CrKey::Cudn(_) => {
                let api: Api<ClusterUserDefinedNetwork> = Api::all(self.client.clone());
                self.writer.apply_status(&api, name, &body).await.map(Cr::of_cudn)
            }
        };
        match written {
            Ok(written) => {
                if let Some(written) = written {
                    self.stores.written_crs.remember(&key, written);
                }
                Ok(Requeue::Done)
            }
            Err(WriteError::NotFound(_)) => Ok(Requeue::Done),
            Err(source) => Err(StatusError { network: key, source }),
        }
    }
}

impl Statuses {
    pub(super) fn new(
        client: &Client,
        hand: impl Fn(&'static str) -> Writer,
        book: &Book,
        stores: &Stores,
    ) -> Self {
        Self {
            client: client.clone(),
            writer: hand(FieldManager::NetworkCluster.as_str()),
            book: book.clone(),
            stores: stores.clone(),
            expected: Expected::default(),
        }
    }

    /// Whether an object says what was last wanted of it.
    pub(super) fn is_as_told(&self, key: &CrKey, cr: Option<&Cr>) -> bool {
        cr.is_some_and(|cr| self.expected.are_met_by(key, &cr.conditions))
    }
}

/// What the condition should say; none for a network that nothing is given out for.
fn wanted(cr: &Cr, fare: Fare) -> Option<Wanted> {
    let (status, reason, message) = match fare {
        Fare::NotManaged => return None,
        Fare::Well => (
            ConditionStatus::True,
            AllocationReason::Succeeded,
            "Network allocation succeeded for all synced nodes.".to_owned(),
        ),
        Fare::Badly(Some(node), _) => (
            ConditionStatus::False,
            AllocationReason::InternalError,
            format!(
                "Network allocation failed for at least one node: {node}, check UDN events for more info."
            ),
        ),
        Fare::Badly(None, error) => (ConditionStatus::False, AllocationReason::InternalError, error),
    };
    Some(Wanted {
        type_: NetworkCondition::NetworkAllocationSucceeded.as_str(),
        status,
        reason: reason.as_str(),
        message,
        observed_generation: cr.generation,
    })
}
