//! Ids of rows that have no readable name: who owns them, what kind they are, which one.
//!
//! In: a kind, the owner, the values of the kind's keys. Out: the id as text, the `external_ids` that carry it, and the
//! name of port groups and address sets, which is a hash of it.
//! Source: ovn-kubernetes `pkg/libovsdb/ops/db_object_ids.go` and `db_object_types.go`.

use std::collections::BTreeMap;

use ipnet::IpNet;

/// Key of an object's name.
pub const NAME: &str = "k8s.ovn.org/name";
/// Key of the whole id.
pub const ID: &str = "k8s.ovn.org/id";
/// Key of the owner.
pub const OWNER_CONTROLLER: &str = "k8s.ovn.org/owner-controller";
/// Key of the kind.
pub const OWNER_TYPE: &str = "k8s.ovn.org/owner-type";

const DIRECTION: &str = "direction";
const GRESS_INDEX: &str = "gress-index";
const PROTOCOL: &str = "port-policy-protocol";
const IP_BLOCK: &str = "ip-block-index";
const RULE: &str = "rule-index";
const FAMILY: &str = "ip-family";
const NETWORK: &str = "network";
const PRIORITY: &str = "priority";
const TYPE: &str = "type";
const IP: &str = "ip";
const CIDR: &str = "k8s.ovn.org/cidr";
const NETWORK_ID: &str = "network-id";
const NODE_ID: &str = "node-id";
const ROUTER: &str = "router-name";

/// A kind of rows: its word, and the keys whose values tell its rows apart, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind<const N: usize> {
    /// The word.
    pub owner_type: &'static str,
    /// The keys in `external_ids`.
    pub keys: [&'static str; N],
}

/// The id of one row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    text: String,
    external_ids: BTreeMap<String, String>,
}

impl<const N: usize> Kind<N> {
    const fn new(owner_type: &'static str, keys: [&'static str; N]) -> Self {
        Self { owner_type, keys }
    }

    /// The id of a row of this kind. A value may be empty; it still counts.
    #[must_use]
    pub fn id(&self, controller: &str, values: [&str; N]) -> ObjectId {
        let mut text = format!("{controller}:{}", self.owner_type);
        for value in values {
            text.push(':');
            text.push_str(value);
        }
        let owner = [(OWNER_CONTROLLER, controller), (OWNER_TYPE, self.owner_type), (ID, text.as_str())];
        let pairs = owner.into_iter().chain(self.keys.into_iter().zip(values));
        let external_ids = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        ObjectId { text, external_ids }
    }

    /// Whether a row's `external_ids`, of which `note` gives one by its key, say that it is of this kind and of this owner.
    #[must_use]
    pub fn is_of<'a, S: AsRef<str> + ?Sized + 'a>(
        &self,
        controller: &str,
        note: impl Fn(&str) -> Option<&'a S>,
    ) -> bool {
        let has = |key: &str, value: &str| note(key).is_some_and(|found| found.as_ref() == value);
        has(OWNER_TYPE, self.owner_type) && has(OWNER_CONTROLLER, controller)
    }
}

impl ObjectId {
    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What the row carries.
    #[must_use]
    pub fn external_ids(&self) -> &BTreeMap<String, String> {
        &self.external_ids
    }

    /// The name of the port group or address set with this id.
    #[must_use]
    pub fn hashed_name(&self) -> String {
        format!("a{}", fnv_1a(self.text.as_bytes()))
    }
}

/// A block of addresses as a value of a key: the id's own separator may not be in it.
#[must_use]
pub fn cidr_value(block: IpNet) -> String {
    block.to_string().replace(':', ".")
}

/// FNV-1a with 64 bits. Source: draft-eastlake-fnv.
fn fnv_1a(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// Kinds of port groups.
pub mod port_group {
    use super::{DIRECTION, Kind, NAME};

    /// `clusterPortGroup`, `clusterRtrPortGroup`.
    pub const CLUSTER: Kind<1> = Kind::new("Cluster", [NAME]);
    /// Pods of a namespace.
    pub const NAMESPACE: Kind<1> = Kind::new("Namespace", [NAME]);
    /// Pods of a namespace that some policy selects.
    pub const NETPOL_NAMESPACE: Kind<2> = Kind::new("NetpolNamespace", [NAME, DIRECTION]);
    /// Pods that a policy selects.
    pub const NETWORK_POLICY: Kind<1> = Kind::new("NetworkPolicy", [NAME]);
    /// Pods that an AdminNetworkPolicy selects.
    pub const ADMIN_NETWORK_POLICY: Kind<1> = Kind::new("AdminNetworkPolicy", [NAME]);
    /// Pods that the BaselineAdminNetworkPolicy selects.
    pub const BASELINE_ADMIN_NETWORK_POLICY: Kind<1> = Kind::new("BaselineAdminNetworkPolicy", [NAME]);
    /// Default-network ports of pods with a primary network of their own.
    pub const UDN_ISOLATION: Kind<1> = Kind::new("UDNIsolation", [NAME]);
    /// Router ports of advertised networks.
    pub const ADVERTISED_NETWORK: Kind<1> = Kind::new("AdvertisedNetwork", [NAME]);
}

/// Kinds of ACLs.
pub mod acl {
    use super::{DIRECTION, GRESS_INDEX, IP, IP_BLOCK, Kind, NAME, NETWORK, PROTOCOL, RULE, TYPE};

    /// Isolation of networks from the default network.
    pub const UDN_ISOLATION: Kind<2> = Kind::new("UDNIsolation", [NAME, DIRECTION]);
    /// Isolation of advertised networks.
    pub const ADVERTISED_NETWORK: Kind<2> = Kind::new("AdvertisedNetwork", [NAME, NETWORK]);
    /// A node may reach the pods of its own switch.
    pub const NETPOL_NODE: Kind<2> = Kind::new("NetpolNode", [NAME, IP]);
    /// What a namespace with policies denies.
    pub const NETPOL_NAMESPACE: Kind<3> = Kind::new("NetpolNamespace", [NAME, DIRECTION, TYPE]);
    /// What a policy allows.
    pub const NETWORK_POLICY: Kind<5> =
        Kind::new("NetworkPolicy", [NAME, DIRECTION, GRESS_INDEX, PROTOCOL, IP_BLOCK]);
    /// A pod may reach itself through a service.
    pub const NETPOL_DEFAULT: Kind<2> = Kind::new("NetpolDefault", [NAME, DIRECTION]);
    /// Multicast of the whole cluster.
    pub const MULTICAST_CLUSTER: Kind<2> = Kind::new("MulticastCluster", [TYPE, DIRECTION]);
    /// Multicast of a namespace.
    pub const MULTICAST_NAMESPACE: Kind<2> = Kind::new("MulticastNS", [NAME, DIRECTION]);
    /// A rule of an EgressFirewall.
    pub const EGRESS_FIREWALL: Kind<2> = Kind::new("EgressFirewall", [NAME, RULE]);
    /// A rule of an AdminNetworkPolicy.
    pub const ADMIN_NETWORK_POLICY: Kind<4> =
        Kind::new("AdminNetworkPolicy", [NAME, DIRECTION, GRESS_INDEX, PROTOCOL]);
    /// A rule of the BaselineAdminNetworkPolicy.
    pub const BASELINE_ADMIN_NETWORK_POLICY: Kind<4> =
        Kind::new("BaselineAdminNetworkPolicy", [NAME, DIRECTION, GRESS_INDEX, PROTOCOL]);
    /// Connected networks.
    pub const CLUSTER_NETWORK_CONNECT: Kind<2> = Kind::new("ClusterNetworkConnect", [NAME, TYPE]);
}

/// Kinds of address sets. The last key of most is the family: two sets for each logical one.
pub mod address_set {
    use super::{DIRECTION, FAMILY, GRESS_INDEX, IP_BLOCK, Kind, NAME, NETWORK, PRIORITY, RULE};

    /// Pods that a selector of a policy matches.
    pub const POD_SELECTOR: Kind<2> = Kind::new("PodSelector", [NAME, FAMILY]);
    /// Addresses of all nodes.
    pub const CLUSTER_NODE_IPS: Kind<2> = Kind::new("ClusterNodeIPs", [NAME, FAMILY]);
    /// Services of the default network that every network reaches.
    pub const UDN_ENABLED_SERVICE: Kind<2> = Kind::new("UDNEnabledService", [NAME, FAMILY]);
    /// Subnets of advertised networks.
    pub const ADVERTISED_NETWORK: Kind<2> = Kind::new("AdvertisedNetwork", [NAME, FAMILY]);
    /// Pods that an EgressService serves.
    pub const EGRESS_SERVICE: Kind<2> = Kind::new("EgressService", [NAME, FAMILY]);
    /// Addresses of a name in an EgressFirewall.
    pub const EGRESS_FIREWALL_DNS: Kind<2> = Kind::new("EgressFirewallDNS", [NAME, FAMILY]);
    /// Pods behind a hybrid overlay's gateway.
    pub const HYBRID_NODE_ROUTE: Kind<2> = Kind::new("HybridNodeRoute", [NAME, FAMILY]);
    /// Connected networks.
    pub const CLUSTER_NETWORK_CONNECT: Kind<2> = Kind::new("ClusterNetworkConnect", [NAME, FAMILY]);
    /// Pods that an EgressIP serves.
    pub const EGRESS_IP: Kind<3> = Kind::new("EgressIP", [NAME, FAMILY, NETWORK]);
    /// What a network without overlay does not translate.
    pub const CLUSTER: Kind<3> = Kind::new("Cluster", [NAME, FAMILY, NETWORK]);
    /// Pods that an EgressQoS marks.
    pub const EGRESS_QOS: Kind<3> = Kind::new("EgressQoS", [NAME, PRIORITY, FAMILY]);
    /// Addresses in a rule of a NetworkQoS.
    pub const NETWORK_QOS: Kind<4> = Kind::new("NetworkQoS", [NAME, RULE, IP_BLOCK, FAMILY]);
    /// Peers of a rule of an AdminNetworkPolicy.
    pub const ADMIN_NETWORK_POLICY: Kind<4> =
        Kind::new("AdminNetworkPolicy", [NAME, DIRECTION, GRESS_INDEX, FAMILY]);
    /// Peers of a rule of the BaselineAdminNetworkPolicy.
    pub const BASELINE_ADMIN_NETWORK_POLICY: Kind<4> =
        Kind::new("BaselineAdminNetworkPolicy", [NAME, DIRECTION, GRESS_INDEX, FAMILY]);
}

/// Kinds of rows of other tables.
pub mod other {
    use super::{CIDR, FAMILY, Kind, NAME, NETWORK, NETWORK_ID, NODE_ID, PRIORITY, ROUTER, RULE};

    /// What a virtual machine is told by DHCP.
    pub const DHCP_VIRTUAL_MACHINE: Kind<2> = Kind::new("VirtualMachine", [NAME, CIDR]);
    /// A router's policy for EgressIPs.
    pub const POLICY_EGRESS_IP: Kind<4> = Kind::new("EgressIP", [PRIORITY, NAME, FAMILY, NETWORK]);
    /// A NAT for an EgressIP.
    pub const NAT_EGRESS_IP: Kind<2> = Kind::new("EgressIP", [NAME, FAMILY]);
    /// The NAT of a network without overlay.
    pub const NAT_NO_OVERLAY: Kind<4> =
        Kind::new("NoOverlayClusterSubnetSNAT", [NAME, CIDR, FAMILY, NETWORK]);
    /// A mark of an EgressQoS.
    pub const QOS_EGRESS_QOS: Kind<2> = Kind::new("EgressQoS", [PRIORITY, NAME]);
    /// A mark for EgressIPs; carries the keys of their policies.
    pub const QOS_EGRESS_IP: Kind<4> = Kind::new("EgressIP", [PRIORITY, NAME, FAMILY, NETWORK]);
    /// A rule of a NetworkQoS.
    pub const QOS_NETWORK_QOS: Kind<2> = Kind::new("NetworkQoS", [NAME, RULE]);
    /// A router port between connected networks.
    pub const PORT_NETWORK_CONNECT: Kind<4> =
        Kind::new("ClusterNetworkConnect", [NAME, NETWORK_ID, NODE_ID, ROUTER]);
    /// A router's policy between connected networks.
    pub const POLICY_NETWORK_CONNECT: Kind<5> = Kind::new(
        "ClusterNetworkConnect",
        [NAME, "source-network-id", "destination-network-id", FAMILY, ROUTER],
    );
    /// A route between connected networks.
    pub const ROUTE_NETWORK_CONNECT: Kind<4> =
        Kind::new("ClusterNetworkConnect", [NAME, NETWORK_ID, NODE_ID, FAMILY]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: &str = "default-network-controller";
    const BLUE: &str = "cluster_udn_blue-network-controller";

    #[test]
    fn hashed_names_equal_the_published_ones() {
        let advertised = "advertised-network-subnets";
        let services = "udn-enabled-svc-cluster-ips";
        let client = "ns1_LS{ML:{app: client,},}";
        for (id, text, name) in [
            (
                port_group::CLUSTER.id(DEFAULT, ["clusterPortGroup"]),
                "default-network-controller:Cluster:clusterPortGroup",
                "a13298398610555951118",
            ),
            (
                port_group::CLUSTER.id(DEFAULT, ["clusterRtrPortGroup"]),
                "default-network-controller:Cluster:clusterRtrPortGroup",
                "a4743249366342378346",
            ),
            (
                port_group::UDN_ISOLATION.id(DEFAULT, ["SecondaryPods"]),
                "default-network-controller:UDNIsolation:SecondaryPods",
                "a8747502060113802905",
            ),
            (
                address_set::CLUSTER_NODE_IPS.id(DEFAULT, ["node-ips", "v4"]),
                "default-network-controller:ClusterNodeIPs:node-ips:v4",
                "a1042611113178530741",
            ),
            (
                address_set::CLUSTER_NODE_IPS.id(DEFAULT, ["node-ips", "v6"]),
                "default-network-controller:ClusterNodeIPs:node-ips:v6",
                "a1042608914155274319",
            ),
            (
                address_set::UDN_ENABLED_SERVICE.id("udn-enabled-svc", [services, "v4"]),
                "udn-enabled-svc:UDNEnabledService:udn-enabled-svc-cluster-ips:v4",
                "a3613486944346402462",
            ),
            (
                address_set::UDN_ENABLED_SERVICE.id("udn-enabled-svc", [services, "v6"]),
                "udn-enabled-svc:UDNEnabledService:udn-enabled-svc-cluster-ips:v6",
                "a3613484745323146040",
            ),
            (
                port_group::ADVERTISED_NETWORK.id(DEFAULT, [advertised]),
                "default-network-controller:AdvertisedNetwork:advertised-network-subnets",
                "a13312563267853114862",
            ),
            (
                address_set::ADVERTISED_NETWORK.id(DEFAULT, [advertised, "v4"]),
                "default-network-controller:AdvertisedNetwork:advertised-network-subnets:v4",
                "a10109792604843350142",
            ),
            (
                address_set::ADVERTISED_NETWORK.id(DEFAULT, [advertised, "v6"]),
                "default-network-controller:AdvertisedNetwork:advertised-network-subnets:v6",
                "a10109790405820093720",
            ),
            (
                port_group::CLUSTER.id(BLUE, ["clusterPortGroup"]),
                "cluster_udn_blue-network-controller:Cluster:clusterPortGroup",
                "a11995131262919241784",
            ),
            (
                port_group::CLUSTER.id(BLUE, ["clusterRtrPortGroup"]),
                "cluster_udn_blue-network-controller:Cluster:clusterRtrPortGroup",
                "a9224163729325589984",
            ),
            (
                port_group::NETPOL_NAMESPACE.id(BLUE, ["ns1", "Ingress"]),
                "cluster_udn_blue-network-controller:NetpolNamespace:ns1:Ingress",
                "a5012631053833599744",
            ),
            (
                port_group::NETPOL_NAMESPACE.id(BLUE, ["ns1", "Egress"]),
                "cluster_udn_blue-network-controller:NetpolNamespace:ns1:Egress",
                "a12990378596997507510",
            ),
            (
                port_group::NETWORK_POLICY.id(BLUE, ["ns1:allow-web"]),
                "cluster_udn_blue-network-controller:NetworkPolicy:ns1:allow-web",
                "a3585760500498221456",
            ),
            (
                address_set::POD_SELECTOR.id(BLUE, [client, "v4"]),
                "cluster_udn_blue-network-controller:PodSelector:ns1_LS{ML:{app: client,},}:v4",
                "a15792884708959856991",
            ),
        ] {
            assert_eq!((id.as_str(), id.hashed_name().as_str()), (text, name));
        }
    }

    #[test]
    fn a_row_carries_owner_kind_id_and_one_pair_for_each_key() {
        // The colons of an address stay, those of a block do not.
        let node = acl::NETPOL_NODE.id(DEFAULT, ["node1", "fd01:0:0:1::2"]);
        assert_eq!(node.as_str(), "default-network-controller:NetpolNode:node1:fd01:0:0:1::2");
        let want: BTreeMap<String, String> = [
            ("ip", "fd01:0:0:1::2"),
            ("k8s.ovn.org/id", "default-network-controller:NetpolNode:node1:fd01:0:0:1::2"),
            ("k8s.ovn.org/name", "node1"),
            ("k8s.ovn.org/owner-controller", DEFAULT),
            ("k8s.ovn.org/owner-type", "NetpolNode"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        assert_eq!(node.external_ids(), &want);
        let found = |key: &str| want.get(key);
        assert!(acl::NETPOL_NODE.is_of(DEFAULT, found));
        assert!(!acl::NETPOL_NODE.is_of(BLUE, found) && !acl::NETPOL_DEFAULT.is_of(DEFAULT, found));

        let block = cidr_value("2010:100:200::/60".parse().unwrap());
        let dhcp = other::DHCP_VIRTUAL_MACHINE.id("bluenet-network-controller", ["foo/vm1", &block]);
        assert_eq!(dhcp.as_str(), "bluenet-network-controller:VirtualMachine:foo/vm1:2010.100.200../60");
    }

    #[test]
    fn an_empty_value_still_counts() {
        let drop = acl::ADVERTISED_NETWORK.id(DEFAULT, ["advertised-network-subnets", ""]);
        assert_eq!(drop.as_str(), "default-network-controller:AdvertisedNetwork:advertised-network-subnets:");
        assert_eq!(drop.external_ids()["network"], "");
    }
}
