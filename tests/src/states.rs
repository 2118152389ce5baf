//! Waiting for what Causeway says about Uplinks.

use std::time::Duration;

use causeway_api::condition;
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client};

/// How long a machine under load may take for what usually takes milliseconds.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// `Status/Reason` of a condition, as tests and stories write it.
#[must_use]
pub fn verdict(conditions: &[Condition], type_: &str) -> String {
    condition::find(conditions, type_)
        .map_or_else(|| "absent".to_owned(), |found| format!("{}/{}", found.status, found.reason))
}

/// Waits until a state's condition has a verdict (`False/BridgeNotFound`) and returns the state.
///
/// # Errors
/// After [`DEADLINE`], with what was seen last.
pub async fn state_says(client: &Client, name: &str, type_: &str, want: &str) -> anyhow::Result<UplinkState> {
    let what = format!("{type_} {want}");
    let says =
        |state: Option<&UplinkState>| state.is_some_and(|state| verdict(state.conditions(), type_) == want);
    let found = causeway_rig::wait_object(Api::all(client.clone()), name, &what, DEADLINE, says).await?;
    found.ok_or_else(|| anyhow::anyhow!("there is no UplinkState {name}"))
}

/// Waits until the Uplink's `Ready` has a verdict and returns the Uplink.
///
/// # Errors
/// After [`DEADLINE`], with what was seen last.
pub async fn uplink_says(client: &Client, name: &str, want: &str) -> anyhow::Result<Uplink> {
    let what = format!("Ready {want}");
    let says =
        |uplink: Option<&Uplink>| uplink.is_some_and(|uplink| verdict(uplink.conditions(), "Ready") == want);
    let found = causeway_rig::wait_object(Api::all(client.clone()), name, &what, DEADLINE, says).await?;
    found.ok_or_else(|| anyhow::anyhow!("there is no Uplink {name}"))
}

/// Message of a condition; empty if there is no such condition.
#[must_use]
pub fn message<'c>(conditions: &'c [Condition], type_: &str) -> &'c str {
    condition::find(conditions, type_).map_or("", |found| &found.message)
}
