//! How the nodes' parts of a layer 2 primary network are joined.

use causeway_api::annotation::node::{LAYER2_WITH_TRANSIT_ROUTER, MAX_GATEWAY_ROUTER_TUNNEL_ID};

use super::name::NodeName;
use crate::ipam::ids::Ids;

/// The two ways in which upstream joined them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer2Layout {
    /// Every node's gateway router has a port on the network's one switch, with a tunnel id of its own.
    Legacy,
    /// A transit router joins the nodes' gateway routers.
    TransitRouter,
}

/// What a Node's annotations say about its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLayout<'n> {
    /// Whether it has a tunnel id of some network's gateway router.
    pub tunnel_ids: TunnelIds,
    /// The layout that the node itself tells.
    pub version: Option<&'n str>,
}

/// Whether a node has tunnel ids of gateway routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelIds {
    /// It has.
    Some,
    /// It has not.
    None,
}

impl Layer2Layout {
    /// The layout of a cluster: the legacy one as long as a node that was set up for it has not told that it moved on.
    ///
    /// Decided once at start, as upstream does: all components have to agree.
    #[must_use]
    pub fn of<'n>(nodes: impl IntoIterator<Item = NodeLayout<'n>>) -> Self {
        let behind = |node: NodeLayout<'_>| {
            node.tunnel_ids == TunnelIds::Some && node.version != Some(LAYER2_WITH_TRANSIT_ROUTER)
        };
        if nodes.into_iter().any(behind) { Self::Legacy } else { Self::TransitRouter }
    }

    /// First tunnel id of a pod's port on a layer 2 switch: those below belong to the platform's own ports.
    #[must_use]
    pub fn first_pod_tunnel_id(self) -> u32 {
        match self {
            Self::Legacy => 1,
            Self::TransitRouter => 10,
        }
    }

    /// Tunnel ids of the gateway routers of one network, where the layout has any.
    #[must_use]
    pub fn gateway_router_ids(self) -> Option<Ids<NodeName>> {
        (self == Self::Legacy).then(|| Ids::new(1..=MAX_GATEWAY_ROUTER_TUNNEL_ID))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_that_has_not_moved_on_keeps_the_cluster_in_the_legacy_layout() {
        let node = |tunnel_ids, version| NodeLayout { tunnel_ids, version };
        let moved = node(TunnelIds::Some, Some("2.0"));
        let fresh = node(TunnelIds::None, None);
        for (nodes, want) in [
            (&[][..], Layer2Layout::TransitRouter),
            (&[fresh, moved], Layer2Layout::TransitRouter),
            (&[fresh, moved, node(TunnelIds::Some, None)], Layer2Layout::Legacy),
            (&[node(TunnelIds::Some, Some("1.0"))], Layer2Layout::Legacy),
        ] {
            assert_eq!(Layer2Layout::of(nodes.iter().copied()), want, "{nodes:?}");
        }
    }

    #[test]
    fn only_the_legacy_layout_gives_tunnel_ids_to_gateway_routers() {
        assert!(Layer2Layout::TransitRouter.gateway_router_ids().is_none());
        let mut ids = Layer2Layout::Legacy.gateway_router_ids().unwrap();
        assert_eq!(ids.allocate(&"a".into()), Ok(1));
        assert_eq!(ids.allocate(&"b".into()), Ok(2));
        assert_eq!(Layer2Layout::Legacy.first_pod_tunnel_id(), 1);
        assert_eq!(Layer2Layout::TransitRouter.first_pod_tunnel_id(), 10);
    }
}
