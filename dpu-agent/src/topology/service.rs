//! Services of the default network that every primary network reaches: the API server, the one that answers for names.

use std::net::IpAddr;

pub use causeway_net::network::name::ServiceName;
use causeway_net::network::object_id::{ObjectId, address_set};

/// Owner of the sets of their addresses. Source: ovn-kubernetes `controller/udnenabledsvc/udn_enabled_svc.go`.
pub(super) const OWNER: &str = "udn-enabled-svc";
const SET: &str = "udn-enabled-svc-cluster-ips";

/// The Service that a row's note names. A note that names none is the name of a Service that nobody has.
pub(super) fn of_note(text: &str) -> ServiceName {
    text.parse().unwrap_or_else(|_| ServiceName::new("", text))
}

/// One of these Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultService {
    /// Its name.
    pub name: ServiceName,
    /// Its addresses in the cluster, the first one first; none for a headless one.
    pub addresses: Vec<IpAddr>,
}

/// Identity of the set with their addresses of one family.
pub(super) fn set_id(is_four: bool) -> ObjectId {
    address_set::UDN_ENABLED_SERVICE.id(OWNER, [SET, if is_four { "v4" } else { "v6" }])
}

/// Whether a row's notes say that it is one of these sets.
pub(super) fn is_set(external_ids: &super::northbound::Pairs) -> bool {
    address_set::UDN_ENABLED_SERVICE.is_of(OWNER, |key| external_ids.get(key))
}
