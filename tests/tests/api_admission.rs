//! What the admission policies say about objects that the API accepts although nothing can use them. They warn and
//! never refuse: the verdict stays upstream's.

#[path = "api_parts/cases.rs"]
mod cases;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::manifests;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::cases::{collection, object};
use causeway_tests::rest::{MERGE_PATCH, OBJECT, send};

/// How long the API server may take to heed a policy.
const HEEDED: Duration = Duration::from_secs(30);

/// The policies that only warn; those about access refuse and are another matter.
const WARNINGS: [&str; 3] = ["uplink-spec.yaml", "uplink-name.yaml", "uplinkstate-name.yaml"];

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(&rig, Level::Api, "each_fault_is_accepted_with_a_sentence_about_it", faults)
        .test_in(&rig, Level::Api, "objects_without_fault_are_accepted_in_silence", silence)
        .test_in(&rig, Level::Api, "recorded_requests_get_upstreams_answers_with_the_policies_too", recorded)
        .test_in(&rig, Level::Api, "a_faulty_uplink_is_spoken_of_once_per_spec", updates)
        .test_in(&rig, Level::Api, "the_largest_uplink_is_accepted_in_time", large)
        .test_in(&rig, Level::Api, "kubectl_shows_the_sentence", kubectl)
        .run()
}

/// A client of a server that heeds the policies.
async fn ready(rig: &Rig) -> anyhow::Result<Client> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    INSTALLED.get_or_try_init(|| install(rig)).await?;
    Ok(rig.client())
}

async fn install(rig: &Rig) -> anyhow::Result<()> {
    rig.apply(&manifests::folder("crds")?).await?;
    for file in WARNINGS {
        let path = manifests::deploy().join("admission").join(file);
        let yaml = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        rig.apply(&yaml).await?;
    }
    // Nothing tells when the API server heeds a policy, but answers that it gives.
    let client = rig.client();
    let probes = [
        uplink("probe", &json!([config(&json!({})), config(&json!({}))])),
        uplink("probe.dot", &json!([config(&json!({}))])),
        state("probe", "probe", "n"),
    ];
    for probe in probes {
        let path = format!("{}?dryRun=All", collection(&probe)?);
        let heeded = || async {
            match send(&client, Method::POST, &path, OBJECT, Some(&probe)).await {
                Ok(answer) if !answer.warnings.is_empty() => Ok(()),
                Ok(answer) => Err(format!("{answer:?}")),
                Err(error) => Err(format!("{error:#}")),
            }
        };
        rig.wait_for(&format!("a warning about {probe}"), HEEDED, heeded).await?;
    }
    Ok(())
}

fn uplink(name: &str, configs: &Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "Uplink",
        "metadata": {"name": name},
        "spec": {"nodeConfigs": configs},
    })
}

fn config(selector: &Value) -> Value {
    json!({"type": "OVSBridge", "nodeSelector": selector, "hostInterfaceName": "br"})
}

/// A selector of one expression.
fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

fn state(name: &str, uplink: &str, node: &str) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "UplinkState",
        "metadata": {"name": name},
        "spec": {"uplinkName": uplink, "nodeName": node},
    })
}

/// Creates it, takes it away again, and gives what was said.
async fn said_about(client: &Client, manifest: &Value) -> anyhow::Result<Vec<String>> {
    let path = format!("{}?fieldValidation=Strict", collection(manifest)?);
    let answer = send(client, Method::POST, &path, OBJECT, Some(manifest)).await?;
    ensure!(answer.code == 201, "{manifest} is refused: {}", answer.message());
    send(client, Method::DELETE, &object(manifest)?, OBJECT, None).await?;
    Ok(answer.warnings)
}

/// What is wrong, the object, and a sentence for each fault.
type Faulty = (&'static str, Value, Vec<String>);

fn unusable(text: &str) -> String {
    format!("the Uplink cannot become Ready (InvalidSpec): {text}")
}

/// An Uplink of one nodeConfig.
fn one(selector: &Value) -> Value {
    uplink("fault", &json!([config(selector)]))
}

fn faulty_expressions() -> Vec<Faulty> {
    let operators = "selector operators are In, NotIn, Exists and DoesNotExist; found";
    let missing = "In and NotIn need at least one value; none for";
    let needless = "Exists and DoesNotExist take no values; found some for";
    let keys =
        "a label key is an optional DNS subdomain and /, then at most 63 letters, digits, -, _ or .; found";
    let one_fault =
        |what, selector: &Value, sentence: String| (what, one(selector), vec![unusable(&sentence)]);
    vec![
        one_fault(
            "an operator that is not known",
            &expression("rack", "Foo", &["a"]),
            format!("{operators} nodeConfig 0: \"Foo\" of key \"rack\""),
        ),
        one_fault(
            "In without values",
            &expression("rack", "In", &[]),
            format!("{missing} nodeConfig 0: In of key \"rack\""),
        ),
        one_fault(
            "NotIn with no list at all",
            &json!({"matchExpressions": [{"key": "rack", "operator": "NotIn"}]}),
            format!("{missing} nodeConfig 0: NotIn of key \"rack\""),
        ),
        one_fault(
            "Exists with values",
            &expression("rack", "Exists", &["a"]),
            format!("{needless} nodeConfig 0: Exists of key \"rack\""),
        ),
        one_fault(
            "DoesNotExist with values",
            &expression("rack", "DoesNotExist", &["a"]),
            format!("{needless} nodeConfig 0: DoesNotExist of key \"rack\""),
        ),
        (
            "operators in other letters, beside good ones",
            uplink(
                "fault",
                &json!([
                    config(&expression("rack", "In", &["a"])),
                    config(&json!({"matchExpressions": [
                        {"key": "a", "operator": "in", "values": ["b"]},
                        {"key": "c", "operator": "Exists"},
                        {"key": "d", "operator": "Gt", "values": ["1"]},
                    ]})),
                ]),
            ),
            vec![unusable(&format!("{operators} nodeConfig 1: \"in\" of key \"a\", \"Gt\" of key \"d\""))],
        ),
        (
            "several faults at once",
            uplink(
                "fault",
                &json!([config(&expression("a b", "In", &[])), config(&expression("c", "Foo", &[]))]),
            ),
            vec![
                unusable(&format!("{operators} nodeConfig 1: \"Foo\" of key \"c\"")),
                unusable(&format!("{missing} nodeConfig 0: In of key \"a b\"")),
                unusable(&format!("{keys} nodeConfig 0: \"a b\"")),
            ],
        ),
    ]
}

fn faulty_labels_and_repetitions() -> Vec<Faulty> {
    let keys =
        "a label key is an optional DNS subdomain and /, then at most 63 letters, digits, -, _ or .; found";
    let values = "a label value has at most 63 letters, digits, -, _ or . and begins and ends with a letter or \
                  digit; found";
    let repeated = "a node that two nodeConfigs select keeps the Uplink from becoming Ready (NodeSelectorOverlap): \
                    the nodeSelector of an earlier nodeConfig is repeated by";
    let fine = config(&expression("rack", "In", &["a"]));
    let bridge = |name: &str| json!({"type": "OVSBridge", "nodeSelector": {}, "hostInterfaceName": name});
    let (long_key, long_value) = ("k".repeat(64), "v".repeat(64));
    vec![
        (
            "malformed keys in both lists",
            one(&json!({
                "matchLabels": {"a/b/c": "d"},
                "matchExpressions": [{"key": long_key, "operator": "Exists"}],
            })),
            vec![unusable(&format!("{keys} nodeConfig 0: \"a/b/c\", \"{long_key}\""))],
        ),
        (
            "malformed values in both lists",
            one(&json!({
                "matchLabels": {"rack": "a b"},
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["ok", "-x", long_value]}],
            })),
            vec![unusable(&format!(
                "{values} nodeConfig 0: \"a b\" of key \"rack\", \"-x\", \"{long_value}\" of key \"zone\""
            ))],
        ),
        (
            "two identical nodeConfigs",
            uplink("fault", &json!([fine, fine])),
            vec![format!("{repeated} nodeConfig 1")],
        ),
        (
            "the same selector for two interfaces, twice",
            uplink("fault", &json!([bridge("br0"), fine, bridge("br1"), fine])),
            vec![format!("{repeated} nodeConfig 2, nodeConfig 3")],
        ),
    ]
}

fn faulty_names() -> Vec<Faulty> {
    let misnamed = |name: &str, uplink: &str, node: &str, called: &str| {
        vec![format!(
            "nothing looks for UplinkState \"{name}\" under this name: the state of Uplink \"{uplink}\" on Node \
             \"{node}\" is called {called}"
        )]
    };
    let dotted = "a ClusterUserDefinedNetwork cannot refer to Uplink \"fault.dot\": names in spec.uplinks hold no dots";
    let (long_uplink, long_node) = ("u".repeat(200), "n".repeat(60));
    vec![
        (
            "a dot in an Uplink's name",
            uplink("fault.dot", &json!([config(&json!({}))])),
            vec![dotted.to_owned()],
        ),
        ("a state of any name", state("fault", "u", "n"), misnamed("fault", "u", "n", "\"u.n\"")),
        (
            "a state of the right name, but for the node",
            state("fault.n", "fault", "m"),
            misnamed("fault.n", "fault", "m", "\"fault.m\""),
        ),
        (
            "a state of a name that has to be a hash",
            state("fault.long", &long_uplink, &long_node),
            misnamed("fault.long", &long_uplink, &long_node, "uplinkstate-a and a number"),
        ),
    ]
}

async fn faults(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let faulty = [faulty_expressions(), faulty_labels_and_repetitions(), faulty_names()];
    for (what, manifest, sentences) in faulty.into_iter().flatten() {
        let said = said_about(&client, &manifest).await?;
        let ends = said.iter().zip(&sentences).all(|(said, sentence)| {
            said.starts_with("Validation failed for ValidatingAdmissionPolicy")
                && said.ends_with(&format!(": {sentence}"))
        });
        ensure!(said.len() == sentences.len() && ends, "{what}: {said:#?} instead of {sentences:#?}");
    }
    Ok(())
}

async fn silence(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let joined = format!("{}.{}", "u".repeat(192), "n".repeat(60));
    let objects = [
        uplink("fine", &json!([config(&json!({}))])),
        uplink(
            "fine",
            &json!([
                config(&json!({"matchLabels": {"k8s.ovn.org/dpu": "", "a": "b.c_d-e", "E_f.g": "9"}})),
                config(&expression("rack", "In", &["a", ""])),
                config(&expression("rack", "NotIn", &["a"])),
                config(&expression("rack", "Exists", &[])),
                config(&expression(&format!("{}/{}", "d".repeat(253), "k".repeat(63)), "DoesNotExist", &[])),
                // Selects the same nodes as the second; only equal text is compared.
                config(&expression("rack", "In", &["", "a"])),
            ]),
        ),
        state("fine.n.dot", "fine", "n.dot"),
        state(&joined, &"u".repeat(192), &"n".repeat(60)),
        // The names that upstream derives; the second from a pair of 254 bytes.
        state("uplinkstate-a10957393278523658921", &"u".repeat(200), &"n".repeat(60)),
        state("uplinkstate-a896807376183364897", &"a".repeat(200), &"b".repeat(53)),
    ];
    for manifest in objects {
        let said = said_about(&client, &manifest).await?;
        ensure!(said.is_empty(), "{manifest}: {said:?}");
    }
    Ok(())
}

async fn recorded(rig: Arc<Rig>) -> anyhow::Result<()> {
    cases::check(&ready(&rig).await?, &cases::recorded()?).await
}

async fn updates(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let manifest = uplink("again", &json!([config(&expression("rack", "Foo", &[]))]));
    let created = send(&client, Method::POST, &collection(&manifest)?, OBJECT, Some(&manifest)).await?;
    ensure!(created.code == 201 && created.warnings.len() == 1, "{created:?}");
    let conditions = json!([{
        "type": "Ready", "status": "False", "reason": "InvalidSpec", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let writes = [
        ("", json!({"metadata": {"labels": {"a": "b"}}}), 0),
        ("/status", json!({"status": {"conditions": conditions}}), 0),
        ("", json!({"spec": {"nodeConfigs": [config(&expression("rack", "Bar", &[]))]}}), 1),
        ("", json!({"spec": {"nodeConfigs": [config(&expression("rack", "Exists", &[]))]}}), 0),
    ];
    for (endpoint, patch, warnings) in writes {
        let path = format!("{}{endpoint}", object(&manifest)?);
        let answer = send(&client, Method::PATCH, &path, MERGE_PATCH, Some(&patch)).await?;
        ensure!(answer.code == 200 && answer.warnings.len() == warnings, "{patch}: {answer:?}");
    }
    Ok(())
}

async fn large(rig: Arc<Rig>) -> anyhow::Result<()> {
    let client = ready(&rig).await?;
    let values: Vec<String> = (0..40).map(|n| format!("value-{n}")).collect();
    let selector = |config: usize| {
        let expression =
            |n: usize| json!({"key": format!("key-{config}-{n}"), "operator": "In", "values": values});
        json!({"matchExpressions": (0..40).map(expression).collect::<Vec<_>>()})
    };
    let configs: Vec<Value> = (0..64).map(|n| config(&selector(n))).collect();
    let manifest = uplink("large", &json!(configs));
    let answer = send(&client, Method::POST, &collection(&manifest)?, OBJECT, Some(&manifest)).await?;
    ensure!(answer.code == 201, "{} {}", answer.code, answer.message());
    Ok(())
}

async fn kubectl(rig: Arc<Rig>) -> anyhow::Result<()> {
    ready(&rig).await?;
    let manifest = rig.folder().join("shown.yaml");
    let yaml = serde_yaml_ng::to_string(&uplink("shown.dot", &json!([config(&json!({}))])))?;
    std::fs::write(&manifest, yaml)?;
    let path = manifest.to_string_lossy();
    // Made an error, so that what kubectl prints about it is in the text.
    let refused = rig.kubectl(["create", "--warnings-as-errors", "-f", &path]).await;
    let text = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(text.contains("Warning: ") && text.contains("hold no dots"), "kubectl said: {text}");
    Ok(())
}
