//! NetworkAttachmentDefinitions: each becomes part of a network and carries that network's numbers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_api::manager::FieldManager;
use causeway_api::nad::{
    Config, DEFAULT_NETWORK_CONFIG, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec, ReadError,
};
use causeway_api::network_condition::NetworkEvent;
use causeway_net::network::name::{NadKey, NetworkName};
use causeway_net::render::layer3_subnets;
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::events::{Happening, Recorder, Severity};
use causeway_runtime::watch::Lookup;
use causeway_runtime::writer::{WriteError, Writer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use super::ledger::{Identity, Joined};
use super::{Book, Wake};
use crate::observed::cr::CrKey;
use crate::observed::nad::{Nad, WatchedNad};
use crate::observed::{Stores, Unreadable};

/// Brings networks in and out, by NetworkAttachmentDefinition.
#[derive(Clone)]
pub(super) struct Nads {
    client: Client,
    writer: Writer,
    book: Book,
    pub(super) stores: Stores,
    wake: Wake,
    told: Told,
    /// The default network's, where workloads may bring addresses: pods name it to ask for one.
    default: Option<NadKey>,
}

/// Tells people what is wrong with a NetworkAttachmentDefinition, once for each text.
#[derive(Clone, Debug)]
struct Told {
    recorder: Recorder,
    last: Refused,
}

/// NetworkAttachmentDefinitions that are of no network, with what people were told of it; without a word one that waits for
/// others. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused(Arc<Mutex<HashMap<NadKey, Option<String>>>>);

impl Refused {
    /// Why it is of no network.
    pub(super) fn why(&self, key: &NadKey) -> Option<String> {
        self.lock().get(key).cloned().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NadKey, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a look at a NetworkAttachmentDefinition failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NadError {
    /// It exists, but not in a form that this version understands.
    #[error("NetworkAttachmentDefinition {nad} cannot be read ({error}); its network is left alone")]
    Unreadable {
        /// Which.
        nad: NadKey,
        /// What is wrong with it.
        error: Unreadable,
    },
    /// That of the default network could not be made.
    #[error("cannot create NetworkAttachmentDefinition {nad} of the default network")]
    Default {
        /// Which.
        nad: NadKey,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// Its annotations could not be written.
    #[error("cannot annotate NetworkAttachmentDefinition {nad}")]
    Annotate {
        /// Which.
        nad: NadKey,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for NadError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unreadable { .. } => Retry::Never,
            Self::Default { source, .. } | Self::Annotate { source, .. } => source.retry(),
        }
    }
}

impl Room for Nads {
    const NAME: &'static str = "nad";
    type Key = NadKey;
    type Error = NadError;

    async fn reconcile(&self, key: &NadKey) -> Result<Requeue, NadError> {
        let nad = self.stores.nad(key).map_err(|error| NadError::Unreadable { nad: key.clone(), error })?;
        let Some(nad) = nad else {
            self.gone(key);
            self.told.forget(key);
            if self.default.as_ref() != Some(key) {
                return Ok(Requeue::Gone);
            }
            self.create_default(key).await?;
            return Ok(Requeue::Done);
        };
        match nad.content.as_ref() {
            Ok(config) if config.is_default_network() => {
                self.gone(key);
                self.told.forget(key);
            }
            // Its network stays what it is, with its ids, for the moment that somebody's edit lasts.
            Ok(config) if self.is_put_right(&nad, config) => {}
            Ok(config) => match self.book.accepts(key, &nad, config) {
                Ok(()) => self.join(key, &nad, config).await?,
                Err(error) => self.refuse(key, &nad, &format!("Failed to parse network config: {error}")),
            },
            Err(error) if **error == ReadError::NotManaged => {
                self.gone(key);
                self.told.forget(key);
            }
            // A network whose config is broken by hand stays what it was: its pods go on.
            Err(error) => self.told.tell(key, &nad, &format!("Failed to parse network config: {error}")),
        }
        Ok(Requeue::Done)
    }
}

impl Nads {
    pub(super) fn new(
        client: &Client,
        hand: impl Fn(&'static str) -> Writer,
        book: &Book,
        stores: &Stores,
        wake: &Wake,
        recorder: &Recorder,
        default: Option<NadKey>,
    ) -> Self {
        Self {
            client: client.clone(),
            writer: hand(FieldManager::NadController.as_str()),
            book: book.clone(),
            stores: stores.clone(),
            wake: wake.clone(),
            told: Told { recorder: recorder.clone(), last: Refused::default() },
            default,
        }
    }

    /// Those that are of no network.
    pub(super) fn refused(&self) -> Refused {
        self.told.last.clone()
    }

    /// The one that has to be there whoever made it.
    pub(super) const fn default_nad(&self) -> Option<&NadKey> {
        self.default.as_ref()
    }

    /// A new term begins: what was told before may not be so any more.
    pub(super) fn begin(&self) {
        self.told.forget_all();
    }

    async fn create_default(&self, key: &NadKey) -> Result<(), NadError> {
        let spec = NetworkAttachmentDefinitionSpec { config: DEFAULT_NETWORK_CONFIG.to_owned() };
        let api: Api<WatchedNad> = Api::namespaced(self.client.clone(), key.namespace().as_str());
        let nad = NetworkAttachmentDefinition::new(key.name(), spec);
        match self.writer.create(&api, &nad).await {
            Ok(_) | Err(WriteError::Exists(_)) => Ok(()),
            Err(source) => Err(NadError::Default { nad: key.clone(), source }),
        }
    }

    async fn join(&self, key: &NadKey, nad: &Nad, config: &Arc<Config>) -> Result<(), NadError> {
        let meant = self.meant(nad);
        let (joined, stir) = self.book.lock().join(key, nad, config, meant.as_ref(), Timestamp::now());
        match &joined {
            Joined::Of { network, .. } => self.book.stirred_of(network, stir),
            Joined::Pending | Joined::Refused(_) => self.wake.stirred(stir),
        }
        self.book.relieve();
        match joined {
            Joined::Of { identity, network } => {
                self.told.forget(key);
                // Others of the network may have waited for this one to say what they say.
                self.look_again(key, &network);
                self.wake.statuses([network]);
                self.annotate(key, nad, identity).await
            }
            Joined::Pending => {
                self.told.note(key);
                Ok(())
            }
            Joined::Refused(refusal) => {
                self.refuse(key, nad, &refusal.to_string());
                // A leader that died may have been about to make it: whoever it is of takes it back.
                if let Some(controller) = nad.controller.as_ref().filter(|_| refusal.is_second_primary()) {
                    self.wake.network(controller.cr.clone());
                }
                Ok(())
            }
        }
    }

    /// It can be read and is of no network.
    fn refuse(&self, key: &NadKey, nad: &Nad, text: &str) {
        self.told.tell(key, nad, text);
        // Where a network object made it, that says so as well.
        self.wake.statuses(nad.controller.as_ref().map(|controller| controller.cr.network()));
    }

    fn gone(&self, key: &NadKey) {
        let now = Timestamp::now();
        let left = self.book.lock().leave(key, |network| self.comes_back(key, network), now);
        let Some((network, stir)) = left else { return };
        self.wake.stirred(stir);
        self.book.relieve();
        if !self.book.lock().knows(&network) {
            self.book.scale().forget(&network);
        }
        self.wake.statuses([network.clone()]);
        self.look_again(key, &network);
    }

    /// Others of the namespace, or of the network, may have waited for a change of this one.
    fn look_again(&self, key: &NadKey, network: &NetworkName) {
        for other in self.told.all().iter().filter(|other| *other != key) {
            let concerned = other.namespace() == key.namespace() || {
                let nad = self.stores.nad(other).ok().flatten();
                nad.is_some_and(|nad| nad.network().as_ref() == Some(network))
            };
            if concerned {
                self.wake.nad(other);
            }
        }
    }

    /// Whether a network object makes a NetworkAttachmentDefinition that is gone again, and of that network: then the
    /// network keeps its numbers.
    fn comes_back(&self, key: &NadKey, network: &NetworkName) -> bool {
        let wants = |cr: &CrKey| {
            let namespaces = self.stores.namespaces();
            let Lookup::Present(place) = namespaces.lookup(key.namespace()) else { return false };
            let Ok(Some(cr)) = self.stores.cr(cr) else { return false };
            let chosen = cr.namespaces.is_none() || cr.chooses(&place.labels);
            chosen && !cr.terminating && !place.terminating
        };
        let makers = [CrKey::Udn(key.clone()), CrKey::Cudn(key.name().into())];
        makers.iter().any(|cr| cr.network() == *network && wants(cr))
    }

    /// Whether a config says what the network object behind it never said: somebody edited it, and it is put right.
    fn is_put_right(&self, nad: &Nad, config: &Config) -> bool {
        let Some(controller) = &nad.controller else { return false };
        let Ok(Some(cr)) = self.stores.cr(&controller.cr) else { return false };
        let says_so = config.name == controller.cr.network().as_str()
            && config.topology.as_ref() == Some(&cr.network.topology)
            && config.is_primary() == cr.is_primary();
        cr.uid == controller.uid && !cr.terminating && !says_so
    }

    /// The subnets that the Layer3 network object behind a NetworkAttachmentDefinition has.
    fn meant(&self, nad: &Nad) -> Option<BTreeSet<String>> {
        let controller = nad.controller.as_ref()?;
        let cr = self.stores.cr(&controller.cr).ok()??;
        let layer3 = cr.network.layer3.as_ref().filter(|_| cr.uid == controller.uid && !cr.terminating)?;
        Some(layer3_subnets(layer3).into_iter().collect())
    }

    async fn annotate(&self, key: &NadKey, nad: &Nad, identity: Identity) -> Result<(), NadError> {
        let Some(network) = nad.network() else { return Ok(()) };
        let wanted = identity.annotations(&network);
        let changes: Map<String, Value> = wanted
            .into_iter()
            .filter(|(name, value)| nad.annotations.get(name) != Some(value))
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        if changes.is_empty() || nad.terminating {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "uid": nad.uid, "resourceVersion": nad.version, "annotations": changes,
        }});
        let api: Api<WatchedNad> = Api::namespaced(self.client.clone(), key.namespace().as_str());
        match self.writer.merge(&api, key.name(), &patch).await {
            Ok(written) => {
                if let Some(written) = Nad::of(written, self.stores.mode()) {
                    self.stores.written_nads.remember(key, written);
                }
                info!(nad = %key, network = %network, "NetworkAttachmentDefinition annotated");
                Ok(())
            }
            Err(WriteError::NotFound(_)) => Ok(()),
            Err(source) => Err(NadError::Annotate { nad: key.clone(), source }),
        }
    }
}

impl Told {
    fn tell(&self, key: &NadKey, nad: &Nad, text: &str) {
        let before = self.last.lock().insert(key.clone(), Some(text.to_owned()));
        if before.flatten().as_deref() == Some(text) {
            return;
        }
        warn!(nad = %key, problem = text, "NetworkAttachmentDefinition is of no network");
        let regarding = ObjectReference {
            api_version: Some("k8s.cni.cncf.io/v1".to_owned()),
            kind: Some("NetworkAttachmentDefinition".to_owned()),
            namespace: Some(key.namespace().as_str().to_owned()),
            name: Some(key.name().to_owned()),
            uid: Some(nad.uid.clone()),
            ..ObjectReference::default()
        };
        self.recorder.record(Happening {
            regarding,
            related: None,
            severity: Severity::Warning,
            reason: NetworkEvent::InvalidConfig.as_str().to_owned(),
            action: "JoinNetwork",
            note: text.to_owned(),
        });
    }

    /// Remembers one that waits for others.
    fn note(&self, key: &NadKey) {
        self.last.lock().entry(key.clone()).or_default();
    }

    /// All that are of no network, or wait.
    fn all(&self) -> Vec<NadKey> {
        self.last.lock().keys().cloned().collect()
    }

    fn forget(&self, key: &NadKey) {
        self.last.lock().remove(key);
    }

    fn forget_all(&self) {
        self.last.lock().clear();
    }
}
