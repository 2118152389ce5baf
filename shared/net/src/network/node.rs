//! Addresses and numbers that follow from a node's id. Only the first of them is annotated, the others are computed by
//! whoever needs them.

use std::net::IpAddr;

use ipnet::IpNet;

use super::id::NodeId;
use super::offset::{OutOfRange, nth, nth_with_mask};

/// First tunnel key of a layer 2 transit router's ports towards nodes. Source: ovn-kubernetes `types.TransitRouter`
/// port keys: 10 + node id.
const LAYER2_PORT_KEY_BASE: u32 = 10;

/// The two ends of the link between a layer 2 network's transit router and a node's gateway router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitPair {
    /// The transit router's end.
    pub transit_router: IpNet,
    /// The gateway router's end.
    pub gateway_router: IpNet,
}

impl NodeId {
    /// The node's address in a range that has one address per node: the transit switch's port, or the gateway router's
    /// port in a join range.
    ///
    /// # Errors
    /// The range has no address for a node of this id.
    pub fn address_in(self, range: IpNet) -> Result<IpNet, OutOfRange> {
        nth_with_mask(range, u32::from(self.get()))
    }

    /// The node's two addresses in the transit range of a layer 2 network, in a network of just these two.
    ///
    /// # Errors
    /// The range has no addresses for a node of this id.
    pub fn transit_pair(self, range: IpNet) -> Result<TransitPair, OutOfRange> {
        let index = 2 * u32::from(self.get());
        let pair = |address: IpAddr| match address {
            IpAddr::V4(_) => IpNet::new_assert(address, 31),
            IpAddr::V6(_) => IpNet::new_assert(address, 127),
        };
        Ok(TransitPair {
            transit_router: pair(nth(range, index)?),
            gateway_router: pair(nth(range, index + 1)?),
        })
    }

    /// Tunnel key of the port of a layer 2 network's transit router towards the node.
    #[must_use]
    pub fn layer2_port_tunnel_key(self) -> u32 {
        LAYER2_PORT_KEY_BASE + u32::from(self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_nodes_equal_the_published_ones() {
        let (two, three) = (NodeId::try_from(2).unwrap(), NodeId::try_from(3).unwrap());
        for (node, range, want) in [
            (two, "100.64.0.0/16", "100.64.0.2/16"),
            (two, "fd98::/64", "fd98::2/64"),
            (three, "100.64.0.0/16", "100.64.0.3/16"),
            (two, "100.65.0.0/16", "100.65.0.2/16"),
            (two, "fd99::/64", "fd99::2/64"),
            (three, "100.65.0.0/16", "100.65.0.3/16"),
            (two, "100.88.0.0/16", "100.88.0.2/16"),
            (two, "fd97::/64", "fd97::2/64"),
            (NodeId::try_from(5000).unwrap(), "100.88.0.0/16", "100.88.19.136/16"),
        ] {
            assert_eq!(node.address_in(net(range)).unwrap(), net(want), "{node} in {range}");
        }
    }

    #[test]
    fn the_two_ends_of_a_layer_2_transit_link_equal_the_published_ones() {
        for (node, range, router, gateway) in [
            (2, "100.88.0.0/16", "100.88.0.4/31", "100.88.0.5/31"),
            (2, "fd97::/64", "fd97::4/127", "fd97::5/127"),
            (3, "100.88.0.0/16", "100.88.0.6/31", "100.88.0.7/31"),
        ] {
            let pair = NodeId::try_from(node).unwrap().transit_pair(net(range)).unwrap();
            assert_eq!((pair.transit_router, pair.gateway_router), (net(router), net(gateway)));
        }
        assert_eq!(NodeId::try_from(2).unwrap().layer2_port_tunnel_key(), 12);
        assert_eq!(NodeId::try_from(3).unwrap().layer2_port_tunnel_key(), 13);
    }

    #[test]
    fn a_range_without_an_address_for_the_node_is_refused() {
        assert!(NodeId::try_from(300).unwrap().address_in(net("100.64.0.0/24")).is_err());
        assert!(NodeId::try_from(200).unwrap().transit_pair(net("100.88.0.0/24")).is_err());
    }
}
