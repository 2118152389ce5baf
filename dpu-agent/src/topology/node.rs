//! A node as the topology sees it: what its annotations say.
//!
//! An annotation that is not there is waited for; one that cannot be read is somebody's mistake. Which of the two, and
//! whether the rows at hand need it at all, their planner decides.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_api::annotation::node::{self as keys, Addresses};
use causeway_api::annotation::{
    AnnotationError, BadEntry, L3_GATEWAY_CONFIG, NODE_CHASSIS_ID, Networks, Read, gateway,
};
use causeway_net::network::id::NodeId;
use causeway_net::network::name::NodeName;
use ipnet::IpNet;

/// A value that an annotation tells.
pub type Told<T> = Result<T, Untold>;

/// Why an annotation tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    /// It is not there, or has no entry: whoever writes it has not done so yet.
    #[error("annotation {0} is missing")]
    Missing(&'static str),
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(Box<AnnotationError>),
    /// One of its entries cannot be read.
    #[error(transparent)]
    Entry(Box<BadEntry>),
}

impl From<AnnotationError> for Untold {
    fn from(error: AnnotationError) -> Self {
        Self::Unreadable(Box::new(error))
    }
}

impl From<BadEntry> for Untold {
    fn from(error: BadEntry) -> Self {
        Self::Entry(Box::new(error))
    }
}

impl Untold {
    /// Whether it is only not there yet.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneNode {
    /// Its name.
    pub name: NodeName,
    /// Its id.
    pub id: Told<NodeId>,
    /// Its chassis.
    pub chassis: Told<String>,
    /// Its subnets in routed networks.
    pub subnets: Told<Read<Networks<Vec<IpNet>>>>,
    /// Its gateways.
    pub gateways: Told<Read<Networks<gateway::L3Gateway>>>,
    /// Its addresses on transit switches.
    pub transit: Told<Vec<IpNet>>,
    /// All addresses of the host.
    pub host_cidrs: Told<Read<Vec<IpNet>>>,
    /// Addresses that tunnels end at.
    pub encap_ips: Told<Vec<IpAddr>>,
    /// MAC addresses of management ports that are not made of their addresses.
    pub management_macs: Networks<String>,
    /// Whether its gateways can tell packets that are too large.
    pub gateway_mtu: bool,
}

impl ZoneNode {
    /// A node from its name and annotations.
    #[must_use]
    pub fn of(name: &str, annotations: &BTreeMap<String, String>) -> Self {
        let text = |key: &'static str| annotations.get(key).map(String::as_str).ok_or(Untold::Missing(key));
        let id = text(keys::NODE_ID).and_then(|text| {
            let number = keys::read_node_id(text)?;
            // A number that nobody has counts as none.
            NodeId::try_from(number).map_err(|_| Untold::Missing(keys::NODE_ID))
        });
        let transit = text(keys::TRANSIT_SWITCH_PORT).and_then(|text| {
            let read = whole(keys::read_addresses(keys::TRANSIT_SWITCH_PORT, text)?)?;
            let addresses = both(read);
            if addresses.is_empty() { Err(Untold::Missing(keys::TRANSIT_SWITCH_PORT)) } else { Ok(addresses) }
        });
        let macs = text(keys::MANAGEMENT_PORT_MACS).ok();
        let macs = macs.and_then(|text| keys::read_management_port_macs(text).ok());
        Self {
            name: name.into(),
            id,
            chassis: text(NODE_CHASSIS_ID).and_then(|text| {
                if text.is_empty() { Err(Untold::Missing(NODE_CHASSIS_ID)) } else { Ok(text.to_owned()) }
            }),
            subnets: text(keys::NODE_SUBNETS).and_then(|text| Ok(keys::read_node_subnets(text)?)),
            gateways: text(L3_GATEWAY_CONFIG).and_then(|text| Ok(gateway::read(text)?)),
            transit,
            host_cidrs: text(keys::HOST_CIDRS).and_then(|text| Ok(keys::read_host_cidrs(text)?)),
            encap_ips: text(keys::ENCAP_IPS).and_then(|text| whole(keys::read_encap_ips(text)?)),
            management_macs: macs.map(|read| read.value).unwrap_or_default(),
            gateway_mtu: keys::read_gateway_mtu_support(
                annotations.get(keys::GATEWAY_MTU_SUPPORT).map(String::as_str),
            ),
        }
    }

    /// Its subnets in one routed network.
    ///
    /// # Errors
    /// There are none yet, or they cannot be read.
    pub fn subnets_of(&self, network: &str) -> Told<&[IpNet]> {
        let read = self.subnets.as_ref().map_err(Clone::clone)?;
        match entry(read, network, keys::NODE_SUBNETS)? {
            subnets if subnets.is_empty() => Err(Untold::Missing(keys::NODE_SUBNETS)),
            subnets => Ok(subnets),
        }
    }

    /// Its gateway.
    ///
    /// # Errors
    /// It has told none yet, or what cannot be read.
    pub fn gateway(&self) -> Told<&gateway::L3Gateway> {
        let read = self.gateways.as_ref().map_err(Clone::clone)?;
        entry(read, causeway_net::network::name::NetworkName::DEFAULT, L3_GATEWAY_CONFIG)
    }

    /// Its address on transit switches that is of the same family as another one.
    #[must_use]
    pub(super) fn transit_like(&self, like: IpAddr) -> Option<IpAddr> {
        let transit = self.transit.as_ref().ok()?;
        super::cluster::same_family(transit.iter().map(IpNet::addr), like)
    }
}

fn entry<'r, T>(read: &'r Read<Networks<T>>, network: &str, key: &'static str) -> Told<&'r T> {
    if let Some(bad) = read.bad.iter().find(|bad| bad.entry == network) {
        return Err(bad.clone().into());
    }
    read.value.get(network).ok_or(Untold::Missing(key))
}

/// What was read, if all of it could be.
fn whole<T>(read: Read<T>) -> Told<T> {
    match read.bad.into_iter().next() {
        Some(bad) => Err(bad.into()),
        None => Ok(read.value),
    }
}

fn both(addresses: Addresses) -> Vec<IpNet> {
    addresses.ipv4.map(IpNet::V4).into_iter().chain(addresses.ipv6.map(IpNet::V6)).collect()
}
