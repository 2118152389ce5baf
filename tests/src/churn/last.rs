//! What changes last in a round: facts that states publish, one after the other, with nothing put right after them.
//!
//! What follows a change tells of it again: a link that goes down makes an agent read its routes anew, a new connection
//! everything. So that an event that got lost stays lost until the verdict, the changes begin where everything is
//! resolved, and each is of a fact of its own that none of the others hides.

use causeway_api::annotation::L3_GATEWAY_CONFIG;
use causeway_rig::UplinkAnnotations;
use fastrand::Rng;

use super::act::{Act, Machine, VSCTL, ZONE, good_annotations};
use super::fault::Reach;
use crate::blue;
use crate::manifests::uplink;

/// States that are resolved before the last changes: of the scenario's Uplink on both nodes, of one Uplink for each node,
/// and of one that selects by a label.
pub const STATES: [&str; 5] = [blue::STATE_A, blue::STATE_B, "one.node-a", "two.node-b", "three.node-a"];

const OF_HOST: (&str, &str) = ("{matchLabels: {kubernetes.io/hostname: node-a}}", "eth0-16");
const OF_REGULAR: (&str, &str) = ("{matchLabels: {kubernetes.io/hostname: node-b}}", "ovsbr1");

/// An interface whose addresses and routes change, and what it has at first.
struct Side {
    machine: Machine,
    interface: &'static str,
    address: &'static str,
    other_address: &'static str,
    gateway: &'static str,
    other_gateway: &'static str,
}

const HOST: Side = Side {
    machine: Machine::Host,
    interface: blue::CARD_INTERFACE,
    address: blue::CARD_ADDRESS,
    other_address: "10.31.0.11/24",
    gateway: blue::CARD_GATEWAY,
    other_gateway: "172.31.0.254",
};

const REGULAR: Side = Side {
    machine: Machine::Regular,
    interface: blue::BRIDGE,
    address: "172.28.0.2/16",
    other_address: "10.28.0.3/24",
    gateway: "172.28.0.1",
    other_gateway: "172.28.0.254",
};

impl Side {
    fn script(&self, script: String) -> Act {
        match self.machine {
            Machine::Host => Act::OnHost(script),
            Machine::Regular => Act::OnRegular(script),
        }
    }

    /// One address and the best of all default routes.
    fn basis(&self) -> Act {
        let Self { interface, address, gateway, .. } = self;
        self.script(format!(
            "ip link set {interface} mtu 1500 up && ip -4 addr flush dev {interface} && \
             ip addr add {address} dev {interface} && \
             ip route replace default via {gateway} dev {interface} metric 10"
        ))
    }

    /// Another first address. Of another subnet: the kernel would tell of one in the same subnet that it moves up.
    fn address(&self) -> Act {
        let Self { interface, address, other_address, .. } = self;
        self.script(format!(
            "ip addr add {other_address} dev {interface} && ip addr del {address} dev {interface}"
        ))
    }

    /// Another best default route.
    fn route(&self, rng: &mut Rng) -> Act {
        let Self { interface, gateway, other_gateway, .. } = self;
        self.script(match rng.u8(0..4) {
            0 => format!("ip route add default via {other_gateway} dev {interface} metric 5 onlink"),
            1 => format!("ip route replace default via {other_gateway} dev {interface} metric 10 onlink"),
            _ => format!("ip route del default via {gateway} dev {interface} metric 10"),
        })
    }

    fn mtu(&self) -> Act {
        self.script(format!("ip link set {} mtu 1420", self.interface))
    }
}

/// Makes everything of [`STATES`] resolved, whatever was there.
#[must_use]
pub fn basis() -> Vec<Act> {
    let card = "ovs-vsctl --timeout=20 --if-exists del-br br-two -- --if-exists del-br br-tenant \
                -- add-br br-tenant -- set Bridge br-tenant datapath_type=netdev \
                -- add-port br-tenant rep0-16 -- add-port br-tenant p0 && \
                for link in br-tenant rep0-16 p0; do ip link set $link up mtu 1500; done";
    let regular = "ovs-vsctl --timeout=20 --if-exists del-br m0 -- --if-exists del-br ovsbr1 \
                   -- add-br ovsbr1 -- set Bridge ovsbr1 datapath_type=netdev -- add-port ovsbr1 eth1 && \
                   ip link set eth1 up mtu 1500 && \
                   { ip link show w0 > /dev/null 2>&1 || ip link add w0 type veth peer name v0; }";
    let mut acts = vec![
        Act::OnHost("ip link del eth0-16 2> /dev/null || true".to_owned()),
        Act::Connect,
        Act::OnCard(card.to_owned()),
        Act::OnRegular(regular.to_owned()),
        HOST.basis(),
        REGULAR.basis(),
        Act::Label(Machine::Host, blue::DPU_HOST, Some("true")),
        Act::Label(Machine::Regular, blue::LABEL, Some("true")),
        Act::Label(Machine::Host, ZONE, Some("one")),
        Act::Label(Machine::Regular, ZONE, None),
        Act::Apply(blue::UPLINK_YAML.to_owned()),
        Act::Apply(uplink("one", &[OF_HOST])),
        Act::Apply(uplink("two", &[OF_REGULAR])),
        Act::Apply(uplink("three", &[("{matchLabels: {example.com/zone: one}}", "eth0-16")])),
    ];
    acts.extend(good_annotations());
    acts
}

/// Draws the last changes, at most one of each fact, in any order.
pub fn changes(rng: &mut Rng) -> Vec<Act> {
    let mut acts = vec![
        HOST.address(),
        HOST.route(rng),
        REGULAR.address(),
        REGULAR.route(rng),
        on_cards_bridge(rng),
        on_regular_bridge(rng),
        of_the_host_behind_the_card(rng),
        of_an_entry(rng),
        of_a_selection(rng),
    ];
    if rng.u8(0..4) == 0 {
        // Hides which bridge it would be, and nothing else.
        let machine = if rng.bool() { Machine::Host } else { Machine::Regular };
        let bridge = if rng.bool() { "ovsbr1" } else { "br-tenant" };
        let all = UplinkAnnotations { bridge: bridge.to_owned(), ..UplinkAnnotations::default() };
        let value = all.render(machine.name()).remove(L3_GATEWAY_CONFIG);
        acts.push(Act::Annotation(machine, L3_GATEWAY_CONFIG, value));
    }
    rng.shuffle(&mut acts);
    acts.retain(|_| rng.u8(0..4) > 0);
    acts
}

/// Which port of which bridge leads to the host, and what carries the card's packets.
fn on_cards_bridge(rng: &mut Rng) -> Act {
    Act::OnCard(match rng.u8(0..4) {
        0 => format!("{VSCTL} del-port br-tenant p0"),
        1 => format!("{VSCTL} set Port p0 tag=78"),
        2 => format!("{VSCTL} del-port br-tenant rep0-16"),
        _ => format!(
            "{VSCTL} -- del-port br-tenant rep0-16 -- add-br br-two -- set Bridge br-two datapath_type=netdev \
             -- add-port br-two rep0-16"
        ),
    })
}

/// What the regular node's bridge leaves through. Its own MAC address is changed by Open vSwitch with the link down, which
/// tells of everything on it again.
fn on_regular_bridge(rng: &mut Rng) -> Act {
    Act::OnRegular(match rng.u8(0..4) {
        0 => format!("{VSCTL} del-port ovsbr1 eth1"),
        1 => format!("{VSCTL} set Port eth1 tag=78"),
        2 => format!("{VSCTL} add-port ovsbr1 w0"),
        _ => format!("{VSCTL} set Bridge ovsbr1 other_config:hwaddr=02:ab:00:00:00:0{}", rng.u8(1..4)),
    })
}

/// What only the host sees and the card judges: it hears of it by what the host writes.
fn of_the_host_behind_the_card(rng: &mut Rng) -> Act {
    match rng.u8(0..2) {
        0 => HOST.mtu(),
        _ => Act::OnHost(format!("ip link set eth0-16 address 52:54:00:d9:21:0{}", rng.u8(1..4))),
    }
}

/// An Uplink's entry for a node names another interface.
fn of_an_entry(rng: &mut Rng) -> Act {
    let (name, (selector, _)) = if rng.bool() { ("one", OF_HOST) } else { ("two", OF_REGULAR) };
    let interface = rng.choice(["eth0-0", "nowhere0"]).unwrap_or_default();
    Act::Apply(uplink(name, &[(selector, interface)]))
}

/// Whether `three` selects a node, and which.
fn of_a_selection(rng: &mut Rng) -> Act {
    match rng.u8(0..4) {
        0 => Act::Label(Machine::Host, ZONE, Some("two")),
        1 => Act::Label(Machine::Regular, ZONE, Some("one")),
        2 => Act::Replace(uplink("three", &[("{matchLabels: {example.com/zone: one}}", "eth0-16")])),
        _ => Act::DeleteState("three.node-a".to_owned()),
    }
}

impl Act {
    /// Whether everybody is there whom it needs.
    #[must_use]
    pub fn can_happen(&self, reach: Reach) -> bool {
        match self {
            Self::OnHost(_) | Self::Connect => true,
            Self::OnCard(_) => reach.card_database,
            Self::OnRegular(_) => reach.regular_database,
            Self::Label(machine, ..) | Self::Annotation(machine, ..) => reach.api && reach.has(*machine),
            Self::Apply(_) | Self::Delete(_) | Self::Replace(_) | Self::DeleteState(_) => reach.api,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_changes_and_another_one_others() {
        let draw = |seed| changes(&mut Rng::with_seed(seed));
        assert_eq!(draw(7), draw(7));
        assert!((0..8).any(|seed| draw(seed) != draw(7)));
    }

    #[test]
    fn every_state_of_the_basis_is_of_an_uplink_that_the_basis_makes() {
        let made: Vec<String> = basis().iter().map(ToString::to_string).collect();
        for state in STATES {
            let uplink = state.split('.').next().unwrap();
            assert!(
                made.iter().any(|act| act.starts_with(&format!("apply {uplink} "))),
                "{state}: {made:#?}"
            );
        }
    }
}
