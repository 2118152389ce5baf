//! When the API server had an object: a watch that notes the time of every version.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{Stream, StreamExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::states::DEADLINE;

type Events<K> = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<K>>> + Send>>;

/// A version of an object, and when the watch delivered it.
#[derive(Debug)]
pub struct Seen<K> {
    /// When.
    pub at: Instant,
    /// The object.
    pub object: K,
    /// It was deleted; `object` is its last version.
    pub deleted: bool,
}

/// A plain watch of all objects of a kind, from now on. It adds nothing to what the API server itself takes.
pub struct Observer<K> {
    events: Events<K>,
}

/// Kinds that can be observed.
pub trait Observed: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static> Observed for K {}

impl<K: Observed> Observer<K> {
    /// Starts watching. Versions that are there already are not delivered.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn start(client: &Client) -> anyhow::Result<Self> {
        let api: Api<K> = Api::all(client.clone());
        let list = api.list(&ListParams::default()).await.context("listing what will be watched")?;
        let version = list.metadata.resource_version.context("a list without a version")?;
        let parameters = WatchParams::default().timeout(290);
        let events = api.watch(&parameters, &version).await.context("watching")?;
        Ok(Self { events: Box::pin(events) })
    }

    /// The next version of any object that `accept` likes; others are passed over.
    ///
    /// # Errors
    /// After [`DEADLINE`], with the last version seen, or if the watch ends.
    pub async fn until(
        &mut self,
        what: &str,
        mut accept: impl FnMut(&Seen<K>) -> bool,
    ) -> anyhow::Result<Seen<K>> {
        let mut last = None;
        let search = async {
            loop {
                let event = self.events.next().await.context("the watch ended")??;
                let at = Instant::now();
                let seen = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        Seen { at, object, deleted: false }
                    }
                    WatchEvent::Deleted(object) => Seen { at, object, deleted: true },
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(error) => bail!("the watch failed: {error:?}"),
                };
                if accept(&seen) {
                    return Ok(seen);
                }
                last = Some(seen);
            }
        };
        if let Ok(found) = timeout(DEADLINE, search).await {
            return found;
        }
        let seen = last.map_or_else(|| "nothing".to_owned(), |seen| format!("{:?}", seen.object));
        bail!("waited {DEADLINE:?} for {what}; last seen: {seen}")
    }

    /// Counts what is delivered within a time: for showing that nothing is.
    pub async fn count_for(&mut self, time: Duration) -> usize {
        let mut count = 0;
        let _elapsed = timeout(time, async {
            while let Some(Ok(event)) = self.events.next().await {
                if !matches!(event, WatchEvent::Bookmark(_)) {
                    count += 1;
                }
            }
        })
        .await;
        count
    }
}

impl<K: Observed> Seen<K> {
    /// Whether this is a version of the object of that name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.object.name_any() == name
    }
}
