//! Names: of networks, of the NADs that attach to them, of the objects they belong to or that belong to them.
//!
//! Names are shared text (`Arc`), since a name of a network stands in many indexes at once.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Declares a name of one kind of object, so that names of different kinds cannot be swapped.
macro_rules! object_name {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Declares the key of one kind of object that stands in a namespace, written `<namespace>/<name>`.
macro_rules! object_key {
    ($(#[$meta:meta])* $key:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $key {
            namespace: Namespace,
            name: Arc<str>,
        }

        impl $key {
            /// The key of one in a namespace.
            #[must_use]
            pub fn new(namespace: impl Into<Namespace>, name: &str) -> Self {
                Self { namespace: namespace.into(), name: name.into() }
            }

            /// Its namespace.
            #[must_use]
            pub fn namespace(&self) -> &Namespace {
                &self.namespace
            }

            /// Its name.
            #[must_use]
            pub fn name(&self) -> &str {
                &self.name
            }
        }

        impl fmt::Display for $key {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.namespace, self.name)
            }
        }

        impl FromStr for $key {
            type Err = BadKey;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parts(text).map(|(namespace, name)| Self::new(namespace, name))
            }
        }
    };
}

object_name! {
    /// Name of a Node.
    NodeName
}
object_name! {
    /// Name of a Namespace.
    Namespace
}
object_name! {
    /// Name of a network: the value of `name` in the config of its NADs, and the network's identity.
    NetworkName
}
object_key! {
    /// Namespace and name of a NAD, as in its own config.
    NadKey
}
object_key! {
    /// Namespace and name of a Service.
    ServiceName
}
object_key! {
    /// Namespace and name of a pod.
    PodKey
}

/// A text that is not the key of an object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a key of the form namespace/name")]
pub struct BadKey(pub String);

/// The two parts of a key.
fn parts(text: &str) -> Result<(&str, &str), BadKey> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace, name))
        }
        Some(_) | None => Err(BadKey(text.to_owned())),
    }
}

/// What a ClusterUserDefinedNetwork's network name starts with. Source: ovn-kubernetes `util.GenerateCUDNNetworkName`.
const CUDN_PREFIX: &str = "cluster_udn_";

/// Longest name of a network interface, in bytes, without the end mark. Source: Linux `IFNAMSIZ`.
const MAX_INTERFACE_NAME: usize = 15;

/// The object that a network's name says it belongs to. A hand-written NAD can use such a name too, so whoever acts on
/// the answer confirms it against the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin<'n> {
    /// The cluster's default network.
    Default,
    /// A UserDefinedNetwork.
    Udn {
        /// Its namespace.
        namespace: &'n str,
        /// Its name.
        name: &'n str,
    },
    /// A ClusterUserDefinedNetwork.
    Cudn {
        /// Its name.
        name: &'n str,
    },
    /// None of these: the network of a NAD that somebody wrote by hand.
    Other,
}

impl NetworkName {
    /// Text of the default network's name.
    pub const DEFAULT: &'static str = "default";

    /// The name of a UserDefinedNetwork's network.
    ///
    /// An underscore is not legal in names of Kubernetes objects, so two pairs never share a network name.
    #[must_use]
    pub fn of_udn(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}_{name}").into())
    }

    /// The name of a ClusterUserDefinedNetwork's network.
    #[must_use]
    pub fn of_cudn(name: &str) -> Self {
        Self(format!("{CUDN_PREFIX}{name}").into())
    }

    /// The default network's name.
    #[must_use]
    pub fn default_network() -> Self {
        Self(Self::DEFAULT.into())
    }

    /// Whether this is the cluster's default network.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.as_str() == Self::DEFAULT
    }

    /// The object that the name says it belongs to.
    #[must_use]
    pub fn origin(&self) -> Origin<'_> {
        if self.is_default() {
            return Origin::Default;
        }
        if let Some(name) = self.0.strip_prefix(CUDN_PREFIX) {
            return if name.is_empty() { Origin::Other } else { Origin::Cudn { name } };
        }
        match self.0.split_once('_') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('_') => {
                Origin::Udn { namespace, name }
            }
            Some(_) | None => Origin::Other,
        }
    }

    /// What names of OVN objects of this network start with; empty for the default network.
    ///
    /// Two networks whose names differ only in `-` and `.` share a prefix, as they do upstream: whoever writes to OVN has
    /// to refuse the second one.
    #[must_use]
    pub fn ovn_prefix(&self) -> String {
        if self.is_default() {
            return String::new();
        }
        let mut prefix = self.0.replace(['-', '/'], ".");
        prefix.push('_');
        prefix
    }

    /// Name of the VRF of a primary network on a host: the CUDN's own name where the kernel takes it as a name of a
    /// link, else one made from the network's id.
    #[must_use]
    pub fn vrf(&self, id: super::id::NetworkId) -> String {
        match self.origin() {
            Origin::Cudn { name } if name.len() <= MAX_INTERFACE_NAME && name != Self::DEFAULT => {
                name.to_owned()
            }
            Origin::Cudn { .. } | Origin::Udn { .. } | Origin::Default | Origin::Other => {
                format!("mp{id}-udn-vrf")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::network::id::NetworkId;

    #[test]
    fn names_equal_upstreams_and_lead_back_to_their_object() {
        let udn = NetworkName::of_udn("blue", "net1");
        assert_eq!(udn.as_str(), "blue_net1");
        assert_eq!(udn.origin(), Origin::Udn { namespace: "blue", name: "net1" });
        let cudn = NetworkName::of_cudn("prod");
        assert_eq!(cudn.as_str(), "cluster_udn_prod");
        assert_eq!(cudn.origin(), Origin::Cudn { name: "prod" });
        assert_eq!(NetworkName::default_network().origin(), Origin::Default);
        for other in ["tenant", "a_b_c", "_a", "a_", "cluster_udn_", "ovn-kubernetes", ""] {
            assert_eq!(NetworkName::from(other).origin(), Origin::Other, "{other:?}");
        }
    }

    #[test]
    fn a_dash_or_dot_in_either_part_never_makes_two_networks_one() {
        let names = [
            NetworkName::of_udn("test", "tenant-blue"),
            NetworkName::of_udn("test-tenant", "blue"),
            NetworkName::of_udn("test", "tenant.blue"),
            NetworkName::of_cudn("test-tenant-blue"),
        ];
        for (at, one) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                assert_ne!(one, other);
            }
        }
        assert_ne!(names[0].ovn_prefix(), names[1].ovn_prefix());
    }

    #[test]
    fn dashes_and_slashes_become_dots_in_names_of_ovn_objects() {
        assert_eq!(NetworkName::from("a-b_c").ovn_prefix(), "a.b_c_");
        assert_eq!(NetworkName::from("x/y-z").ovn_prefix(), "x.y.z_");
        assert_eq!(NetworkName::default_network().ovn_prefix(), "");
        // The trap: these two cannot be on one node.
        assert_eq!(NetworkName::from("n_a-b").ovn_prefix(), NetworkName::from("n_a.b").ovn_prefix());
    }

    #[test]
    fn the_vrf_has_the_cudns_name_where_the_kernel_takes_it() {
        let id = NetworkId::try_from(7).unwrap();
        for (network, vrf) in [
            (NetworkName::of_cudn("blue"), "blue"),
            (NetworkName::of_cudn("fifteen-letters"), "fifteen-letters"),
            (NetworkName::of_cudn("sixteen-letters1"), "mp7-udn-vrf"),
            (NetworkName::of_cudn("default"), "mp7-udn-vrf"),
            (NetworkName::of_udn("blue", "net"), "mp7-udn-vrf"),
        ] {
            assert_eq!(network.vrf(id), vrf, "{network}");
        }
    }

    #[test]
    fn a_key_has_exactly_two_parts() {
        assert_eq!("blue/net".parse::<NadKey>().unwrap(), NadKey::new("blue", "net"));
        for text in ["", "blue", "/net", "blue/", "blue/net/1"] {
            assert_eq!(text.parse::<NadKey>(), Err(BadKey(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn every_pair_of_legal_names_reads_back(namespace in "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?",
                                                name in "[a-z0-9]([-.a-z0-9]{0,20}[a-z0-9])?") {
            let udn = NetworkName::of_udn(&namespace, &name);
            prop_assert_eq!(udn.origin(), Origin::Udn { namespace: &namespace, name: &name });
            let cudn = NetworkName::of_cudn(&name);
            prop_assert_eq!(cudn.origin(), Origin::Cudn { name: &name });
            let key = NadKey::new(namespace.as_str(), &name);
            prop_assert_eq!(key.to_string().parse::<NadKey>(), Ok(key));
        }
    }
}
