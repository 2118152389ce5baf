//! Whole passes.

use causeway_runtime::engine::{Retry, Retryable};

use super::*;

const BLUE: &str = "/apis/k8s.ovn.org/v1/namespaces/blue/userdefinednetworks/net";
const NET: &str = "/apis/k8s.ovn.org/v1/clusteruserdefinednetworks/net";
const NADS_OF_BLUE: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/blue/network-attachment-definitions";

fn blue() -> CrKey {
    udn_key("blue", "net")
}

/// UserDefinedNetwork `blue/net` as somebody just created it.
fn fresh() -> Seen {
    Seen {
        udns: vec![with(udn("blue", "net", layer3()), "/metadata/finalizers", json!([]))],
        namespaces: vec![primary_namespace("blue")],
        ..Seen::default()
    }
}

/// ClusterUserDefinedNetwork `net` for `a` and `b`.
fn wide() -> Seen {
    Seen {
        cudns: vec![cudn("net", layer3())],
        namespaces: vec![primary_namespace("a"), primary_namespace("b")],
        ..Seen::default()
    }
}

#[tokio::test]
async fn a_network_is_protected_and_made_at_once_and_told_of_when_both_are_done() {
    let rig = rig(&fresh());
    let pass = rig.pass(&blue()).await;
    assert_eq!(pass.result.unwrap(), Requeue::After(UNSEEN), "the watch has yet to show what was made");
    let mut lines: Vec<&str> = pass.asked.lines().collect();
    // Which of the two is asked first does not matter.
    lines[..2].sort_unstable();
    let [protect, create, tell] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(
        *protect,
        format!(
            "PATCH {BLUE} {}",
            json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "metadata": {"finalizers":
                ["k8s.ovn.org/user-defined-network-protection"], "name": "net", "namespace": "blue", "uid": "uid-net"}})
        )
    );
    assert!(create.starts_with(&format!("POST {NADS_OF_BLUE} ")), "{create}");
    for text in ["\"k8s.ovn.org/network-id\":\"1\"", "\"k8s.ovn.org/network-name\":\"blue_net\""] {
        assert!(create.contains(text), "{text} in {create}");
    }
    assert_eq!(
        *tell,
        format!(
            "PATCH {BLUE}/status {}",
            json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "metadata": {"name": "net",
                "namespace": "blue"}, "status": {"conditions": [{"message":
                "NetworkAttachmentDefinition has been created", "observedGeneration": 1, "reason":
                "NetworkAttachmentDefinitionCreated", "status": "True", "type": "NetworkCreated"}]}})
        )
    );
}

#[tokio::test]
async fn what_is_as_it_should_be_costs_no_request_and_neither_does_a_restart() {
    for (seen, key) in [(fresh(), blue()), (wide(), cudn_key("net"))] {
        let rig = rig(&seen);
        rig.pass(&key).await.result.unwrap();
        let again = rig.pass(&key).await;
        assert_eq!((again.asked.as_str(), again.result.unwrap()), ("", Requeue::After(UNSEEN)));
        let restarted = rig.restarted(&seen).pass(&key).await;
        assert_eq!((restarted.asked.as_str(), restarted.result.unwrap()), ("", Requeue::Done));
    }
}

#[tokio::test]
async fn a_deleted_network_loses_its_definitions_before_its_finalizer_and_nothing_is_told() {
    let seen = wide();
    let rig = rig(&seen);
    rig.pass(&cudn_key("net")).await.result.unwrap();
    let object = terminating(rig.object(NET).unwrap());
    rig.api.objects.lock().unwrap().insert(NET.to_owned(), object);
    let rig = rig.restarted(&seen);
    let pass = rig.pass(&cudn_key("net")).await;
    let mut order = pass.order();
    assert_eq!(pass.result.unwrap(), Requeue::Done);
    let (last, nads) = (order.pop().unwrap(), {
        order.sort();
        order
    });
    assert_eq!(last, "PATCH clusteruserdefinednetworks/net");
    let of = |verb: &str, namespace: &str| {
        format!("{verb} namespaces/{namespace}/network-attachment-definitions/net")
    };
    assert_eq!(nads, [of("DELETE", "a"), of("DELETE", "b"), of("PATCH", "a"), of("PATCH", "b")]);
    assert!(rig.api.objects.lock().unwrap().is_empty());
    let gone = rig.restarted(&seen).pass(&cudn_key("net")).await;
    assert_eq!((gone.asked.as_str(), gone.result.unwrap()), ("", Requeue::Gone));
}

#[tokio::test]
async fn pods_keep_a_deleted_network_and_it_says_which() {
    let mut seen = fresh();
    let nad = made(&seen, &blue(), "blue/net").await;
    seen.udns = vec![terminating(udn("blue", "net", layer3()))];
    seen.nads = vec![nad];
    seen.pods = vec![pod("blue", "p", &["default", "blue/net"])];
    let rig = rig(&seen);
    let pass = rig.pass(&blue()).await;
    assert_eq!(pass.order(), ["PATCH namespaces/blue/userdefinednetworks/net/status"]);
    let why = "failed to delete NetworkAttachmentDefinition [blue/net]: network in use by the following pods: [blue/p]";
    let want = ("False".to_owned(), "SyncError".to_owned(), why.to_owned());
    assert_eq!(rig.condition(BLUE, "NetworkCreated"), Some(want));
    assert_eq!(rig.room.waiting.for_cause(&Cause::Nad("blue/net".parse().unwrap())), [blue()]);
    assert!(rig.object(BLUE).is_some() && rig.object(&nad_path("blue/net")).is_some());
}

#[tokio::test]
async fn a_definition_that_somebody_deletes_is_let_go_and_made_again() {
    let mut seen = fresh();
    seen.nads = vec![terminating(made(&seen, &blue(), "blue/net").await)];
    let rig = rig(&seen);
    let pass = rig.pass(&blue()).await;
    pass.result.as_ref().unwrap();
    assert!(!pass.asked.contains("DELETE"), "its last finalizer was enough: {}", pass.asked);
    assert_eq!(rig.condition(BLUE, "NetworkCreated").unwrap().1, "NetworkAttachmentDefinitionDeleted");
    let rig = rig.restarted(&seen);
    rig.pass(&blue()).await.result.unwrap();
    assert!(rig.object(&nad_path("blue/net")).is_some());
    assert_eq!(rig.condition(BLUE, "NetworkCreated").unwrap().0, "True");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_left_alone_with_all_that_it_has() {
    let mut seen = fresh();
    seen.nads = vec![made(&seen, &blue(), "blue/net").await];
    let seen = Seen { udns: Vec::new(), unreadable_crs: vec![blue()], ..seen };
    let pass = rig(&seen).pass(&blue()).await;
    let error = pass.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "UserDefinedNetwork blue/net cannot be read ({BROKEN}); its NetworkAttachmentDefinitions are left alone"
        )
    );
    assert_eq!((error.retry(), pass.asked.as_str()), (Retry::Never, ""));
}

#[tokio::test]
async fn a_namespace_that_is_not_seen_yet_is_waited_for() {
    let rig = rig(&Seen { namespaces: Vec::new(), ..fresh() });
    let pass = rig.pass(&blue()).await;
    assert_eq!((pass.result.unwrap(), pass.asked.as_str()), (Requeue::Done, ""));
    assert_eq!(rig.room.waiting.for_cause(&Cause::Namespace("blue".into())), [blue()]);
}

#[tokio::test]
async fn of_a_namespace_that_cannot_be_read_nothing_is_said_and_it_is_waited_for() {
    let rig = rig(&Seen { namespaces: Vec::new(), unreadable_namespaces: vec!["blue"], ..fresh() });
    let pass = rig.pass(&blue()).await;
    assert_eq!((pass.result.unwrap(), pass.asked.as_str()), (Requeue::Done, ""));
    assert_eq!(rig.room.waiting.for_cause(&Cause::Namespace("blue".into())), [blue()]);
}

#[tokio::test]
async fn a_refused_creation_is_told_and_tried_again_and_the_others_are_made() {
    for (code, reason) in [(403, "Forbidden"), (500, "InternalError")] {
        let refused = "POST /apis/k8s.cni.cncf.io/v1/namespaces/a/network-attachment-definitions";
        let rig = rig_with(&wide(), FEATURES, [(refused.to_owned(), failure(code, reason))]);
        let pass = rig.pass(&cudn_key("net")).await;
        let error = pass.result.unwrap_err();
        assert_eq!(error.retry(), Retry::Backoff, "{reason}: nothing tells when it is over");
        let (status, reason_told, message) = rig.condition(NET, "NetworkCreated").unwrap();
        assert_eq!(
            (status.as_str(), reason_told.as_str()),
            ("False", "NetworkAttachmentDefinitionSyncError")
        );
        assert!(message.starts_with("failed to create NetworkAttachmentDefinition: "), "{message}");
        assert!(message.contains(&format!("because {reason}")), "{message}");
        assert!(rig.object(&nad_path("b/net")).is_some());
        assert_eq!(rig.room.waiting.for_cause(&Cause::Namespace("a".into())), [cudn_key("net")]);
        assert_eq!(rig.room.waiting.for_cause(&Cause::Namespace("b".into())), []);
    }
}

#[tokio::test]
async fn refused_content_is_told_and_waits_for_a_change() {
    let refused = format!("POST {NADS_OF_BLUE}");
    let rig = rig_with(&fresh(), FEATURES, [(refused, failure(422, "Invalid"))]);
    let pass = rig.pass(&blue()).await;
    assert_eq!(pass.result.unwrap(), Requeue::Done);
    assert_eq!(rig.condition(BLUE, "NetworkCreated").unwrap().1, "SyncError");
}

#[tokio::test]
async fn what_another_attempt_puts_right_is_not_told() {
    let post = format!("POST {NADS_OF_BLUE}");
    for (what, answer) in [
        (post.clone(), failure(409, "AlreadyExists")),
        (post, failure(404, "NotFound")),
        (format!("PATCH {BLUE}"), failure(409, "Conflict")),
        (format!("PATCH {BLUE}/status"), failure(409, "Conflict")),
    ] {
        let rig = rig_with(&fresh(), FEATURES, [(what.clone(), answer)]);
        let pass = rig.pass(&blue()).await;
        assert_eq!(pass.result.unwrap_err().retry(), Retry::Backoff, "{what}");
        assert_eq!(rig.condition(BLUE, "NetworkCreated"), None, "{what}");
        let told =
            pass.asked.lines().filter(|line| line.starts_with(&format!("PATCH {BLUE}/status"))).count();
        assert_eq!(told, usize::from(what.ends_with("/status")), "{what}: {}", pass.asked);
    }
}

#[tokio::test]
async fn a_network_that_went_meanwhile_is_nobodys_failure() {
    let rig = rig_with(&fresh(), FEATURES, [(format!("PATCH {BLUE}/status"), failure(404, "NotFound"))]);
    assert!(rig.pass(&blue()).await.result.is_ok());
}

#[tokio::test]
async fn an_update_that_is_overtaken_is_tried_again_from_the_newest_state() {
    let mut seen = fresh();
    seen.udns = vec![udn("blue", "net", layer3())];
    let nad = made(&seen, &blue(), "blue/net").await;
    seen.nads = vec![with(nad, "/spec/config", json!("{}"))];
    let patch = format!("PATCH {}", nad_path("blue/net"));
    let pass = rig_with(&seen, FEATURES, [(patch.clone(), failure(409, "Conflict"))]).pass(&blue()).await;
    assert_eq!(pass.result.unwrap_err().retry(), Retry::Backoff);
    assert!(
        pass.asked.contains("\"resourceVersion\":\"100\"") && pass.asked.contains("\"uid\":\"uid-made\"")
    );
    assert_eq!(pass.asked.lines().count(), 1, "{}", pass.asked);
}

#[tokio::test]
async fn of_two_primary_networks_that_come_at_once_one_gets_the_namespace_and_the_other_waits() {
    let mut seen = fresh();
    seen.udns = vec![udn("blue", "net", layer3()), udn("blue", "second", layer3())];
    let rig = rig(&seen);
    rig.pass(&blue()).await.result.unwrap();
    let second = udn_key("blue", "second");
    let pass = rig.pass(&second).await;
    assert_eq!(pass.result.unwrap(), Requeue::Done);
    assert!(!pass.asked.contains("POST"), "{}", pass.asked);
    let path = "/apis/k8s.ovn.org/v1/namespaces/blue/userdefinednetworks/second";
    let (_, reason, message) = rig.condition(path, "NetworkCreated").unwrap();
    assert_eq!(reason, "SyncError");
    assert_eq!(message, "primary network already exist in namespace \"blue\": \"net\"");
    let waiting = rig.room.waiting.for_cause(&Cause::Namespace("blue".into()));
    assert_eq!(waiting, [second], "the first one waits for nothing");
}

#[tokio::test]
async fn a_creation_that_is_refused_leaves_the_namespace_to_others() {
    let mut seen = fresh();
    seen.udns = vec![udn("blue", "net", layer3()), udn("blue", "second", layer3())];
    // The name is taken by something that cannot be seen; it is given up with the object.
    let mut broken = rig_with(&seen, FEATURES, [(format!("POST {NADS_OF_BLUE}"), failure(403, "Forbidden"))]);
    broken.pass(&blue()).await.result.unwrap_err();
    let stores =
        Seen { udns: vec![udn("blue", "second", layer3())], ..seen }.stores(broken.room.stores.mode());
    broken.room.stores = stores;
    assert_eq!(broken.pass(&blue()).await.result.unwrap(), Requeue::Gone);
    assert_eq!(broken.room.hand.claims.claim(&"blue".into(), &udn_key("blue", "second")), Ok(()));
}

#[tokio::test]
async fn what_was_made_and_is_not_seen_yet_goes_with_its_object() {
    let seen = fresh();
    let mut rig = rig(&seen);
    rig.pass(&blue()).await.result.unwrap();
    // The object is being deleted, and the watch of its definitions is behind.
    let before = rig.room.stores.clone();
    let object = terminating(rig.object(BLUE).unwrap());
    rig.api.objects.lock().unwrap().insert(BLUE.to_owned(), object.clone());
    let behind = Seen { udns: vec![with(object, "/metadata/resourceVersion", json!("200"))], ..seen };
    let stores = behind.stores(before.mode());
    let key: NadKey = "blue/net".parse().unwrap();
    let nad = before.nad(&key).unwrap().unwrap();
    stores.written_nads.created(&key, nad.as_ref().clone());
    rig.room.stores = stores.clone();
    rig.room.hand.stores = stores;
    rig.pass(&blue()).await.result.unwrap();
    assert!(rig.api.objects.lock().unwrap().is_empty(), "nothing that our finalizer keeps is left behind");
}

#[tokio::test]
async fn what_an_object_that_is_gone_left_behind_is_removed_once_the_api_server_says_so() {
    let mut seen = fresh();
    seen.nads = vec![made(&seen, &blue(), "blue/net").await];
    let left = Seen { udns: Vec::new(), ..seen.clone() };
    let rig = rig(&left);
    let pass = rig.pass(&blue()).await;
    let nad = "namespaces/blue/network-attachment-definitions/net";
    assert_eq!(
        pass.order(),
        [
            "GET namespaces/blue/userdefinednetworks/net".to_owned(),
            format!("PATCH {nad}"),
            format!("DELETE {nad}")
        ]
    );
    assert_eq!(pass.result.unwrap(), Requeue::Done);

    // The watch of objects is behind: nothing is removed.
    let exists = (format!("GET {BLUE}"), (200, seen.udns[0].clone()));
    let pass = rig_with(&left, FEATURES, [exists]).pass(&blue()).await;
    assert_eq!(pass.order().len(), 1, "{}", pass.asked);
    let error = pass.result.unwrap_err();
    assert!(matches!(error, NetworkError::Behind { .. }), "{error}");
    assert_eq!(error.retry(), Retry::Backoff);

    // Nobody can say.
    let fails = (format!("GET {BLUE}"), failure(500, "InternalError"));
    let pass = rig_with(&left, FEATURES, [fails]).pass(&blue()).await;
    assert!(matches!(pass.result, Err(NetworkError::Confirm { .. })));
    assert_eq!(pass.order().len(), 1);

    // Pods use it.
    let used = Seen { pods: vec![pod("blue", "p", &["blue/net"])], ..left };
    let rig = super::rig(&used);
    let pass = rig.pass(&blue()).await;
    assert_eq!((pass.asked.as_str(), pass.result.unwrap()), ("", Requeue::Done));
    assert_eq!(rig.room.waiting.for_cause(&Cause::Nad("blue/net".parse().unwrap())), [blue()]);
}

#[tokio::test]
async fn an_object_that_is_made_anew_gets_rid_of_what_its_namesake_left() {
    let mut seen = fresh();
    seen.nads = vec![made(&seen, &blue(), "blue/net").await];
    seen.udns = vec![with(udn("blue", "net", layer3()), "/metadata/uid", json!("uid-new"))];
    let rig = rig(&seen);
    let pass = rig.pass(&blue()).await;
    assert!(pass.asked.contains("DELETE"), "{}", pass.asked);
    let rig = rig.restarted(&seen);
    rig.pass(&blue()).await.result.unwrap();
    let owner = rig.object(&nad_path("blue/net")).unwrap()["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner, "uid-new");
}

#[tokio::test]
async fn a_definition_of_somebody_else_outlives_everything() {
    let config = primary_config("blue/net", "x");
    let foreign = foreign_nad("blue", "net", &config);
    let held = with(foreign, "/metadata/finalizers", json!(["k8s.ovn.org/user-defined-network-protection"]));
    for udns in [vec![], vec![udn("blue", "net", layer3())], vec![terminating(udn("blue", "net", layer3()))]]
    {
        let seen = Seen { udns, nads: vec![held.clone()], ..fresh() };
        let pass = rig(&seen).pass(&blue()).await;
        assert!(!pass.asked.contains("network-attachment-definitions"), "{}", pass.asked);
    }
}

#[tokio::test]
async fn an_object_that_asks_for_a_feature_that_is_off_is_told_and_not_even_protected() {
    let object = with(cudn("net", layer3()), "/spec/uplinks", json!(["u"]));
    let seen = Seen { cudns: vec![with(object, "/metadata/finalizers", json!([]))], ..wide() };
    let rig = rig_with(&seen, Features { uplink: false, ..FEATURES }, []);
    let pass = rig.pass(&cudn_key("net")).await;
    assert_eq!(pass.order(), ["PATCH clusteruserdefinednetworks/net/status"]);
    let (_, reason, message) = rig.condition(NET, "NetworkCreated").unwrap();
    assert_eq!(reason, "NetworkAttachmentDefinitionSyncError");
    assert_eq!(message, "spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN");
    let again = rig.pass(&cudn_key("net")).await;
    assert_eq!(again.asked, "");
}

#[tokio::test]
async fn a_udn_whose_namespace_goes_is_told_nothing() {
    let mut seen = fresh();
    seen.udns = vec![udn("blue", "net", layer3())];
    seen.nads = vec![made(&seen, &blue(), "blue/net").await];
    seen.namespaces = vec![terminating(primary_namespace("blue"))];
    let rig = rig(&seen);
    let pass = rig.pass(&blue()).await;
    pass.result.unwrap();
    assert_eq!(rig.condition(BLUE, "NetworkCreated"), None);
    assert!(rig.object(&nad_path("blue/net")).is_none());
}

#[tokio::test]
async fn fields_without_effect_are_told_beside_the_creation() {
    let spec = json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.30.0.0/16"],
        "reservedSubnets": ["10.30.4.0/24"], "defaultGatewayIPs": ["10.30.2.7"]}});
    let seen = Seen { udns: vec![udn("blue", "net", spec)], ..fresh() };
    let rig = rig(&seen);
    rig.pass(&blue()).await.result.unwrap();
    let (status, _, message) = rig.condition(BLUE, "NetworkCreated").unwrap();
    assert_eq!(status, "True");
    assert!(message.ends_with("off: reservedSubnets, defaultGatewayIPs"), "{message}");
    assert_eq!(rig.restarted(&seen).pass(&blue()).await.asked, "", "and told once");
}

#[tokio::test]
async fn a_transport_is_told_of_beside_the_creation_in_one_write() {
    let network = with(layer3(), "/transport", json!("NoOverlay"));
    let network = with(network, "/noOverlay", json!({"outboundSNAT": "Enabled", "routing": "Unmanaged"}));
    let rig = rig(&Seen { cudns: vec![cudn("net", network)], ..wide() });
    let pass = rig.pass(&cudn_key("net")).await;
    assert_eq!(pass.order().iter().filter(|line| line.ends_with("/status")).count(), 1);
    assert_eq!(rig.condition(NET, "NetworkCreated").unwrap().0, "True");
    assert_eq!(rig.condition(NET, "TransportAccepted").unwrap().1, "RouteAdvertisementsNotEnabled");
}

#[tokio::test]
async fn a_cluster_wide_network_without_uplinks_is_told_so_in_the_same_write_as_long_as_uplinks_are_on() {
    let seen = wide();
    let rig = rig(&seen);
    let asked = rig.pass(&cudn_key("net")).await.asked;
    let told: Vec<&str> = asked.lines().filter(|line| line.contains("/status ")).collect();
    let [told] = told.as_slice() else { panic!("{asked}") };
    assert!(told.contains("NetworkCreated") && told.contains("CUDN does not reference an Uplink"), "{told}");
    let off = Features { uplink: false, ..FEATURES };
    let asked = rig_with(&seen, off, []).pass(&cudn_key("net")).await.asked;
    assert!(asked.contains("NetworkCreated") && !asked.contains("UplinksReady"), "{asked}");
}
