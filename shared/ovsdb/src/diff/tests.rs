use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;

crate::table! {
    struct Root in "Root" {
        bridges: BTreeSet<Uuid>,
    }
}

crate::table! {
    struct Bridge in "Bridge" {
        name: String,
        ports: BTreeSet<Uuid>,
        notes: BTreeMap<String, String>,
        mode: Option<String>,
        optional newer: Option<i64>,
    }
    index by_name = |row| Some(row.name.as_str());
    index by_owner = |row| row.notes.get("owner");
}

crate::table! {
    struct Port in "Port" {
        name: String,
        notes: BTreeMap<String, String>,
    }
    index by_name = |row| Some(row.name.as_str());
}

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn notes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn port(name: &str, owner: &str) -> Port {
    Port { name: name.into(), notes: notes(&[("owner", owner)]) }
}

fn bridge(name: &str, ports: &[u128]) -> Bridge {
    Bridge { name: name.into(), ports: ports.iter().map(|port| uuid(*port)).collect(), ..Bridge::default() }
}

/// Bridge 1 "br" of ours with port 0x11 of ours and port 0x12 of theirs; the root refers to it.
fn have() -> Snapshot {
    let notes = notes(&[("owner", "us"), ("theirs", "1")]);
    Snapshot::builder()
        .row(uuid(9), Root { bridges: [uuid(1)].into() })
        .row(uuid(1), Bridge { notes, mode: Some("secure".into()), ..bridge("br", &[0x11, 0x12]) })
        .row(uuid(0x11), port("ours", "us"))
        .row(uuid(0x12), port("theirs", "them"))
        .build()
}

#[track_caller]
fn check(want: &Desired, expected: &Expect) {
    let text = diff(want, &have()).unwrap().to_string();
    expected.assert_eq(&text.replace("00000000-0000-0000-0000-0000000000", "#"));
}

#[test]
fn what_is_there_already_needs_nothing() {
    let mut want = Desired::default();
    let bridges =
        Arc::new(Claim::by(Bridge::by_name()).whole(Bridge::mode()).keys(Bridge::notes(), ["owner"]));
    let row = Bridge { mode: Some("secure".into()), notes: notes(&[("owner", "us")]), ..bridge("br", &[]) };
    want.row(&bridges, row);
    check(&want, &expect![""]);
}

#[test]
fn only_changed_columns_are_updated_and_guarded() {
    let mut want = Desired::default();
    want.row(
        &Arc::new(Claim::by(Bridge::by_name()).whole(Bridge::name()).whole(Bridge::mode())),
        bridge("br", &[]),
    );
    check(
        &want,
        &expect![[r#"
            expect Bridge where _uuid == #01, mode == "secure"
            update Bridge where _uuid == #01: mode = []
        "#]],
    );
}

#[test]
fn new_rows_refer_to_each_other_by_name_and_omit_defaults() {
    let mut want = Desired::default();
    let ports = Arc::new(Claim::by(Port::by_name()).all().unique(Port::name()));
    let new = want.row(&ports, port("new", "us"));
    let known = want.row(&ports, port("ours", "us"));
    let row = Bridge { ports: [new, known].into(), ..bridge("br2", &[]) };
    let bridges = Claim::by(Bridge::by_name()).all().unique_keys(Bridge::notes(), ["owner"]);
    let added =
        want.row(&Arc::new(bridges), Bridge { notes: notes(&[("owner", "x"), ("free", "y")]), ..row });
    want.row(&Arc::new(Claim::only().part(Root::bridges(), |_| false)), Root { bridges: [added].into() });
    check(
        &want,
        &expect![[r#"
            expect no Port where name == "new"
            expect no Bridge where notes includes {"owner"="x"}
            expect Root where _uuid == #09
            insert Port @row0: name = "new", notes = {"owner"="us"}
            insert Bridge @row2: name = "br2", notes = {"free"="y", "owner"="x"}, ports = [#11, @row0]
            mutate Root where _uuid == #09: bridges += @row2
        "#]],
    );
}

#[test]
fn owned_keys_are_changed_one_by_one() {
    let mut want = Desired::default();
    let bridges = Arc::new(Claim::by(Bridge::by_name()).keys(Bridge::notes(), ["owner", "other"]));
    want.row(&bridges, Bridge { notes: notes(&[("other", "2")]), ..bridge("br", &[]) });
    check(
        &want,
        &expect![[r#"
            expect Bridge where _uuid == #01, notes includes {"owner"="us"}
            mutate Bridge where _uuid == #01: notes -= ["other", "owner"], notes += {"other"="2"}
        "#]],
    );
}

#[test]
fn owned_references_are_changed_one_by_one_and_orphans_deleted_last() {
    let mut want = Desired::default();
    let new = want.row(&Arc::new(Claim::by(Port::by_name()).all()), port("new", "us"));
    let bridges = Arc::new(Claim::by(Bridge::by_name()).references(Bridge::ports(), |port: &Port| {
        port.notes.get("owner").is_some_and(|owner| owner == "us")
    }));
    want.row(&bridges, Bridge { ports: [new].into(), ..bridge("br", &[]) });
    want.sweep(Port::notes(), |port: &Port| port.notes.get("owner").is_some_and(|owner| owner == "us"));
    check(
        &want,
        &expect![[r#"
            expect Port where _uuid == #11, notes == {"owner"="us"}
            expect Bridge where _uuid == #01, ports includes #11
            insert Port @row0: name = "new", notes = {"owner"="us"}
            mutate Bridge where _uuid == #01: ports -= #11, ports += @row0
            delete Port where _uuid == #11
        "#]],
    );
}

#[test]
fn references_to_swept_rows_go_even_where_nothing_else_is_owned() {
    let mut want = Desired::default();
    want.row(&Arc::new(Claim::row(uuid(1)).part(Bridge::ports(), |_| false)), Bridge::default());
    for _ in 0..2 {
        want.sweep(Port::notes(), |port: &Port| port.name == "ours");
    }
    check(
        &want,
        &expect![[r#"
            expect Port where _uuid == #11, notes == {"owner"="us"}
            expect Bridge where _uuid == #01, ports includes #11
            mutate Bridge where _uuid == #01: ports -= #11
            delete Port where _uuid == #11
        "#]],
    );
}

#[test]
fn of_several_rows_with_one_key_the_owned_one_is_meant_and_its_doubles_go() {
    let have = Snapshot::builder()
        .row(uuid(1), port("p", "them"))
        .row(uuid(2), port("p", "us"))
        .row(uuid(3), port("p", "us"))
        .build();
    let claim = Arc::new(Claim::by(Port::by_name()).all());
    let mut want = Desired::default();
    want.row(&claim, port("p", "us"));
    let ambiguous = DiffError::Ambiguous { table: "Port", key: "\"p\"".into(), rows: 3 };
    assert_eq!(diff(&want, &have), Err(ambiguous));
    want.sweep(Port::notes(), |port: &Port| port.notes.get("owner").is_some_and(|owner| owner == "us"));
    let transaction = diff(&want, &have).unwrap().to_string();
    assert!(transaction.contains(&format!("delete Port where _uuid == {}", uuid(3))), "{transaction}");
    assert_eq!(transaction.lines().count(), 2, "{transaction}");
}

#[test]
fn a_desired_state_that_makes_no_sense_is_refused() {
    let refused = |fill: &dyn Fn(&mut Desired), have: &Snapshot| {
        let mut want = Desired::default();
        fill(&mut want);
        diff(&want, have).unwrap_err().to_string()
    };
    let ports = Arc::new(Claim::by(Port::by_name()).all());
    let have = have();
    let twice = |want: &mut Desired| {
        want.row(&ports, port("ours", "us"));
        want.row(&ports, port("ours", "them"));
    };
    assert_eq!(refused(&twice, &have), "Port \"ours\" is wanted twice");
    let twice_new = |want: &mut Desired| {
        want.row(&ports, port("n", "us"));
        want.row(&ports, port("n", "us"));
    };
    assert_eq!(refused(&twice_new, &have), "Port \"n\" is wanted twice");
    let missing = |want: &mut Desired| {
        want.row(&Arc::new(Claim::by(Port::by_name()).must_exist()), port("n", "us"));
    };
    assert_eq!(refused(&missing, &have), "no Port \"n\"");
    let no_key = |want: &mut Desired| {
        want.row(&Arc::new(Claim::by(Bridge::by_owner())), Bridge::default());
    };
    assert_eq!(refused(&no_key, &have), "wanted row of Bridge has no key in index by_owner");
    let strange = |want: &mut Desired| {
        let foreign = {
            let mut other = Desired::default();
            other.row(&ports, port("a", "us"));
            other.row(&ports, port("b", "us"))
        };
        want.row(&Arc::new(Claim::only().all()), Root { bridges: [foreign].into() });
    };
    assert_eq!(
        refused(&strange, &have),
        "Root.bridges refers to a row that is not part of this desired state"
    );
    let undeclared = Snapshot::builder().table::<Root>().build();
    assert_eq!(refused(&twice, &undeclared), "table Port is not part of the snapshot");
    let unread = Snapshot::builder().table::<Port>().build().with_generation(0);
    assert_eq!(refused(&twice, &unread), "the database has not been read yet");
}

#[test]
fn a_value_for_a_column_that_the_server_lacks_is_refused_and_none_is_fine() {
    let mut layout = vec![];
    let schema = serde_json::json!({"name": "db", "tables": {"Bridge": {"columns": {
        "name": {"type": "string"}, "ports": {"type": {"key": "uuid", "min": 0, "max": "unlimited"}},
        "notes": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "mode": {"type": {"key": "string", "min": 0}}}}}});
    let schema = crate::schema::DatabaseSchema::parse(&schema).unwrap();
    layout.extend(crate::schema::check(&[<Bridge as crate::Row>::spec()], &schema).unwrap());
    let have = Snapshot::builder().table::<Bridge>().build().cleared(&layout);
    let claim = Arc::new(Claim::by(Bridge::by_name()).all());
    let mut want = Desired::default();
    want.row(&claim, bridge("br", &[]));
    assert_eq!(diff(&want, &have).unwrap().operations().len(), 1);
    let mut want = Desired::default();
    want.row(&claim, Bridge { newer: Some(Some(1)), ..bridge("br", &[]) });
    assert_eq!(diff(&want, &have), Err(DiffError::NoColumn { table: "Bridge", column: "newer" }));
}
