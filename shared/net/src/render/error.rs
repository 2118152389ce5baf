//! Why a network has no config. Causes are part of the texts on purpose: they go into conditions as one line.

use causeway_api::nad::ReadError;
use causeway_api::network::LayoutError;
use ipnet::IpNet;

use crate::addresses::{BadAddresses, Part};
use crate::ipam::nodes::Family;
use crate::network::name::NadKey;
use crate::overlap::{NoTransit, Overlap};

/// Why a NAD cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// It is for no namespace.
    #[error("namespace should not be empty")]
    NoNamespace,
    /// The spec is not that of a network.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The network cannot be as the spec wants it.
    #[error("failed to render CNI network config: {0}")]
    Config(ConfigError),
}

impl From<ConfigError> for RenderError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// Why a config is not that of a network of this cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Without addresses there is nothing to keep.
    #[error("lifecycle Persistent is only supported when ipam.mode is Enabled")]
    PersistentWithoutIpam,
    /// Addresses are on, and there are none.
    #[error("subnets is required with ipam.mode is Enabled or unset")]
    SubnetsRequired,
    /// Addresses are off, and there are some.
    #[error("subnets must be unset when ipam.mode is Disabled")]
    SubnetsForbidden,
    /// A mode of a newer API.
    #[error("ipam.mode {0:?} is not known to this version")]
    UnknownIpamMode(String),
    /// A lifecycle of a newer API.
    #[error("ipam.lifecycle {0:?} is not known to this version")]
    UnknownIpamLifecycle(String),
    /// Subnets of a layer 2 primary network, which are read before others'.
    #[error("error while parsing subnets: {0}")]
    Layer2Subnets(SubnetsError),
    /// A layer 2 primary network overlaps the cluster's ranges, or finds no transit subnet beside them.
    #[error(transparent)]
    Transit(#[from] NoTransit),
    /// The same of a layer 2 primary network that somebody wrote by hand.
    #[error("failed to set dynamic transit subnet for layer2 primary NAD {nad}: {cause}")]
    DynamicTransit {
        /// The NAD.
        nad: NadKey,
        /// Why.
        cause: Box<ConfigError>,
    },
    /// EVPN is off.
    #[error("EVPN transport requested but EVPN feature is not enabled")]
    EvpnDisabled,
    /// Persistent addresses are off.
    #[error("allowPersistentIPs is set but persistentIPs is Disabled")]
    PersistentIpsDisabled,
    /// The config asks for what cannot be together.
    #[error(transparent)]
    Invalid(#[from] ReadError),
    /// Subnets of other networks.
    #[error("invalid subnet configuration: error while parsing subnets: {0}")]
    Subnets(SubnetsError),
    /// The network overlaps the cluster's ranges.
    #[error("invalid subnet configuration: {0}")]
    Overlap(Overlap),
    /// A part of the network's subnets lies outside them.
    #[error("the provided network subnets do not contain {part} subnets {subnet}")]
    Outside {
        /// Which part.
        part: Part,
        /// The subnet as it was written.
        subnet: String,
    },
    /// Differs from upstream, which creates the network and cannot start with it.
    #[error(
        "subnet {subnet} is too small for a layer2 primary network, which needs addresses for its gateway and \
         management ports; use a prefix length of at most {longest}"
    )]
    NoRoom {
        /// The subnet.
        subnet: IpNet,
        /// Longest prefix that has room.
        longest: u8,
    },
}

/// Why a network's subnets cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetsError {
    /// They mean nothing.
    #[error(transparent)]
    Bad(#[from] BadAddresses),
    /// The cluster has no addresses of a family that a primary network has.
    #[error(
        "network {network} is attempting to use {family} subnets but the cluster does not support {family}"
    )]
    FamilyNotSupported {
        /// The network.
        network: String,
        /// The family.
        family: Family,
    },
}
