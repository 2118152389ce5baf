//! Chassis of other nodes in this zone's Southbound database: without them OVN has no tunnel to their zones.
//!
//! In: the other nodes' chassis, a snapshot. Out: the change that has them, and who cannot have one. A row is ours if
//! `other_config:is-remote` is true; the chassis of this zone's own ovn-controller is never touched, whatever another node
//! says it is called or where its tunnels end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_net::network::name::{NetworkName, NodeName};
use ovsdb::{Claim, Desired, DiffError, FlatSet, Snapshot, Transaction, Uuid, diff};

use super::mark::pairs;
use super::northbound::Pairs;
use super::plan::ChassisRow;
use super::write::{Outcome, WriteError, commit};

ovsdb::table! {
    /// A machine that OVN reaches. Source: ovn-sb(5).
    pub struct Chassis in "Chassis" {
        /// Name, unique.
        name: String,
        /// Name of the node.
        hostname: String,
        /// Ends of tunnels to it.
        encaps: FlatSet<Uuid>,
        /// Settings; `is-remote` tells that it belongs to another zone.
        other_config: Pairs,
    }
    /// By name.
    index by_name = |chassis| Some(chassis.name.as_str());
}

ovsdb::table! {
    /// The end of a tunnel.
    pub struct Encap in "Encap" {
        /// Kind of the tunnel; unique together with the address.
        kind as "type": String,
        /// Address.
        ip: String,
        /// Name of the chassis.
        chassis_name: String,
        /// Settings.
        options: Pairs,
    }
    /// By kind and address.
    index by_tunnel = |end| Some(tunnel_key(&end.kind, &end.ip));
}

/// Kind of tunnels between zones.
const GENEVE: &str = "geneve";

const IS_REMOTE: &str = "is-remote";

fn tunnel_key(kind: &str, ip: &str) -> String {
    format!("{kind} {ip}")
}

/// A store's builder with the tables that are read here.
#[must_use]
pub fn declare(builder: ovsdb::StoreBuilder) -> ovsdb::StoreBuilder {
    builder.table::<Chassis>().table::<Encap>()
}

/// Why a node's chassis is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChassisConflict {
    /// Another chassis has its name.
    #[error("its chassis id is that of another chassis")]
    Name,
    /// Another chassis has one of its addresses.
    #[error("one of its encapsulation addresses is that of another chassis")]
    Address,
}

/// What has to change, and whose chassis cannot be written.
#[derive(Debug)]
pub struct ChassisChange {
    /// The change.
    pub transaction: Transaction,
    /// The others; a node whose name sorts first wins against later ones.
    pub refused: Vec<(NodeName, ChassisConflict)>,
}

impl Chassis {
    fn is_remote(&self) -> bool {
        self.other_config.get(IS_REMOTE).is_some_and(|value| value == "true")
    }
}

/// The change that brings the chassis of other nodes to what is wanted. `unknown` are nodes that there are and whose
/// chassis cannot be told now: theirs stay.
///
/// # Errors
/// They cannot be compared with what is there.
pub fn chassis_change(
    wanted: &[ChassisRow],
    unknown: &BTreeSet<NodeName>,
    have: &Snapshot,
) -> Result<ChassisChange, DiffError> {
    let mut sorted: Vec<&ChassisRow> = wanted.iter().collect();
    sorted.sort_by(|one, other| one.node.cmp(&other.node));
    let mut taken = Taken::of(have);
    let (mut want, mut refused) = (Desired::default(), Vec::new());
    let chassis_claim = Claim::by(Chassis::by_name())
        .whole(Chassis::name())
        .whole(Chassis::hostname())
        .whole(Chassis::encaps())
        .keys(Chassis::other_config(), [IS_REMOTE]);
    let (chassis_claim, end_claim) = (Arc::new(chassis_claim), Arc::new(Claim::by(Encap::by_tunnel()).all()));
    let mut kept = BTreeSet::new();
    for row in sorted {
        if let Err(conflict) = taken.take(row) {
            refused.push((row.node.clone(), conflict));
            continue;
        }
        let addresses: BTreeSet<String> = row.addresses.iter().map(ToString::to_string).collect();
        let end = |ip: String| Encap {
            kind: GENEVE.to_owned(),
            ip,
            chassis_name: row.name.clone(),
            options: row.options.clone(),
        };
        let encaps = addresses.into_iter().map(|ip| want.row(&end_claim, end(ip))).collect();
        kept.insert(row.name.as_str());
        want.row(
            &chassis_claim,
            Chassis {
                name: row.name.clone(),
                hostname: row.node.to_string(),
                encaps,
                other_config: pairs([(IS_REMOTE, "true")]),
            },
        );
    }
    for (uuid, row) in have.rows::<Chassis>() {
        let known = kept.contains(row.name.as_str()) || unknown.contains(row.hostname.as_str());
        if row.is_remote() && !known {
            want.delete::<Chassis, _>(uuid, Chassis::other_config());
        }
    }
    Ok(ChassisChange { transaction: diff(&want, have)?, refused })
}

/// Names and addresses that cannot be given any more.
struct Taken {
    names: BTreeSet<String>,
    addresses: BTreeSet<String>,
}

impl Taken {
    /// Those of chassis that are not ours.
    fn of(have: &Snapshot) -> Self {
        let own: BTreeMap<&str, &FlatSet<Uuid>> = have
            .rows::<Chassis>()
            .filter(|(_, row)| !row.is_remote())
            .map(|(_, row)| (row.name.as_str(), &row.encaps))
            .collect();
        let ends = own.values().flat_map(|ends| ends.iter()).filter_map(|uuid| have.row::<Encap>(*uuid));
        let addresses = ends.filter(|end| end.kind == GENEVE).map(|end| end.ip.clone()).collect();
        Self { names: own.keys().map(|name| (*name).to_owned()).collect(), addresses }
    }

    fn take(&mut self, row: &ChassisRow) -> Result<(), ChassisConflict> {
        let addresses: BTreeSet<String> = row.addresses.iter().map(ToString::to_string).collect();
        if self.names.contains(&row.name) {
            return Err(ChassisConflict::Name);
        }
        if !self.addresses.is_disjoint(&addresses) {
            return Err(ChassisConflict::Address);
        }
        self.names.insert(row.name.clone());
        self.addresses.extend(addresses);
        Ok(())
    }
}

/// Writes the chassis of other nodes; tells whose cannot be written.
///
/// # Errors
/// [`WriteError`].
pub async fn write_chassis(
    store: &ovsdb::Store,
    wanted: &[ChassisRow],
    unknown: &BTreeSet<NodeName>,
) -> Result<(Outcome, Vec<(NodeName, ChassisConflict)>), WriteError> {
    let refused = std::sync::Mutex::new(Vec::new());
    let change = |have: &Snapshot| {
        let change = chassis_change(wanted, unknown, have)?;
        if let Ok(mut refused) = refused.lock() {
            *refused = change.refused;
        }
        Ok(change.transaction)
    };
    let outcome = commit(store, &NetworkName::default_network(), change).await?;
    Ok((outcome, refused.into_inner().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::super::plan::fixture::{cluster, node, node_of};
    use super::super::plan::remote_chassis;
    use super::*;

    const OWN: Uuid = Uuid::from_u128(1);

    /// A zone with its own chassis `c1` at 172.18.0.2 and remote ones.
    fn zone(remote: &[(&str, &str, &str)]) -> Snapshot {
        let mut builder = Snapshot::builder().table::<Chassis>().table::<Encap>();
        let own = [("c1", "node1", "172.18.0.2")];
        for (at, (name, hostname, ip)) in own.iter().chain(remote).enumerate() {
            let id = |offset: u128| Uuid::from_u128(at as u128 * 2 + offset);
            let options = pairs([("csum", "true")]);
            let (kind, chassis_name) = (GENEVE.to_owned(), (*name).to_owned());
            builder = builder.row(id(2), Encap { kind, ip: (*ip).to_owned(), chassis_name, options });
            let row = Chassis {
                name: (*name).to_owned(),
                hostname: (*hostname).to_owned(),
                encaps: [id(2)].into(),
                other_config: pairs([(IS_REMOTE, if at == 0 { "false" } else { "true" })]),
            };
            builder = builder.row(id(1), row);
        }
        builder.build()
    }

    fn row(n: u8) -> ChassisRow {
        remote_chassis(&cluster(), &node(n)).unwrap()
    }

    fn words(change: &Transaction) -> Vec<String> {
        let word = |operation: &ovsdb::Operation| match operation {
            ovsdb::Operation::Insert { table, .. } => Some(format!("insert {table}")),
            ovsdb::Operation::Update { table, .. } => Some(format!("update {table}")),
            ovsdb::Operation::Delete { table, .. } => Some(format!("delete {table}")),
            _ => None,
        };
        change.operations().iter().filter_map(word).collect()
    }

    #[track_caller]
    fn check(have: &Snapshot, wanted: &[ChassisRow], unknown: &[&str], want: &[&str]) {
        let unknown = unknown.iter().map(|name| (*name).into()).collect();
        let change = chassis_change(wanted, &unknown, have).unwrap();
        assert_eq!(change.refused, []);
        assert_eq!(words(&change.transaction), want);
    }

    #[test]
    fn other_nodes_get_a_chassis_once() {
        check(&zone(&[]), &[row(2)], &[], &["insert Encap", "insert Chassis"]);
        check(&zone(&[("c2", "node2", "172.18.0.3")]), &[row(2)], &[], &[]);
    }

    #[test]
    fn a_node_that_is_gone_loses_its_chassis_and_one_that_says_nothing_keeps_it() {
        let both = zone(&[("c2", "node2", "172.18.0.3"), ("c3", "node3", "172.18.0.4")]);
        check(&both, &[row(2)], &[], &["delete Chassis"]);
        check(&both, &[row(2)], &["node3"], &[]);
        check(&both, &[], &[], &["delete Chassis", "delete Chassis"]);
    }

    #[test]
    fn a_node_with_another_chassis_id_takes_its_address_along() {
        let before = zone(&[("old", "node2", "172.18.0.3")]);
        check(&before, &[row(2)], &[], &["insert Chassis", "update Encap", "delete Chassis"]);
    }

    #[test]
    fn nobody_takes_the_name_or_the_address_of_another_chassis() {
        let have = zone(&[]);
        let names = |rows: &[ChassisRow]| chassis_change(rows, &BTreeSet::new(), &have).unwrap().refused;
        let mut own_name = row(2);
        own_name.name = "c1".to_owned();
        assert_eq!(names(&[own_name]), [("node2".into(), ChassisConflict::Name)]);
        let mut own_address = row(2);
        own_address.addresses = vec!["172.18.0.2".parse().unwrap()];
        assert_eq!(names(&[own_address]), [("node2".into(), ChassisConflict::Address)]);
        let mut same = row(3);
        same.addresses = row(2).addresses;
        for rows in [[row(2), same.clone()], [same, row(2)]] {
            assert_eq!(names(&rows), [("node3".into(), ChassisConflict::Address)]);
        }
        assert!(have.row::<Chassis>(OWN).is_some());
    }

    #[test]
    fn a_node_without_an_address_for_tunnels_has_no_chassis_yet() {
        for told in ["", "[]"] {
            let silent = node_of(&cluster(), 2, &[("node-encap-ips", told)]);
            assert!(remote_chassis(&cluster(), &silent).unwrap_err().is_quiet(), "{told:?}");
        }
    }
}
