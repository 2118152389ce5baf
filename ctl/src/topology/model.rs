//! What a drawing shows.

use serde::Serialize;

/// The logical topology of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// Name of the zone: the node's.
    pub zone: Option<String>,
    /// Version of the database's schema.
    pub schema: String,
    /// The networks, the default one first; rows that are of no network come last.
    pub networks: Vec<Network>,
    /// What is not as it should be.
    pub problems: Vec<Problem>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// Whether the lists of routes, translations, policies and neighbours are shown too; JSON always has them.
    #[serde(skip)]
    pub wide: bool,
}

/// One network's part in the zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Its name; none for rows of no network that Causeway or OVN-Kubernetes marks.
    pub name: Option<String>,
    /// `layer3`, `layer2` or `localnet`, as its rows say.
    pub topology: Option<String>,
    /// `primary` or `secondary`, as its rows say.
    pub role: Option<String>,
    /// Its routers and switches, from the way out inwards.
    pub devices: Vec<Device>,
}

/// A router or a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Which of the two.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Steps from the way out; devices without one count from their routers.
    pub layer: usize,
    /// Subnets of a switch.
    pub subnets: Vec<String>,
    /// The chassis that a gateway router is bound to.
    pub chassis: Option<String>,
    /// The key in tunnels that all zones have agreed on.
    pub tunnel_key: Option<String>,
    /// Ports that lead somewhere, and management ports.
    pub ports: Vec<Port>,
    /// Number of ports of pods of this node.
    pub pods: usize,
    /// Number of ports of pods of other nodes.
    pub remote_pods: usize,
    /// Routes of a router.
    pub routes: Vec<Route>,
    /// Translations of a router.
    pub nats: Vec<Nat>,
    /// Policies of a router.
    pub policies: Vec<Policy>,
    /// Neighbours that are told, not asked for.
    pub neighbours: Vec<Neighbour>,
}

/// Router or switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A router.
    Router,
    /// A switch.
    Switch,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its MAC address, where the row has one.
    pub mac: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The chassis that takes its traffic.
    pub chassis: Vec<String>,
    /// The key in tunnels that all zones have agreed on.
    pub tunnel_key: Option<String>,
    /// What is at its other end.
    pub end: End,
}

/// The other end of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "to")]
pub enum End {
    /// A port of a router or switch.
    #[serde(rename_all = "camelCase")]
    Port {
        /// Its device.
        device: String,
        /// Its name.
        port: String,
    },
    /// The same port in the zone of another node.
    #[serde(rename_all = "camelCase")]
    Node {
        /// The node, or the chassis where no node is noted.
        node: String,
    },
    /// A network outside of OVN.
    #[serde(rename_all = "camelCase")]
    Physical {
        /// Its name in the bridge mappings.
        network: String,
        /// The VLAN in it.
        vlan: Option<i64>,
    },
    /// The node itself.
    Host,
    /// Something that OVN has a type for, and that is no pod: `vtep`, `l2gateway`, `virtual`, …
    #[serde(rename_all = "camelCase")]
    Other {
        /// The type.
        kind: String,
    },
    /// A port that is named and not there.
    #[serde(rename_all = "camelCase")]
    Missing {
        /// Its name.
        port: String,
    },
    /// Nothing is named.
    Nothing,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The table; the router's own where none is named.
    pub table: Option<String>,
    /// What it is for.
    pub prefix: String,
    /// Whether `prefix` is of the source (`src-ip`) or of the destination.
    pub by_source: bool,
    /// Where to.
    pub nexthop: String,
    /// Through which port.
    pub port: Option<String>,
}

/// A translation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nat {
    /// `snat`, `dnat` or `dnat_and_snat`.
    pub kind: String,
    /// Inside.
    pub inside: String,
    /// Outside.
    pub outside: String,
    /// Ports outside.
    pub ports: Option<String>,
    /// Of traffic of this port alone.
    pub port: Option<String>,
    /// Of such traffic alone.
    pub only: Option<String>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Greater ones decide first.
    pub priority: i64,
    /// Which traffic.
    pub only: String,
    /// `allow`, `drop`, `reroute` or `jump`.
    pub action: String,
    /// Where to.
    pub nexthops: Vec<String>,
    /// Through which port.
    pub port: Option<String>,
}

/// A neighbour that is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Neighbour {
    /// At which port.
    pub port: String,
    /// Its address.
    pub address: String,
    /// Its MAC address.
    pub mac: String,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What.
    pub found: String,
    /// What to do.
    pub remedy: &'static str,
}
