//! Other nodes' chassis, as they are written to this zone's Southbound database.

use std::net::IpAddr;

use causeway_api::annotation::node::ENCAP_IPS;
use causeway_net::network::name::NodeName;

use super::super::cluster::Cluster;
use super::super::mark::pairs;
use super::super::node::{Untold, ZoneNode};
use super::super::northbound::Pairs;
use super::{PlanError, chassis_of};

/// Port of Geneve. Source: RFC 8926, section 3.3.
const GENEVE_PORT: u16 = 6081;

/// The chassis of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChassisRow {
    /// Its name.
    pub name: String,
    /// The node.
    pub node: NodeName,
    /// Where its tunnels end.
    pub addresses: Vec<IpAddr>,
    /// Settings of the tunnels.
    pub options: Pairs,
}

/// The chassis of another node.
///
/// # Errors
/// The node has not told its chassis, or where its tunnels end.
pub fn remote_chassis(cluster: &Cluster, node: &ZoneNode) -> Result<ChassisRow, PlanError> {
    let missing = |cause: &Untold| PlanError::Node { node: node.name.clone(), cause: cause.clone() };
    let name = chassis_of(node)?.to_owned();
    let addresses = node.encap_ips.as_ref().map_err(missing)?.clone();
    if addresses.is_empty() {
        return Err(missing(&Untold::Missing(ENCAP_IPS)));
    }
    let mut options = pairs([("csum", "true")]);
    let port = cluster.geneve_port.filter(|port| *port != GENEVE_PORT);
    options.extend(port.map(|port| ("dst_port", port.to_string())));
    Ok(ChassisRow { name, node: node.name.clone(), addresses, options })
}
