//! What stands on the API server about EndpointSlices.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use http::Method;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::world::World;
use causeway_tests::control::DEADLINE;
use causeway_tests::rest::{OBJECT, send};

pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const ATTACHMENTS: &str = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORS: &str = "endpointslice-mirror-controller.k8s.ovn.org";

/// A mirror, without what differs from run to run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mirror {
    /// Name that the API server made up, in the recorded run.
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) generate_name: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) network: String,
    pub(crate) owners: Vec<String>,
    pub(crate) address_type: String,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ports: Vec<EndpointPort>,
}

/// Mirrors by namespace and name of what they mirror.
pub(crate) type Outcome = BTreeMap<String, Mirror>;

/// A slice or network, as one version of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Version {
    version: String,
    is_looked_at: bool,
}

impl Version {
    /// Whether the cluster manager looks at it when it starts.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.is_looked_at
    }
}

async fn slices(admin: &Client) -> anyhow::Result<Vec<EndpointSlice>> {
    let answer = send(admin, Method::GET, SLICES, OBJECT, None).await?;
    serde_json::from_value(answer.body["items"].clone()).context("EndpointSlices")
}

/// The mirrors that there are, each with the version of its source as it is now.
///
/// # Errors
/// Two mirrors of one slice, or one that does not name the newest version of its source.
pub(crate) async fn mirrors(admin: &Client) -> anyhow::Result<Outcome> {
    let slices = slices(admin).await?;
    let key = |slice: &EndpointSlice, name: &str| {
        format!("{}/{name}", slice.metadata.namespace.as_deref().unwrap_or_default())
    };
    let versions: BTreeMap<String, String> = slices
        .iter()
        .filter_map(|slice| {
            let name = slice.metadata.name.as_deref()?;
            Some((key(slice, name), slice.metadata.resource_version.clone()?))
        })
        .collect();
    let mut outcome = Outcome::new();
    for slice in slices {
        let labels = slice.metadata.labels.clone().unwrap_or_default();
        let annotations = slice.metadata.annotations.clone().unwrap_or_default();
        let Some(source) = annotations.get("k8s.ovn.org/source-endpointslice") else { continue };
        if labels.get(MANAGED_BY).map(String::as_str) != Some(MIRRORS) {
            continue;
        }
        let source = key(&slice, source);
        let version = annotations.get("k8s.ovn.org/source-endpointslice-version");
        anyhow::ensure!(
            version == versions.get(&source),
            "the mirror of {source} is of version {version:?}, which is not the newest"
        );
        let owners = slice.metadata.owner_references.unwrap_or_default();
        let mirror = Mirror {
            name: slice.metadata.name,
            generate_name: slice.metadata.generate_name,
            labels,
            network: annotations.get("k8s.ovn.org/endpointslice-network").cloned().unwrap_or_default(),
            owners: owners.iter().map(|owner| format!("{}/{}", owner.kind, owner.name)).collect(),
            address_type: slice.address_type,
            endpoints: slice.endpoints.unwrap_or_default(),
            ports: slice.ports.unwrap_or_default(),
        };
        let other = outcome.insert(source.clone(), mirror);
        anyhow::ensure!(other.is_none(), "{source} has two mirrors");
    }
    Ok(outcome)
}

/// Waits until exactly `want` is there; names are not looked at.
///
/// # Errors
/// After 20 s, with all that differs.
pub(crate) async fn becomes(world: &World, want: &Outcome) -> anyhow::Result<()> {
    let look = || async {
        let mut have = mirrors(&world.admin).await.map_err(|error| format!("{error:#}"))?;
        for (key, mirror) in &mut have {
            mirror.name = want.get(key).and_then(|mirror| mirror.name.clone());
        }
        if have == *want { Ok(()) } else { Err(difference(want, &have)) }
    };
    world.rig.wait_for("the mirrors to be as they should be", DEADLINE, look).await
}

fn difference(want: &Outcome, have: &Outcome) -> String {
    let keys: BTreeSet<&String> = want.keys().chain(have.keys()).collect();
    let differing = keys.into_iter().filter(|key| want.get(*key) != have.get(*key));
    let lines = differing.map(|key| format!("{key}: {:?}, wanted {:?}", have.get(key), want.get(key)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Versions of all slices and networks.
///
/// # Errors
/// They cannot be listed.
pub(crate) async fn versions(admin: &Client) -> anyhow::Result<BTreeMap<String, Version>> {
    let networks = send(admin, Method::GET, ATTACHMENTS, OBJECT, None).await?.body;
    let networks = networks["items"].as_array().cloned().unwrap_or_default();
    let namespaces: BTreeSet<String> = networks
        .iter()
        .filter_map(|network| Some(network["metadata"]["namespace"].as_str()?.to_owned()))
        .collect();
    let mut versions = BTreeMap::new();
    for network in &networks {
        let word = |field: &str| network["metadata"][field].as_str().unwrap_or_default().to_owned();
        let name = format!("network {}/{}", word("namespace"), word("name"));
        versions.insert(name, Version { version: word("resourceVersion"), is_looked_at: false });
    }
    for slice in slices(admin).await? {
        let labels = slice.metadata.labels.unwrap_or_default();
        let namespace = slice.metadata.namespace.unwrap_or_default();
        let is_looked_at = labels.get(MANAGED_BY).map(String::as_str)
            == Some("endpointslice-controller.k8s.io")
            && !labels.contains_key("service.kubernetes.io/headless")
            && namespaces.contains(&namespace);
        let name = format!("slice {namespace}/{}", slice.metadata.name.unwrap_or_default());
        let version = slice.metadata.resource_version.unwrap_or_default();
        versions.insert(name, Version { version, is_looked_at });
    }
    Ok(versions)
}

/// One object, as it is.
///
/// # Errors
/// There is none.
pub(crate) async fn object(admin: &Client, path: &str) -> anyhow::Result<Value> {
    let answer = send(admin, Method::GET, path, OBJECT, None).await?;
    anyhow::ensure!(answer.code == 200, "{path}: {}", answer.message());
    Ok(answer.body)
}
