//! Ports and what is at their other end.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::model::{End, Port};
use crate::topology::rows::{Database, Pairs, Row};

/// The node of a port of a transit switch, and of a port of a transit router. Source: ovn-kubernetes
/// `zone_interconnect` and `types`.
const NODE_NOTES: [&str; 2] = ["node", "k8s.ovn.org/node"];

/// Which port is of which device, and which switch port names which router port.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    devices: BTreeMap<String, String>,
    named: BTreeMap<String, Vec<String>>,
}

impl Wiring {
    pub(super) fn of(database: &Database) -> Self {
        let mut wiring = Self::default();
        for (devices, ports) in
            [("Logical_Router", "Logical_Router_Port"), ("Logical_Switch", "Logical_Switch_Port")]
        {
            for device in database.rows(devices) {
                for port in database.referred(device, "ports", ports) {
                    wiring.devices.insert(port.text("name"), device.text("name"));
                }
            }
        }
        for port in database.rows("Logical_Switch_Port") {
            if let Some(peer) = peer_of_switch_port(port) {
                wiring.named.entry(peer).or_default().push(port.text("name"));
            }
        }
        for ports in wiring.named.values_mut() {
            ports.sort();
        }
        wiring
    }

    /// The switch ports that name a router port.
    pub(super) fn holders(&self, router_port: &str) -> &[String] {
        self.named.get(router_port).map_or(&[], Vec::as_slice)
    }

    fn end(&self, port: String) -> End {
        match self.devices.get(&port) {
            Some(device) => End::Port { device: device.clone(), port },
            None => End::Missing { port },
        }
    }
}

/// A switch's port may lead to another switch by the column `peer`, which older schemas lack; to a router's it leads by an
/// option. Source: ovn-nb(5).
fn peer_of_switch_port(row: &Row) -> Option<String> {
    match row.text("type").as_str() {
        "router" => row.pairs("options").get("router-port").cloned().or_else(|| row.some_text("peer")),
        "switch" => row.some_text("peer"),
        _ => None,
    }
}

/// What becomes of a switch's port in the drawing.
pub(super) enum Seen {
    /// It is counted.
    Pod,
    /// It is counted.
    RemotePod,
    /// It is shown.
    Shown(Port),
}

pub(super) fn of_switch(wiring: &Wiring, management: &BTreeSet<String>, row: &Row) -> Seen {
    let (name, options, ids) = (row.text("name"), row.pairs("options"), row.pairs("external_ids"));
    let end = match row.text("type").as_str() {
        "" if management.contains(&name) => End::Host,
        "" => return Seen::Pod,
        // OVN-Kubernetes marks ports of pods; those of other nodes are there in networks with one subnet.
        "remote" if ids.get("pod").is_some_and(|pod| pod == "true") => return Seen::RemotePod,
        "remote" => remote(&options, &ids),
        "router" | "switch" => peer_of_switch_port(row).map_or(End::Nothing, |port| wiring.end(port)),
        "localnet" => End::Physical {
            network: options.get("network_name").cloned().unwrap_or_default(),
            vlan: row.number("tag_request").filter(|vlan| *vlan != 0),
        },
        other => End::Other { kind: other.to_owned() },
    };
    let (mac, addresses) = addresses(&row.texts("addresses"));
    let tunnel_key = options.get("requested-tnl-key").cloned();
    Seen::Shown(Port { name, mac, addresses, chassis: Vec::new(), tunnel_key, end })
}

pub(super) fn of_router(database: &Database, wiring: &Wiring, row: &Row) -> Port {
    let (name, options) = (row.text("name"), row.pairs("options"));
    let end = match (row.some_text("peer"), wiring.holders(&name).first()) {
        (Some(peer), _) => wiring.end(peer),
        (None, Some(holder)) => wiring.end(holder.clone()),
        (None, None) if options.contains_key("requested-chassis") => {
            remote(&options, &row.pairs("external_ids"))
        }
        (None, None) => End::Nothing,
    };
    let chassis = database.referred(row, "gateway_chassis", "Gateway_Chassis");
    let mut chassis: Vec<String> =
        chassis.into_iter().filter_map(|chassis| chassis.some_text("chassis_name")).collect();
    chassis.sort();
    let (mac, addresses) = (row.some_text("mac"), row.texts("networks"));
    Port { name, mac, addresses, chassis, tunnel_key: options.get("requested-tnl-key").cloned(), end }
}

fn remote(options: &Pairs, ids: &Pairs) -> End {
    let noted = NODE_NOTES.iter().find_map(|key| ids.get(*key));
    let node = noted.or_else(|| options.get("requested-chassis")).cloned().unwrap_or_default();
    End::Node { node }
}

/// A MAC address and the addresses beside it. `unknown`, `router` and `dynamic` are words in their place (ovn-nb(5)).
fn addresses(texts: &[String]) -> (Option<String>, Vec<String>) {
    let mut words = texts.iter().flat_map(|text| text.split_whitespace());
    let mac = words.clone().find(|word| is_mac(word)).map(str::to_owned);
    let addresses = words
        .by_ref()
        .filter(|word| !is_mac(word) && !["unknown", "router", "dynamic"].contains(word))
        .map(str::to_owned)
        .collect();
    (mac, addresses)
}

/// Six groups: an IPv6 address with five colons would be one of six groups with a `::` in it.
fn is_mac(word: &str) -> bool {
    let group = |group: &str| group.len() == 2 && group.chars().all(|digit| digit.is_ascii_hexdigit());
    word.split(':').count() == 6 && word.split(':').all(group)
}

/// Ways out first, then what they lead to by kind, then by name.
pub(super) fn rank(port: &Port) -> (u8, &str) {
    let rank = match &port.end {
        End::Physical { .. } => 0,
        End::Port { .. } => 1,
        End::Missing { .. } | End::Nothing => 2,
        End::Host => 3,
        End::Other { .. } => 4,
        End::Node { .. } => 5,
    };
    (rank, port.name.as_str())
}
