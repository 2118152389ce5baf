//! What this side could choose from, for introspection: interfaces.

use std::collections::BTreeMap;

use causeway_netlink::{HardwareAddress, Link, NetlinkStore, Snapshot};
use causeway_proto::introspect::Candidate;

/// Interfaces that an answer lists; a machine can have thousands.
const INTERFACES: usize = 256;

/// Interfaces with a MAC address as they are now, those with an address first.
#[must_use]
pub fn candidates(netlink: &NetlinkStore) -> Vec<Candidate> {
    let snapshot = netlink.snapshot();
    let with_mac = snapshot.links.iter().filter(|link| matches!(link.address, HardwareAddress::Mac(_)));
    let mut seen: Vec<Candidate> = with_mac.map(|link| interface(link, &snapshot)).collect();
    seen.sort_by(|left, right| {
        let key =
            |candidate: &Candidate| (!candidate.facts.contains_key("addresses"), candidate.name.clone());
        key(left).cmp(&key(right))
    });
    seen.truncate(INTERFACES);
    seen
}

fn interface(link: &Link, snapshot: &Snapshot) -> Candidate {
    let mut facts = BTreeMap::new();
    if let HardwareAddress::Mac(mac) = &link.address {
        facts.insert("mac".to_owned(), mac.to_string());
    }
    let addresses: Vec<String> =
        snapshot.addresses.of(link.index).iter().map(|address| address.prefix.to_string()).collect();
    if !addresses.is_empty() {
        facts.insert("addresses".to_owned(), addresses.join(" "));
    }
    Candidate { kind: "interface".to_owned(), name: link.name.to_string(), facts }
}
