//! Waiting for an object of the API by watching it.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{anyhow, bail};
use futures::TryStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Waits until `accept` likes the object called `name`. It is called with every version that the watch delivers, and
/// with `None` while there is no such object.
///
/// # Errors
/// After `deadline`, with the last version seen.
pub async fn wait_object<K>(
    api: Api<K>,
    name: &str,
    what: &str,
    deadline: Duration,
    mut accept: impl FnMut(Option<&K>) -> bool,
) -> anyhow::Result<Option<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let mut last = None;
    let mut trouble = None;
    let watch = async {
        let mut versions = std::pin::pin!(watch_object(api, name));
        loop {
            match versions.try_next().await {
                Ok(Some(version)) if accept(version.as_ref()) => return Ok(version),
                Ok(Some(version)) => last = Some(version),
                Ok(None) => bail!("the watch of {name} ended"),
                // The watcher tries again, with a delay of its own.
                Err(error) => trouble = Some(error.to_string()),
            }
        }
    };
    let found = tokio::time::timeout(deadline, watch).await;
    found.unwrap_or_else(|_| {
        let seen = match &last {
            None => "nothing".to_owned(),
            Some(None) => "no such object".to_owned(),
            Some(Some(object)) => serde_yaml_ng::to_string(object).unwrap_or_else(|error| error.to_string()),
        };
        let trouble = trouble.map(|text| format!(" (last trouble of the watch: {text})")).unwrap_or_default();
        Err(anyhow!("waited {deadline:?} for {what} of {name}; last seen: {seen}{trouble}"))
    })
}
