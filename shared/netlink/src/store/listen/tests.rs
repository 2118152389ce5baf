//! A store whose task is the test: what it publishes, and what a listener hears of it.

use std::sync::Arc;

use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio::task::JoinHandle;

use super::*;
use crate::change::Change;
use crate::error::{DumpError, StoreError, Subject};

struct World {
    readiness: watch::Sender<Readiness>,
    batches: broadcast::Sender<Batch>,
    // Both ends when the store does.
    _snapshot: watch::Sender<Snapshot>,
    stop: CancellationToken,
    heard: mpsc::Receiver<Batch>,
    listener: JoinHandle<()>,
}

impl World {
    /// A listener that is subscribed.
    async fn new(is_ready: bool) -> Self {
        let (snapshot_sender, snapshot) = watch::channel(Snapshot::default());
        let (readiness, readiness_receiver) = watch::channel(Readiness::Loading);
        let (batches, _) = broadcast::channel(2);
        let (_, times) = watch::channel(None);
        let store = NetlinkStore {
            snapshot,
            readiness: readiness_receiver,
            batches: batches.downgrade(),
            resync: Arc::new(Notify::new()),
            heard: times,
        };
        if is_ready {
            readiness.send_replace(Readiness::Ready);
        }
        let stop = CancellationToken::new();
        let (tell, heard) = mpsc::channel(16);
        let listener = tokio::spawn({
            let stop = stop.clone();
            async move { store.listen(&stop, |batch, _| tell.try_send(batch.clone()).unwrap()).await }
        });
        while batches.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        Self { readiness, batches, _snapshot: snapshot_sender, stop, heard, listener }
    }

    async fn next(&mut self) -> Batch {
        self.heard.recv().await.expect("the listener runs")
    }
}

fn changes() -> Batch {
    Batch::Changes(Arc::from([Change::Rule { old: None, new: None }]))
}

fn failed() -> Readiness {
    let why = StoreError::Dump { subject: Subject::Links, source: DumpError::Overrun };
    Readiness::Failed { why: Arc::new(why) }
}

#[tokio::test]
async fn batches_are_heard_in_their_order_until_told_to_stop() {
    let mut world = World::new(false).await;
    for batch in [Batch::Resync, changes()] {
        world.batches.send(batch.clone()).unwrap();
        assert_eq!(world.next().await, batch);
    }
    world.stop.cancel();
    world.listener.await.unwrap();
    assert_eq!(world.heard.recv().await, None);
}

#[tokio::test]
async fn a_kernel_that_is_read_again_is_looked_at_as_a_whole_even_if_it_is_as_before() {
    let mut world = World::new(false).await;
    world.readiness.send_replace(Readiness::Ready);
    assert_eq!(world.next().await, Batch::Resync);
    // A failure by itself tells nothing about the kernel: the next word is of the change.
    world.readiness.send_replace(failed());
    tokio::task::yield_now().await;
    world.batches.send(changes()).unwrap();
    assert_eq!(world.next().await, changes());
    world.readiness.send_replace(Readiness::Ready);
    assert_eq!(world.next().await, Batch::Resync);
}

#[tokio::test]
async fn a_listener_that_falls_behind_is_told_to_start_over() {
    let mut world = World::new(false).await;
    // The test does not yield in between, so the listener cannot take any of them.
    for _ in 0..5 {
        world.batches.send(changes()).unwrap();
    }
    assert_eq!(world.next().await, Batch::Resync);
}

#[tokio::test]
async fn a_store_that_was_read_before_is_told_once_and_a_listener_ends_with_it() {
    let mut world = World::new(true).await;
    assert_eq!(world.next().await, Batch::Resync);
    drop(world.batches);
    world.listener.await.unwrap();
    assert_eq!(world.heard.recv().await, None);
}
