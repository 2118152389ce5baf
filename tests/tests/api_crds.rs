//! What the API server makes of objects under the generated definitions: what upstream's make of them.

#[path = "api_parts/cases.rs"]
mod cases;
#[path = "api_crds/network_rows.rs"]
mod network_rows;
#[path = "api_crds/networks.rs"]
mod networks;
#[path = "api_crds/rows.rs"]
mod rows;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::manifests;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::cases::{collection, object};
use self::rows::{condition, config, state, uplink, with_status};
use causeway_tests::rest::{Answer, MERGE_PATCH, OBJECT, send};

/// Content type of a server-side apply; JSON is YAML.
const APPLY: &str = "application/apply-patch+yaml";

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::bare());
    let suite = Suite::new()
        .test_in(&rig, Level::Api, "recorded_requests_get_upstreams_answers", recorded)
        .test_in(&rig, Level::Api, "every_row_about_uplinks_gets_its_answer", uplinks)
        .test_in(&rig, Level::Api, "every_row_about_uplink_states_gets_its_answer", states)
        .test_in(&rig, Level::Api, "an_uplink_state_has_no_status_endpoint_and_an_uplink_has_one", endpoints)
        .test_in(&rig, Level::Api, "uplink_states_are_found_by_uplink_and_by_node", selectors)
        .test_in(&rig, Level::Api, "the_status_of_a_deleted_state_does_not_bring_it_back", resurrection)
        .test_in(&rig, Level::Api, "an_apply_that_names_the_uid_of_a_deleted_object_is_refused", successor)
        .test_in(
            &rig,
            Level::Api,
            "a_status_apply_is_held_off_by_a_version_but_not_by_a_uid",
            status_of_successor,
        )
        .test_in(&rig, Level::Api, "the_identity_of_a_state_withstands_patch_and_apply", identity)
        .test_in(&rig, Level::Api, "kubectl_prints_upstreams_columns_and_the_others_on_request", columns);
    networks::add(suite, &rig).run()
}

/// A client of a server that serves the definitions.
async fn ready(rig: &Rig) -> anyhow::Result<Client> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let install = || async { rig.apply(&manifests::folder("crds")?).await.map(drop) };
    INSTALLED.get_or_try_init(install).await?;
    Ok(rig.client())
}

async fn recorded(rig: Arc<Rig>) -> anyhow::Result<()> {
    cases::check(&ready(&rig).await?, &cases::recorded()?).await
}

async fn uplinks(rig: Arc<Rig>) -> anyhow::Result<()> {
    cases::check(&ready(&rig).await?, &rows::uplinks()).await
}

async fn states(rig: Arc<Rig>) -> anyhow::Result<()> {
    cases::check(&ready(&rig).await?, &rows::states()).await
}

async fn endpoints(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let way_out = uplink("ends", &json!([config(&json!({}), "br")]));
    let (found, status) = (
        state("ends.n", "ends", "n"),
        json!({"status": {"conditions": [condition("Ready", "True", "Ready")]}}),
    );
    for manifest in [&way_out, &found] {
        create(&client, manifest).await?;
    }
    for (manifest, code) in [(&way_out, 200), (&found, 404)] {
        let path = format!("{}/status", object(manifest)?);
        let read = send(&client, Method::GET, &path, OBJECT, None).await?;
        let written = send(&client, Method::PATCH, &path, MERGE_PATCH, Some(&status)).await?;
        ensure!(read.code == code && written.code == code, "{path}: {read:?}\n{written:?}");
    }
    // A write of the whole Uplink leaves the status alone; a write of the whole state is the way to its status.
    for (manifest, want) in [(&way_out, "True"), (&found, "False")] {
        let other = json!({"status": {"conditions": [condition("Ready", "False", "Other")]}});
        let answer = send(&client, Method::PATCH, &object(manifest)?, MERGE_PATCH, Some(&other)).await?;
        let stored = answer.body.pointer("/status/conditions/0/status").and_then(Value::as_str);
        ensure!(stored == Some(want), "{answer:?}");
    }
    Ok(())
}

async fn selectors(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    for (uplink, node) in [("sel-a", "sel-m"), ("sel-a", "sel-n"), ("sel-b", "sel-n")] {
        create(&client, &state(&format!("{uplink}.{node}"), uplink, node)).await?;
    }
    let expected: [(&str, &[&str]); 4] = [
        ("spec.uplinkName=sel-a", &["sel-a.sel-m", "sel-a.sel-n"]),
        ("spec.nodeName=sel-n", &["sel-a.sel-n", "sel-b.sel-n"]),
        ("spec.uplinkName=sel-a,spec.nodeName=sel-n", &["sel-a.sel-n"]),
        ("spec.uplinkName=nobody", &[]),
    ];
    for (selector, want) in expected {
        let printed =
            rig.kubectl(["get", "uplinkstates", "-o", "name", "--field-selector", selector]).await?;
        let names: Vec<&str> = printed.lines().filter_map(|line| line.split('/').nth(1)).collect();
        ensure!(names == want, "{selector} finds {names:?}");
    }
    let path = "/apis/k8s.ovn.org/v1alpha1/uplinkstates?fieldSelector=status.type%3DOVSBridge";
    let other = send(&client, Method::GET, path, OBJECT, None).await?;
    ensure!(other.code == 400 && other.message().contains("field label not supported"), "{other:?}");
    Ok(())
}

async fn resurrection(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let gone = with_status(state("dead.n", "dead", "n"), json!({"type": "OVSBridge"}));
    create(&client, &gone).await?;
    remove(&client, &gone).await?;
    let mut status = gone.clone();
    status.as_object_mut().context("fields")?.remove("spec");
    let answer = apply(&client, &status).await?;
    ensure!(answer.code == 422 && answer.message().contains("spec: Required value"), "{answer:?}");
    let read = send(&client, Method::GET, &object(&gone)?, OBJECT, None).await?;
    ensure!(read.code == 404, "{read:?}");
    Ok(())
}

async fn successor(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let manifests = [uplink("heir", &json!([config(&json!({}), "br")])), state("heir.n", "heir", "n")];
    for manifest in manifests {
        let uid = |answer: &Answer| answer.body.pointer("/metadata/uid").cloned().context("a uid");
        let first = uid(&create(&client, &manifest).await?)?;
        remove(&client, &manifest).await?;
        let mut late = manifest.clone();
        let metadata = late.get_mut("metadata").and_then(Value::as_object_mut).context("metadata")?;
        metadata.insert("uid".to_owned(), first.clone());
        metadata.insert("labels".to_owned(), json!({"late": "yes"}));
        let nobody = apply(&client, &late).await?;
        ensure!(nobody.code == 409, "where nothing is: {nobody:?}");
        let second = create(&client, &manifest).await?;
        ensure!(uid(&second)? != first, "the uid was used again");
        let other = apply(&client, &late).await?;
        ensure!(other.code == 422 && other.message().contains("metadata.uid"), "a successor: {other:?}");
        let read = send(&client, Method::GET, &object(&manifest)?, OBJECT, None).await?;
        let version = |answer: &Answer| answer.body.pointer("/metadata/resourceVersion").cloned();
        ensure!(version(&read) == version(&second), "the successor was written: {read:?}");
    }
    Ok(())
}

async fn status_of_successor(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let manifest = uplink("twin", &json!([config(&json!({}), "br")]));
    let first = create(&client, &manifest).await?;
    remove(&client, &manifest).await?;
    create(&client, &manifest).await?;
    let status = |guard: &str| {
        let value = first.body.pointer(&format!("/metadata/{guard}"));
        json!({
            "apiVersion": "k8s.ovn.org/v1alpha1",
            "kind": "Uplink",
            "metadata": {"name": "twin", guard: value},
            "status": {"conditions": [condition("Ready", "True", guard)]},
        })
    };
    let path = format!("{}/status?fieldManager=causeway-test&force=true", object(&manifest)?);
    for (guard, code) in [("uid", 200), ("resourceVersion", 409)] {
        let answer = send(&client, Method::PATCH, &path, APPLY, Some(&status(guard))).await?;
        ensure!(answer.code == code, "{guard}: {answer:?}");
    }
    Ok(())
}

async fn identity(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let manifest = state("firm.n", "firm", "n");
    create(&client, &manifest).await?;
    let patch = json!({"spec": {"nodeName": "m"}});
    let patched = send(&client, Method::PATCH, &object(&manifest)?, MERGE_PATCH, Some(&patch)).await?;
    ensure!(patched.code == 422 && patched.message().contains("nodeName is immutable"), "{patched:?}");
    let applied = apply(&client, &state("firm.n", "soft", "n")).await?;
    ensure!(applied.code == 422 && applied.message().contains("uplinkName is immutable"), "{applied:?}");
    let same = apply(&client, &with_status(manifest, json!({"type": "OVSBridge"}))).await?;
    ensure!(same.code == 200, "the same identity with a status: {same:?}");
    Ok(())
}

async fn columns(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let ready_condition = json!({"conditions": [condition("Ready", "True", "Good")]});
    let found = json!({
        "ovsBridge": {"name": "br-cols"},
        "conditions": [
            condition("Resolved", "True", "Found"),
            condition("HostDataReady", "False", "Lost"),
            condition("GatewayReady", "Unknown", "Pending"),
        ],
    });
    let way_out = uplink("cols", &json!([config(&json!({}), "br")]));
    create(&client, &way_out).await?;
    let path = format!("{}/status", object(&way_out)?);
    send(&client, Method::PATCH, &path, MERGE_PATCH, Some(&json!({"status": ready_condition}))).await?;
    create(&client, &with_status(state("cols.n", "cols", "n"), found)).await?;
    // A wide line is compared without its last word, the age.
    let tables: [(&[&str], &str, &str); 4] = [
        (&["get", "uplink", "cols"], "NAME READY", "cols True"),
        (&["get", "uplinks", "cols", "-o", "wide"], "NAME READY REASON MESSAGE AGE", "cols True Good"),
        (&["get", "uplinkstates", "cols.n"], "NAME UPLINK NODE RESOLVED", "cols.n cols n True"),
        (
            &["get", "uplinkstate", "cols.n", "-o", "wide"],
            "NAME UPLINK NODE RESOLVED HOSTDATAREADY GATEWAYREADY BRIDGE REASON HOSTREASON AGE",
            "cols.n cols n True False Unknown br-cols Found Lost",
        ),
    ];
    for (arguments, header, row) in tables {
        let printed = rig.kubectl(arguments).await?;
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<Vec<String>> = printed.lines().map(words).collect();
        let [head, found] = lines.as_slice() else { anyhow::bail!("{arguments:?} printed {printed}") };
        let ages = usize::from(header.ends_with("AGE"));
        let shown = found.get(..found.len() - ages).context("a row")?;
        ensure!(*head == words(header) && shown == words(row), "{arguments:?} printed\n{printed}");
    }
    Ok(())
}

async fn create(client: &Client, manifest: &Value) -> anyhow::Result<Answer> {
    let answer = send(client, Method::POST, &collection(manifest)?, OBJECT, Some(manifest)).await?;
    ensure!(answer.code == 201 && answer.warnings.is_empty(), "creating {manifest}: {answer:?}");
    Ok(answer)
}

async fn remove(client: &Client, manifest: &Value) -> anyhow::Result<()> {
    let answer = send(client, Method::DELETE, &object(manifest)?, OBJECT, None).await?;
    ensure!(answer.code == 200, "deleting {manifest}: {answer:?}");
    Ok(())
}

/// Applies as an agent does: forced.
async fn apply(client: &Client, manifest: &Value) -> anyhow::Result<Answer> {
    let path = format!("{}?fieldManager=causeway-test&force=true", object(manifest)?);
    send(client, Method::PATCH, &path, APPLY, Some(manifest)).await
}
