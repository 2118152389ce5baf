//! Annotations on NetworkAttachmentDefinitions, written by the cluster manager: a network's identity.
//!
//! Source: OVN-Kubernetes, go-controller/pkg/networkmanager/nad_controller.go and go-controller/pkg/util/multi_network.go.
//!
//! Nodes ignore a network without an id. Upstream's readers allocate what an annotation says, however large; here a value
//! out of range is an error and counts as absent.

use super::entries::{AnnotationError, array, decimal};
use crate::go_json;

/// Annotations and labels whose key begins with this belong to the cluster manager, not to users.
pub const PREFIX: &str = "k8s.ovn.org";

/// Name of the network.
pub const NETWORK_NAME: &str = "k8s.ovn.org/network-name";

/// Id of the network, a decimal number.
pub const NETWORK_ID: &str = "k8s.ovn.org/network-id";

/// Tunnel keys of the network's switches and routers over all nodes, a JSON array; empty where they follow from the id.
pub const TUNNEL_KEYS: &str = "k8s.ovn.org/tunnel-keys";

/// Names of the RouteAdvertisements that advertise the network, a JSON array in no order.
pub const ROUTE_ADVERTISEMENTS: &str = "k8s.ovn.org/route-advertisements";

/// Highest id of a network; 0 is the default network's.
pub const MAX_NETWORK_ID: u32 = 4095;

/// Highest tunnel key: 24 bits in a Geneve header (RFC 8926), of which OVN leaves none out.
pub const MAX_TUNNEL_KEY: u32 = 0xFF_FFFF;

/// Reads [`NETWORK_ID`].
///
/// # Errors
/// It is no id of a network.
pub fn read_network_id(text: &str) -> Result<u32, AnnotationError> {
    decimal(text, MAX_NETWORK_ID).map_err(|cause| {
        AnnotationError::new(NETWORK_ID, text, &format!("failed to parse annotated network ID: {cause}"))
    })
}

/// Writes [`NETWORK_ID`].
#[must_use]
pub fn render_network_id(id: u32) -> String {
    id.to_string()
}

/// Reads [`TUNNEL_KEYS`]. The keys belong together: one that cannot be read makes all of them unknown.
///
/// # Errors
/// It is no list of tunnel keys.
pub fn read_tunnel_keys(text: &str) -> Result<Vec<u32>, AnnotationError> {
    let key = |value: &serde_json::Value| {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| (1..=MAX_TUNNEL_KEY).contains(number))
    };
    array(TUNNEL_KEYS, text)?
        .iter()
        .map(|value| {
            key(value)
                .ok_or_else(|| AnnotationError::new(TUNNEL_KEYS, text, &format!("{value} is no tunnel key")))
        })
        .collect()
}

/// Writes [`TUNNEL_KEYS`].
#[must_use]
pub fn render_tunnel_keys(keys: &[u32]) -> String {
    go_json::array(keys.iter().map(u32::to_string))
}

/// Reads [`ROUTE_ADVERTISEMENTS`].
///
/// # Errors
/// It is no list of names.
pub fn read_route_advertisements(text: &str) -> Result<Vec<String>, AnnotationError> {
    serde_json::from_str(text).map_err(|error| AnnotationError::new(ROUTE_ADVERTISEMENTS, text, &error))
}

/// Writes [`ROUTE_ADVERTISEMENTS`].
#[must_use]
pub fn render_route_advertisements(names: &[String]) -> String {
    go_json::strings(names)
}
