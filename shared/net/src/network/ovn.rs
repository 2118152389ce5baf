//! Names of a network's objects in OVN.
//!
//! In: the name of a network, names of nodes. Out: the names that every component, the tools of operators and their
//! runbooks know the rows by. Source: ovn-kubernetes `types` and `util` (`multi_network.go`): only the network's name is
//! escaped, names of nodes are not.

use super::name::{NadKey, NetworkName};

/// Names of the objects of one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvnNames {
    prefix: String,
    network: String,
}

/// The three groups of load balancers of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerGroups {
    /// On all pod switches and gateway routers.
    pub cluster: String,
    /// On pod switches.
    pub switch: String,
    /// On gateway routers where services have node ports.
    pub router: String,
}

impl OvnNames {
    /// The names of a network.
    #[must_use]
    pub fn of(network: &NetworkName) -> Self {
        Self { prefix: network.ovn_prefix(), network: network.as_str().to_owned() }
    }

    /// What names of this network's objects hold; empty for the default network.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Who owns the rows that carry an owner: made of the raw name, not of the escaped one.
    #[must_use]
    pub fn controller(&self) -> String {
        format!("{}-network-controller", self.network)
    }

    /// The distributed router of a routed network.
    #[must_use]
    pub fn cluster_router(&self) -> String {
        format!("{}ovn_cluster_router", self.prefix)
    }

    /// The router between the nodes' gateway routers and the switch of a layer 2 primary network.
    #[must_use]
    pub fn transit_router(&self) -> String {
        format!("{}transit_router", self.prefix)
    }

    /// The switch between the distributed router and the gateway router.
    #[must_use]
    pub fn join_switch(&self) -> String {
        format!("{}join", self.prefix)
    }

    /// The switch between the zones of a routed network.
    #[must_use]
    pub fn transit_switch(&self) -> String {
        format!("{}transit_switch", self.prefix)
    }

    /// The pod switch of a node in a routed network.
    #[must_use]
    pub fn node_switch(&self, node: &str) -> String {
        format!("{}{node}", self.prefix)
    }

    /// The one switch of a layer 2 network.
    #[must_use]
    pub fn layer2_switch(&self) -> String {
        format!("{}ovn_layer2_switch", self.prefix)
    }

    /// The switch of a network of the underlay.
    #[must_use]
    pub fn localnet_switch(&self) -> String {
        format!("{}ovn_localnet_switch", self.prefix)
    }

    /// Its port to the underlay.
    #[must_use]
    pub fn localnet_port(&self) -> String {
        format!("{}ovn_localnet_port", self.prefix)
    }

    /// The gateway router of a node.
    #[must_use]
    pub fn gateway_router(&self, node: &str) -> String {
        format!("GR_{}{node}", self.prefix)
    }

    /// The switch between a node's gateway router and its bridge.
    #[must_use]
    pub fn external_switch(&self, node: &str) -> String {
        format!("ext_{}{node}", self.prefix)
    }

    /// The port of the external switch to a bridge. The default network's is named in the node's annotation instead.
    #[must_use]
    pub fn external_localnet_port(&self, bridge: &str, node: &str) -> String {
        format!("{bridge}_{}{node}", self.prefix)
    }

    /// The port of the node's own interface, which is also that interface's `iface-id`.
    #[must_use]
    pub fn management_port(&self, node: &str) -> String {
        format!("k8s-{}{node}", self.prefix)
    }

    /// The distributed router's port on the transit switch.
    #[must_use]
    pub fn router_to_transit_switch(&self, node: &str) -> String {
        format!("{}rtots-{node}", self.prefix)
    }

    /// The transit switch's port of a node.
    #[must_use]
    pub fn transit_switch_port(&self, node: &str) -> String {
        format!("{}tstor-{node}", self.prefix)
    }

    /// The groups of load balancers.
    #[must_use]
    pub fn load_balancer_groups(&self) -> LoadBalancerGroups {
        let named = |name: &str| format!("{}{name}", self.prefix);
        LoadBalancerGroups {
            cluster: named("clusterLBGroup"),
            switch: named("clusterSwitchLBGroup"),
            router: named("clusterRouterLBGroup"),
        }
    }
}

/// A router's port towards a pod switch.
#[must_use]
pub fn router_to_switch(switch: &str) -> String {
    format!("rtos-{switch}")
}

/// The pod switch's end of [`router_to_switch`].
#[must_use]
pub fn switch_to_router(switch: &str) -> String {
    format!("stor-{switch}")
}

/// The transit router's port towards the switch of a layer 2 network.
#[must_use]
pub fn transit_router_to_switch(switch: &str) -> String {
    format!("trtos-{switch}")
}

/// The switch's end of [`transit_router_to_switch`].
#[must_use]
pub fn switch_to_transit_router(switch: &str) -> String {
    format!("stotr-{switch}")
}

/// A router's port on the join switch.
#[must_use]
pub fn router_to_join(router: &str) -> String {
    format!("rtoj-{router}")
}

/// The join switch's end of [`router_to_join`].
#[must_use]
pub fn join_to_router(router: &str) -> String {
    format!("jtor-{router}")
}

/// A gateway router's port towards the outside.
#[must_use]
pub fn router_to_external(gateway_router: &str) -> String {
    format!("rtoe-{gateway_router}")
}

/// The external switch's end of [`router_to_external`].
#[must_use]
pub fn external_to_router(gateway_router: &str) -> String {
    format!("etor-{gateway_router}")
}

/// A gateway router's port towards the transit router of a layer 2 network.
#[must_use]
pub fn router_to_transit_router(gateway_router: &str) -> String {
    format!("rtotr-{gateway_router}")
}

/// The transit router's end of [`router_to_transit_router`].
#[must_use]
pub fn transit_router_to_router(gateway_router: &str) -> String {
    format!("trtor-{gateway_router}")
}

/// The binding of a router port to a chassis.
#[must_use]
pub fn gateway_chassis(router_port: &str, chassis: &str) -> String {
    format!("{router_port}-{chassis}")
}

/// The patch port on an external bridge that ovn-controller makes for a localnet port. Source: OVN
/// `controller/patch.c`.
#[must_use]
pub fn patch_port(localnet_port: &str) -> String {
    format!("patch-{localnet_port}-to-br-int")
}

/// A pod's port in the default network.
#[must_use]
pub fn default_pod_port(namespace: &str, pod: &str) -> String {
    format!("{namespace}_{pod}")
}

/// A pod's port in another network. `attachment` counts the pod's attachments to the same NAD from 0.
#[must_use]
pub fn pod_port(nad: &NadKey, attachment: u32, namespace: &str, pod: &str) -> String {
    let key = match attachment {
        0 => nad.to_string(),
        more => format!("{nad}/{more}"),
    };
    format!("{}{namespace}_{pod}", NetworkName::from(key).ovn_prefix())
}

/// The variable of a template that stands for a load balancer's name.
/// Source: ovn-kubernetes `services.makeTemplateName`.
#[must_use]
pub fn template_variable(load_balancer: &str) -> String {
    load_balancer.replace('_', "__").replace(['/', '-', '$', '@'], "_")
}

/// The networks that cannot be on a node because another one has their prefix: upstream lets both write the same rows.
/// Of those that share one, the network that sorts first by `order` stays. Result: refused network, and who has the
/// prefix.
#[must_use]
pub fn prefix_collisions<'n, O: Ord>(
    networks: impl IntoIterator<Item = (&'n NetworkName, O)>,
) -> Vec<(&'n NetworkName, &'n NetworkName)> {
    let mut networks: Vec<(&NetworkName, O)> = networks.into_iter().collect();
    networks.sort_by(|(one, first), (other, second)| (first, one).cmp(&(second, other)));
    let mut holders = std::collections::BTreeMap::new();
    let mut refused = Vec::new();
    for (network, _) in networks {
        let holder = *holders.entry(network.ovn_prefix()).or_insert(network);
        if holder != network {
            refused.push((network, holder));
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_users_network_equal_the_captured_ones() {
        let names = OvnNames::of(&NetworkName::of_cudn("blue"));
        let (gateway, switch) = (names.gateway_router("node1"), names.node_switch("node1"));
        let groups = names.load_balancer_groups();
        for (found, want) in [
            (names.cluster_router(), "cluster_udn_blue_ovn_cluster_router"),
            (names.transit_router(), "cluster_udn_blue_transit_router"),
            (names.join_switch(), "cluster_udn_blue_join"),
            (names.transit_switch(), "cluster_udn_blue_transit_switch"),
            (switch.clone(), "cluster_udn_blue_node1"),
            (names.layer2_switch(), "cluster_udn_blue_ovn_layer2_switch"),
            (names.localnet_switch(), "cluster_udn_blue_ovn_localnet_switch"),
            (names.localnet_port(), "cluster_udn_blue_ovn_localnet_port"),
            (gateway.clone(), "GR_cluster_udn_blue_node1"),
            (names.external_switch("node1"), "ext_cluster_udn_blue_node1"),
            (names.external_localnet_port("br-ex", "node1"), "br-ex_cluster_udn_blue_node1"),
            (names.management_port("node1"), "k8s-cluster_udn_blue_node1"),
            (names.router_to_transit_switch("node1"), "cluster_udn_blue_rtots-node1"),
            (names.transit_switch_port("node2"), "cluster_udn_blue_tstor-node2"),
            (router_to_switch(&switch), "rtos-cluster_udn_blue_node1"),
            (switch_to_router(&switch), "stor-cluster_udn_blue_node1"),
            (router_to_join(&names.cluster_router()), "rtoj-cluster_udn_blue_ovn_cluster_router"),
            (join_to_router(&gateway), "jtor-GR_cluster_udn_blue_node1"),
            (router_to_external(&gateway), "rtoe-GR_cluster_udn_blue_node1"),
            (external_to_router(&gateway), "etor-GR_cluster_udn_blue_node1"),
            (router_to_transit_router(&gateway), "rtotr-GR_cluster_udn_blue_node1"),
            (transit_router_to_router(&gateway), "trtor-GR_cluster_udn_blue_node1"),
            (transit_router_to_switch(&names.layer2_switch()), "trtos-cluster_udn_blue_ovn_layer2_switch"),
            (switch_to_transit_router(&names.layer2_switch()), "stotr-cluster_udn_blue_ovn_layer2_switch"),
            (gateway_chassis("rtos-node1", "c1"), "rtos-node1-c1"),
            (patch_port("br-ex_cluster_udn_blue_node1"), "patch-br-ex_cluster_udn_blue_node1-to-br-int"),
            (groups.cluster, "cluster_udn_blue_clusterLBGroup"),
            (groups.switch, "cluster_udn_blue_clusterSwitchLBGroup"),
            (groups.router, "cluster_udn_blue_clusterRouterLBGroup"),
            (names.controller(), "cluster_udn_blue-network-controller"),
        ] {
            assert_eq!(found, want);
        }
    }

    #[test]
    fn names_of_the_default_network_have_no_prefix() {
        let names = OvnNames::of(&NetworkName::default_network());
        for (found, want) in [
            (names.cluster_router(), "ovn_cluster_router"),
            (names.join_switch(), "join"),
            (names.transit_switch(), "transit_switch"),
            (names.node_switch("node-1"), "node-1"),
            (names.gateway_router("node-1"), "GR_node-1"),
            (names.external_switch("node-1"), "ext_node-1"),
            (names.management_port("node-1"), "k8s-node-1"),
            (names.router_to_transit_switch("node-1"), "rtots-node-1"),
            (names.transit_switch_port("node-1"), "tstor-node-1"),
            (names.load_balancer_groups().cluster, "clusterLBGroup"),
            (names.controller(), "default-network-controller"),
        ] {
            assert_eq!(found, want);
        }
    }

    #[test]
    fn only_the_networks_name_is_escaped() {
        let names = OvnNames::of(&NetworkName::of_udn("cyan-x", "net-b"));
        assert_eq!(names.gateway_router("node-1"), "GR_cyan.x_net.b_node-1");
        assert_eq!(names.controller(), "cyan-x_net-b-network-controller");
    }

    #[test]
    fn ports_of_pods_equal_the_published_ones() {
        assert_eq!(default_pod_port("ns1", "pod1"), "ns1_pod1");
        for (nad, attachment, namespace, pod, want) in [
            ("ns1/blue", 0, "ns1", "pod1", "ns1.blue_ns1_pod1"),
            ("ns1/blue", 1, "ns1", "pod1", "ns1.blue.1_ns1_pod1"),
            ("cyan-x/net-b", 0, "cyan-x", "pod-cyan", "cyan.x.net.b_cyan-x_pod-cyan"),
        ] {
            assert_eq!(pod_port(&nad.parse().unwrap(), attachment, namespace, pod), want);
        }
    }

    #[test]
    fn a_template_variable_equals_the_published_one() {
        assert_eq!(
            template_variable("Service_default/node-port-svc_UDP_30957_node_router_template_IPv4"),
            "Service__default_node_port_svc__UDP__30957__node__router__template__IPv4"
        );
    }

    #[test]
    fn of_networks_with_one_prefix_only_the_first_stays_whatever_their_order() {
        let (dash, dot) = (NetworkName::from("a-b"), NetworkName::from("a.b"));
        let other = NetworkName::from("a_b");
        for order in [[(&dash, 2), (&dot, 1), (&other, 3)], [(&other, 3), (&dot, 1), (&dash, 2)]] {
            assert_eq!(prefix_collisions(order), [(&dash, &dot)]);
        }
        assert_eq!(prefix_collisions([(&dash, 1), (&other, 2)]), []);
    }
}
