//! Watched objects cut down to what the rules read, with everything parsed once, when the object changes.

use std::collections::BTreeMap;

use causeway_api::annotation::{self, DefaultGateway, GatewayAnnotationError};
use causeway_api::uplink::Uplink;

use crate::selection::{InvalidNodeSelector, NodeConfigs};

/// An Uplink as the rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct UplinkFacts {
    /// Name of the Uplink.
    pub name: String,
    /// Its uid: another one under the same name is another Uplink.
    pub uid: String,
    /// Whether it is being deleted and only held by a finalizer.
    pub terminating: bool,
    /// Its entries, or why they cannot be used.
    pub configs: Result<NodeConfigs, InvalidNodeSelector>,
}

impl UplinkFacts {
    /// From the API object; none for an object without name or uid, which the API server never sends.
    #[must_use]
    pub fn of(uplink: &Uplink) -> Option<Self> {
        Some(Self {
            name: uplink.metadata.name.clone()?,
            uid: uplink.metadata.uid.clone()?,
            terminating: uplink.metadata.deletion_timestamp.is_some(),
            configs: NodeConfigs::parse(&uplink.spec),
        })
    }
}

/// The node that an agent serves, as discovery sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Name of the Node object.
    pub name: String,
    /// Labels, for the selectors.
    pub labels: BTreeMap<String, String>,
    /// The default gateway's bridge, or why it is not known.
    pub default_gateway: Result<DefaultGateway, GatewayAnnotationError>,
}

impl NodeFacts {
    /// From the Node's metadata.
    #[must_use]
    pub fn of(name: &str, labels: BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Self {
        let default_gateway = annotation::default_gateway(name, annotations);
        Self { name: name.to_owned(), labels, default_gateway }
    }
}
