//! NetworkAttachmentDefinitions, cut down to what the rooms of tenant networks read.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_api::nad::{
    Config, GatewayMode, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec, ReadError,
};
use causeway_api::network_condition::NETWORK_FINALIZER;
use causeway_net::network::name::{NadKey, Namespace, NetworkName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use serde::Deserialize;

use super::cr::CrKey;
use crate::written::Versioned;

/// The watched part of a NetworkAttachmentDefinition: all but what its metadata says of field managers.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = NetworkAttachmentDefinition)]
pub(crate) struct WatchedNad {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    spec: NetworkAttachmentDefinitionSpec,
}

/// The object that controls a NetworkAttachmentDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    /// Which it is.
    pub(crate) cr: CrKey,
    /// Its uid: another object of that name controls nothing.
    pub(crate) uid: String,
}

/// A NetworkAttachmentDefinition as the rooms of tenant networks see it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nad {
    /// `metadata.uid`.
    pub(crate) uid: String,
    /// `metadata.resourceVersion`.
    pub(crate) version: Option<String>,
    /// When it was made, in seconds since 1970: numbers go to the older one first.
    pub(crate) created: i64,
    /// Labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Owner references as they stand.
    pub(crate) owners: Vec<OwnerReference>,
    /// The network object that controls it, if one does.
    pub(crate) controller: Option<Controller>,
    /// Every finalizer.
    pub(crate) finalizers: Vec<String>,
    /// Whether it is being deleted.
    pub(crate) terminating: bool,
    /// Its config as text.
    pub(crate) config: Arc<str>,
    /// Its config, or why it cannot be used.
    pub(crate) content: Result<Arc<Config>, Arc<ReadError>>,
}

/// The key of a NetworkAttachmentDefinition; none for one without namespace or name, which the API server never sends.
pub(crate) fn key(meta: &ObjectMeta) -> Option<NadKey> {
    Some(NadKey::new(Namespace::from(meta.namespace.as_deref()?), meta.name.as_deref()?))
}

impl Nad {
    /// From the API object; none for one without uid, which the API server never sends.
    pub(crate) fn of(nad: WatchedNad, mode: GatewayMode) -> Option<Self> {
        let key = key(&nad.metadata)?;
        let content = Config::read(&nad.spec.config, &key.to_string(), mode);
        let (content, namespace) = (content.map(Arc::new).map_err(Arc::new), key.namespace());
        let owners = nad.metadata.owner_references.unwrap_or_default();
        Some(Self {
            uid: nad.metadata.uid?,
            version: nad.metadata.resource_version,
            created: nad.metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            labels: nad.metadata.labels.unwrap_or_default(),
            annotations: nad.metadata.annotations.unwrap_or_default(),
            controller: owners.iter().find_map(|owner| controller(owner, namespace)),
            owners,
            finalizers: nad.metadata.finalizers.unwrap_or_default(),
            terminating: nad.metadata.deletion_timestamp.is_some(),
            config: nad.spec.config.into(),
            content,
        })
    }

    /// Whether our finalizer keeps it.
    pub(crate) fn is_protected(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == NETWORK_FINALIZER)
    }

    /// Whether an object of this uid controls it.
    pub(crate) fn is_of(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.uid == uid)
    }

    /// Its config, where it is one of ours that can be used.
    pub(crate) fn config(&self) -> Option<&Arc<Config>> {
        self.content.as_ref().ok()
    }

    /// Name of its network, where it is one of ours that can be used.
    pub(crate) fn network(&self) -> Option<NetworkName> {
        self.config().map(|config| NetworkName::from(config.name.as_str()))
    }

    /// Whether it is of a primary network of ours.
    pub(crate) fn is_primary(&self) -> bool {
        self.config().is_some_and(|config| config.is_primary())
    }
}

impl Versioned for Nad {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

fn controller(owner: &OwnerReference, namespace: &Namespace) -> Option<Controller> {
    if owner.controller != Some(true) {
        return None;
    }
    let cr = match owner.kind.as_str() {
        "UserDefinedNetwork" => CrKey::Udn(NadKey::new(namespace.clone(), &owner.name)),
        "ClusterUserDefinedNetwork" => CrKey::Cudn(owner.name.as_str().into()),
        _ => return None,
    };
    Some(Controller { cr, uid: owner.uid.clone() })
}
