//! Snapshots from short texts, for tests.

use std::collections::BTreeMap;

use ovsdb::{Snapshot, Uuid};

use crate::vswitch::{Bridge, Interface, Port};

/// A bridge with its ports (`port:type`, or `bond=if1:type,if2:type`; no type is an empty one) and its
/// `bridge-uplink`.
pub(crate) type BridgeText<'t> = (&'t str, &'t [&'t str], Option<&'t str>);

/// A snapshot with these bridges, and with `loose` interfaces that are in a port but in no bridge.
pub(crate) fn snapshot(bridges: &[BridgeText<'_>], loose: &[&str]) -> Snapshot {
    let mut next = 0_u128;
    let mut uuid = || {
        next += 1;
        Uuid::from_u128(next)
    };
    let mut builder = Snapshot::builder().table::<Bridge>().table::<Port>().table::<Interface>();
    let loose = ("", loose, None);
    for (name, ports, uplink) in bridges.iter().copied().chain([loose]) {
        let mut bridge = Bridge { name: name.to_owned(), ..Bridge::default() };
        for text in ports {
            let (port, interfaces) =
                text.split_once('=').unwrap_or_else(|| (text.split(':').next().unwrap(), text));
            let mut row = Port { name: port.to_owned(), ..Port::default() };
            for interface in interfaces.split(',') {
                let (name, kind) = interface.split_once(':').unwrap_or((interface, ""));
                let id = uuid();
                row.interfaces.insert(id);
                builder = builder.row(id, Interface { name: name.to_owned(), kind: kind.to_owned() });
            }
            let id = uuid();
            bridge.ports.insert(id);
            builder = builder.row(id, row);
        }
        let ids = uplink.map(|uplink| ("bridge-uplink".to_owned(), uplink.to_owned()));
        bridge.external_ids = ids.into_iter().collect::<BTreeMap<_, _>>();
        if !name.is_empty() {
            builder = builder.row(uuid(), bridge);
        }
    }
    builder.build()
}

/// A bridge that refers to a port that does not exist.
pub(crate) fn with_dangling_port(snapshot: &Snapshot, name: &str) -> Snapshot {
    let mut builder = Snapshot::builder().table::<Bridge>().table::<Port>().table::<Interface>();
    for (uuid, row) in snapshot.rows::<Interface>() {
        builder = builder.row(uuid, Interface::clone(row));
    }
    for (uuid, row) in snapshot.rows::<Port>() {
        builder = builder.row(uuid, Port::clone(row));
    }
    for (uuid, row) in snapshot.rows::<Bridge>() {
        let mut row = Bridge::clone(row);
        if row.name == name {
            row.ports.insert(Uuid::from_u128(u128::MAX));
        }
        builder = builder.row(uuid, row);
    }
    builder.build()
}
