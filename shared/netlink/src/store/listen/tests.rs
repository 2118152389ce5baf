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
    /// A listener that is subscribed, and tells what it hears.
    async fn new(is_ready: bool) -> Self {
        Self::with(is_ready, |store, stop, tell| async move {
            store.listen(&stop, |batch, _| tell.try_send(batch.clone()).unwrap()).await;
        })
        .await
    }

    async fn with<Fut: Future<Output = ()> + Send + 'static>(
        is_ready: bool,
        listen: impl FnOnce(NetlinkStore, CancellationToken, mpsc::Sender<Batch>) -> Fut,
    ) -> Self {
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
        let listener = tokio::spawn(listen(store, stop.clone(), tell));
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

#[tokio::test]
async fn a_listener_to_some_changes_is_woken_by_these_and_by_a_fresh_start_alone() {
    let concerns = |change: &Change, _: &Snapshot| matches!(change, Change::DevlinkPort { .. });
    let mut world = World::with(false, |store, stop, tell| async move {
        // Each time it is woken, it tells the mark of this test.
        store.listen_if(&stop, concerns, || tell.try_send(Batch::Resync).unwrap()).await;
    })
    .await;
    let port = Change::DevlinkPort { old: None, new: None };
    let both = Batch::Changes(Arc::from([Change::Rule { old: None, new: None }, port]));
    for (batch, wakes) in [(changes(), 0), (both, 1), (Batch::Resync, 1)] {
        world.batches.send(batch.clone()).unwrap();
        while !world.batches.is_empty() {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        let heard = std::iter::from_fn(|| world.heard.try_recv().ok()).count();
        assert_eq!(heard, wakes, "{batch:?}");
    }
    world.readiness.send_replace(Readiness::Ready);
    world.next().await;
}
