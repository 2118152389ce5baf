//! What is taken away where Uplinks are off.

use causeway_runtime::engine::Retryable;

use super::*;
use crate::network::leftovers::{Everything, Leftovers};

const UPLINKS: &str = "/apis/k8s.ovn.org/v1alpha1/uplinks";

fn uplink(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "4", "finalizers": finalizers}})
}

fn told(name: &str) -> Value {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions = json!({"conditions": [condition("NetworkCreated"), condition("UplinksReady")]});
    with(cudn(name, layer3()), "/status", conditions)
}

fn leftovers(rig: &Rig) -> Leftovers {
    let mut registry = Registry::default();
    let leadership = Leadership::alone(&CancellationToken::new(), &LeaderMetrics::register(&mut registry));
    let metrics = WriteMetrics::register(&mut registry);
    Leftovers::new(&client(&rig.api), metrics, leadership, rig.room.stores.clone())
}

#[tokio::test]
async fn uplinks_can_go_and_networks_say_nothing_of_them_once_they_are_off() {
    let ours = "k8s.ovn.org/uplink-protection";
    let seen = Seen { cudns: vec![told("net"), cudn("plain", layer3())], ..Seen::default() };
    let rig = rig(&seen);
    let uplinks = [uplink("a", &["example.com/x", ours]), uplink("b", &["example.com/x"])];
    {
        let mut objects = rig.api.objects.lock().unwrap();
        let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
            "items": uplinks});
        objects.insert(UPLINKS.to_owned(), list);
        for uplink in uplinks {
            objects.insert(format!("{UPLINKS}/{}", uplink["metadata"]["name"].as_str().unwrap()), uplink);
        }
    }
    assert_eq!(leftovers(&rig).reconcile(&Everything).await.unwrap(), Requeue::Gone);
    let log = rig.api.log.lock().unwrap().clone();
    let writes: Vec<&str> = log.lines().filter(|line| line.starts_with("PATCH")).collect();
    assert_eq!(writes.len(), 2, "{log}");
    let kept = rig.object(&format!("{UPLINKS}/a")).unwrap();
    assert_eq!(kept["metadata"]["finalizers"], json!(["example.com/x"]), "those of others stay");
    let net = "/apis/k8s.ovn.org/v1/clusteruserdefinednetworks/net";
    assert_eq!(rig.condition(net, "UplinksReady"), None);
    assert!(rig.condition(net, "NetworkCreated").is_some(), "what others say stays");
    assert!(
        writes.iter().all(|line| line.contains("\"resourceVersion\"") && line.contains("\"uid\"")),
        "{log}"
    );
}

#[tokio::test]
async fn a_cluster_without_uplinks_has_nothing_left_behind_and_a_failure_is_tried_again() {
    let rig = rig(&Seen::default());
    assert_eq!(leftovers(&rig).reconcile(&Everything).await.unwrap(), Requeue::Gone, "there is no such kind");
    let down = [(format!("GET {UPLINKS}"), failure(500, "InternalError"))];
    let rig = rig_with(&Seen::default(), FEATURES, down);
    let error = leftovers(&rig).reconcile(&Everything).await.unwrap_err();
    assert_eq!(error.retry(), causeway_runtime::engine::Retry::Backoff);
}
