//! What can break on a host with a card.

use causeway_api::uplink_state::DiscoveryReason as Reason;

use super::{Act, Break, Case, Subject};

const HOST: &str = "HostDataReady";
const RESOLVED: &str = "Resolved";

const NO_MAC: &str = "waiting for DPU-host MAC address for interface eth0-16: address : invalid MAC address";

/// Without an address the kernel drops the default route too.
const ADDRESS_BACK: &str =
    "ip addr add 172.31.0.10/24 dev eth0-16; ip route add default via 172.31.0.1 dev eth0-16 metric 50000";

const BRIDGE_BACK: &str = "ovs-vsctl --timeout=30 add-br br-tenant -- set Bridge br-tenant datapath_type=netdev \
                           -- add-port br-tenant p0 -- add-port br-tenant rep0-16\n\
                           ip link set br-tenant up";

const NOT_ON_A_BRIDGE: &str = "failed to find DPU bridge for host MAC 52:54:00:d9:20:10: representor rep0-16: OVS port \
                               or interface rep0-16 not found: object not found";

/// What the state says when the host's half is whole and the card's is missing.
const HOST_HALF: &[&str] =
    &["hostInterfaceName", "macAddress", "ipAddresses", "defaultGateways", "hostFunction"];
/// Both halves.
const BOTH: &[&str] =
    &["hostInterfaceName", "macAddress", "ipAddresses", "defaultGateways", "hostFunction", "ovsBridge"];

/// The cases.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a_host_without_an_address_withdraws_its_half_and_the_card_waits",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Host("ip addr del 172.31.0.10/24 dev eth0-16"),
            says: &[
                (
                    HOST,
                    Reason::GatewayInfoUnavailable,
                    "failed to read IP addresses from eth0-16: failed to find IPv4 address on interface eth0-16",
                ),
                (RESOLVED, Reason::WaitingForDpuHost, NO_MAC),
            ],
            keeps: &["hostInterfaceName"],
        }],
        heals: &[Act::Host(ADDRESS_BACK)],
    },
    Case {
        name: "a_host_whose_interface_got_another_name_does_not_find_it",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Host("ip link set eth0-16 down; ip link set eth0-16 name away"),
            says: &[
                (HOST, Reason::HostInterfaceNotFound, "host interface eth0-16 was not found: Link not found"),
                (RESOLVED, Reason::WaitingForDpuHost, NO_MAC),
            ],
            keeps: &["hostInterfaceName"],
        }],
        heals: &[Act::Host(
            "ip link set away name eth0-16; ip link set eth0-16 up\n\
             ip route add default via 172.31.0.1 dev eth0-16 metric 50000",
        )],
    },
    Case {
        name: "a_host_interface_without_a_mac_address_is_invalid",
        subject: Subject::OnHost("tun9"),
        breaks: &[Break {
            act: Act::Host("ip tuntap add tun9 mode tun"),
            says: &[
                (HOST, Reason::InvalidHostInterface, "host interface tun9 has no usable MAC address"),
                (
                    RESOLVED,
                    Reason::WaitingForDpuHost,
                    "waiting for DPU-host MAC address for interface tun9: address : invalid MAC address",
                ),
            ],
            keeps: &["hostInterfaceName"],
        }],
        heals: &[Act::Host("ip tuntap del tun9 mode tun")],
    },
    Case {
        name: "a_card_refuses_a_host_mac_that_is_not_its_functions",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Host("ip link set eth0-16 address 02:00:00:00:00:77"),
            says: &[(
                RESOLVED,
                Reason::BridgeNotFound,
                "failed to find DPU bridge for host MAC 02:00:00:00:00:77: representor rep0-16 for host function \
                 pf0vf16 peers with MAC 52:54:00:d9:20:10, not the published host MAC 02:00:00:00:00:77",
            )],
            keeps: HOST_HALF,
        }],
        heals: &[Act::Host("ip link set eth0-16 address 52:54:00:d9:20:10")],
    },
    Case {
        name: "a_card_whose_representor_is_on_no_bridge_finds_none",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Card("ovs-vsctl del-port br-tenant rep0-16"),
            says: &[(RESOLVED, Reason::BridgeNotFound, NOT_ON_A_BRIDGE)],
            keeps: HOST_HALF,
        }],
        heals: &[Act::Card("ovs-vsctl add-port br-tenant rep0-16")],
    },
    Case {
        name: "a_card_whose_bridge_is_deleted_finds_none",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Card("ovs-vsctl --timeout=30 del-br br-tenant"),
            says: &[(RESOLVED, Reason::BridgeNotFound, NOT_ON_A_BRIDGE)],
            keeps: HOST_HALF,
        }],
        heals: &[Act::Card(BRIDGE_BACK)],
    },
    Case {
        name: "a_bridge_of_a_card_without_a_wire_is_published_and_refused",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Card("ovs-vsctl del-port br-tenant p0"),
            says: &[(
                RESOLVED,
                Reason::BridgeUplinkNotFound,
                "failed to find interface for bridge br-tenant physical uplink -tenant: the bridge has no physical \
                 port; add one",
            )],
            keeps: BOTH,
        }],
        heals: &[Act::Card("ovs-vsctl add-port br-tenant p0")],
    },
    Case {
        name: "a_representor_on_the_integration_bridge_is_refused",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Card(
                "ovs-vsctl --timeout=30 add-br br-int -- set Bridge br-int datapath_type=netdev \
                 -- del-port br-tenant rep0-16 -- add-port br-int rep0-16",
            ),
            says: &[(
                RESOLVED,
                Reason::BridgeInvalid,
                "OVN integration bridge br-int cannot be used as an Uplink bridge",
            )],
            keeps: BOTH,
        }],
        heals: &[Act::Card(
            "ovs-vsctl --timeout=30 del-port br-int rep0-16 -- add-port br-tenant rep0-16 -- del-br br-int",
        )],
    },
    Case {
        name: "the_default_gateways_bridge_of_a_card_is_refused",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::DefaultGateway("br-tenant"),
            says: &[(
                RESOLVED,
                Reason::DefaultGatewayBridgeUnsupported,
                "default shared gateway bridge br-tenant cannot be used as an Uplink bridge",
            )],
            keeps: BOTH,
        }],
        heals: &[Act::DefaultGateway("breth1"), Act::Remember],
    },
    Case {
        name: "a_card_waits_for_the_annotation_of_the_default_gateway",
        subject: Subject::Card,
        breaks: &[Break {
            act: Act::Forget("k8s.ovn.org/l3-gateway-config"),
            says: &[(
                RESOLVED,
                Reason::GatewayInfoUnavailable,
                "failed to determine the default shared gateway bridge for node \"node-a\": \
                 k8s.ovn.org/l3-gateway-config annotation not found for node \"node-a\"",
            )],
            keeps: HOST_HALF,
        }],
        heals: &[Act::Remember],
    },
];
