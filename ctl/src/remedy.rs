//! What each reason means and what to do about it: the one table that `explain` shows and docs/causewayctl.md lists.

use std::fmt::Write as _;

use causeway_api::uplink::UplinkReason;
use causeway_api::uplink_state::{DiscoveryReason, LinkReason};

/// What a reason means and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What it means.
    pub means: &'static str,
    /// What to do; empty where nothing is wrong.
    pub action: &'static str,
}

const fn remedy(means: &'static str, action: &'static str) -> Remedy {
    Remedy { means, action }
}

/// For a reason of `Resolved` or `HostDataReady`.
#[must_use]
pub fn of_discovery(reason: DiscoveryReason) -> Remedy {
    match reason {
        DiscoveryReason::Resolved => remedy("interface and bridge are found and fit", ""),
        DiscoveryReason::HostDataDiscovered => remedy("the host's half is found", ""),
        DiscoveryReason::HostInterfaceNotFound => remedy(
            "the host has no interface of the name that the Uplink's entry gives",
            "create the interface, or correct hostInterfaceName of the entry that selects this node (`ip link` on the node lists what is there)",
        ),
        DiscoveryReason::InvalidHostInterface => remedy(
            "the interface cannot hold a gateway's identity: it has no usable MAC address, or it is the bridge's physical uplink",
            "name another interface: the bridge's internal port, or the VF or SF behind it",
        ),
        DiscoveryReason::GatewayInfoUnavailable => remedy(
            "addresses, routes, the node's default gateway or the entry itself could not be used; the message says which",
            "give the interface an address of each family that the cluster uses; see that the Node has the annotations k8s.ovn.org/l3-gateway-config and k8s.ovn.org/node-chassis-id",
        ),
        DiscoveryReason::BridgeNotFound => remedy(
            "no bridge of Open vSwitch leads to the interface",
            "attach the interface or its representor to a bridge (`ovs-vsctl add-port BRIDGE PORT`), and see that Open vSwitch runs; on a card, that the eswitch is in switchdev mode (`causewayctl check`)",
        ),
        DiscoveryReason::BridgeUplinkNotFound => remedy(
            "the bridge has no physical port, or several and nothing says which leads out",
            "add the physical port, or name it: `ovs-vsctl br-set-external-id BRIDGE bridge-uplink PORT`",
        ),
        DiscoveryReason::BridgeInvalid => remedy(
            "the bridge may not serve as an Uplink: it is OVN's integration bridge",
            "use a bridge of its own for the Uplink",
        ),
        DiscoveryReason::DefaultGatewayBridgeUnsupported => remedy(
            "the bridge carries the cluster's own traffic",
            "use a bridge of its own for the Uplink, with a physical port of its own",
        ),
        DiscoveryReason::NodeSelectorOverlap => remedy(
            "several entries of the Uplink select this node",
            "make the selectors exclude each other, for instance by `operator: DoesNotExist`",
        ),
        DiscoveryReason::WaitingForDpuHost => remedy(
            "the card has not seen usable data of its host",
            "look at the host's half: if HostDataReady is false, solve that; if it is absent, see that the host agent runs on the host",
        ),
    }
}

/// For a reason of `LinkConsistent` or `HostLinkConsistent`.
#[must_use]
pub fn of_link(reason: LinkReason) -> Remedy {
    match reason {
        LinkReason::Consistent => remedy("nothing is wrong with the wire", ""),
        LinkReason::LinkDown => remedy(
            "a link on the way out is down or has no carrier",
            "set it up (`ip link set LINK up`), and look at cable and peer port",
        ),
        LinkReason::MtuMismatch => remedy(
            "links that must carry the same packets have different MTUs",
            "give all links that the message names the same MTU (`ip link set LINK mtu N`)",
        ),
        LinkReason::DuplicateAddress => remedy(
            "somebody else has an address of the interface",
            "find the other holder of the address, or give the interface another one",
        ),
        LinkReason::AddressTentative => remedy(
            "the kernel is still finding out whether an address is free",
            "wait a moment; if it stays, look whether the link has a carrier",
        ),
        LinkReason::VlanMismatch => remedy(
            "the VLAN of the host's port does not leave through the bridge's uplink",
            "allow the VLAN on the uplink port (`ovs-vsctl set Port PORT trunks=…` or `tag=…`)",
        ),
    }
}

/// For a reason of the Uplink's `Ready`.
#[must_use]
pub fn of_uplink(reason: UplinkReason) -> Remedy {
    match reason {
        UplinkReason::Ready => remedy("every selected node is resolved", ""),
        UplinkReason::InvalidSpec => remedy(
            "a node selector cannot be used, and so the whole Uplink",
            "correct the selector that the message names",
        ),
        UplinkReason::NodeSelectorOverlap => remedy(
            "several entries select the same node",
            "make the selectors exclude each other, for instance by `operator: DoesNotExist`",
        ),
        UplinkReason::NoMatchingNodes => remedy(
            "no entry selects any node",
            "label the nodes (`kubectl label node NODE KEY=VALUE`), or correct the selectors",
        ),
        UplinkReason::MissingUplinkState => remedy(
            "a selected node has not published an UplinkState",
            "see that an agent runs for the node with --enable-uplink (and --enable-multi-network, --enable-network-segmentation) and may write UplinkStates; on the node, `causewayctl agent`",
        ),
        UplinkReason::UplinkStateNotResolved => remedy(
            "a selected node has not found its interface and bridge",
            "solve what the node's state says",
        ),
        UplinkReason::UplinkStateIdentityError => remedy(
            "the object under the name of a node's state belongs to another Uplink or node",
            "delete that object, or rename the Uplink: names with dots can make two pairs share one name",
        ),
        UplinkReason::UplinkTerminating => remedy(
            "the Uplink is being deleted and a network still refers to it",
            "remove the Uplink from the networks that use it; then the deletion ends by itself",
        ),
    }
}

/// What to do when the agents' part is done and the cluster manager has not said so.
pub const MANAGER_SILENT: Remedy = remedy(
    "all selected nodes are resolved, and the Uplink's Ready does not say so (yet)",
    "if it stays so, see that the cluster manager runs with --enable-uplink and is the leader",
);

/// What to do when one half of a card has never been published.
pub const CARD_SILENT: Remedy = remedy(
    "the host has published its half, and the card nothing",
    "see that the DPU agent of this node runs, reaches the cluster's API server and serves this node (`--init-node`)",
);

/// What to do when the host of a card has never published.
pub const HOST_SILENT: Remedy = remedy(
    "the card waits for its host, which has not published anything",
    "see that the host agent of this node runs with --enable-uplink",
);

/// What to do when a half is about another interface than the spec.
pub const STALE: Remedy = remedy(
    "what is published is about another interface than the Uplink names now",
    "wait a moment; if it stays so, the agent of that half is not running",
);

/// The text that `explain` shows for a reason of any condition; none for one that this version does not know.
#[must_use]
pub fn of_text(reason: &str) -> Option<Remedy> {
    let discovery = reason.parse().ok().map(of_discovery);
    let link = || reason.parse().ok().map(of_link);
    let uplink = || reason.parse().ok().map(of_uplink);
    discovery.or_else(link).or_else(uplink)
}

/// The table as Markdown, for the documentation.
#[must_use]
pub fn markdown() -> String {
    let discovery = DiscoveryReason::ALL
        .iter()
        .map(|reason| ("`Resolved`, `HostDataReady`", reason.as_str(), of_discovery(*reason)));
    let link = LinkReason::ALL
        .iter()
        .map(|reason| ("`LinkConsistent`, `HostLinkConsistent`", reason.as_str(), of_link(*reason)));
    let uplink = UplinkReason::ALL.iter().map(|reason| ("`Ready`", reason.as_str(), of_uplink(*reason)));
    let mut text = "| Condition | Reason | Means | What to do |\n|---|---|---|---|\n".to_owned();
    for (condition, reason, Remedy { means, action }) in uplink.chain(discovery).chain(link) {
        // Writing to a String cannot fail.
        writeln!(text, "| {condition} | `{reason}` | {means} | {action} |").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_of_good_conditions_have_nothing_to_do() {
        let good = ["Resolved", "HostDataDiscovered", "LinkConsistent", "Ready"];
        let all = DiscoveryReason::ALL.iter().map(|reason| reason.as_str());
        let all = all.chain(LinkReason::ALL.iter().map(|reason| reason.as_str()));
        for reason in all.chain(UplinkReason::ALL.iter().map(|reason| reason.as_str())) {
            let found = of_text(reason).expect(reason);
            assert_eq!(found.action.is_empty(), good.contains(&reason), "{reason}");
            assert!(!found.means.is_empty(), "{reason}");
        }
        assert_eq!(of_text("FromTheFuture"), None);
    }
}
