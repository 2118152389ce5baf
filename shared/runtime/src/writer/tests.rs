use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus_client::encoding::text::encode;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::fake_api::{FakeApi, Reply, client_of, status};
use crate::telemetry::chain;

struct Bench {
    api: FakeApi,
    maps: Api<ConfigMap>,
    writer: Writer,
    registry: Registry,
}

async fn bench() -> Bench {
    let api = FakeApi::start().await;
    let maps = Api::namespaced(api.client(), "ns");
    let mut registry = crate::telemetry::registry();
    let writer = Writer::new("causeway-test", WriteMetrics::register(&mut registry));
    Bench { api, maps, writer, registry }
}

fn stored() -> Reply {
    Reply::Json(200, json!({ "metadata": { "name": "a", "resourceVersion": "7" } }))
}

#[tokio::test]
async fn apply_is_forced_and_names_its_manager() {
    let mut bench = bench().await;
    bench.api.reply(stored()).await;
    let partial = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let stored = bench.writer.apply(&bench.maps, "a", &partial).await.expect("applied");
    assert_eq!(stored.metadata.resource_version.as_deref(), Some("7"));
    let asked = bench.api.next_request().await;
    assert_eq!(asked.method, "PATCH");
    assert!(asked.target.starts_with("/api/v1/namespaces/ns/configmaps/a?"), "{}", asked.target);
    assert!(asked.target.contains("force=true") && asked.target.contains("fieldManager=causeway-test"));
    assert_eq!(asked.body, partial);
}

#[tokio::test]
async fn a_node_is_merged_as_the_api_server_does_it_cheapest_and_sent_back_only_where_it_is_wanted() {
    let mut bench = bench().await;
    let nodes: Api<Node> = Api::all(bench.api.client());
    let patch = json!({ "metadata": { "annotations": { "a": "1", "b": null } } });
    bench.api.reply(stored()).await;
    bench.writer.merge_node_status(&nodes, "n", &patch).await.expect("merged");
    let asked = bench.api.next_request().await;
    assert_eq!(asked.target, "/api/v1/nodes/n/status?&fieldManager=causeway-test");
    assert_eq!(asked.media, ["application/strategic-merge-patch+json", "application/json"]);
    assert_eq!((asked.method.as_str(), &asked.body), ("PATCH", &patch));

    let table = json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": { "resourceVersion": "8" },
        "columnDefinitions": [{ "name": "Name" }], "rows": [{ "cells": ["n"], "object": null }] });
    for answer in [Reply::Json(200, table), stored()] {
        bench.api.reply(answer).await;
        let written: VersionOnly =
            bench.writer.merge_node_status_briefly(&brief(&bench.api), "n", &patch).await.expect("merged");
        let asked = bench.api.next_request().await;
        assert_eq!(asked.target, "/api/v1/nodes/n/status?&fieldManager=causeway-test&includeObject=None");
        assert_eq!(asked.media[0], "application/strategic-merge-patch+json");
        assert!(asked.media[1].starts_with("application/json;as=Table"), "{}", asked.media[1]);
        assert_eq!(asked.body, patch);
        assert!(matches!(written.metadata.resource_version.as_deref(), Some("7" | "8")));
    }
    bench.api.reply(status(409, "Conflict", "it is another one")).await;
    let refused = bench.writer.merge_node_status_briefly(&brief(&bench.api), "n", &patch).await;
    assert!(matches!(refused, Err(WriteError::Conflict(_))), "{refused:?}");
}

/// What is read of a short answer.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Node)]
struct VersionOnly {
    #[serde(deserialize_with = "crate::watch::version_alone")]
    metadata: ObjectMeta,
}

fn brief(api: &FakeApi) -> Api<VersionOnly> {
    Api::all(api.client())
}

#[tokio::test]
async fn delete_sends_its_preconditions_and_gone_already_is_success() {
    let mut bench = bench().await;
    let expected = Expected { uid: Some("u".to_owned()), resource_version: Some("7".to_owned()) };
    bench.api.reply(status(404, "NotFound", "configmaps \"a\" not found")).await;
    bench.writer.delete(&bench.maps, "a", expected.clone()).await.expect("gone is what was wanted");
    let asked = bench.api.next_request().await;
    assert_eq!(asked.body["preconditions"], json!({ "uid": "u", "resourceVersion": "7" }));
    bench.api.reply(status(409, "Conflict", "the UID in the precondition does not match")).await;
    let error = bench.writer.delete(&bench.maps, "a", expected).await.expect_err("another object");
    assert!(matches!(error, WriteError::Conflict(_)), "{error}");
    let mut text = String::new();
    encode(&mut text, &bench.registry).expect("metrics encode");
    for result in ["not_found", "conflict"] {
        let line = format!(
            "causeway_api_writes_total{{kind=\"ConfigMap\",verb=\"delete\",result=\"{result}\"}} 1\n"
        );
        assert!(text.contains(&line), "{text}");
    }
}

#[tokio::test]
async fn answers_of_the_server_have_a_class_and_a_retry() {
    let rows: [(u16, &str, &str, Retry); 10] = [
        (409, "AlreadyExists", "already exists: no", Retry::Backoff),
        (409, "Conflict", "conflict: no", Retry::Backoff),
        (404, "NotFound", "not found: no", Retry::Backoff),
        (403, "Forbidden", "not allowed: no", Retry::Backoff),
        (401, "Unauthorized", "not allowed: no", Retry::Backoff),
        (422, "Invalid", "refused by the API server: no", Retry::Never),
        (400, "BadRequest", "refused by the API server: no", Retry::Never),
        (429, "TooManyRequests", "the API server asks to wait 1s", Retry::After(Duration::from_secs(1))),
        (500, "InternalError", "the API server failed with 500: no", Retry::Backoff),
        (503, "ServiceUnavailable", "the API server failed with 503: no", Retry::Backoff),
    ];
    let bench = bench().await;
    for (code, reason, text, retry) in rows {
        bench.api.reply(status(code, reason, "no")).await;
        let error = bench.writer.create(&bench.maps, &ConfigMap::default()).await.expect_err("refused");
        assert_eq!((error.to_string().as_str(), error.retry()), (text, retry), "{code} {reason}");
    }
}

#[tokio::test]
async fn an_apply_that_names_the_uid_of_another_object_is_a_conflict() {
    let bench = bench().await;
    let cause =
        json!({ "field": "metadata.uid", "message": "field is immutable", "reason": "FieldValueInvalid" });
    let body = json!({
        "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "no",
        "details": { "causes": [cause] },
    });
    bench.api.reply(Reply::Json(422, body)).await;
    let error = bench.writer.apply(&bench.maps, "a", &json!({})).await.expect_err("another object");
    assert!(matches!(error, WriteError::Conflict(_)), "{error}");
}

#[tokio::test]
async fn a_throttling_server_may_name_the_time() {
    let bench = bench().await;
    let body = json!({ "kind": "Status", "status": "Failure", "code": 429, "message": "slow", "details": { "retryAfterSeconds": 7 } });
    bench.api.reply(Reply::Json(429, body)).await;
    let error = bench.writer.merge(&bench.maps, "a", &json!({})).await.expect_err("throttled");
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(7)));
}

#[tokio::test]
async fn silence_and_absence_of_the_server_are_told_apart_and_retried() {
    let bench = bench().await;
    bench.api.reply(Reply::Silence).await;
    let hasty = bench.writer.clone().with_deadline(Duration::from_millis(50));
    let error = hasty.merge(&bench.maps, "a", &json!({})).await.expect_err("no answer");
    assert!(matches!(error, WriteError::Deadline(_)), "{error}");
    assert_eq!(error.retry(), Retry::Backoff);
    let nowhere: Api<ConfigMap> = Api::default_namespaced(client_of(([127, 0, 0, 1], 1).into()));
    let error = bench.writer.merge(&nowhere, "a", &json!({})).await.expect_err("no server");
    assert!(matches!(error, WriteError::Transport(_)), "{error}");
    assert!(chain(&error).to_string().contains("Connection refused"), "{}", chain(&error));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_a_lost_connection() {
    let bench = bench().await;
    bench.api.reply(Reply::Json(200, json!(["garbage"]))).await;
    let error = bench.writer.merge(&bench.maps, "a", &json!({})).await.expect_err("no object");
    assert!(matches!(error, WriteError::Conversion(_)), "{error}");
}
