//! UserDefinedNetworks and ClusterUserDefinedNetworks, cut down to what the rooms of tenant networks read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use causeway_api::cudn::{
    ClusterUserDefinedNetwork, ClusterUserDefinedNetworkSpec, ClusterUserDefinedNetworkStatus,
};
use causeway_api::network::{NetworkSpec, Role};
use causeway_api::network_condition::NETWORK_FINALIZER;
use causeway_api::udn::{UserDefinedNetwork, UserDefinedNetworkSpec, UserDefinedNetworkStatus};
use causeway_api::{GROUP, V1};
use causeway_net::namespaces::{BadNamespaceSelector, NamespaceSelector};
use causeway_net::network::name::{NadKey, Namespace, NetworkName, Origin};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::expected::Expected;
use crate::written::Versioned;

/// Annotations with this prefix are not for the NetworkAttachmentDefinitions of a network.
const OWN_PREFIX: &str = "k8s.ovn.org";

/// Which network object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CrKey {
    /// A UserDefinedNetwork: its NetworkAttachmentDefinition has the same namespace and name.
    Udn(NadKey),
    /// A ClusterUserDefinedNetwork, by name.
    Cudn(Arc<str>),
}

impl CrKey {
    /// Kind of the object.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Udn(_) => "UserDefinedNetwork",
            Self::Cudn(_) => "ClusterUserDefinedNetwork",
        }
    }

    /// Name of the object, and of its NetworkAttachmentDefinitions.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Udn(key) => key.name(),
            Self::Cudn(name) => name,
        }
    }

    /// Namespace of the object; none for a ClusterUserDefinedNetwork.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Udn(key) => Some(key.namespace()),
            Self::Cudn(_) => None,
        }
    }

    /// Name of the network that it describes.
    pub(crate) fn network(&self) -> NetworkName {
        match self {
            Self::Udn(key) => NetworkName::of_udn(key.namespace().as_str(), key.name()),
            Self::Cudn(name) => NetworkName::of_cudn(name),
        }
    }

    /// The object that a network's name says it belongs to; none for the default network and for those made by hand.
    pub(crate) fn of_network(network: &NetworkName) -> Option<Self> {
        match network.origin() {
            Origin::Udn { namespace, name } => Some(Self::Udn(NadKey::new(namespace, name))),
            Origin::Cudn { name } => Some(Self::Cudn(name.into())),
            Origin::Default | Origin::Other => None,
        }
    }

    /// What an apply of the object's metadata or status begins with. With `uid`, the API server neither writes to another
    /// object of the name nor makes one; on the status subresource it does not look at it.
    pub(crate) fn body(&self, uid: Option<&str>) -> Value {
        let mut metadata = json!({ "name": self.name() });
        if let Some(fields) = metadata.as_object_mut() {
            let namespace = self.namespace().map(Namespace::as_str);
            fields.extend(namespace.map(|namespace| ("namespace".to_owned(), json!(namespace))));
            fields.extend(uid.map(|uid| ("uid".to_owned(), json!(uid))));
        }
        json!({"apiVersion": format!("{GROUP}/{V1}"), "kind": self.kind(), "metadata": metadata})
    }

    /// An apply of conditions.
    pub(crate) fn status_body(&self, conditions: &[Condition]) -> Value {
        let mut body = self.body(None);
        if let Some(fields) = body.as_object_mut() {
            fields.insert("status".to_owned(), json!({ "conditions": conditions }));
        }
        body
    }

    /// The object as Events name it.
    pub(crate) fn reference(&self, uid: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some(format!("{GROUP}/{V1}")),
            kind: Some(self.kind().to_owned()),
            namespace: self.namespace().map(|namespace| namespace.as_str().to_owned()),
            name: Some(self.name().to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }

    /// The NetworkAttachmentDefinition of the network in a namespace.
    pub(crate) fn nad_in(&self, namespace: &Namespace) -> NadKey {
        NadKey::new(namespace.clone(), self.name())
    }
}

impl fmt::Display for CrKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udn(key) => write!(f, "UserDefinedNetwork {key}"),
            Self::Cudn(name) => write!(f, "ClusterUserDefinedNetwork {name}"),
        }
    }
}

/// The watched part of a UserDefinedNetwork: all but what its metadata says of field managers.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = UserDefinedNetwork)]
pub(crate) struct WatchedUdn {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    metadata: ObjectMeta,
    spec: UserDefinedNetworkSpec,
    status: Option<UserDefinedNetworkStatus>,
}

/// The same of a ClusterUserDefinedNetwork.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ClusterUserDefinedNetwork)]
pub(crate) struct WatchedCudn {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    metadata: ObjectMeta,
    spec: ClusterUserDefinedNetworkSpec,
    status: Option<ClusterUserDefinedNetworkStatus>,
}

/// Namespaces that a ClusterUserDefinedNetwork is for.
pub(crate) type Choice = Result<NamespaceSelector, BadNamespaceSelector>;

/// A network object of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cr {
    /// `metadata.uid`.
    pub(crate) uid: String,
    /// `metadata.resourceVersion`.
    pub(crate) version: Option<String>,
    /// `metadata.generation`.
    pub(crate) generation: Option<i64>,
    /// When it was made, in seconds since 1970: ids go to the older one first.
    pub(crate) created: i64,
    /// Whether it is being deleted.
    pub(crate) terminating: bool,
    /// Every finalizer.
    pub(crate) finalizers: Vec<String>,
    /// Labels: the NetworkAttachmentDefinitions get them.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations that the NetworkAttachmentDefinitions get.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The network.
    pub(crate) network: NetworkSpec,
    /// Namespaces of a ClusterUserDefinedNetwork; none for a UserDefinedNetwork.
    pub(crate) namespaces: Option<Choice>,
    /// Names of Uplinks.
    pub(crate) uplinks: Vec<String>,
    /// Conditions as they stand.
    pub(crate) conditions: Vec<Condition>,
}

impl Cr {
    /// From a UserDefinedNetwork; none for one without uid, which the API server never sends.
    pub(crate) fn of_udn(udn: WatchedUdn) -> Option<Self> {
        let network = udn.spec.network();
        let conditions = udn.status.map(|status| status.conditions).unwrap_or_default();
        Self::of(udn.metadata, network, conditions)
    }

    /// From a ClusterUserDefinedNetwork; none for one without uid, which the API server never sends.
    pub(crate) fn of_cudn(cudn: WatchedCudn) -> Option<Self> {
        let namespaces = Some(NamespaceSelector::parse(&cudn.spec.namespace_selector));
        let conditions = cudn.status.map(|status| status.conditions).unwrap_or_default();
        let cr = Self::of(cudn.metadata, cudn.spec.network, conditions)?;
        Some(Self { namespaces, uplinks: cudn.spec.uplinks, ..cr })
    }

    fn of(meta: ObjectMeta, network: NetworkSpec, conditions: Vec<Condition>) -> Option<Self> {
        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.retain(|key, _| !key.starts_with(OWN_PREFIX));
        Some(Self {
            uid: meta.uid?,
            version: meta.resource_version,
            generation: meta.generation,
            created: meta.creation_timestamp.map_or(0, |time| time.0.as_second()),
            terminating: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            annotations,
            network,
            namespaces: None,
            uplinks: Vec::new(),
            conditions,
        })
    }

    /// Whether the network is the primary one of its namespaces.
    pub(crate) fn is_primary(&self) -> bool {
        let network = &self.network;
        let roles =
            [network.layer2.as_ref().map(|part| &part.role), network.layer3.as_ref().map(|part| &part.role)];
        roles.into_iter().flatten().any(|role| *role == Role::Primary)
    }

    /// Whether our finalizer keeps it.
    pub(crate) fn is_protected(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == NETWORK_FINALIZER)
    }

    /// Whether a ClusterUserDefinedNetwork is for a namespace with these labels.
    pub(crate) fn chooses(&self, labels: &BTreeMap<String, String>) -> bool {
        matches!(&self.namespaces, Some(Ok(selector)) if selector.selects(labels))
    }

    /// Whether the two differ in more than their status and version.
    pub(crate) fn differs_beyond_status(&self, other: &Self) -> bool {
        let Self {
            uid,
            version: _,
            generation,
            created,
            terminating,
            finalizers,
            labels,
            annotations,
            network,
            namespaces,
            uplinks,
            conditions: _,
        } = self;
        generation != &other.generation
            || uid != &other.uid
            || created != &other.created
            || terminating != &other.terminating
            || finalizers != &other.finalizers
            || labels != &other.labels
            || annotations != &other.annotations
            || uplinks != &other.uplinks
            || namespaces != &other.namespaces
            || network != &other.network
    }
}

impl Expected<CrKey> {
    /// Whether a change is no more than the echo of what was wanted.
    pub(crate) fn are_echoed(&self, key: &CrKey, old: Option<&Cr>, new: Option<&Cr>) -> bool {
        old.zip(new).is_some_and(|(old, new)| {
            !new.differs_beyond_status(old) && self.are_met_by(key, &new.conditions)
        })
    }
}

impl Versioned for Cr {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::fixtures::{cudn, layer2_secondary, layer3, terminating, udn, with};

    fn of_cudn(object: Value) -> Cr {
        Cr::of_cudn(serde_json::from_value(object).unwrap()).unwrap()
    }

    fn of_udn(object: Value) -> Cr {
        Cr::of_udn(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn keys_name_the_object_its_network_and_its_definitions() {
        let udn = CrKey::Udn(NadKey::new("blue", "net"));
        assert_eq!(udn.to_string(), "UserDefinedNetwork blue/net");
        assert_eq!(
            (udn.network().as_str(), udn.nad_in(&"blue".into()).to_string()),
            ("blue_net", "blue/net".into())
        );
        let cudn = CrKey::Cudn("prod".into());
        assert_eq!(cudn.to_string(), "ClusterUserDefinedNetwork prod");
        assert_eq!(
            (cudn.network().as_str(), cudn.nad_in(&"blue".into()).to_string()),
            ("cluster_udn_prod", "blue/prod".into())
        );
        for key in [&udn, &cudn] {
            assert_eq!(CrKey::of_network(&key.network()).as_ref(), Some(key));
        }
        for network in ["default", "by-hand", "a_b_c"] {
            assert_eq!(CrKey::of_network(&network.into()), None, "{network}");
        }
    }

    #[test]
    fn an_apply_names_the_object_and_its_uid_only_where_that_counts() {
        let udn = CrKey::Udn(NadKey::new("blue", "net"));
        assert_eq!(
            udn.body(Some("u")),
            json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
            "metadata": {"name": "net", "namespace": "blue", "uid": "u"}})
        );
        let cudn = CrKey::Cudn("prod".into());
        assert_eq!(
            cudn.status_body(&[]),
            json!({"apiVersion": "k8s.ovn.org/v1",
            "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "prod"}, "status": {"conditions": []}})
        );
        let reference = cudn.reference("u");
        assert_eq!((reference.namespace, reference.uid.as_deref()), (None, Some("u")));
    }

    #[test]
    fn only_networks_with_a_primary_layer_are_primary() {
        let localnet =
            json!({"topology": "Localnet", "localnet": {"role": "Secondary", "physicalNetworkName": "x"}});
        for (network, primary) in [(layer3(), true), (layer2_secondary(), false), (localnet, false)] {
            assert_eq!(of_cudn(cudn("n", network.clone())).is_primary(), primary, "{network}");
        }
    }

    #[test]
    fn own_annotations_are_not_for_definitions_and_labels_are() {
        let object = with(
            udn("a", "n", layer3()),
            "/metadata/annotations",
            json!({"k8s.ovn.org/x": "y", "mine": "1"}),
        );
        let cr = of_udn(with(object, "/metadata/labels", json!({"l": "v"})));
        assert_eq!(cr.annotations, BTreeMap::from([("mine".to_owned(), "1".to_owned())]));
        assert_eq!(cr.labels, BTreeMap::from([("l".to_owned(), "v".to_owned())]));
        assert!(
            cr.is_protected() && !cr.terminating && of_udn(terminating(udn("a", "n", layer3()))).terminating
        );
    }

    #[test]
    fn a_selector_chooses_by_labels_and_one_that_cannot_be_used_chooses_nothing() {
        let labels = |text: &str| BTreeMap::from([("team".to_owned(), text.to_owned())]);
        let cr = of_cudn(cudn("n", layer3()));
        assert!(cr.chooses(&labels("a")) && !cr.chooses(&labels("b")));
        let bad = json!({"matchExpressions": [{"key": "team", "operator": "Foo", "values": ["a"]}]});
        assert!(!of_cudn(with(cudn("n", layer3()), "/spec/namespaceSelector", bad)).chooses(&labels("a")));
        assert!(!of_udn(udn("a", "n", layer3())).chooses(&labels("a")), "a UserDefinedNetwork has its own");
    }

    #[test]
    fn a_status_and_a_version_are_no_difference_and_everything_else_is() {
        let cr = of_cudn(cudn("n", layer3()));
        let condition = json!([{"type": "X", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (place, value, differs) in [
            ("/status", json!({"conditions": condition}), false),
            ("/metadata/resourceVersion", json!("6"), false),
            ("/metadata/generation", json!(2), true),
            ("/metadata/labels", json!({"a": "b"}), true),
            ("/metadata/finalizers", json!([]), true),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), true),
            ("/spec/uplinks", json!(["u"]), true),
        ] {
            let other = of_cudn(with(cudn("n", layer3()), place, value));
            assert_eq!(other.differs_beyond_status(&cr), differs, "{place}");
        }
    }
}
