use expect_test::{Expect, expect};
use serde_json::json;

use super::result::read;
use super::*;

fn one_of_each() -> Transaction {
    let row = |pairs: &[(&str, Datum)]| -> Columns {
        pairs.iter().map(|(column, value)| ((*column).to_owned(), value.clone())).collect()
    };
    let uuid = Uuid::from_u128(1);
    let mut transaction = Transaction::default();
    transaction.extend([
        Operation::Wait {
            table: "Bridge".into(),
            conditions: vec![Condition::new("name", Function::Equal, Datum::scalar("br"))],
            columns: vec!["_uuid".into()],
            rows: vec![],
        },
        Operation::Insert {
            table: "Port".into(),
            row: row(&[("name", Datum::scalar("p")), ("tag", Datum::scalar(5i64))]),
            name: Some("new".into()),
        },
        Operation::Update {
            table: "Bridge".into(),
            conditions: vec![Condition::row(uuid)],
            row: row(&[("ports", Datum::scalar(Atom::NamedUuid("new".into())))]),
        },
        Operation::Mutate {
            table: "Bridge".into(),
            conditions: vec![Condition::row(uuid)],
            mutations: vec![
                Mutation { column: "ids".into(), mutator: Mutator::Delete, value: Datum::set(["a"]) },
                Mutation { column: "ids".into(), mutator: Mutator::Insert, value: Datum::map([("a", "1")]) },
            ],
        },
        Operation::Delete { table: "Port".into(), conditions: vec![Condition::row(uuid)] },
        Operation::Select {
            table: "Port".into(),
            conditions: vec![Condition::new("ids", Function::Includes, Datum::map([("a", "1")]))],
        },
    ]);
    transaction.with_comment("tests")
}

#[track_caller]
fn check(found: &str, expected: &Expect) {
    expected.assert_eq(found);
}

#[test]
fn a_transaction_prints_one_line_per_operation() {
    check(
        &one_of_each().to_string(),
        &expect![[r#"
            expect no Bridge where name == "br"
            insert Port @new: name = "p", tag = 5
            update Bridge where _uuid == 00000000-0000-0000-0000-000000000001: ports = @new
            mutate Bridge where _uuid == 00000000-0000-0000-0000-000000000001: ids -= "a", ids += {"a"="1"}
            delete Port where _uuid == 00000000-0000-0000-0000-000000000001
            select Port where ids includes {"a"="1"}
            comment "tests"
        "#]],
    );
}

#[test]
fn operations_have_the_wire_form_of_the_rfc() {
    let uuid = json!(["uuid", "00000000-0000-0000-0000-000000000001"]);
    let expected = json!(["db",
        {"op": "wait", "timeout": 0, "table": "Bridge", "where": [["name", "==", "br"]], "columns": ["_uuid"],
         "until": "==", "rows": []},
        {"op": "insert", "table": "Port", "row": {"name": "p", "tag": 5}, "uuid-name": "new"},
        {"op": "update", "table": "Bridge", "where": [["_uuid", "==", uuid]], "row": {"ports": ["named-uuid", "new"]}},
        {"op": "mutate", "table": "Bridge", "where": [["_uuid", "==", uuid]],
         "mutations": [["ids", "delete", "a"], ["ids", "insert", ["map", [["a", "1"]]]]]},
        {"op": "delete", "table": "Port", "where": [["_uuid", "==", uuid]]},
        {"op": "select", "table": "Port", "where": [["ids", "includes", ["map", [["a", "1"]]]]]},
        {"op": "comment", "comment": "tests"}]);
    assert_eq!(one_of_each().to_params("db"), expected);
}

#[test]
fn a_comment_alone_is_no_reason_to_send() {
    assert!(Transaction::default().with_comment("nothing").is_empty());
}

#[test]
fn results_are_read_operation_by_operation() {
    let uuid = "00000000-0000-0000-0000-000000000007";
    let reply = json!([{}, {"uuid": ["uuid", uuid]}, {"count": 1}, {"count": 0}, {"count": 2}, {"rows": [{"a": 1}]}, {}]);
    let transaction = one_of_each();
    let results = read(&transaction, &reply).unwrap();
    let select = json!({"a": 1}).as_object().cloned().unwrap();
    let expected = [
        OperationResult::Done,
        OperationResult::Inserted(Uuid::from_u128(7)),
        OperationResult::Count(1),
        OperationResult::Count(0),
        OperationResult::Count(2),
        OperationResult::Rows(vec![select]),
        OperationResult::Done,
    ];
    assert_eq!(results, expected);
    assert_eq!(Committed::new(&transaction, results, 3).inserted("new"), Some(Uuid::from_u128(7)));
}

#[test]
fn failures_name_the_table_of_the_operation() {
    let failed = |reply: Value| read(&one_of_each(), &reply).unwrap_err().to_string();
    let error = |code: &str| json!({"error": code, "details": "because"});
    assert_eq!(failed(json!([error("timed out"), null])), "Bridge has changed meanwhile (operation 0)");
    assert_eq!(
        failed(json!([{}, error("constraint violation"), null])),
        "constraint violation in Port: because"
    );
    assert_eq!(failed(json!([{}, error("unknown column")])), "unknown column in Port: because");
    assert_eq!(
        failed(json!([{}, {"uuid": ["uuid", "x"]}, {}, {}, {}, {}, {}, error("constraint violation")])),
        "constraint violation in transaction: because"
    );
    assert_eq!(
        failed(json!([{}, {}, {}, {}, {}, {}, {}, error("referential integrity violation")])),
        "referential integrity violation: because"
    );
}

#[test]
fn what_a_server_could_not_store_is_told_with_the_systems_own_words() {
    // As ovsdb-server answers on a full disk: every operation went well, and the commit did not.
    let io = json!({"error": "I/O error", "details": "nb.db: write failed", "io-error": "No space left on device"});
    let done = json!([{}, {"uuid": ["uuid", "x"]}, {}, {}, {}, {}, {}, io]);
    let error = read(&one_of_each(), &done).unwrap_err();
    assert!(matches!(error, TransactError::NotStored { .. }) && !error.is_outcome_unknown());
    let want = "the server could not store it: nb.db: write failed (No space left on device)";
    assert_eq!(error.to_string(), want);
    let exhausted = json!([{}, {"error": "resources exhausted", "details": "because"}]);
    let error = read(&one_of_each(), &exhausted).unwrap_err();
    assert_eq!(error.to_string(), "the server could not store it: because");
}

#[test]
fn only_a_failed_guard_is_a_race() {
    let race = read(&one_of_each(), &json!([{"error": "timed out"}])).unwrap_err();
    let other = read(&one_of_each(), &json!([{}, {"error": "timed out"}])).unwrap_err();
    assert!(race.is_race() && !other.is_race());
}

#[test]
fn a_reply_of_another_length_or_form_is_malformed() {
    for reply in
        [json!([{}]), json!("x"), json!([{}, {}, {"count": 1}, {"count": 1}, {"count": 1}, {"rows": []}, {}])]
    {
        let error = read(&one_of_each(), &reply).unwrap_err();
        assert!(matches!(error, TransactError::Malformed { .. }), "{error}");
    }
}
