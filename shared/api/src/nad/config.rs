//! The network config in a NetworkAttachmentDefinition, as a type.

use crate::network::{Role, Switch, Topology, Transport};

/// A network as all components hear of it. Lists of subnets and addresses hold text as it stands in the config,
/// where they are joined by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Version of the CNI specification.
    pub cni_version: String,
    /// Name of the network: its identity, shared by all its NetworkAttachmentDefinitions.
    pub name: String,
    /// `<namespace>/<name>` of the NetworkAttachmentDefinition that this stands in.
    pub nad_name: String,
    /// How the nodes' parts are joined; none is the cluster's default network.
    pub topology: Option<Topology>,
    /// What the network is to a pod; none is secondary.
    pub role: Option<Role>,
    /// Layer3: `cidr` or `cidr/hostLength`; else `cidr`.
    pub subnets: Vec<String>,
    /// Subnets of the underlay that pods never get addresses of.
    pub exclude_subnets: Vec<String>,
    /// Subnets given to pods only on request.
    pub reserved_subnets: Vec<String>,
    /// Subnets of the nodes' own ports.
    pub infrastructure_subnets: Vec<String>,
    /// Addresses of the gateways, one of each family.
    pub default_gateway_ips: Vec<String>,
    /// Subnets between the routers of a primary network.
    pub join_subnets: Vec<String>,
    /// Subnets between the routers of the nodes of a primary Layer2 network.
    pub transit_subnets: Vec<String>,
    /// Largest packet.
    pub mtu: Option<u32>,
    /// VLAN of the underlay.
    pub vlan: Option<u32>,
    /// Whether virtual machines keep their addresses.
    pub persistent_ips: bool,
    /// Network of the underlay.
    pub physical_network: Option<String>,
    /// How packets get from node to node; none is Geneve.
    pub transport: Option<Transport>,
    /// Whether packets that leave the cluster get the node's address, without overlay.
    pub outbound_snat: Option<Switch>,
    /// Domains of EVPN.
    pub evpn: Option<EvpnConfig>,
    /// Name of the Uplink that leads out of the network.
    pub uplink: Option<String>,
    /// CNI's own address management, which is refused; never rendered.
    pub ipam_type: Option<String>,
}

/// Domains of EVPN and the ids that were given to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvpnConfig {
    /// Name of the VTEP.
    pub vtep: String,
    /// Bridge domain.
    pub mac_vrf: Option<VrfConfig>,
    /// Routing domain.
    pub ip_vrf: Option<VrfConfig>,
}

/// One domain of EVPN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VrfConfig {
    /// VXLAN network identifier.
    pub vni: u32,
    /// Route target, where one was asked for.
    pub route_target: Option<String>,
    /// VLAN of the domain on the nodes' bridges, once it was given.
    pub vid: Option<u32>,
}

impl Config {
    /// Whether this is the primary network of its namespaces.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.role == Some(Role::Primary)
    }

    /// Whether this is the cluster's default network.
    #[must_use]
    pub fn is_default_network(&self) -> bool {
        self.topology.is_none()
    }
}

/// The words that configs have for values of the API.
pub(super) trait Word: Sized {
    /// Word of a config.
    fn word(&self) -> &str;
    /// The value of a word; the empty word is none.
    fn of(word: &str) -> Option<Self>;
}

/// Declares the words of an enum of the API.
macro_rules! words {
    ($name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl Word for $name {
            fn word(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(other) => other,
                }
            }

            fn of(word: &str) -> Option<Self> {
                match word {
                    "" => None,
                    $($text => Some(Self::$variant),)+
                    other => Some(Self::Unknown(other.to_owned())),
                }
            }
        }
    };
}

words!(Topology { Layer2 = "layer2", Layer3 = "layer3", Localnet = "localnet" });
words!(Role { Primary = "primary", Secondary = "secondary" });
words!(Transport { NoOverlay = "no-overlay", Evpn = "evpn" });
words!(Switch { Enabled = "enabled", Disabled = "disabled" });
