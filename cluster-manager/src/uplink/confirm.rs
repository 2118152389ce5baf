//! The last look before states are deleted.
//!
//! The three kinds are watched separately, so one watch can be behind another: a state can be seen before the
//! Uplink, or the Node's label, that it was made for. What is to be deleted is therefore checked against the API
//! server itself. In: a plan. Out: nothing, or [`UplinkError::Behind`], and then the event that is on its way plans
//! again. Costs nothing where nothing is deleted.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::uplink::Uplink as ApiUplink;
use causeway_runtime::watch::Lookup;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::error::UplinkError;
use super::plan::{Deletion, Plan, Stale, stale};
use super::watched::{Uplink, UplinkName};
use crate::observed::place::{Node, WatchedNode};
use crate::side_by_side::side_by_side;

/// How long one read may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Reads Uplinks and Nodes from the API server.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    uplinks: Api<ApiUplink>,
    nodes: Api<WatchedNode>,
    cudns: Api<ClusterUserDefinedNetwork>,
}

impl Reader {
    /// A reader over this connection.
    #[must_use]
    pub(super) fn new(client: Client) -> Self {
        Self { uplinks: Api::all(client.clone()), nodes: Api::all(client.clone()), cudns: Api::all(client) }
    }
}

/// Checks every deletion of `plan` against the API server.
///
/// # Errors
/// A deletion that the API server does not confirm, or a read that failed.
pub(super) async fn deletions(name: &UplinkName, plan: &Plan, reader: &Reader) -> Result<(), UplinkError> {
    if plan.deletions().next().is_none() {
        return Ok(());
    }
    let uplink = read("Uplink", name.as_str(), reader.uplinks.get_opt(name.as_str())).await?;
    let uplink = uplink.as_ref().and_then(Uplink::of);
    // Where the Uplink alone decides, the Nodes need not be asked for.
    // (That no network uses it is asked for apart.)
    if stale(uplink.as_ref(), false, &Lookup::Unreadable("not read yet")).is_some() {
        return Ok(());
    }
    side_by_side(plan.deletions(), |deletion| node(deletion, uplink.as_ref(), reader)).await
}

/// Checks against the API server that no network uses an Uplink that `plan` gives up, or whose states it deletes because it
/// is being deleted.
///
/// # Errors
/// A network that uses it, or a read that failed.
pub(super) async fn unused(name: &UplinkName, plan: &Plan, reader: &Reader) -> Result<(), UplinkError> {
    let ends = plan.deletions().any(|deletion| deletion.because == Stale::UplinkTerminating);
    if !ends && !plan.lets_go() {
        return Ok(());
    }
    let list = async { reader.cudns.list(&ListParams::default()).await.map(Some) };
    let cudns = read("ClusterUserDefinedNetwork", "list", list).await?;
    let mut users = cudns.iter().flat_map(|list| &list.items);
    match users.find(|cudn| cudn.spec.uplinks.iter().any(|uplink| uplink == name.as_str())) {
        None => Ok(()),
        Some(cudn) => Err(UplinkError::Used {
            uplink: name.clone(),
            network: cudn.metadata.name.clone().unwrap_or_default(),
        }),
    }
}

/// Checks one deletion against its Node.
async fn node(deletion: &Deletion, uplink: Option<&Uplink>, reader: &Reader) -> Result<(), UplinkError> {
    let name = deletion.node.as_str();
    let found = read("Node", name, reader.nodes.get_opt(name)).await?;
    let node = found.map(|found| Node::of(found).map(Arc::new));
    let node = match &node {
        None => Lookup::Absent,
        Some(None) => Lookup::Unreadable("it has no uid"),
        Some(Some(node)) => Lookup::Present(node),
    };
    match stale(uplink, false, &node) {
        Some(_) => Ok(()),
        None => Err(UplinkError::Behind { state: deletion.state.clone() }),
    }
}

async fn read<T>(
    kind: &'static str,
    name: &str,
    request: impl Future<Output = kube::Result<Option<T>>>,
) -> Result<Option<T>, UplinkError> {
    match timeout(DEADLINE, request).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(source)) => Err(UplinkError::Read { kind, name: name.to_owned(), source: Box::new(source) }),
        Err(_elapsed) => Err(UplinkError::ReadDeadline { kind, name: name.to_owned(), after: DEADLINE }),
    }
}
