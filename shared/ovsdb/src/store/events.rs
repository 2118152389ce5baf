//! Changes of rows, as a subscriber receives them.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use crate::change::{Change, RowChange};
use crate::row::Row;
use crate::snapshot::Snapshot;

/// The changes of one server update, or of one comparison after a reconnection. They happened together.
#[derive(Debug)]
pub struct Batch {
    /// The generation of the first snapshot that contains them.
    pub generation: u64,
    /// One entry per row.
    pub changes: Vec<RowChange>,
}

impl Batch {
    /// The changes of one table.
    pub fn rows<T: Row>(&self) -> impl Iterator<Item = Change<T>> {
        self.changes.iter().filter_map(RowChange::row)
    }
}

/// What a subscriber is told.
#[derive(Debug, Clone)]
pub enum Event {
    /// These rows changed.
    Changes(Arc<Batch>),
    /// The subscriber was too slow and changes were dropped: look at everything in this snapshot. Later events tell
    /// what happens after it.
    Resync(Snapshot),
}

/// A subscription; see [`Store::subscribe`](crate::Store::subscribe).
pub struct Events {
    receiver: Option<Receiver<Arc<Batch>>>,
    snapshots: watch::Receiver<Snapshot>,
    /// Generation of the last snapshot or batch that was handed out.
    seen: u64,
}

impl Events {
    pub(super) fn new(
        receiver: Option<Receiver<Arc<Batch>>>,
        snapshots: watch::Receiver<Snapshot>,
        seen: u64,
    ) -> Self {
        Self { receiver, snapshots, seen }
    }

    /// The next event; `None` once the store has stopped and everything was told.
    ///
    /// # Cancellation
    /// May be dropped at any time without losing an event.
    pub async fn next(&mut self) -> Option<Event> {
        let receiver = self.receiver.as_mut()?;
        loop {
            match receiver.recv().await {
                Ok(batch) if batch.generation <= self.seen => {} // part of the snapshot that was handed out
                Ok(batch) => {
                    self.seen = batch.generation;
                    return Some(Event::Changes(batch));
                }
                Err(RecvError::Lagged(_)) => {
                    // New receiver first, snapshot second, as in `subscribe`.
                    *receiver = receiver.resubscribe();
                    let snapshot = self.snapshots.borrow().clone();
                    self.seen = snapshot.generation();
                    return Some(Event::Resync(snapshot));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    fn batch(generation: u64) -> Arc<Batch> {
        Arc::new(Batch { generation, changes: Vec::new() })
    }

    fn at(generation: u64) -> Snapshot {
        Snapshot::builder().build().with_generation(generation)
    }

    async fn generation(events: &mut Events) -> u64 {
        match events.next().await {
            Some(Event::Changes(batch)) => batch.generation,
            other => panic!("no batch: {other:?}"),
        }
    }

    #[tokio::test]
    async fn batches_that_the_snapshot_contains_are_not_told_again() {
        let (sender, receiver) = broadcast::channel(8);
        let snapshots = watch::Sender::new(at(2));
        let mut events = Events::new(Some(receiver), snapshots.subscribe(), 2);
        for generation in 1..=4 {
            sender.send(batch(generation)).unwrap();
        }
        assert_eq!(generation(&mut events).await, 3);
        assert_eq!(generation(&mut events).await, 4);
        drop(sender);
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_to_resync_and_then_misses_nothing() {
        let (sender, receiver) = broadcast::channel(2);
        let snapshots = watch::Sender::new(at(0));
        let mut events = Events::new(Some(receiver), snapshots.subscribe(), 0);
        for generation in 1..=5 {
            snapshots.send_replace(at(generation));
            sender.send(batch(generation)).unwrap();
        }
        let Some(Event::Resync(snapshot)) = events.next().await else { panic!("no resync") };
        assert_eq!(snapshot.generation(), 5);
        sender.send(batch(6)).unwrap();
        assert_eq!(generation(&mut events).await, 6);
    }

    #[tokio::test]
    async fn a_subscription_to_a_stopped_store_ends_at_once() {
        let snapshots = watch::Sender::new(at(0));
        assert!(Events::new(None, snapshots.subscribe(), 0).next().await.is_none());
    }
}
