//! Kubernetes objects, cut down to what the topology reads.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_api::annotation::network as keys;
use causeway_api::nad::{Config, GatewayMode, NetworkAttachmentDefinition, ReadError};
use causeway_net::network::name::{NadKey, Namespace, NetworkName};
use causeway_net::selector::Selector;
use causeway_runtime::watch;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::super::cluster::Cluster;
use super::super::network::{Network, NetworkError};
use super::super::node::ZoneNode;

/// A Node without what changes all the time.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Node)]
pub(super) struct WatchedNode {
    #[serde(default, deserialize_with = "watch::slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    addresses: Option<Vec<Address>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Address {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    address: String,
}

/// A Node as the topology sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeFacts {
    /// Its uid, for Events.
    pub(super) uid: Box<str>,
    /// What its annotations say.
    pub(super) node: ZoneNode,
    /// Its own address: where tunnels end that nobody configured. Source: ovn-kubernetes `util.GetNodePrimaryIP`.
    pub(super) address: Option<IpAddr>,
    /// Whether networks are not meant to reach it: it never gets subnets.
    pub(super) outside: bool,
}

impl NodeFacts {
    /// From the API object; none for one without name, which the API server never sends.
    pub(super) fn of(node: WatchedNode, without_subnets: Option<&Selector>) -> Option<Self> {
        let ObjectMeta { name, uid, labels, annotations, .. } = node.metadata;
        let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
        let of_kind = |kind: &str| {
            let mut of_kind = addresses.iter().filter(|address| address.r#type == kind);
            of_kind.find_map(|address| address.address.parse().ok())
        };
        Some(Self {
            uid: uid.unwrap_or_default().into(),
            node: ZoneNode::of(&name?, &annotations.unwrap_or_default()),
            address: of_kind("InternalIP").or_else(|| of_kind("ExternalIP")),
            outside: without_subnets.is_some_and(|selector| selector.matches(&labels.unwrap_or_default())),
        })
    }
}

/// Why a NetworkAttachmentDefinition has no network to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NadProblem {
    /// Its config cannot be read. The cluster manager says so in an Event on it.
    #[error("Failed to parse network config: {0}")]
    Config(Arc<ReadError>),
    /// The cluster manager has not given the network its numbers yet.
    #[error("annotation {0} is missing")]
    NoNumber(&'static str),
    /// The numbers cannot be read.
    #[error("{0}")]
    Number(Arc<str>),
    /// There are no rows for such a network.
    #[error(transparent)]
    Network(Arc<NetworkError>),
}

/// A NetworkAttachmentDefinition of a network of ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Nad {
    /// Its uid, for Events.
    pub(super) uid: Box<str>,
    /// When it was made, in seconds since 1970: the oldest one of a network says what the network is.
    pub(super) created: i64,
    /// Name of its network.
    pub(super) name: NetworkName,
    /// The network.
    pub(super) network: Result<Arc<Network>, NadProblem>,
}

/// The key of a NetworkAttachmentDefinition; none for one without namespace or name, which the API server never sends.
pub(super) fn nad_key(meta: &ObjectMeta) -> Option<NadKey> {
    Some(NadKey::new(Namespace::from(meta.namespace.as_deref()?), meta.name.as_deref()?))
}

impl Nad {
    /// From the API object; none for one that is of no network of ours, as far as it tells. One whose config is broken is
    /// of the network that the cluster manager noted on it: what there is of that network stays.
    pub(super) fn of(
        nad: &NetworkAttachmentDefinition,
        mode: GatewayMode,
        cluster: &Cluster,
    ) -> Option<Self> {
        let none = BTreeMap::new();
        let annotations = nad.metadata.annotations.as_ref().unwrap_or(&none);
        let (name, network) = match nad.read(mode) {
            Ok(config) if config.is_default_network() => return None,
            Err(ReadError::NotManaged) => return None,
            Ok(config) => (config.name.as_str().into(), network(&config, annotations, cluster).map(Arc::new)),
            Err(error) => {
                let noted = annotations.get(keys::NETWORK_NAME)?;
                (noted.as_str().into(), Err(NadProblem::Config(Arc::new(error))))
            }
        };
        Some(Self {
            uid: nad.metadata.uid.as_deref().unwrap_or_default().into(),
            created: nad.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            name,
            network,
        })
    }
}

fn network(
    config: &Config,
    annotations: &BTreeMap<String, String>,
    cluster: &Cluster,
) -> Result<Network, NadProblem> {
    let bad = |error: &dyn std::fmt::Display| NadProblem::Number(error.to_string().into());
    let id = annotations.get(keys::NETWORK_ID).ok_or(NadProblem::NoNumber(keys::NETWORK_ID))?;
    let id = keys::read_network_id(id).map_err(|error| bad(&error))?;
    let id = id.try_into().map_err(|error: causeway_net::network::id::BadId| bad(&error))?;
    let tunnel_keys = match annotations.get(keys::TUNNEL_KEYS) {
        Some(text) => keys::read_tunnel_keys(text).map_err(|error| bad(&error))?,
        None => Vec::new(),
    };
    Network::of(config, id, &tunnel_keys, cluster).map_err(|error| NadProblem::Network(Arc::new(error)))
}

#[cfg(test)]
mod tests {
    use causeway_api::nad::NetworkAttachmentDefinitionSpec;

    use super::super::super::plan::fixture::cluster;
    use super::*;

    const CONFIG: &str = r#"{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","name":"ns_blue","netAttachDefName":"ns/blue","topology":"layer3","role":"primary","subnets":"10.200.0.0/16/24"}"#;

    fn nad(config: &str, annotations: &[(&str, &str)]) -> Option<Nad> {
        let mut nad = NetworkAttachmentDefinition::new("blue", NetworkAttachmentDefinitionSpec::default());
        nad.metadata.namespace = Some("ns".into());
        nad.metadata.annotations =
            Some(annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect());
        nad.spec.config = config.to_owned();
        Nad::of(&nad, GatewayMode::Shared, &cluster())
    }

    #[test]
    fn a_nad_is_of_the_network_that_it_names_or_that_was_noted_on_it() {
        let id = [(keys::NETWORK_ID, "3")];
        let good = nad(CONFIG, &id).unwrap();
        assert_eq!(good.network.unwrap().id, 3_u32.try_into().unwrap());
        let broken = nad("{", &[(keys::NETWORK_NAME, "ns_blue"), (keys::NETWORK_ID, "3")]).unwrap();
        assert_eq!(broken.name.as_str(), "ns_blue");
        assert!(matches!(broken.network, Err(NadProblem::Config(_))));
        for (config, annotations) in [
            ("{", &[][..]),
            (r#"{"type":"bridge","name":"x"}"#, &id),
            (causeway_api::nad::DEFAULT_NETWORK_CONFIG, &id),
        ] {
            assert_eq!(nad(config, annotations), None, "{config}");
        }
    }

    #[test]
    fn a_network_waits_for_its_numbers_and_says_which_cannot_be_used() {
        let problem = |config: &str, annotations: &[(&str, &str)]| {
            nad(config, annotations).unwrap().network.unwrap_err().to_string()
        };
        assert_eq!(problem(CONFIG, &[]), "annotation k8s.ovn.org/network-id is missing");
        assert!(problem(CONFIG, &[(keys::NETWORK_ID, "x")]).contains("failed to parse annotated network ID"));
        assert!(problem(CONFIG, &[(keys::NETWORK_ID, "0")]).contains("network ID should be bigger that 0"));
        let layer2 = CONFIG.replace("layer3", "layer2").replace("/16/24", "/16");
        assert!(problem(&layer2, &[(keys::NETWORK_ID, "1")]).contains("requires exactly 2 tunnel keys"));
    }
}
