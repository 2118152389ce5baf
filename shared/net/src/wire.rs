//! Whether the wire behind an Uplink is up and fits together: told beside discovery, never instead of it.
//!
//! Host and card see one end each. Each publishes the MTU of its end in the message of its own condition, as the word
//! `mtu=<bytes>`, and compares the other's with its own: a change on either side is told on both.

use std::fmt;

use causeway_api::condition::{self, ConditionStatus, Wanted};
use causeway_api::uplink_state::{LinkReason, StateCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::host_data::InterfaceAddress;
use crate::role::Role;

/// Word in front of the MTU in a message.
const MTU: &str = "mtu=";

/// One link of the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// What the link is to the Uplink, for messages.
    pub part: Part,
    /// Its name.
    pub name: String,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Whether there is a carrier, where the driver says so.
    pub carrier: Option<bool>,
}

/// What a link is to the Uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The interface that the Uplink names.
    HostInterface,
    /// The bridge's port that leads to the host's interface.
    HostPort,
    /// The bridge itself.
    Bridge,
    /// The bridge's way out.
    Uplink,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostInterface => "host interface",
            Self::HostPort => "host port",
            Self::Bridge => "bridge",
            Self::Uplink => "physical uplink",
        })
    }
}

impl fmt::Display for LinkFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.part, self.name)
    }
}

/// State of duplicate address detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// The address may be used.
    Settled,
    /// It is still being looked for.
    Tentative,
    /// Somebody else has it.
    Duplicate,
}

/// An address of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressHealth {
    /// The address.
    pub address: InterfaceAddress,
    /// What detection says.
    pub detection: Detection,
}

/// VLANs of one port of a bridge. Source: ovs-vswitchd.conf.db(5), Port, VLAN Configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortVlan {
    /// Name of the port.
    pub name: String,
    /// The VLAN that untagged packets belong to.
    pub tag: Option<i64>,
    /// VLANs that a trunk carries; empty for all.
    pub trunks: Vec<i64>,
}

/// Type of the condition in which a role tells about the wire.
#[must_use]
pub fn own_condition(role: Role) -> StateCondition {
    match role {
        Role::DpuHost => StateCondition::HostLinkConsistent,
        Role::Full | Role::Dpu => StateCondition::LinkConsistent,
    }
}

/// Everything about the wire that one side sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Links, in the order from the host to the outside.
    pub links: Vec<LinkFacts>,
    /// Addresses of the host's interface, where this side sees them.
    pub addresses: Vec<AddressHealth>,
    /// The port that leads to the host and the one that leads out, where this side sees the bridge.
    pub vlans: Option<(PortVlan, PortVlan)>,
}

/// What this side says about the wire, given the conditions that the state has now. None for a side that sees no link:
/// there is nothing to say.
#[must_use]
pub fn judge(role: Role, wire: &Wire, current: &[Condition]) -> Option<Wanted> {
    let first = wire.links.first()?;
    let fault = link_down(wire)
        .or_else(|| address_fault(wire))
        .or_else(|| mtu_fault(role, wire, current))
        .or_else(|| vlan_fault(wire));
    let (status, reason, text) = match fault {
        None => (ConditionStatus::True, LinkReason::Consistent, String::new()),
        Some((reason, text)) => (ConditionStatus::False, reason, format!(": {text}")),
    };
    Some(Wanted {
        type_: own_condition(role).as_str(),
        status,
        reason: reason.as_str(),
        message: format!("{first}: {MTU}{}{text}", first.mtu),
        observed_generation: None,
    })
}

type Fault = (LinkReason, String);

fn peer_condition(role: Role) -> Option<StateCondition> {
    match role {
        Role::DpuHost => Some(StateCondition::LinkConsistent),
        Role::Dpu => Some(StateCondition::HostLinkConsistent),
        Role::Full => None,
    }
}

fn link_down(wire: &Wire) -> Option<Fault> {
    let down = wire.links.iter().find(|link| !link.up).map(|link| format!("{link} is down; set it up"));
    let dark = || {
        let dark = wire.links.iter().find(|link| link.carrier == Some(false));
        dark.map(|link| format!("{link} has no carrier; check its other end"))
    };
    down.or_else(dark).map(|text| (LinkReason::LinkDown, text))
}

fn address_fault(wire: &Wire) -> Option<Fault> {
    let with = |detection| wire.addresses.iter().find(move |address| address.detection == detection);
    let duplicate = with(Detection::Duplicate).map(|found| {
        let text =
            format!("address {} is also in use elsewhere on the link; remove one of the two", found.address);
        (LinkReason::DuplicateAddress, text)
    });
    duplicate.or_else(|| {
        with(Detection::Tentative).map(|found| {
            let text = format!("address {} is still being checked for a duplicate", found.address);
            (LinkReason::AddressTentative, text)
        })
    })
}

/// All links of one way carry the same packets, so their MTUs must agree; and with the peer's end of the same wire.
fn mtu_fault(role: Role, wire: &Wire, current: &[Condition]) -> Option<Fault> {
    let first = wire.links.first()?;
    let other = wire.links.iter().find(|link| link.mtu != first.mtu);
    let text = if let Some(other) = other {
        format!("{other} has MTU {}; set both to the same", other.mtu)
    } else {
        let peer = peer_condition(role).and_then(|type_| published_mtu(current, type_))?;
        if peer == first.mtu {
            return None;
        }
        let whose = if role == Role::Dpu { "the host's interface" } else { "the card's port" };
        format!("{whose} has MTU {peer}; set both to the same")
    };
    Some((LinkReason::MtuMismatch, text))
}

/// The MTU that the other side wrote into its condition.
fn published_mtu(current: &[Condition], type_: StateCondition) -> Option<u32> {
    let message = &condition::find(current, type_.as_str())?.message;
    let word = message.split([' ', ':']).find_map(|word| word.strip_prefix(MTU))?;
    word.parse().ok()
}

/// What the host sends untagged is in its port's VLAN; the uplink must carry that VLAN.
fn vlan_fault(wire: &Wire) -> Option<Fault> {
    let (host, uplink) = wire.vlans.as_ref()?;
    let carried = match (host.tag, uplink.tag) {
        (Some(host), Some(uplink)) => host == uplink,
        (Some(host), None) => uplink.trunks.is_empty() || uplink.trunks.contains(&host),
        // Untagged packets of a trunk belong to VLAN 0, which only a port without a tag of its own carries.
        (None, Some(_)) => false,
        (None, None) => uplink.trunks.is_empty() || uplink.trunks.contains(&0),
    };
    let vlan = |tag: Option<i64>| tag.map_or_else(|| "no VLAN".to_owned(), |tag| format!("VLAN {tag}"));
    (!carried).then(|| {
        let trunks =
            if uplink.trunks.is_empty() { String::new() } else { format!(", trunks {:?}", uplink.trunks) };
        let text = format!(
            "port {} is in {}, which physical uplink {} ({}{trunks}) does not carry",
            host.name,
            vlan(host.tag),
            uplink.name,
            vlan(uplink.tag)
        );
        (LinkReason::VlanMismatch, text)
    })
}

#[cfg(test)]
mod tests;
