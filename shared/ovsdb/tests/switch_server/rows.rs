//! The rows that these tests read, and their ownership.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovsdb::{Claim, Desired, Uuid};

ovsdb::table! {
    /// The root of the configuration; one row.
    pub struct Root in "Open_vSwitch" {
        /// Bridges; what is not referred to from here is collected by the server.
        bridges: BTreeSet<Uuid>,
        /// Notes.
        external_ids: BTreeMap<String, String>,
        /// Counts configuration changes.
        next_cfg: i64,
    }
}

ovsdb::table! {
    /// A bridge.
    pub struct Bridge in "Bridge" {
        /// Unique name.
        name: String,
        /// Its ports.
        ports: BTreeSet<Uuid>,
        /// Notes.
        external_ids: BTreeMap<String, String>,
        /// `secure` or `standalone`.
        fail_mode: Option<String>,
        /// A column that no version has.
        optional imagined: Option<String>,
    }
    /// By name.
    index by_name = |bridge| Some(bridge.name.as_str());
}

ovsdb::table! {
    /// A port.
    pub struct Port in "Port" {
        /// Unique name.
        name: String,
        /// Its interfaces; at least one.
        interfaces: BTreeSet<Uuid>,
        /// Notes.
        external_ids: BTreeMap<String, String>,
    }
    /// By name.
    index by_name = |port| Some(port.name.as_str());
}

ovsdb::table! {
    /// An interface.
    pub struct Interface in "Interface" {
        /// Unique name.
        name: String,
        /// `internal`, `system`, `patch` and others.
        kind as "type": String,
        /// Notes.
        external_ids: BTreeMap<String, String>,
    }
    /// By name.
    index by_name = |interface| Some(interface.name.as_str());
}

/// The mark of rows that these tests own.
pub(crate) const OWNER: &str = "owner";

/// Marks a row as ours.
pub(crate) fn ours() -> BTreeMap<String, String> {
    BTreeMap::from([(OWNER.to_owned(), "tests".to_owned())])
}

fn is_ours(notes: &BTreeMap<String, String>) -> bool {
    notes.get(OWNER).is_some_and(|owner| owner == "tests")
}

/// Wants one bridge with the given ports, everything marked as ours, and nothing else that is ours.
pub(crate) fn bridge_with_ports(bridge: &str, fail_mode: Option<&str>, ports: &[&str]) -> Desired {
    let mut want = Desired::default();
    let interfaces = Arc::new(Claim::by(Interface::by_name()).all());
    let port_claim = Arc::new(Claim::by(Port::by_name()).all().unique(Port::name()));
    let mut references = BTreeSet::new();
    for name in ports {
        let interface = Interface { name: (*name).into(), kind: "internal".into(), external_ids: ours() };
        let interface = want.row(&interfaces, interface);
        let port = Port { name: (*name).into(), interfaces: [interface].into(), external_ids: ours() };
        references.insert(want.row(&port_claim, port));
    }
    let bridges = Arc::new(
        Claim::by(Bridge::by_name())
            .whole(Bridge::name())
            .whole(Bridge::fail_mode())
            .keys(Bridge::external_ids(), [OWNER])
            .references(Bridge::ports(), |port: &Port| is_ours(&port.external_ids))
            .unique(Bridge::name()),
    );
    let row = Bridge {
        name: bridge.into(),
        ports: references,
        external_ids: ours(),
        fail_mode: fail_mode.map(str::to_owned),
        ..Bridge::default()
    };
    let bridge = want.row(&bridges, row);
    let root =
        Arc::new(Claim::only().references(Root::bridges(), |bridge: &Bridge| is_ours(&bridge.external_ids)));
    want.row(&root, Root { bridges: [bridge].into(), ..Root::default() });
    want.sweep(Bridge::external_ids(), |bridge: &Bridge| is_ours(&bridge.external_ids));
    want.sweep(Port::external_ids(), |port: &Port| is_ours(&port.external_ids));
    want.sweep(Interface::external_ids(), |interface: &Interface| is_ours(&interface.external_ids));
    want
}
