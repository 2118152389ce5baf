//! The API server, as the person who calls `causewayctl`. Reads only.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_runtime::telemetry::chain;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::CtlError;

/// How long one attempt to open a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one request may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Objects per page of a list.
const PAGE: u32 = 500;

/// Which cluster to talk to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A kubeconfig; without one `KUBECONFIG`, `~/.kube/config` or the pod's account, as kubectl does.
    pub kubeconfig: Option<PathBuf>,
    /// A context in it; without one the current context.
    pub context: Option<String>,
}

/// A Node as far as it is read: labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A Node cut down to its metadata.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Node)]
struct NodeMeta {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// The client for `access`. Opens no connection.
///
/// # Errors
/// [`CtlError::Access`].
pub async fn connect(access: &Access) -> Result<Client, CtlError> {
    // Fails only if a provider was chosen before, and then that one serves.
    drop(rustls::crypto::ring::default_provider().install_default());
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let mut config = match &access.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| CtlError::Access(error.into()))?;
            let config = Config::from_custom_kubeconfig(file, &options).await;
            config.map_err(|error| CtlError::Access(error.into()))?
        }
        None if access.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|error| CtlError::Access(error.into()))?
        }
        None => Config::infer().await.map_err(|error| CtlError::Access(error.into()))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| CtlError::Access(error.into()))
}

/// Names what failed.
pub(crate) fn failed(what: impl Into<String>) -> impl FnOnce(kube::Error) -> CtlError {
    let what = what.into();
    move |error| match error {
        kube::Error::Api(status) => CtlError::Refused { what, message: status.message },
        source => CtlError::Cluster { what, source: Box::new(source) },
    }
}

/// Why a request failed, in one line: of a refusal the API server's own words.
pub(crate) fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => chain(other).to_string(),
    }
}

/// All objects that a selection matches, page by page.
///
/// # Errors
/// The API server's answer.
pub async fn list<K>(api: &Api<K>, selection: &ListParams) -> kube::Result<Vec<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut all = Vec::new();
    let mut page = selection.clone().limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        all.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// Every Node.
///
/// # Errors
/// [`CtlError::Cluster`].
pub async fn nodes(client: &Client) -> Result<Vec<NodeRow>, CtlError> {
    let api: Api<NodeMeta> = Api::all(client.clone());
    let nodes = list(&api, &ListParams::default()).await.map_err(failed("list nodes"))?;
    Ok(nodes.into_iter().filter_map(|node| NodeRow::of(node.metadata)).collect())
}

impl NodeRow {
    fn of(metadata: ObjectMeta) -> Option<Self> {
        let ObjectMeta { name, labels, annotations, .. } = metadata;
        Some(Self {
            name: name?,
            labels: labels.unwrap_or_default(),
            annotations: annotations.unwrap_or_default(),
        })
    }
}

/// An Uplink, if there is one of that name.
///
/// # Errors
/// [`CtlError::Cluster`].
pub async fn uplink(client: &Client, name: &str) -> Result<Option<Uplink>, CtlError> {
    let api: Api<Uplink> = Api::all(client.clone());
    // By a list, which agents' accounts may do too: on a node their kubeconfig is often the only one.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = list(&api, &named).await.map_err(failed(format!("read Uplink {name}")))?;
    Ok(found.into_iter().next())
}

/// The states of all Uplinks or of one. Selected on this side: the objects under the names that a state would have count
/// too, whatever they say, and a server too old for the field selector is no obstacle.
///
/// # Errors
/// [`CtlError::Cluster`].
pub async fn states(client: &Client) -> Result<Vec<UplinkState>, CtlError> {
    let api: Api<UplinkState> = Api::all(client.clone());
    list(&api, &ListParams::default()).await.map_err(failed("list UplinkStates"))
}
