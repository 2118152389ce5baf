//! Reads what a check rests on.

use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_runtime::telemetry::chain;
use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

use super::plan::{Facts, NEEDS, Need, POD_LABEL, PodRow};
use crate::cluster::{self, failed, list, why};
use crate::error::CtlError;

/// Programs that run as pods, as deploy/manifests names them.
const PROGRAMS: &str =
    "causeway-cluster-manager, causeway-host-agent, causeway-dpu-agent, causeway-node-agent";

/// Reads the cluster. A part that cannot be read is told as such.
///
/// # Errors
/// The API server does not answer at all.
pub async fn facts(client: &Client) -> Result<Facts, CtlError> {
    let version = client.apiserver_version().await.map_err(failed("reach the API server"))?;
    let everything = ListParams::default();
    let (uplinks, states) = (Api::<Uplink>::all(client.clone()), Api::<UplinkState>::all(client.clone()));
    let (definitions, permissions, nodes, uplinks, states, pods) = tokio::join!(
        definitions(client),
        permissions(client),
        cluster::nodes(client),
        list(&uplinks, &everything),
        list(&states, &everything),
        pods(client),
    );
    Ok(Facts {
        server: (version.major, version.minor, version.git_version),
        definitions,
        permissions,
        nodes: nodes.map_err(|error| chain(&error).to_string()),
        uplinks: uplinks.map_err(|error| why(&error)),
        states: states.map_err(|error| why(&error)),
        pods: pods.map_err(|error| why(&error)),
    })
}

async fn definitions(
    client: &Client,
) -> Vec<(CustomResourceDefinition, Result<Option<CustomResourceDefinition>, String>)> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let read = causeway_api::crd::all().into_iter().map(|want| {
        let api = &api;
        async move {
            let name = want.metadata.name.clone().unwrap_or_default();
            let have = api.get_opt(&name).await.map_err(|error| why(&error));
            (want, have)
        }
    });
    join_all(read).await
}

async fn permissions(client: &Client) -> Vec<(Need, Result<bool, String>)> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let asked = NEEDS.iter().map(|need| {
        let api = &api;
        async move {
            let attributes = ResourceAttributes {
                verb: Some(need.verb.to_owned()),
                group: Some(need.group.to_owned()),
                resource: Some(need.resource.to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = api.create(&PostParams::default(), &review).await;
            let allowed = answer.map(|answer| answer.status.is_some_and(|status| status.allowed));
            (*need, allowed.map_err(|error| why(&error)))
        }
    });
    join_all(asked).await
}

/// Pods of Causeway, of all namespaces.
///
/// # Errors
/// The API server's answer.
pub async fn pods(client: &Client) -> kube::Result<Vec<PodRow>> {
    let api: Api<Pod> = Api::all(client.clone());
    let ours = ListParams::default().labels(&format!("{POD_LABEL} in ({PROGRAMS})"));
    Ok(list(&api, &ours).await?.into_iter().map(pod).collect())
}

fn pod(pod: Pod) -> PodRow {
    let labels = pod.metadata.labels.unwrap_or_default();
    let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let waiting = status
        .container_statuses
        .iter()
        .flatten()
        .find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let phase = status.phase.unwrap_or_default();
    PodRow {
        name: pod.metadata.name.unwrap_or_default(),
        namespace: pod.metadata.namespace.unwrap_or_default(),
        program: labels.get(POD_LABEL).cloned().unwrap_or_default(),
        node: spec.node_name,
        ready,
        state: waiting.map_or_else(|| phase.clone(), |reason| format!("{phase}, {reason}")),
        image: spec.containers.into_iter().next().and_then(|one| one.image).unwrap_or_default(),
    }
}
