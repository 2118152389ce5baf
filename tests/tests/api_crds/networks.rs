//! What the API server makes of networks and RouteAdvertisements.

use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_api::cudn::{ClusterUserDefinedNetwork, ClusterUserDefinedNetworkSpec};
use causeway_api::nad::{
    DEFAULT_NETWORK_CONFIG, GatewayMode, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec,
};
use causeway_api::network::Layout;
use causeway_api::route_advertisements::{Advertisement, RouteAdvertisements, RouteAdvertisementsSpec};
use causeway_api::udn::{UserDefinedNetwork, UserDefinedNetworkSpec};
use causeway_rig::{Level, Rig, SharedRig, Suite};
use http::Method;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::cases::{self, Case, Cause, collection, object};
use super::network_rows::{NAMESPACE, Row, cudn, rows, udn};
use super::rows::{condition, with_status};
use causeway_tests::rest::{MERGE_PATCH, OBJECT, send};

pub(crate) fn add(suite: Suite, rig: &SharedRig) -> Suite {
    suite
        .test_in(rig, Level::Api, "recorded_requests_about_networks_get_upstreams_answers", recorded)
        .test_in(rig, Level::Api, "every_row_about_networks_gets_its_answer", tables)
        .test_in(rig, Level::Api, "a_namespaced_network_has_no_field_of_the_cluster_wide_one", foreign_fields)
        .test_in(rig, Level::Api, "networks_have_a_status_endpoint_that_alone_writes_the_status", endpoints)
        .test_in(rig, Level::Api, "kubectl_prints_networks_as_upstream_and_more_on_request", columns)
        .test_in(rig, Level::Api, "a_network_attachment_definition_is_written_and_read_as_a_type", attachment)
        .test_in(rig, Level::Api, "the_documentations_examples_are_taken_and_mean_what_it_says", examples)
}

/// A client of a server that serves the definitions and has the namespace.
async fn ready(rig: &Rig) -> anyhow::Result<Client> {
    static MADE: OnceCell<()> = OnceCell::const_new();
    let client = super::ready(rig).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let make = || async { super::create(&client, &namespace).await.map(drop) };
    MADE.get_or_try_init(make).await?;
    Ok(client)
}

fn all_recorded() -> anyhow::Result<Vec<Case>> {
    let files = [
        (include_str!("../../conformance/crd/udn.jsonl"), 97),
        (include_str!("../../conformance/crd/cudn.jsonl"), 173),
        (include_str!("../../conformance/crd/route-advertisements.jsonl"), 28),
    ];
    let mut all = Vec::new();
    for (lines, count) in files {
        all.extend(cases::read(lines, count)?);
    }
    Ok(all)
}

async fn recorded(rig: Arc<Rig>) -> anyhow::Result<()> {
    let cases = all_recorded()?;
    cases::check(&ready(&rig).await?, &cases).await?;
    // What the API server keeps, the types keep.
    let mut kept = 0;
    for case in &cases {
        let Some(stored) = &case.stored else { continue };
        let spec = &stored.spec;
        let kind = case.manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
        let same = match kind {
            "UserDefinedNetwork" => survives::<UserDefinedNetworkSpec>(spec),
            "ClusterUserDefinedNetwork" => survives::<ClusterUserDefinedNetworkSpec>(spec),
            // The only kind that may have no spec: then there is nothing to keep.
            _ if spec.is_null() => Ok(true),
            _ => survives::<RouteAdvertisementsSpec>(spec),
        };
        ensure!(same.with_context(|| case.name.clone())?, "{}: the type loses a part of {spec}", case.name);
        kept += 1;
    }
    ensure!(kept == cases.iter().filter(|case| case.code < 300).count(), "{kept} stored objects");
    Ok(())
}

fn survives<T: DeserializeOwned + Serialize>(spec: &Value) -> anyhow::Result<bool> {
    let read: T = serde_json::from_value(spec.clone()).context("reading")?;
    Ok(serde_json::to_value(read).context("writing")? == *spec)
}

async fn tables(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let mut wrong = Vec::new();
    for row in rows() {
        if let Err(error) = check(&client, &row).await {
            wrong.push(format!("{} ({}): {error:#}", row.name, row.manifest));
        }
    }
    ensure!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

async fn check(client: &Client, row: &Row) -> anyhow::Result<()> {
    let case = row.case();
    let answer = case.answer(client).await;
    let gone = send(client, Method::DELETE, &object(&row.manifest)?, OBJECT, None).await?;
    ensure!(gone.is_accepted() || gone.code == 404, "deleting it: {gone:?}");
    let answer = answer?;
    ensure!(answer.code == case.code, "code {}: {}", answer.code, answer.message());
    let causes: Vec<Cause> = match answer.body.pointer("/details/causes") {
        Some(causes) => serde_json::from_value(causes.clone()).context("reading the causes")?,
        None => Vec::new(),
    };
    let told =
        |reason: &String| causes.iter().filter(|cause| cause.message.ends_with(reason.as_str())).count() == 1;
    ensure!(row.reasons.len() == causes.len() && row.reasons.iter().all(told), "{causes:#?}");
    Ok(())
}

async fn foreign_fields(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    for (field, value) in [
        ("localnet", json!({"role": "Secondary", "physicalNetworkName": "p"})),
        ("transport", json!("NoOverlay")),
        ("uplinks", json!(["a"])),
    ] {
        let plain = json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16"}]}});
        let mut more = plain.clone();
        more.as_object_mut().context("fields")?.insert(field.to_owned(), value);
        let path = collection(&udn(&more))?;
        let strict = format!("{path}?fieldValidation=Strict");
        let answer = send(&client, Method::POST, &strict, OBJECT, Some(&udn(&more))).await?;
        let want = format!("strict decoding error: unknown field \"spec.{field}\"");
        ensure!(answer.code == 400 && answer.message().ends_with(&want), "{answer:?}");
        let lenient = format!("{path}?fieldValidation=Ignore");
        let answer = send(&client, Method::POST, &lenient, OBJECT, Some(&udn(&more))).await?;
        ensure!(answer.code == 201 && answer.body.get("spec") == Some(&plain), "{answer:?}");
        super::remove(&client, &udn(&plain)).await?;
    }
    Ok(())
}

fn named(mut manifest: Value, name: &str) -> Value {
    if let Some(place) = manifest.pointer_mut("/metadata/name") {
        *place = json!(name);
    }
    manifest
}

/// One object of each kind.
fn one_of_each(name: &str) -> [Value; 3] {
    let layer3 =
        json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16"}]}});
    let mut outside = named(cudn(&layer3), name);
    if let Some(spec) = outside.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("uplinks".to_owned(), json!(["ext-a"]));
    }
    let told = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements", "metadata": {"name": name},
        "spec": {
            "networkSelectors": [{"networkSelectionType": "DefaultNetwork"}], "nodeSelector": {},
            "frrConfigurationSelector": {}, "advertisements": ["PodNetwork"],
        },
    });
    [named(udn(&layer3), name), outside, told]
}

async fn endpoints(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    for manifest in one_of_each("ends") {
        let status = |status: &str| json!({"conditions": [condition("NetworkCreated", status, "Reason")]});
        let created = super::create(&client, &with_status(manifest.clone(), status("False"))).await?;
        ensure!(created.body.get("status").is_none(), "a status at creation is dropped: {created:?}");
        let path = object(&manifest)?;
        let wanted = json!({"status": status("True")});
        let written =
            send(&client, Method::PATCH, &format!("{path}/status"), MERGE_PATCH, Some(&wanted)).await?;
        let other = json!({"status": status("Unknown")});
        let whole = send(&client, Method::PATCH, &path, MERGE_PATCH, Some(&other)).await?;
        for answer in [written, whole] {
            let stored = answer.body.pointer("/status/conditions/0/status").and_then(Value::as_str);
            ensure!(answer.code == 200 && stored == Some("True"), "{answer:?}");
        }
    }
    Ok(())
}

async fn columns(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let conditions = json!([
        condition("NetworkCreated", "False", "SyncError"),
        condition("NetworkAllocationSucceeded", "True", "NetworkAllocationSucceeded"),
        condition("UplinksReady", "Unknown", "UplinksNotReady"),
        condition("Accepted", "True", "Accepted"),
    ]);
    for manifest in one_of_each("cols") {
        super::create(&client, &manifest).await?;
        let path = format!("{}/status", object(&manifest)?);
        let status = if manifest.get("kind") == Some(&json!("RouteAdvertisements")) {
            json!({"conditions": conditions, "status": "Accepted"})
        } else {
            json!({"conditions": conditions})
        };
        let written =
            send(&client, Method::PATCH, &path, MERGE_PATCH, Some(&json!({"status": status}))).await?;
        ensure!(written.code == 200, "{written:?}");
    }
    // Each row is compared without its age, which is always last.
    let tables: [(&[&str], &str, &str); 6] = [
        (&["udn", "-n", NAMESPACE], "NAME AGE", "cols"),
        (
            &["udn", "-n", NAMESPACE, "-o", "wide"],
            "NAME TOPOLOGY ROLE CREATED REASON ALLOCATED AGE",
            "cols Layer3 Primary False SyncError True",
        ),
        (&["cudn"], "NAME AGE", "cols"),
        (
            &["cudn", "-o", "wide"],
            "NAME TOPOLOGY ROLE UPLINK CREATED REASON ALLOCATED UPLINKSREADY AGE",
            "cols Layer3 Primary ext-a False SyncError True Unknown",
        ),
        (&["ra"], "NAME STATUS", "cols Accepted"),
        (&["ra", "-o", "wide"], "NAME STATUS REASON AGE", "cols Accepted Accepted"),
    ];
    for (kind, header, row) in tables {
        let printed =
            rig.kubectl([&["get"], kind, &["--field-selector", "metadata.name=cols"]].concat()).await?;
        let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
        let [head, found] = lines.as_slice() else { anyhow::bail!("{kind:?} printed {printed}") };
        let ages = usize::from(header.ends_with("AGE"));
        let shown = found.get(..found.len() - ages).context("a row")?;
        ensure!(head.join(" ") == header && shown.join(" ") == row, "{kind:?} printed\n{printed}");
    }
    Ok(())
}

/// Defines what belongs to somebody else.
async fn with_attachments(rig: &Rig) -> anyhow::Result<Client> {
    static DEFINED: OnceCell<()> = OnceCell::const_new();
    let definition = include_str!("../../conformance/crd/network-attachment-definition.yaml");
    let define = || async { rig.apply(definition).await.map(drop) };
    DEFINED.get_or_try_init(define).await?;
    ready(rig).await
}

async fn attachment(rig: Arc<Rig>) -> anyhow::Result<()> {
    let api: Api<NetworkAttachmentDefinition> = Api::namespaced(with_attachments(&rig).await?, NAMESPACE);
    let spec = NetworkAttachmentDefinitionSpec { config: DEFAULT_NETWORK_CONFIG.to_owned() };
    let wanted = NetworkAttachmentDefinition::new("default", spec);
    let created = api.create(&PostParams::default(), &wanted).await.context("creating it")?;
    ensure!(created.spec == wanted.spec && created.key() == format!("{NAMESPACE}/default"), "{created:?}");
    let read = api.get("default").await.context("reading it")?;
    let config = read.read(GatewayMode::Shared)?;
    ensure!(config.is_default_network(), "{config:?}");
    Ok(())
}

async fn examples(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = with_attachments(&rig).await?;
    rig.apply(include_str!("../../conformance/crd/examples.yaml")).await?;
    rig.apply(include_str!("../../conformance/crd/example-expanded.yaml")).await?;
    let networks: Api<UserDefinedNetwork> = Api::namespaced(client.clone(), "blue");
    let expanded = networks.get("blue-network").await?.spec.network();
    let Ok(Layout::Layer3(layer3)) = expanded.layout() else { anyhow::bail!("{expanded:?}") };
    let cidrs: Vec<&str> = layer3.subnets.iter().map(|subnet| subnet.cidr.as_str()).collect();
    ensure!(expanded.is_primary() && cidrs == ["103.103.0.0/16", "103.104.0.0/16"], "{expanded:?}");
    let outside: ClusterUserDefinedNetwork = Api::all(client.clone()).get("blue").await?;
    ensure!(outside.spec.uplinks == ["tenant-blue"], "{outside:?}");
    let told: RouteAdvertisements = Api::all(client.clone()).get("blue").await?;
    ensure!(told.spec.advertisements == [Advertisement::PodNetwork], "{told:?}");
    let written: NetworkAttachmentDefinition = Api::namespaced(client, "nad-l3").get("l3-network").await?;
    let config = written.read(GatewayMode::Other)?;
    ensure!(
        config.is_primary() && config.mtu == Some(1300) && config.subnets == ["10.128.0.0/16/24"],
        "{config:?}"
    );
    Ok(())
}
