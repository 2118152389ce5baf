//! What can break on a regular node.

use causeway_api::uplink_state::DiscoveryReason as Reason;

use super::{Act, Break, Case, Subject};

const RESOLVED: &str = "Resolved";

const ADDRESS_BACK: &str =
    "ip addr add 172.28.0.2/16 dev ovsbr1; ip route add default via 172.28.0.1 dev ovsbr1 metric 50000";

const BRIDGE_BACK: &str = "ovs-vsctl --timeout=30 add-br ovsbr1 -- set Bridge ovsbr1 datapath_type=netdev \
                           other_config:hwaddr=$(cat /run/ovsbr1-mac) -- add-port ovsbr1 eth1\n\
                           ip link set ovsbr1 up; ip addr add 172.28.0.2/16 dev ovsbr1\n\
                           ip route add default via 172.28.0.1 dev ovsbr1 metric 50000";

/// What the state says when only the bridge is missing.
const HOST_DATA: &[&str] = &["hostInterfaceName", "macAddress", "ipAddresses", "defaultGateways"];
/// The same of an interface without a default route.
const HOST_DATA_WITHOUT_GATEWAY: &[&str] = &["hostInterfaceName", "macAddress", "ipAddresses"];
/// Host data and bridge.
const ALL: &[&str] = &["hostInterfaceName", "macAddress", "ipAddresses", "defaultGateways", "ovsBridge"];
/// The same of an interface without a default route.
const ALL_WITHOUT_GATEWAY: &[&str] = &["hostInterfaceName", "macAddress", "ipAddresses", "ovsBridge"];

/// The cases.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a_regular_node_without_an_address_withdraws_what_it_published",
        subject: Subject::Regular,
        breaks: &[Break {
            act: Act::Regular("ip addr del 172.28.0.2/16 dev ovsbr1"),
            says: &[(
                RESOLVED,
                Reason::GatewayInfoUnavailable,
                "failed to read IP addresses from ovsbr1: failed to find IPv4 address on interface ovsbr1",
            )],
            keeps: &["hostInterfaceName"],
        }],
        heals: &[Act::Regular(ADDRESS_BACK)],
    },
    Case {
        name: "a_regular_node_whose_bridge_is_deleted_has_no_interface_and_heals_with_a_new_one",
        subject: Subject::Regular,
        breaks: &[Break {
            // A new bridge gets a new address of its own; the test compares all.
            act: Act::Regular(
                "cat /sys/class/net/ovsbr1/address > /run/ovsbr1-mac; ovs-vsctl --timeout=30 del-br ovsbr1",
            ),
            says: &[(
                RESOLVED,
                Reason::HostInterfaceNotFound,
                "host interface ovsbr1 was not found: Link not found",
            )],
            keeps: &["hostInterfaceName"],
        }],
        heals: &[Act::Regular(BRIDGE_BACK)],
    },
    Case {
        name: "an_interface_of_a_regular_node_without_a_mac_address_is_invalid",
        subject: Subject::OnRegular("tun9"),
        breaks: &[Break {
            act: Act::Regular("ip tuntap add tun9 mode tun"),
            says: &[(
                RESOLVED,
                Reason::InvalidHostInterface,
                "host interface tun9 has no usable MAC address",
            )],
            keeps: &["hostInterfaceName"],
        }],
        heals: &[Act::Regular("ip tuntap del tun9 mode tun")],
    },
    Case {
        name: "the_wire_of_a_bridge_cannot_be_the_host_interface",
        subject: Subject::OnRegular("eth1"),
        breaks: &[Break {
            act: Act::Regular("ip addr add 198.51.100.1/24 dev eth1"),
            says: &[(
                RESOLVED,
                Reason::InvalidHostInterface,
                "host interface eth1 is the physical uplink port for OVS bridge ovsbr1",
            )],
            keeps: ALL_WITHOUT_GATEWAY,
        }],
        heals: &[Act::Regular("ip addr del 198.51.100.1/24 dev eth1")],
    },
    Case {
        name: "an_interface_on_no_bridge_is_told_from_one_on_the_wrong_bridge",
        subject: Subject::OnRegular("gw0"),
        breaks: &[
            Break {
                act: Act::Regular(
                    "ip link add gw0 type veth peer name gw0-peer; ip addr add 198.51.100.7/24 dev gw0",
                ),
                says: &[(
                    RESOLVED,
                    Reason::BridgeNotFound,
                    "failed to resolve OVS bridge for gw0: OVS port or interface gw0 not found: object not found",
                )],
                keeps: HOST_DATA_WITHOUT_GATEWAY,
            },
            Break {
                act: Act::Regular(
                    "ovs-vsctl --timeout=30 add-br br-int -- set Bridge br-int datapath_type=netdev \
                     -- add-port br-int gw0",
                ),
                says: &[(
                    RESOLVED,
                    Reason::BridgeInvalid,
                    "OVN integration bridge br-int cannot be used as an Uplink bridge",
                )],
                keeps: ALL_WITHOUT_GATEWAY,
            },
        ],
        heals: &[Act::Regular("ovs-vsctl --timeout=30 del-br br-int; ip link del gw0")],
    },
    Case {
        name: "a_wire_that_moves_to_another_bridge_is_named_there_until_it_goes",
        subject: Subject::Regular,
        breaks: &[
            Break {
                act: Act::Regular(
                    "ovs-vsctl --timeout=30 set Bridge ovsbr1 external_ids:bridge-uplink=eth1 \
                     -- add-br ovsbr9 -- set Bridge ovsbr9 datapath_type=netdev \
                     -- del-port ovsbr1 eth1 -- add-port ovsbr9 eth1",
                ),
                says: &[(
                    RESOLVED,
                    Reason::BridgeUplinkNotFound,
                    "failed to find interface for bridge ovsbr1 physical uplink eth1: it is on bridge ovsbr9",
                )],
                keeps: ALL,
            },
            Break {
                act: Act::Regular("ovs-vsctl --timeout=30 del-port ovsbr9 eth1"),
                says: &[(
                    RESOLVED,
                    Reason::BridgeUplinkNotFound,
                    "failed to find interface for bridge ovsbr1 physical uplink eth1: the bridge has no physical \
                     port; add one",
                )],
                keeps: ALL,
            },
        ],
        heals: &[Act::Regular(
            "ovs-vsctl --timeout=30 add-port ovsbr1 eth1 -- del-br ovsbr9 \
             -- remove Bridge ovsbr1 external_ids bridge-uplink",
        )],
    },
    Case {
        name: "of_two_wires_the_bridges_external_id_chooses_one",
        subject: Subject::Regular,
        breaks: &[
            Break {
                act: Act::Regular("ovs-vsctl --timeout=30 del-port ovsbr1 eth1"),
                says: &[(
                    RESOLVED,
                    Reason::BridgeUplinkNotFound,
                    "failed to resolve physical uplink for OVS bridge ovsbr1: the bridge has no physical port; add one",
                )],
                keeps: ALL,
            },
            Break {
                act: Act::Regular(
                    "ip link add eth2 address fe:ff:ff:ff:ff:fe type veth peer name eth2-peer\n\
                     ovs-vsctl --timeout=30 add-port ovsbr1 eth1 -- add-port ovsbr1 eth2",
                ),
                says: &[(
                    RESOLVED,
                    Reason::BridgeUplinkNotFound,
                    "failed to resolve physical uplink for OVS bridge ovsbr1: ports eth1, eth2 could be it; name one \
                     in external_ids:bridge-uplink of the bridge",
                )],
                keeps: ALL,
            },
        ],
        heals: &[
            Act::Regular("ovs-vsctl --timeout=30 set Bridge ovsbr1 external_ids:bridge-uplink=eth1"),
            Act::Regular(
                "ovs-vsctl --timeout=30 del-port ovsbr1 eth2 -- remove Bridge ovsbr1 external_ids bridge-uplink\n\
                 ip link del eth2",
            ),
        ],
    },
    Case {
        name: "the_default_gateways_bridge_of_a_regular_node_is_refused",
        subject: Subject::Regular,
        breaks: &[Break {
            act: Act::DefaultGateway("ovsbr1"),
            says: &[(
                RESOLVED,
                Reason::DefaultGatewayBridgeUnsupported,
                "default shared gateway bridge ovsbr1 cannot be used as an Uplink bridge",
            )],
            keeps: ALL,
        }],
        heals: &[Act::Remember],
    },
    Case {
        name: "a_regular_node_needs_a_usable_default_gateway_and_a_chassis",
        subject: Subject::Regular,
        breaks: &[
            Break {
                act: Act::Forget("k8s.ovn.org/node-chassis-id"),
                says: &[(
                    RESOLVED,
                    Reason::GatewayInfoUnavailable,
                    "failed to determine the default shared gateway bridge for node \"node-b\": \
                     k8s.ovn.org/node-chassis-id annotation not found for node \"node-b\"",
                )],
                keeps: HOST_DATA,
            },
            Break {
                act: Act::DefaultGateway(""),
                says: &[(
                    RESOLVED,
                    Reason::GatewayInfoUnavailable,
                    "default shared gateway bridge is not available for node \"node-b\"",
                )],
                keeps: HOST_DATA,
            },
        ],
        heals: &[Act::Remember],
    },
];
