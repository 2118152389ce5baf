//! From a network's spec to the config that its NADs carry.
//!
//! In: the spec, which NAD it is for, the ids that were allocated for it, how the cluster is configured. Out: the
//! config, or the one reason why there is none, in upstream's words and order: the first problem wins. What the
//! controller adds is its own prefix `failed to generate NetworkAttachmentDefinition: `.
//!
//! [`accept`] is the part that also goes for configs that people wrote by hand.
//! Source: ovn-kubernetes `userdefinednetwork/template` and `util.ParseNADInfo`.

mod error;
mod object;

use std::collections::BTreeSet;

use causeway_api::nad::{CNI_VERSION, Config, EvpnConfig, GatewayMode, VrfConfig};
use causeway_api::network::{
    Evpn, Ipam, IpamLifecycle, IpamMode, Layer2, Layer3, Layout, Localnet, NetworkSpec, Role, Topology,
    Transport, Vrf,
};
use ipnet::IpNet;

use crate::addresses::{Addresses, BadAddresses};
use crate::ipam::nodes::{Families, Family};
use crate::network::name::{NadKey, NetworkName};
use crate::overlap::{self, Internal, Own, Shape};

pub use self::error::{ConfigError, RenderError, SubnetsError};
pub use self::object::{Owner, annotations, labels, merged_annotations, owner_reference};

/// What a Localnet network's MTU is above the cluster's where the spec names none: no encapsulation.
/// Source: ovn-kubernetes template.
const LOCALNET_MTU_EXTRA: u32 = 100;

/// How the cluster is configured, as far as it decides what a network looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Ranges that it uses itself.
    pub internal: Internal,
    /// Families of its pods' addresses.
    pub families: Families,
    /// How nodes reach the outside.
    pub gateway_mode: GatewayMode,
    /// Largest packet of pods.
    pub mtu: u32,
    /// What is switched on.
    pub features: BTreeSet<Feature>,
}

/// A switch that decides what networks can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Gateways, reserved and infrastructure subnets of layer 2 networks.
    PreconfiguredAddresses,
    /// Virtual machines keep their addresses.
    PersistentIps,
    /// EVPN as a transport: needs RouteAdvertisements and local gateway mode too.
    Evpn,
}

/// A network and the NAD that it is rendered for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// What the network is.
    pub spec: &'r NetworkSpec,
    /// Its name.
    pub network: &'r NetworkName,
    /// The NAD.
    pub nad: &'r NadKey,
    /// The Uplink that leads out of it.
    pub uplink: Option<&'r str>,
    /// VLAN ids that were allocated for EVPN.
    pub vids: Vids,
}

/// VLAN ids of a network's EVPN domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vids {
    /// Of the bridge domain.
    pub mac_vrf: Option<u32>,
    /// Of the routing domain.
    pub ip_vrf: Option<u32>,
}

/// A config and what of the spec is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The config.
    pub config: Config,
    /// Fields of the spec that have no effect as their feature is off. Upstream drops them without a word.
    pub ignored: Vec<&'static str>,
}

/// Renders the config of one NAD.
///
/// # Errors
/// The first thing that is wrong, in upstream's order.
pub fn render(request: &Request<'_>, cluster: &Cluster) -> Result<Rendered, RenderError> {
    if request.nad.namespace().as_str().is_empty() {
        return Err(RenderError::NoNamespace);
    }
    let layout = request.spec.layout()?;
    let config = Config {
        cni_version: CNI_VERSION.to_owned(),
        name: request.network.as_str().to_owned(),
        nad_name: request.nad.to_string(),
        topology: Some(request.spec.topology.clone()),
        transport: request.spec.transport.clone(),
        uplink: request.uplink.map(str::to_owned),
        ..Config::default()
    };
    let mut rendered = match layout {
        Layout::Layer3(spec) => Rendered { config: layer3(config, spec, cluster), ignored: Vec::new() },
        Layout::Layer2(spec) => layer2(config, spec, cluster)?,
        Layout::Localnet(spec) => Rendered { config: localnet(config, spec, cluster)?, ignored: Vec::new() },
    };
    let config = &mut rendered.config;
    if request.spec.transport == Some(Transport::Evpn) {
        if !cluster.has(Feature::Evpn) {
            return Err(ConfigError::EvpnDisabled.into());
        }
        config.evpn = request.spec.evpn.as_ref().map(|spec| evpn(spec, request.vids));
    }
    if request.spec.transport == Some(Transport::NoOverlay) {
        config.outbound_snat = request.spec.no_overlay.as_ref().map(|spec| spec.outbound_snat.clone());
    }
    if config.persistent_ips && !cluster.has(Feature::PersistentIps) {
        return Err(ConfigError::PersistentIpsDisabled.into());
    }
    check(config, request.nad, cluster)?;
    Ok(rendered)
}

fn layer3(config: Config, spec: &Layer3, cluster: &Cluster) -> Config {
    Config {
        role: Some(spec.role.clone()),
        mtu: size(spec.mtu),
        subnets: layer3_subnets(spec),
        join_subnets: join_subnets(&spec.role, &spec.join_subnets, cluster),
        ..config
    }
}

/// The subnets of a Layer3 network, as its config lists them.
#[must_use]
pub fn layer3_subnets(spec: &Layer3) -> Vec<String> {
    let entry = |subnet: &causeway_api::network::Layer3Subnet| match subnet.host_subnet {
        // A negative length counts as none, as it does upstream.
        Some(host @ 1..) => format!("{}/{host}", subnet.cidr),
        Some(_) | None => subnet.cidr.clone(),
    };
    spec.subnets.iter().map(entry).collect()
}

fn layer2(config: Config, spec: &Layer2, cluster: &Cluster) -> Result<Rendered, ConfigError> {
    let persistent_ips = persistent_ips(spec.ipam.as_ref())?;
    match mode(spec.ipam.as_ref())? {
        IpamMode::Disabled if !spec.subnets.is_empty() => return Err(ConfigError::SubnetsForbidden),
        IpamMode::Enabled | IpamMode::Unknown(_) if spec.subnets.is_empty() => {
            return Err(ConfigError::SubnetsRequired);
        }
        IpamMode::Disabled | IpamMode::Enabled | IpamMode::Unknown(_) => {}
    }
    let mut ignored = Vec::new();
    let mut preconfigured = |key, list: &Vec<String>| {
        if cluster.has(Feature::PreconfiguredAddresses) {
            return list.clone();
        }
        ignored.extend((!list.is_empty()).then_some(key));
        Vec::new()
    };
    let mut config = Config {
        role: Some(spec.role.clone()),
        mtu: size(spec.mtu),
        subnets: spec.subnets.clone(),
        reserved_subnets: preconfigured("reservedSubnets", &spec.reserved_subnets),
        infrastructure_subnets: preconfigured("infrastructureSubnets", &spec.infrastructure_subnets),
        default_gateway_ips: preconfigured("defaultGatewayIPs", &spec.default_gateway_ips),
        join_subnets: join_subnets(&spec.role, &spec.join_subnets, cluster),
        persistent_ips,
        ..config
    };
    if config.is_primary() {
        let transit = transit_subnets(&config, cluster)?;
        config.transit_subnets = transit.iter().map(ToString::to_string).collect();
    }
    Ok(Rendered { config, ignored })
}

fn localnet(config: Config, spec: &Localnet, cluster: &Cluster) -> Result<Config, ConfigError> {
    let vlan = spec.vlan.as_ref().and_then(|vlan| vlan.access.as_ref());
    Ok(Config {
        role: Some(spec.role.clone()),
        mtu: size(spec.mtu).or(Some(cluster.mtu + LOCALNET_MTU_EXTRA)),
        subnets: spec.subnets.clone(),
        exclude_subnets: spec.exclude_subnets.clone(),
        physical_network: Some(spec.physical_network_name.clone()),
        persistent_ips: persistent_ips(spec.ipam.as_ref())?,
        vlan: vlan.and_then(|access| size(Some(access.id))),
        ..config
    })
}

fn evpn(spec: &Evpn, vids: Vids) -> EvpnConfig {
    let vrf = |vrf: &Option<Vrf>, vid| {
        vrf.as_ref().map(|vrf| VrfConfig {
            vni: u32::try_from(vrf.vni).unwrap_or_default(),
            route_target: vrf.route_target.clone(),
            vid,
        })
    };
    EvpnConfig {
        vtep: spec.vtep.clone(),
        mac_vrf: vrf(&spec.mac_vrf, vids.mac_vrf),
        ip_vrf: vrf(&spec.ip_vrf, vids.ip_vrf),
    }
}

/// Transit subnets for the config of a layer 2 primary network.
fn transit_subnets(config: &Config, cluster: &Cluster) -> Result<Vec<IpNet>, ConfigError> {
    let addresses = addresses(config, cluster).map_err(ConfigError::Layer2Subnets)?;
    let subnets = addresses.subnets.networks();
    let own = Own {
        shape: Shape::Layer2Primary,
        subnets: &subnets,
        join: &addresses.join,
        excluded: &addresses.excluded,
    };
    Ok(overlap::transit_subnets(&cluster.internal, own)?)
}

/// Checks a config that was read from a NAD, whoever wrote it, and gives a layer 2 primary network the transit subnets
/// that it does not name.
///
/// # Errors
/// The first thing that is wrong, in upstream's order.
pub fn accept(config: &Config, nad: &NadKey, cluster: &Cluster) -> Result<(Config, Addresses), ConfigError> {
    if let Some(problem) = config.problems(&nad.to_string(), cluster.gateway_mode).into_iter().next() {
        return Err(problem.into());
    }
    let mut config = config.clone();
    let layer2 = config.topology == Some(Topology::Layer2);
    if layer2 && config.is_primary() && config.transit_subnets.is_empty() {
        let transit = transit_subnets(&config, cluster)
            .map_err(|cause| ConfigError::DynamicTransit { nad: nad.clone(), cause: Box::new(cause) })?;
        config.transit_subnets = transit.iter().map(ToString::to_string).collect();
    }
    let addresses = check(&config, nad, cluster)?;
    Ok((config, addresses))
}

/// Checks a config that says everything it means, and reads its addresses.
fn check(config: &Config, nad: &NadKey, cluster: &Cluster) -> Result<Addresses, ConfigError> {
    if let Some(problem) = config.problems(&nad.to_string(), cluster.gateway_mode).into_iter().next() {
        return Err(problem.into());
    }
    let layer2 = config.topology == Some(Topology::Layer2);
    let addresses = addresses(config, cluster).map_err(|error| match error {
        // Parts are looked at after everything else, where upstream has no prefix any more.
        SubnetsError::Bad(BadAddresses::Outside { part, subnet }) => ConfigError::Outside { part, subnet },
        SubnetsError::Bad(_) | SubnetsError::FamilyNotSupported { .. } => ConfigError::Subnets(error),
    })?;
    let shape = match config.topology {
        Some(Topology::Layer3) => Shape::Layer3,
        Some(Topology::Layer2) if config.is_primary() => Shape::Layer2Primary,
        Some(Topology::Layer2) => Shape::Layer2Secondary,
        // A network of the underlay has nothing of the cluster in it.
        Some(Topology::Localnet | Topology::Unknown(_)) | None => return Ok(addresses),
    };
    let subnets = addresses.subnets.networks();
    let own = Own { shape, subnets: &subnets, join: &addresses.join, excluded: &addresses.excluded };
    overlap::check(&cluster.internal, own, &addresses.transit).map_err(ConfigError::Overlap)?;
    if layer2 && config.is_primary() {
        check_room(&subnets)?;
    }
    Ok(addresses)
}

/// A layer 2 primary network needs an address for its gateway and one for each node's management port, beside the ones
/// that cannot be given. Upstream accepts smaller ones and does not start any more.
fn check_room(subnets: &[IpNet]) -> Result<(), ConfigError> {
    let too_small = |subnet: &&IpNet| subnet.prefix_len() > subnet.max_prefix_len() - 2;
    match subnets.iter().find(too_small) {
        None => Ok(()),
        Some(subnet) => Err(ConfigError::NoRoom { subnet: *subnet, longest: subnet.max_prefix_len() - 2 }),
    }
}

/// The addresses of a config, all of families that the cluster can serve.
fn addresses(config: &Config, cluster: &Cluster) -> Result<Addresses, SubnetsError> {
    let addresses = Addresses::of(config)?;
    if config.is_primary() {
        let families = addresses.subnets.networks().iter().map(Family::of).collect::<BTreeSet<_>>();
        if let Some(family) = families.into_iter().find(|family| !cluster.families.has(*family)) {
            return Err(SubnetsError::FamilyNotSupported { network: config.name.clone(), family });
        }
    }
    Ok(addresses)
}

impl Cluster {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// What the spec says, verbatim, or the default of both families; networks that are not primary have none.
fn join_subnets(role: &Role, given: &[String], cluster: &Cluster) -> Vec<String> {
    match role {
        Role::Primary if given.is_empty() => {
            cluster.internal.user_join.iter().map(ToString::to_string).collect()
        }
        Role::Primary => given.to_vec(),
        Role::Secondary | Role::Unknown(_) => Vec::new(),
    }
}

fn mode(ipam: Option<&Ipam>) -> Result<IpamMode, ConfigError> {
    match ipam.and_then(|ipam| ipam.mode.clone()) {
        None => Ok(IpamMode::Enabled),
        Some(IpamMode::Unknown(other)) => Err(ConfigError::UnknownIpamMode(other)),
        Some(known) => Ok(known),
    }
}

/// Whether addresses outlive pods.
fn persistent_ips(ipam: Option<&Ipam>) -> Result<bool, ConfigError> {
    match ipam.and_then(|ipam| ipam.lifecycle.as_ref()) {
        None => Ok(false),
        Some(IpamLifecycle::Unknown(other)) => Err(ConfigError::UnknownIpamLifecycle(other.clone())),
        Some(IpamLifecycle::Persistent) => match mode(ipam)? {
            IpamMode::Enabled => Ok(true),
            IpamMode::Disabled | IpamMode::Unknown(_) => Err(ConfigError::PersistentWithoutIpam),
        },
    }
}

/// A size that is one: the API refuses others.
fn size(value: Option<i32>) -> Option<u32> {
    value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0)
}

#[cfg(test)]
mod replay;
#[cfg(test)]
mod tests;
