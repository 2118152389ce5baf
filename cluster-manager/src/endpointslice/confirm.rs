//! The last look before mirrors go because their namespace has no primary network.
//!
//! Slices and networks are watched separately, so the watch of networks can be behind: a new leader may see the mirrors
//! that the last one made before the network that they were made for. Then services of the network would lose their
//! endpoints for a moment. In: a namespace. Out: nothing, or [`MirrorError::Behind`], and then the event that is on its
//! way plans again. Costs nothing where no mirror goes for this reason.

use std::time::Duration;

use causeway_api::nad::{GatewayMode, NetworkAttachmentDefinition};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::error::MirrorError;
use super::observe;
use super::plan::Plan;
use super::watched::SliceKey;

/// How long one read may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Reads networks from the API server.
#[derive(Clone)]
pub(super) struct Reader {
    client: Client,
    mode: GatewayMode,
}

impl Reader {
    /// A reader over this connection.
    #[must_use]
    pub(super) fn new(client: Client, mode: GatewayMode) -> Self {
        Self { client, mode }
    }
}

/// Checks against the API server that the namespace has no primary network, if `plan` rests on that.
///
/// # Errors
/// It has one, or it could not be asked.
pub(super) async fn no_network(key: &SliceKey, plan: &Plan, reader: &Reader) -> Result<(), MirrorError> {
    if !plan.misses_network() {
        return Ok(());
    }
    let namespace = key.namespace();
    let attachments: Api<NetworkAttachmentDefinition> = Api::namespaced(reader.client.clone(), namespace);
    let params = ListParams::default();
    let found = match timeout(DEADLINE, attachments.list(&params)).await {
        Ok(Ok(found)) => found,
        Ok(Err(source)) => {
            return Err(MirrorError::Read { namespace: namespace.to_owned(), source: Box::new(source) });
        }
        Err(_elapsed) => {
            return Err(MirrorError::ReadDeadline { namespace: namespace.to_owned(), after: DEADLINE });
        }
    };
    let is_primary = |nad: &NetworkAttachmentDefinition| {
        nad.read(reader.mode).is_ok_and(|config| observe::is_primary(&config))
    };
    if found.items.iter().any(is_primary) {
        return Err(MirrorError::Behind { namespace: namespace.to_owned() });
    }
    Ok(())
}
