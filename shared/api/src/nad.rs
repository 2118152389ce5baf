//! `NetworkAttachmentDefinition`: the namespaced object through which pods name a network.
//!
//! Its kind and definition belong to the Network Plumbing Working Group; Causeway owns what stands in `spec.config`
//! of those of its CNI type ([`Config`]) and some annotations ([`crate::annotation::network`]).
//!
//! Source: OVN-Kubernetes, go-controller/pkg/cni/types/types.go, go-controller/pkg/config/cni.go and
//! go-controller/pkg/util/multi_network.go.
//!
//! First file to read: `nad/config.rs`; `nad/read.rs` holds the way from text to [`Config`], with every refusal.

#![allow(unreachable_pub, reason = "CustomResource derives a struct beside each spec")]

mod compare;
mod config;
mod read;
mod render;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

pub use self::compare::Defaults;
pub use self::config::{Config, EvpnConfig, VrfConfig};
pub use self::read::{GatewayMode, ReadError};

/// CNI type of the networks that are Causeway's.
pub const CNI_TYPE: &str = "ovn-k8s-cni-overlay";

/// CNI version of rendered configs.
pub const CNI_VERSION: &str = "1.1.0";

/// Name of the cluster's default network.
pub const DEFAULT_NETWORK: &str = "default";

/// Config of the NetworkAttachmentDefinition of the default network, byte for byte as upstream creates it.
pub const DEFAULT_NETWORK_CONFIG: &str =
    r#"{"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}"#;

/// What a NetworkAttachmentDefinition says.
///
/// The definition asks for nothing: an object without a spec, or without a config, reads as one with an empty config.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(from = "Option<Fields>")]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI config as JSON text; whose it is follows from its `type`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub config: String,
}

/// The spec on the wire. Serde offers a missing field to types that may be absent, and only to those.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    config: Option<String>,
}

impl From<Option<Fields>> for NetworkAttachmentDefinitionSpec {
    fn from(fields: Option<Fields>) -> Self {
        Self { config: fields.and_then(|fields| fields.config).unwrap_or_default() }
    }
}

impl NetworkAttachmentDefinition {
    /// `<namespace>/<name>`, as configs and annotations name it.
    #[must_use]
    pub fn key(&self) -> String {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let name = self.metadata.name.as_deref().unwrap_or_default();
        format!("{namespace}/{name}")
    }

    /// Reads the config.
    ///
    /// # Errors
    /// [`ReadError::NotManaged`] where the network is not Causeway's, else what is wrong with it.
    pub fn read(&self, mode: GatewayMode) -> Result<Config, ReadError> {
        Config::read(&self.spec.config, &self.key(), mode)
    }
}

#[cfg(test)]
mod tests;
