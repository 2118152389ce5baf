//! What servers of different age say, and resumption in detail.

use ovsdb::{Event, Status};
use serde_json::{Value, json};

use crate::fake::{DEADLINE, Fake, Peer, Thing, key, lost, names, options, schema};

/// Accepts a connection as a server that knows only the given monitor methods.
async fn accept_old(fake: &Fake, known: &str) -> (Peer, Value) {
    let mut peer = fake.accept().await;
    loop {
        let request = peer.receive().await;
        match request["method"].as_str().unwrap() {
            "get_schema" => peer.reply(&request, &schema(false)).await,
            method if method == known => return (peer, request),
            _ => peer.refuse(&request).await,
        }
    }
}

#[tokio::test]
async fn a_server_without_monitor_cond_since_is_followed_by_monitor_cond() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let (mut peer, request) = accept_old(&fake, "monitor_cond").await;
    assert_eq!(request["params"], json!(["db", "store", {"Thing": [{"columns": ["name", "numbers"]}]}]));
    peer.reply(&request, &json!({"Thing": {key(1): {"initial": {"name": "a", "numbers": ["set", [1, 2]]}}}}))
        .await;
    peer.notify("update2", json!(["store", {"Thing": {key(1): {"modify": {"numbers": ["set", [2, 3]]}}}}]))
        .await;
    let seen = store.wait_for(DEADLINE, |snapshot| {
        let (_, row) = snapshot.find_one(Thing::by_name(), "a")?;
        (row.numbers == [1, 3].into()).then_some(())
    });
    seen.await.unwrap();
}

#[tokio::test]
async fn a_server_that_knows_only_the_rfc_is_followed_by_monitor() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let (mut peer, request) = accept_old(&fake, "monitor").await;
    peer.reply(&request, &json!({"Thing": {key(1): {"new": {"name": "a", "numbers": 1}}}})).await;
    assert_eq!(names(&store, 1).await, ["a"]);
    let rows = json!({key(1): {"old": {"name": "a"}, "new": {"name": "b", "numbers": 1}}, key(2): {"new": {"name": "c"}}});
    peer.notify("update", json!(["store", {"Thing": rows}])).await;
    assert_eq!(names(&store, 2).await, ["b", "c"]);
    peer.notify("update", json!(["store", {"Thing": {key(1): {"old": {"name": "b"}}}}])).await;
    assert_eq!(names(&store, 1).await, ["c"]);
}

#[tokio::test]
async fn two_row_types_may_read_one_table() {
    ovsdb::table! {
        /// The same table as `Thing`, seen differently.
        pub(crate) struct Other in "Thing" {
            numbers: std::collections::BTreeSet<i64>,
            optional later: Option<String>,
        }
    }
    let fake = Fake::new();
    let (store, _guard) = fake.store_of(options(), |builder| builder.table::<Thing>().table::<Other>());
    let (mut peer, request) = fake.accept_monitor(&schema(true)).await;
    assert_eq!(request["params"][2], json!({"Thing": [{"columns": ["name", "numbers", "later"]}]}));
    peer.reply(
        &request,
        &json!([false, key(1), {"Thing": {key(1): {"initial": {"name": "a", "numbers": 1}}}}]),
    )
    .await;
    names(&store, 1).await;
    let (snapshot, mut events) = store.subscribe();
    assert_eq!(
        snapshot.rows::<Other>().map(|(_, row)| row.numbers.clone()).collect::<Vec<_>>(),
        [[1].into()]
    );
    peer.update(2, json!({key(1): {"modify": {"name": "b"}}})).await;
    assert_eq!(next(&mut events).await, ["a > b"]);
    peer.update(3, json!({key(1): {"modify": {"numbers": 2}}})).await;
    let Some(Event::Changes(batch)) = events.next().await else { panic!("no change") };
    assert_eq!((batch.rows::<Thing>().count(), batch.rows::<Other>().count()), (1, 1));
}

/// A store that has seen transaction 7, in which row 2 was added to row 1, and has lost its connection.
async fn interrupted(fake: &Fake) -> (ovsdb::Store, ovsdb::Events, impl Drop) {
    let (store, guard) = fake.store(options());
    let mut peer = fake.accept_and_fill(5, &json!({key(1): {"initial": {"name": "a", "numbers": 1}}})).await;
    peer.update(7, json!({key(2): {"insert": {"name": "b"}}})).await;
    names(&store, 2).await;
    let (_, events) = store.subscribe();
    drop(peer);
    lost(&store).await;
    (store, events, guard)
}

async fn next(events: &mut ovsdb::Events) -> Vec<String> {
    let event = tokio::time::timeout(DEADLINE, events.next()).await.unwrap().unwrap();
    let Event::Changes(batch) = event else { panic!("resync") };
    let text = |row: &Option<std::sync::Arc<Thing>>| row.as_ref().map_or("-".into(), |row| row.name.clone());
    batch.rows::<Thing>().map(|change| format!("{} > {}", text(&change.old), text(&change.new))).collect()
}

#[tokio::test]
async fn a_reconnection_resumes_from_the_last_transaction() {
    let fake = Fake::new();
    let (store, mut events, _guard) = interrupted(&fake).await;
    let (mut peer, request) = fake.accept_monitor(&schema(false)).await;
    assert_eq!(request["params"][3], key(7));
    let rows = json!({key(1): {"modify": {"numbers": ["set", [1, 2]]}}, key(3): {"insert": {"name": "c"}}});
    peer.reply(&request, &json!([true, key(8), {"Thing": rows}])).await;
    assert_eq!(names(&store, 3).await, ["a", "b", "c"]);
    assert_eq!(next(&mut events).await, ["a > a", "- > c"]);
    assert_eq!(store.current().unwrap().find_one(Thing::by_name(), "a").unwrap().1.numbers, [2].into());
    let statistics = store.statistics();
    assert_eq!((statistics.full_reads, statistics.resumes, statistics.connections), (1, 1, 2));
}

#[tokio::test]
async fn a_reconnection_that_cannot_resume_tells_the_differences() {
    let fake = Fake::new();
    let (store, mut events, _guard) = interrupted(&fake).await;
    let rows = json!({key(1): {"initial": {"name": "a2"}}, key(3): {"initial": {"name": "c"}}});
    let _peer = fake.accept_and_fill(9, &rows).await;
    assert_eq!(next(&mut events).await, ["a > a2", "b > -", "- > c"]);
    assert_eq!(store.statistics().resumes, 0);
}

#[tokio::test]
async fn a_failed_reconnection_does_not_forget_where_to_resume() {
    let fake = Fake::new();
    let (_store, _events, _guard) = interrupted(&fake).await;
    drop(fake.accept_monitor(&schema(false)).await);
    let (_peer, request) = fake.accept_monitor(&schema(false)).await;
    assert_eq!(request["params"][3], key(7));
}

#[tokio::test]
async fn another_schema_is_no_place_to_resume() {
    let fake = Fake::new();
    let (store, _events, _guard) = interrupted(&fake).await;
    let (mut peer, request) = fake.accept_monitor(&schema(true)).await;
    assert_eq!(request["params"][3], key(0));
    assert_eq!(request["params"][2]["Thing"][0]["columns"], json!(["name", "numbers", "later"]));
    peer.reply(
        &request,
        &json!([false, key(8), {"Thing": {key(1): {"initial": {"name": "a", "later": "x"}}}}]),
    )
    .await;
    names(&store, 1).await;
    let snapshot = store.last_known();
    assert_eq!(snapshot.find_one(Thing::by_name(), "a").unwrap().1.later, Some(Some("x".into())));
    assert!(snapshot.has_column::<Thing>("later"));
}

#[tokio::test]
async fn a_cancelled_monitor_makes_the_store_start_again() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let mut peer = fake.accept_and_fill(5, &json!({key(1): {"initial": {"name": "a"}}})).await;
    store.synced(DEADLINE).await.unwrap();
    peer.notify("monitor_canceled", json!(["store"])).await;
    let why = lost(&store).await;
    assert!(why.contains("cancelled the monitor"), "{why}");
    let (mut peer, request) = fake.accept_monitor(&schema(false)).await;
    assert_eq!(request["params"][3], key(0));
    peer.reply(&request, &json!([false, key(6), {}])).await;
    store.synced(DEADLINE).await.unwrap();
    assert!(store.last_known().is_empty::<Thing>());
}

#[tokio::test]
async fn a_refused_monitor_request_is_reported_with_the_servers_words() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    let (mut peer, request) = fake.accept_monitor(&schema(false)).await;
    let error = json!({"error": "permission error", "details": "RBAC says no"});
    peer.send(json!({"id": request["id"], "error": error}).to_string().as_bytes()).await;
    let mut status = store.status();
    let lost = status.wait_for(|status| matches!(status, Status::Lost { .. }));
    let why = tokio::time::timeout(DEADLINE, lost).await.unwrap().unwrap().to_string();
    assert!(why.contains("permission error: RBAC says no"), "{why}");
}
