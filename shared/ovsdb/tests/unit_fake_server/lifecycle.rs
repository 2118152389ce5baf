//! Subscribers that lag, and the end of a store.

use std::time::{Duration, SystemTime};

use ovsdb::{Event, LostReason, Options, Status, Store, TransactError, Transaction};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fake::{DEADLINE, Fake, Thing, key, lost, names, options};

#[tokio::test]
async fn a_slow_subscriber_is_told_to_look_again_and_ends_up_current() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(Options { event_capacity: 2, ..options() });
    let mut peer = fake.accept_and_fill(1, &json!({})).await;
    store.synced(DEADLINE).await.unwrap();
    let (start, mut events) = store.subscribe();
    assert!(start.is_empty::<Thing>());
    for number in 1..=10 {
        peer.update(number, json!({key(number): {"insert": {"name": format!("t{number}")}}})).await;
    }
    names(&store, 10).await;
    let Some(Event::Resync(snapshot)) = events.next().await else { panic!("no resync") };
    assert_eq!(snapshot.len::<Thing>(), 10);
    peer.update(11, json!({key(11): {"insert": {"name": "after"}}})).await;
    let Some(Event::Changes(batch)) = events.next().await else { panic!("no change") };
    let inserted: Vec<_> = batch.rows::<Thing>().map(|change| change.new.unwrap().name.clone()).collect();
    assert_eq!(inserted, ["after"]);
}

fn any_transaction() -> Transaction {
    let mut transaction = Transaction::default();
    transaction.push(ovsdb::Operation::Delete { table: "Thing".into(), conditions: vec![] });
    transaction
}

#[tokio::test]
async fn a_stopped_store_says_so_to_everyone() {
    let fake = Fake::new();
    let (store, guard) = fake.store(options());
    let _peer = fake.accept_and_fill(1, &json!({key(1): {"initial": {"name": "a"}}})).await;
    store.synced(DEADLINE).await.unwrap();
    let (_, mut events) = store.subscribe();
    drop(guard);
    lost(&store).await;
    let Status::Lost { why } = store.status().borrow().clone() else { panic!("not lost") };
    assert!(matches!(&*why, LostReason::Stopped));
    assert!(tokio::time::timeout(DEADLINE, events.next()).await.unwrap().is_none());
    let error = store.transact(&any_transaction()).await.unwrap_err();
    assert!(matches!(error, TransactError::Stopped), "{error}");
    assert_eq!(store.last_known().len::<Thing>(), 1);
}

#[tokio::test]
async fn the_last_event_is_when_the_contents_or_a_change_of_them_came() {
    let fake = Fake::new();
    let (store, _guard) = fake.store(options());
    assert_eq!(store.last_event(), None);
    let mut peer = fake.accept_and_fill(1, &json!({})).await;
    store.synced(DEADLINE).await.unwrap();
    let filled = store.last_event().unwrap();
    // The clock has to have moved on for the next event to be later.
    while SystemTime::now() < filled + Duration::from_millis(2) {
        tokio::task::yield_now().await;
    }
    peer.update(1, json!({key(1): {"insert": {"name": "a"}}})).await;
    names(&store, 1).await;
    assert!(store.last_event().unwrap() > filled);
}

#[tokio::test]
async fn a_driver_ends_when_the_last_handle_is_dropped() {
    let remote: ovsdb::Remote = "unix:/nonexistent/db.sock".parse().unwrap();
    let (store, driver) = Store::builder(remote, "db").options(options()).table::<Thing>().build();
    let driver = tokio::spawn(driver.run(CancellationToken::new()));
    lost(&store).await;
    drop(store);
    tokio::time::timeout(DEADLINE, driver).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_empty_transaction_succeeds_without_a_connection() {
    let remote: ovsdb::Remote = "unix:/nonexistent/db.sock".parse().unwrap();
    let (store, _driver) = Store::builder(remote, "db").table::<Thing>().build();
    let committed = store.transact(&Transaction::default()).await.unwrap();
    assert_eq!((committed.results.len(), store.statistics().transactions), (0, 0));
}
