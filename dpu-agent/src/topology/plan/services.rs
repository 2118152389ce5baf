//! Ways to Services of the default network: by the node's own interface, behind which the host leads on.

use std::net::IpAddr;

use causeway_api::annotation::GatewayMode;
use ipnet::IpNet;

use super::super::cluster::{Cluster, same_family};
use super::super::mark;
use super::super::network::Shape;
use super::super::northbound::AddressSet;
use super::super::rows::Rows;
use super::super::service::{self, DefaultService};
use super::{Cx, Part, Plan, PlanError, management, route};
use causeway_net::ipam::nodes::Family;

/// A route for each Service, a part of its own.
pub(super) fn ways(cx: &Cx<'_>, services: &[DefaultService], plan: &mut Plan) {
    let router = match &cx.network.shape {
        Shape::Layer3Primary(_) => cx.names.cluster_router(),
        Shape::Layer2Primary(_) => cx.names.transit_router(),
        Shape::Default(_) | Shape::Layer3Secondary | Shape::Layer2Secondary | Shape::Localnet { .. } => {
            return;
        }
    };
    for service in services {
        plan.put(Part::Service(service.name.clone()), way(cx, &router, service));
    }
}

/// One address leads there, the first one of a family that the network has. With a local gateway the host leads there
/// anyway, and a node without a gateway leads nowhere. Source: ovn-kubernetes
/// `controller/services/services_controller.go`, `configureUDNEnabledServiceRoute`.
fn way(cx: &Cx<'_>, router: &str, service: &DefaultService) -> Result<Rows, PlanError> {
    let mut rows = Rows::default();
    let gateway = cx.node.gateway();
    let gateway = gateway.map_err(|cause| PlanError::Node { node: cx.node.name.clone(), cause })?;
    if gateway.mode != GatewayMode::Shared {
        return Ok(rows);
    }
    let subnets = match &cx.network.shape {
        Shape::Layer2Primary(_) => cx.network.subnets.as_slice(),
        _ => cx.node_subnets()?,
    };
    let own = management::own(cx, subnets)?;
    let hops = || own.iter().map(|own| own.management);
    let way = service.addresses.iter().find_map(|to| Some((to, same_family(hops(), *to)?)));
    if let Some((to, hop)) = way {
        let mut notes = cx.marks.plain();
        notes.insert(mark::DEFAULT_SERVICE, &service.name.to_string());
        let mut row = route(to.to_string(), hop, notes);
        row.policy = Some("dst-ip".to_owned());
        rows.route(router, row);
    }
    Ok(rows)
}

/// The sets of all addresses of these Services, one of each family of the cluster.
#[must_use]
pub fn service_addresses(cluster: &Cluster, services: &[DefaultService]) -> Rows {
    let mut rows = Rows::default();
    for family in [Family::V4, Family::V6].into_iter().filter(|family| cluster.has(*family)) {
        let id = service::set_id(family == Family::V4);
        let all = services.iter().flat_map(|service| &service.addresses);
        let of_family = |address: &&IpAddr| Family::of(&IpNet::from(**address)) == family;
        let set = AddressSet {
            name: id.hashed_name(),
            addresses: all.filter(of_family).map(ToString::to_string).collect(),
            external_ids: mark::pairs(id.external_ids()),
        };
        rows.address_sets.insert(set.name.clone(), set);
    }
    rows
}

#[cfg(test)]
mod tests;
