//! What this side could choose from, for introspection: bridges and representors.

use std::collections::BTreeMap;

use causeway_proto::introspect::Candidate;

use super::observe::BridgeEyes;
use super::ovs::{BridgeView, OvsView};
use super::representor::{Flavour, Netdev, Representors};

/// Names of ports that an answer lists for one bridge; a bridge can have thousands.
const PORTS: usize = 32;

/// Bridges and representors as they are now; nothing while they cannot be seen, which the stores tell.
#[must_use]
pub fn candidates(eyes: &BridgeEyes) -> Vec<Candidate> {
    let (Ok(snapshot), Ok(representors)) = (eyes.ovs(), eyes.representors()) else { return Vec::new() };
    let ovs = OvsView::new(&snapshot);
    let mut seen: Vec<Candidate> = ovs.external_bridges().iter().map(bridge).collect();
    match &representors {
        Representors::Switchdev(devices) => {
            let hosts = devices.iter().filter(|device| !matches!(device.flavour, Flavour::Other));
            seen.extend(hosts.map(|device| representor(&device.name, facts(device), &representors, ovs)));
        }
        Representors::Simulated { links, .. } => {
            seen.extend(links.iter().map(|(name, alias)| {
                let alias = alias.iter().map(|alias| ("alias", alias.clone()));
                representor(name, alias.collect(), &representors, ovs)
            }));
        }
    }
    seen
}

fn bridge(view: &BridgeView<'_>) -> Candidate {
    let mut ports: Vec<&str> = view.ports.keys().copied().take(PORTS).collect();
    if view.ports.len() > PORTS {
        ports.push("…");
    }
    let mut facts = BTreeMap::from([("ports".to_owned(), ports.join(" "))]);
    facts.extend(view.bridge_uplink.map(|uplink| ("bridge-uplink".to_owned(), uplink.to_owned())));
    Candidate { kind: "bridge".to_owned(), name: view.name.to_owned(), facts }
}

fn representor(
    name: &str,
    facts: Vec<(&'static str, String)>,
    all: &Representors,
    ovs: OvsView<'_>,
) -> Candidate {
    let mut facts: BTreeMap<String, String> =
        facts.into_iter().map(|(fact, text)| (fact.to_owned(), text)).collect();
    facts.extend(all.peer_mac(name).map(|mac| ("peer-mac".to_owned(), mac.to_string())));
    facts.extend(ovs.bridge_of(name).ok().map(|bridge| ("bridge".to_owned(), bridge.to_owned())));
    Candidate { kind: "representor".to_owned(), name: name.to_owned(), facts }
}

fn facts(device: &Netdev) -> Vec<(&'static str, String)> {
    let flavour = match device.flavour {
        Flavour::Physical => "physical",
        Flavour::Pf => "pf",
        Flavour::Vf => "vf",
        Flavour::Sf => "sf",
        Flavour::Other => "other",
    };
    let numbers =
        [("controller", device.controller), ("pf", device.pf), ("vf", device.vf), ("sf", device.sf)];
    let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string())));
    let device = device.device.iter().map(|device| ("device", device.clone()));
    std::iter::once(("flavour", flavour.to_owned())).chain(numbers).chain(device).collect()
}
