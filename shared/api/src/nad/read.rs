//! From text to a config: what every component does with a NetworkAttachmentDefinition first.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::{Config, EvpnConfig, VrfConfig, Word};
use super::{CNI_TYPE, DEFAULT_NETWORK};
use crate::network::{Role, Switch, Topology, Transport};

/// How the cluster's nodes reach the outside; Uplinks exist in shared mode only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayMode {
    /// Through a shared bridge.
    Shared,
    /// Any other way.
    Other,
}

/// Why a config is none of a network of ours. Texts are upstream's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The network belongs to another CNI plugin: not an error, nothing of ours.
    #[error("net-attach-def not managed by OVN")]
    NotManaged,
    /// There is no config.
    #[error("net-attach-def {0} has no spec.config")]
    Empty(String),
    /// The config is not the JSON that it should be.
    #[error("error parsing Network Attachment Definition {nad}: {cause}")]
    Malformed {
        /// Key of the object.
        nad: String,
        /// What the decoder says.
        cause: String,
    },
    /// A plugin list is empty.
    #[error("error parsing Network Attachment Definition {0}: the plugin list is empty")]
    NoPlugin(String),
    /// A plugin list has more than one entry.
    #[error("CNI plugin chaining is not supported")]
    Chaining,
    /// A plugin list and a plugin in one document.
    #[error("CNI config cannot have both a plugin list and a single config")]
    ListAndSingle,
    /// The config names another object.
    #[error("net-attach-def name ({nad}) is inconsistent with config ({config})")]
    OtherNad {
        /// Key of the object.
        nad: String,
        /// What the config says.
        config: String,
    },
    /// The name is one that no network may have.
    #[error("invalid name in in secondary network netconf ({0})")]
    Name(String),
    /// The config does not name its object.
    #[error("missing NADName in secondary network netconf {0}")]
    NoNad(String),
    /// Addresses cannot be kept on a routed network.
    #[error("layer3 topology does not allow persistent IPs")]
    PersistentLayer3,
    /// A network of the underlay is always secondary.
    #[error(
        r#"unexpected network field "role" {0} for "localnet" topology, localnet topology does not allow network roles to be set since its always a secondary network"#
    )]
    LocalnetRole(String),
    /// An unknown role.
    #[error("invalid network role value {0}")]
    Role(String),
    /// CNI's own address management.
    #[error(
        "error parsing Network Attachment Definition {0}: IPAM key is not supported. Use OVN-K provided IPAM via the `subnets` attribute"
    )]
    Ipam(String),
    /// An unknown transport.
    #[error(r#"invalid transport {0:?}: must be one of ["no-overlay" "evpn"]"#)]
    Transport(String),
    /// `outboundSNAT` with a transport that has no use for it.
    #[error(r#"outboundSNAT is only valid when transport is "no-overlay""#)]
    SnatTransport,
    /// An unknown value of `outboundSNAT`.
    #[error(r#"invalid outboundSNAT {0:?}: must be one of ["enabled" "disabled"]"#)]
    Snat(String),
    /// Uplinks exist in shared gateway mode only.
    #[error("uplink {0:?} is supported only in shared gateway mode")]
    UplinkMode(String),
    /// Ours, not upstream's: an Uplink leads out of primary networks only.
    #[error("uplink {0:?} is supported only for primary layer2 and layer3 networks without EVPN transport")]
    UplinkNetwork(String),
    /// A network of the underlay has no routers.
    #[error("localnet topology does not allow specifying join-subnet as services are not supported")]
    LocalnetJoin,
    /// A primary Layer2 network gives addresses.
    #[error("the subnet attribute must be defined for layer2 primary user defined networks")]
    NoSubnets,
    /// A field that only Layer2 networks have.
    #[error("{0} is only supported for layer2 topology")]
    Layer2Only(&'static str),
    /// An unknown topology.
    #[error("topology {0} not supported")]
    Topology(String),
}

/// Every key of a config that means something. Go finds a key whatever its case, so hand-written configs may have any.
const KEYS: &[&str] = &[
    "allowPersistentIPs",
    "cniVersion",
    "defaultGatewayIPs",
    "evpn",
    "excludeSubnets",
    "infrastructureSubnets",
    "ipam",
    "ipVRF",
    "joinSubnet",
    "macVRF",
    "mtu",
    "name",
    "netAttachDefName",
    "outboundSNAT",
    "physicalNetworkName",
    "plugins",
    "reservedSubnets",
    "role",
    "routeTarget",
    "subnets",
    "topology",
    "transitSubnet",
    "transport",
    "type",
    "uplink",
    "vid",
    "vlanID",
    "vni",
    "vtep",
];

/// The keys, as upstream's reader decodes them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Fields {
    #[serde(rename = "allowPersistentIPs")]
    allow_persistent_ips: bool,
    cni_version: String,
    #[serde(rename = "defaultGatewayIPs")]
    default_gateway_ips: String,
    evpn: Option<Evpn>,
    exclude_subnets: String,
    infrastructure_subnets: String,
    ipam: Ipam,
    join_subnet: String,
    mtu: i64,
    name: String,
    net_attach_def_name: String,
    #[serde(rename = "outboundSNAT")]
    outbound_snat: String,
    physical_network_name: String,
    reserved_subnets: String,
    role: String,
    subnets: String,
    topology: String,
    transit_subnet: String,
    transport: String,
    uplink: String,
    #[serde(rename = "vlanID")]
    vlan_id: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ipam {
    #[serde(rename = "type")]
    type_: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Evpn {
    vtep: String,
    #[serde(rename = "macVRF")]
    mac_vrf: Option<Vrf>,
    #[serde(rename = "ipVRF")]
    ip_vrf: Option<Vrf>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Vrf {
    vni: u32,
    route_target: String,
    vid: u32,
}

impl Config {
    /// Reads the config of the NetworkAttachmentDefinition `nad` (`<namespace>/<name>`) and checks it.
    ///
    /// # Errors
    /// [`ReadError::NotManaged`] where the network is not ours, else the first thing that is wrong, in upstream's order.
    pub fn read(text: &str, nad: &str, mode: GatewayMode) -> Result<Self, ReadError> {
        let config = Self::parse(text, nad)?;
        match config.problems(nad, mode).into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(config),
        }
    }

    /// Reads the config without checking what it asks for.
    ///
    /// # Errors
    /// It is not ours, or cannot be read.
    pub fn parse(text: &str, nad: &str) -> Result<Self, ReadError> {
        let malformed = |cause: String| ReadError::Malformed { nad: nad.to_owned(), cause };
        if text.is_empty() {
            return Err(ReadError::Empty(nad.to_owned()));
        }
        let document: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let fields = single(canonical(document), nad)?;
        if fields.get("type").and_then(Value::as_str) != Some(CNI_TYPE) {
            return Err(ReadError::NotManaged);
        }
        let fields =
            Fields::deserialize(Value::Object(fields)).map_err(|error| malformed(error.to_string()))?;
        Ok(fields.into())
    }

    /// Everything that is wrong with the config of the NetworkAttachmentDefinition `nad`, in the order in which upstream
    /// checks. The default network's is not looked at.
    #[must_use]
    pub fn problems(&self, nad: &str, mode: GatewayMode) -> Vec<ReadError> {
        let Some(topology) = &self.topology else { return Vec::new() };
        let mut problems = Vec::new();
        let mut refuse = |wrong: bool, error: ReadError| {
            if wrong {
                problems.push(error);
            }
        };
        refuse(
            self.nad_name != nad,
            ReadError::OtherNad { nad: nad.to_owned(), config: self.nad_name.clone() },
        );
        let reserved = ["", DEFAULT_NETWORK, "ovn-kubernetes"];
        refuse(reserved.contains(&self.name.as_str()), ReadError::Name(self.name.clone()));
        refuse(self.nad_name.is_empty(), ReadError::NoNad(self.name.clone()));
        refuse(self.persistent_ips && *topology == Topology::Layer3, ReadError::PersistentLayer3);
        let role = self.role.as_ref().map_or("", Word::word);
        let localnet = *topology == Topology::Localnet;
        refuse(
            localnet && !matches!(self.role, None | Some(Role::Secondary)),
            ReadError::LocalnetRole(role.to_owned()),
        );
        refuse(matches!(self.role, Some(Role::Unknown(_))), ReadError::Role(role.to_owned()));
        refuse(self.ipam_type.is_some(), ReadError::Ipam(nad.to_owned()));
        if let Some(Transport::Unknown(other)) = &self.transport {
            refuse(true, ReadError::Transport(other.clone()));
        }
        if let Some(snat) = &self.outbound_snat {
            refuse(self.transport != Some(Transport::NoOverlay), ReadError::SnatTransport);
            refuse(matches!(snat, Switch::Unknown(_)), ReadError::Snat(snat.word().to_owned()));
        }
        if let Some(uplink) = &self.uplink {
            refuse(mode != GatewayMode::Shared, ReadError::UplinkMode(uplink.clone()));
            refuse(
                localnet || !self.is_primary() || self.transport == Some(Transport::Evpn),
                ReadError::UplinkNetwork(uplink.clone()),
            );
        }
        refuse(localnet && !self.join_subnets.is_empty(), ReadError::LocalnetJoin);
        let layer2 = *topology == Topology::Layer2;
        refuse(layer2 && self.is_primary() && self.subnets.is_empty(), ReadError::NoSubnets);
        for (key, list) in [
            ("infrastructureSubnets", &self.infrastructure_subnets),
            ("reservedSubnets", &self.reserved_subnets),
            ("defaultGatewayIPs", &self.default_gateway_ips),
        ] {
            refuse(!layer2 && !list.is_empty(), ReadError::Layer2Only(key));
        }
        refuse(matches!(topology, Topology::Unknown(_)), ReadError::Topology(topology.word().to_owned()));
        problems
    }
}

/// The keys in the case that they are declared with, without the null ones: Go takes a null for an absent value.
fn canonical(fields: Map<String, Value>) -> Map<String, Value> {
    // Exact keys come last, so that they win.
    let (exact, other): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(key, _)| KEYS.contains(&key.as_str()));
    let mut found = Map::new();
    for (key, value) in other.into_iter().chain(exact) {
        let Some(known) = KEYS.iter().find(|known| known.eq_ignore_ascii_case(&key)) else { continue };
        let value = match value {
            Value::Null => continue,
            Value::Object(inner) => Value::Object(canonical(inner)),
            other => other,
        };
        found.insert((*known).to_owned(), value);
    }
    found
}

/// The one plugin of a document: itself, or the only entry of its list, which then has the name and version of the list.
fn single(mut document: Map<String, Value>, nad: &str) -> Result<Map<String, Value>, ReadError> {
    let Some(plugins) = document.remove("plugins") else { return Ok(document) };
    if document.get("type").and_then(Value::as_str).is_some_and(|text| !text.is_empty()) {
        return Err(ReadError::ListAndSingle);
    }
    let Value::Array(mut plugins) = plugins else {
        let cause = "plugins is no list".to_owned();
        return Err(ReadError::Malformed { nad: nad.to_owned(), cause });
    };
    let plugin = match (plugins.pop(), plugins.len()) {
        (None, _) => return Err(ReadError::NoPlugin(nad.to_owned())),
        (Some(_), 1..) => return Err(ReadError::Chaining),
        (Some(Value::Object(plugin)), 0) => plugin,
        (Some(_), 0) => {
            let cause = "the plugin is no object".to_owned();
            return Err(ReadError::Malformed { nad: nad.to_owned(), cause });
        }
    };
    let mut plugin = canonical(plugin);
    for key in ["name", "cniVersion"] {
        match document.remove(key) {
            Some(value) => drop(plugin.insert(key.to_owned(), value)),
            None => drop(plugin.remove(key)),
        }
    }
    Ok(plugin)
}

impl From<Fields> for Config {
    fn from(fields: Fields) -> Self {
        let topology = Topology::of(&fields.topology);
        Self {
            cni_version: fields.cni_version,
            name: if topology.is_some() { fields.name } else { DEFAULT_NETWORK.to_owned() },
            nad_name: fields.net_attach_def_name,
            role: Role::of(&fields.role),
            subnets: list(&fields.subnets),
            exclude_subnets: list(&fields.exclude_subnets),
            reserved_subnets: list(&fields.reserved_subnets),
            infrastructure_subnets: list(&fields.infrastructure_subnets),
            default_gateway_ips: list(&fields.default_gateway_ips),
            join_subnets: list(&fields.join_subnet),
            transit_subnets: list(&fields.transit_subnet),
            // What cannot be a size reads as none, as upstream reads zero.
            mtu: u32::try_from(fields.mtu).ok().filter(|mtu| *mtu > 0),
            vlan: (fields.vlan_id > 0).then_some(fields.vlan_id),
            persistent_ips: fields.allow_persistent_ips,
            physical_network: text(fields.physical_network_name),
            transport: Transport::of(&fields.transport),
            outbound_snat: Switch::of(&fields.outbound_snat),
            evpn: fields.evpn.map(Into::into),
            uplink: text(fields.uplink),
            ipam_type: text(fields.ipam.type_),
            topology,
        }
    }
}

impl From<Evpn> for EvpnConfig {
    fn from(evpn: Evpn) -> Self {
        let vrf = |vrf: Vrf| VrfConfig {
            vni: vrf.vni,
            route_target: text(vrf.route_target),
            vid: (vrf.vid > 0).then_some(vrf.vid),
        };
        Self { vtep: evpn.vtep, mac_vrf: evpn.mac_vrf.map(vrf), ip_vrf: evpn.ip_vrf.map(vrf) }
    }
}

fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn list(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { text.split(',').map(str::to_owned).collect() }
}
