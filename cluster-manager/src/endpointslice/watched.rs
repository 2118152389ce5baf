//! EndpointSlices, cut down to what this room reads.

use std::fmt;
use std::sync::Arc;

use causeway_runtime::watch::NamespacedName;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::written::Versioned;

/// Label of every slice: who keeps it.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Its value on slices that Kubernetes keeps.
pub(super) const KUBERNETES: &str = "endpointslice-controller.k8s.io";
/// Its value on mirrors.
pub(super) const MIRRORS: &str = "endpointslice-mirror-controller.k8s.ovn.org";
/// Label of Kubernetes' slices: the Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of Kubernetes' slices of Services without an address.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Label of mirrors: the Service.
pub(super) const MIRRORED_SERVICE: &str = "k8s.ovn.org/service-name";
/// Annotation of mirrors: name of the slice that was mirrored.
pub(super) const SOURCE: &str = "k8s.ovn.org/source-endpointslice";
/// Annotation of mirrors: version of the slice that was mirrored. Upstream's documents call it a label; it is none.
pub(super) const SOURCE_VERSION: &str = "k8s.ovn.org/source-endpointslice-version";
/// Annotation of mirrors: network of the addresses.
pub(super) const NETWORK: &str = "k8s.ovn.org/endpointslice-network";

/// An EndpointSlice. As the key of this room: the one that is mirrored, also where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SliceKey(NamespacedName);

impl SliceKey {
    /// The key of an object; none for one without namespace, which the API server never sends.
    #[must_use]
    pub(super) fn of(meta: &ObjectMeta) -> Option<Self> {
        causeway_runtime::watch::namespaced_name(meta).map(Self)
    }

    /// From its parts.
    #[must_use]
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The namespace.
    #[must_use]
    pub(super) fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// The name in the namespace.
    #[must_use]
    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// A pod of the same namespace.
    #[must_use]
    pub(super) fn pod(&self, name: &str) -> NamespacedName {
        NamespacedName { namespace: self.0.namespace.clone(), name: name.to_owned() }
    }
}

impl fmt::Display for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a slice says about its Service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    /// Kind of its addresses.
    pub(super) address_type: String,
    /// Its endpoints, in their order.
    pub(super) endpoints: Vec<Endpoint>,
    /// Its ports.
    pub(super) ports: Vec<EndpointPort>,
}

/// An EndpointSlice that Kubernetes keeps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    /// Version of the object.
    pub(super) version: String,
    /// Its Service; empty where it names none.
    pub(super) service: String,
    /// Its owners: the Service.
    pub(super) owners: Vec<OwnerReference>,
    /// What its name was generated from, else its name.
    pub(super) prefix: String,
    /// What it says.
    pub(super) content: Content,
}

/// An EndpointSlice that this room keeps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mirror {
    /// Its key.
    pub(super) key: SliceKey,
    /// The slice that it mirrors.
    pub(super) source: SliceKey,
    /// uid of the object.
    pub(super) uid: String,
    /// Version of the object.
    pub(super) version: String,
    /// When it was made, in seconds since 1970.
    pub(super) created: i64,
    /// uids of whom it goes with.
    pub(super) owners: Vec<String>,
    /// Whether it is on its way out.
    pub(super) is_terminating: bool,
    /// Version of the slice that was mirrored.
    pub(super) source_version: Option<String>,
    /// Network of its addresses.
    pub(super) network: Option<String>,
    /// Its Service.
    pub(super) service: Option<String>,
    /// What it says.
    pub(super) content: Content,
}

/// An EndpointSlice as this room sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slice {
    /// Kubernetes' own.
    Source(Arc<Source>),
    /// Ours.
    Mirror(Arc<Mirror>),
}

impl Slice {
    /// From the API object. None for a slice that others keep, for one of a headless Service, and for a mirror that
    /// does not say of what.
    #[must_use]
    pub(super) fn of(slice: EndpointSlice) -> Option<Self> {
        let key = SliceKey::of(&slice.metadata)?;
        let EndpointSlice { metadata, address_type, endpoints, ports } = slice;
        let content = Content {
            address_type,
            endpoints: endpoints.unwrap_or_default(),
            ports: ports.unwrap_or_default(),
        };
        let mut labels = metadata.labels.unwrap_or_default();
        let mut annotations = metadata.annotations.unwrap_or_default();
        let version = metadata.resource_version.unwrap_or_default();
        match labels.get(MANAGED_BY)?.as_str() {
            KUBERNETES if !labels.contains_key(HEADLESS) => Some(Self::Source(Arc::new(Source {
                version,
                service: labels.remove(SERVICE_NAME).unwrap_or_default(),
                owners: metadata.owner_references.unwrap_or_default(),
                prefix: metadata
                    .generate_name
                    .filter(|prefix| !prefix.is_empty())
                    .unwrap_or_else(|| key.name().to_owned()),
                content,
            }))),
            MIRRORS => Some(Self::Mirror(Arc::new(Mirror {
                source: SliceKey::new(key.namespace(), annotations.get(SOURCE)?),
                key,
                uid: metadata.uid?,
                version,
                created: metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
                owners: metadata.owner_references.into_iter().flatten().map(|owner| owner.uid).collect(),
                is_terminating: metadata.deletion_timestamp.is_some(),
                source_version: annotations.remove(SOURCE_VERSION),
                network: annotations.remove(NETWORK),
                service: labels.remove(MIRRORED_SERVICE),
                content,
            }))),
            _ => None,
        }
    }

    /// It, if it is a mirror.
    #[must_use]
    pub(super) fn mirror(&self) -> Option<&Arc<Mirror>> {
        match self {
            Self::Mirror(mirror) => Some(mirror),
            Self::Source(_) => None,
        }
    }

    /// The slice that a change of this one is about: itself, or what it mirrors.
    #[must_use]
    pub(super) fn concerns(&self, key: &SliceKey) -> SliceKey {
        match self {
            Self::Source(_) => key.clone(),
            Self::Mirror(mirror) => mirror.source.clone(),
        }
    }
}

impl Versioned for Mirror {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> Option<&str> {
        Some(&self.version)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(labels: &Value, annotations: &Value) -> Option<Slice> {
        Slice::of(
            serde_json::from_value(json!({
                "metadata": {"namespace": "ns", "name": "web-x", "uid": "u", "resourceVersion": "7",
                    "labels": labels, "annotations": annotations},
                "addressType": "IPv4", "endpoints": null,
            }))
            .unwrap(),
        )
    }

    #[test]
    fn slices_that_others_keep_and_those_of_headless_services_are_left_out() {
        // Cases: slice with managed-by `my-controller`; headless service.
        assert_eq!(slice(&json!({MANAGED_BY: "my-controller"}), &json!({})), None);
        assert_eq!(slice(&json!({}), &json!({})), None);
        assert_eq!(slice(&json!({MANAGED_BY: KUBERNETES, HEADLESS: ""}), &json!({})), None);
        // Nobody can say what a mirror without its source is for.
        assert_eq!(slice(&json!({MANAGED_BY: MIRRORS}), &json!({})), None);
        assert!(matches!(slice(&json!({MANAGED_BY: KUBERNETES}), &json!({})), Some(Slice::Source(_))));
    }

    #[test]
    fn a_headless_mirror_is_a_mirror() {
        // Were it left out, a second one would be made beside it.
        let mirror = slice(&json!({MANAGED_BY: MIRRORS, HEADLESS: ""}), &json!({SOURCE: "web-y"})).unwrap();
        assert_eq!(mirror.concerns(&SliceKey::new("ns", "web-x")), SliceKey::new("ns", "web-y"));
    }
}
