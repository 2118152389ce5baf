//! What Uplinks have left behind once they are switched off: our finalizer on them, which would keep them from going for
//! ever, and what networks say of them, which nobody keeps true any more. Upstream leaves both.
//!
//! Looked at once in each term; nothing of it comes anew. The Uplinks themselves and their UplinkStates stay: those that are
//! deleted take their states with them, as owners do.

use std::fmt;

use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::manager::FieldManager;
use causeway_api::network_condition::NetworkCondition;
use causeway_api::uplink::{UPLINK_FINALIZER, Uplink};
use causeway_runtime::engine::{KeyQueue, Requeue, Retry, Retryable, Room};
use causeway_runtime::leader::Leadership;
use causeway_runtime::writer::{WriteError, WriteMetrics, Writer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tracing::info;

use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey};

/// Takes away what Uplinks have left behind.
#[derive(Clone)]
pub(super) struct Leftovers {
    client: Client,
    writer: Writer,
    stores: Stores,
    pub(super) queue: KeyQueue<Everything>,
}

/// The only key: all of it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Everything;

impl fmt::Display for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("everything")
    }
}

/// Why something could not be taken away.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeftoverError {
    /// The Uplinks could not be listed.
    #[error("cannot list Uplinks, which are switched off, to let them go")]
    List(#[source] Box<kube::Error>),
    /// An Uplink or a network could not be written.
    #[error("cannot take away what switched-off Uplinks left behind on {object}")]
    Write {
        /// Which.
        object: String,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for LeftoverError {
    fn retry(&self) -> Retry {
        match self {
            Self::List(_) => Retry::Backoff,
            Self::Write { source, .. } => source.retry(),
        }
    }
}

impl Room for Leftovers {
    const NAME: &'static str = "uplinks-off";
    type Key = Everything;
    type Error = LeftoverError;

    async fn reconcile(&self, _: &Everything) -> Result<Requeue, LeftoverError> {
        self.let_uplinks_go().await?;
        for (key, cr) in self.stores.cudns().iter() {
            self.withdraw(key, cr).await?;
        }
        Ok(Requeue::Gone)
    }
}

impl Leftovers {
    pub(super) fn new(
        client: &Client,
        metrics: WriteMetrics,
        leadership: Leadership,
        stores: Stores,
    ) -> Self {
        let writer = Writer::new(FieldManager::ClusterManagerUplink.as_str(), metrics).fenced(leadership);
        Self { client: client.clone(), writer, stores, queue: KeyQueue::default() }
    }

    async fn let_uplinks_go(&self) -> Result<(), LeftoverError> {
        let listed = Api::<Uplink>::all(self.client.clone()).list_metadata(&ListParams::default()).await;
        let uplinks = match listed {
            Ok(list) => list.items,
            // Nobody ever installed them.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(LeftoverError::List(Box::new(error))),
        };
        let api: Api<PartialObjectMeta<Uplink>> = Api::all(self.client.clone());
        for uplink in
            uplinks.iter().filter(|uplink| uplink.finalizers().iter().any(|one| one == UPLINK_FINALIZER))
        {
            let rest: Vec<&String> =
                uplink.finalizers().iter().filter(|one| *one != UPLINK_FINALIZER).collect();
            let patch = json!({"metadata": {
                "uid": uplink.uid(), "resourceVersion": uplink.resource_version(), "finalizers": rest,
            }});
            let name = uplink.name_any();
            Self::written(format!("Uplink {name}"), self.writer.merge(&api, &name, &patch).await)?;
        }
        Ok(())
    }

    async fn withdraw(&self, key: &CrKey, cr: &Cr) -> Result<(), LeftoverError> {
        let is_ours = |condition: &&Condition| condition.type_ == NetworkCondition::UplinksReady.as_str();
        if !cr.conditions.iter().any(|condition| is_ours(&condition)) {
            return Ok(());
        }
        let rest: Vec<&Condition> = cr.conditions.iter().filter(|condition| !is_ours(condition)).collect();
        let patch = json!({
            "metadata": {"uid": cr.uid, "resourceVersion": cr.version}, "status": {"conditions": rest},
        });
        let api: Api<ClusterUserDefinedNetwork> = Api::all(self.client.clone());
        Self::written(key.to_string(), self.writer.merge_status(&api, key.name(), &patch).await)
    }

    fn written<T>(object: String, answer: Result<T, WriteError>) -> Result<(), LeftoverError> {
        match answer {
            Ok(_) => {
                info!(object, "Uplinks are switched off: what they left behind is taken away");
                Ok(())
            }
            Err(WriteError::NotFound(_)) => Ok(()),
            Err(source) => Err(LeftoverError::Write { object, source }),
        }
    }
}
