//! Services of the default network that every primary network reaches: the API server, the one that answers for names.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_net::network::name::Namespace;
use causeway_net::network::object_id::{ObjectId, address_set};

/// Owner of the sets of their addresses. Source: ovn-kubernetes `controller/udnenabledsvc/udn_enabled_svc.go`.
pub(super) const OWNER: &str = "udn-enabled-svc";
const SET: &str = "udn-enabled-svc-cluster-ips";

/// Name of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    namespace: Namespace,
    name: Arc<str>,
}

impl ServiceName {
    /// A Service of a namespace.
    #[must_use]
    pub fn new(namespace: impl Into<Namespace>, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The Service that a row's note names. A note that names none is the name of a Service that nobody has.
    pub(super) fn of_note(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Self::new(namespace, name)
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its name there.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
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
