//! Servers that break the protocol or fall silent.

use std::time::Duration;

use ovsdb::{Options, TransactError, Transaction};
use serde_json::{Value, json};

use crate::fake::{DEADLINE, Fake, Thing, key, lost, names, options, schema};

fn one_row() -> Value {
    json!({key(1): {"initial": {"name": "a"}}})
}

#[tokio::test]
async fn garbage_is_called_so_and_a_later_good_server_is_found() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    fake.accept().await.send(b"SSH-2.0-OpenSSH_9.2p1\r\n").await;
    let why = lost(&store).await;
    assert!(why.contains("garbage") && why.contains("0x53"), "{why}");
    let _peer = fake.accept_and_fill(1, &one_row()).await;
    store.synced(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn an_answer_cut_in_half_changes_nothing() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let (mut peer, request) = fake.accept_monitor(&schema(false)).await;
    let reply = json!({"id": request["id"], "result": [false, key(1), {"Thing": one_row()}]}).to_string();
    peer.send(&reply.as_bytes()[..reply.len() - 2]).await;
    drop(peer);
    let why = lost(&store).await;
    assert!(why.contains("closed the connection in the middle of a message"), "{why}");
    assert_eq!(store.last_known().generation(), 0);
    let _peer = fake.accept_and_fill(1, &one_row()).await;
    assert_eq!(names(&store, 1).await, ["a"]);
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up_at_the_deadline() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(Options { request_timeout: Duration::from_millis(50), ..options() });
    let silent = fake.accept().await;
    let why = lost(&store).await;
    assert!(why.contains("no reply to set_db_change_aware within 50ms"), "{why}");
    let _peer = fake.accept_and_fill(1, &one_row()).await;
    store.synced(DEADLINE).await.unwrap();
    drop(silent);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_noticed_and_its_rows_stay_readable() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(Options { probe_interval: Duration::from_millis(50), ..options() });
    let silent = fake.accept_and_fill(1, &one_row()).await; // answers no probe
    store.synced(DEADLINE).await.unwrap();
    let why = lost(&store).await;
    assert!(why.contains("echo unanswered"), "{why}");
    assert!(store.current().is_err());
    assert_eq!(store.last_known().len::<Thing>(), 1);
    drop(silent);
}

#[tokio::test]
async fn half_a_message_and_then_silence_is_given_up_and_changes_nothing() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(Options { probe_interval: Duration::from_millis(50), ..options() });
    let mut stalled = fake.accept_and_fill(1, &one_row()).await;
    store.synced(DEADLINE).await.unwrap();
    let update = json!({"id": null, "method": "update3", "params": ["store", key(2), {"Thing": {key(1): {"delete": null}}}]});
    let update = update.to_string();
    stalled.send(&update.as_bytes()[..update.len() / 2]).await;
    let why = lost(&store).await;
    assert!(why.contains("echo unanswered"), "{why}");
    assert_eq!(store.last_known().len::<Thing>(), 1);
    let _peer = fake.accept_and_fill(3, &json!({key(2): {"initial": {"name": "b"}}})).await;
    store.wait_for(DEADLINE, |now| now.find_one(Thing::by_name(), "b").map(drop)).await.unwrap();
    drop(stalled);
}

#[tokio::test]
async fn a_message_that_trickles_in_is_one_message() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let mut peer = fake.accept_and_fill(1, &one_row()).await;
    store.synced(DEADLINE).await.unwrap();
    let rows = json!({"Thing": {key(2): {"insert": {"name": "b"}}, key(1): {"delete": null}}});
    let update = json!({"id": null, "method": "update3", "params": ["store", key(2), rows]}).to_string();
    for byte in update.as_bytes() {
        assert_eq!(names(&store, 1).await, ["a"], "half a message changed something");
        peer.send(&[*byte]).await;
    }
    store.wait_for(DEADLINE, |now| now.find_one(Thing::by_name(), "b").map(drop)).await.unwrap();
    assert_eq!(names(&store, 1).await, ["b"]);
    assert_eq!(store.statistics().connections, 1);
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(Options { max_frame: 1000, ..options() });
    let (mut peer, request) = fake.accept_monitor(&schema(false)).await;
    peer.reply(
        &request,
        &json!([false, key(1), {"Thing": {key(1): {"initial": {"name": "x".repeat(2000)}}}}]),
    )
    .await;
    let why = lost(&store).await;
    assert!(why.contains("limit of 1000 bytes"), "{why}");
}

#[tokio::test]
async fn an_update_that_does_not_fit_makes_the_store_read_everything_again() {
    for (update, text) in [
        (json!({key(9): {"modify": {"name": "x"}}}), "which does not exist"),
        (json!({key(1): {"modify": {"name": 5}}}), "value of Thing.name"),
        (json!({key(1): {"explode": {}}}), "malformed update"),
    ] {
        let fake = Fake::new();
        let (store, _guard) = fake.store(options());
        let mut peer = fake.accept_and_fill(1, &one_row()).await;
        store.synced(DEADLINE).await.unwrap();
        peer.update(2, update).await;
        let why = lost(&store).await;
        assert!(why.contains(text), "{why}");
        let (_peer, request) = fake.accept_monitor(&schema(false)).await;
        assert_eq!(request["params"][3], key(0), "resuming would keep the broken snapshot");
    }
}

#[tokio::test]
async fn a_reply_to_the_monitor_request_that_makes_no_sense_is_refused() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let (mut peer, request) = fake.accept_monitor(&schema(false)).await;
    peer.reply(&request, &json!(["yes", {}])).await;
    let why = lost(&store).await;
    assert!(why.contains("malformed update"), "{why}");
}

fn any_transaction() -> Transaction {
    let mut transaction = Transaction::default();
    transaction.push(ovsdb::Operation::Delete { table: "Thing".into(), conditions: vec![] });
    transaction
}

#[tokio::test]
async fn a_transaction_whose_reply_is_lost_has_an_unknown_outcome() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(Options { request_timeout: Duration::from_secs(10), ..options() });
    let mut peer = fake.accept_and_fill(1, &one_row()).await;
    store.synced(DEADLINE).await.unwrap();
    let transaction = tokio::spawn({
        let store = store.clone();
        async move { store.transact(&any_transaction()).await }
    });
    peer.expect("transact").await;
    drop(peer);
    let error = transaction.await.unwrap().unwrap_err();
    assert!(matches!(error, TransactError::Interrupted) && error.is_outcome_unknown(), "{error}");
}

#[tokio::test]
async fn a_transaction_without_reply_ends_at_its_deadline() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(Options { request_timeout: Duration::from_millis(100), ..options() });
    let _peer = fake.accept_and_fill(1, &one_row()).await;
    store.synced(DEADLINE).await.unwrap();
    let error = store.transact(&any_transaction()).await.unwrap_err();
    assert!(matches!(error, TransactError::Deadline { .. }) && error.is_outcome_unknown(), "{error}");
    assert!(store.current().is_ok(), "a slow transaction is no lost connection");
}

#[tokio::test]
async fn a_reply_that_does_not_fit_the_transaction_is_refused() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let mut peer = fake.accept_and_fill(1, &one_row()).await;
    store.synced(DEADLINE).await.unwrap();
    let serve = async {
        let request = peer.expect("transact").await;
        peer.reply(&request, &json!([])).await;
    };
    let transaction = any_transaction();
    let (result, ()) = tokio::join!(store.transact(&transaction), serve);
    assert!(matches!(result, Err(TransactError::Malformed { .. })), "{result:?}");
}
