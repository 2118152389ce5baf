//! What is planned for one network object.

use super::*;
use crate::network::plan::Removal;
use crate::observed::nad::Nad;

/// The steps by namespace, in words.
fn steps(plan: &Plan) -> Vec<String> {
    let step = |(namespace, step): &(Namespace, SiteStep)| match step {
        SiteStep::Keep => format!("{namespace}: keep"),
        SiteStep::Create(_) => format!("{namespace}: create"),
        SiteStep::Update(change) => format!("{namespace}: update {}", change.0),
        SiteStep::LetGo(_) => format!("{namespace}: let go"),
        SiteStep::Terminating => format!("{namespace}: terminating"),
        SiteStep::Refuse(why) => format!("{namespace}: {why}"),
    };
    plan.sites.iter().map(step).collect()
}

/// What is refused in the only namespace.
fn refusal(plan: &Plan) -> String {
    match plan.sites.as_slice() {
        [(_, SiteStep::Refuse(why))] => why.clone(),
        sites => panic!("{sites:?}"),
    }
}

/// A primary UserDefinedNetwork `blue/net` in a namespace that takes it.
fn blue() -> Seen {
    Seen {
        udns: vec![udn("blue", "net", layer3())],
        namespaces: vec![primary_namespace("blue")],
        ..Seen::default()
    }
}

/// ClusterUserDefinedNetwork `net` in namespaces `a` and `b`.
fn two() -> Seen {
    Seen {
        cudns: vec![cudn("net", layer3())],
        namespaces: vec![
            primary_namespace("a"),
            primary_namespace("b"),
            namespace("c", json!({"team": "c"})),
        ],
        ..Seen::default()
    }
}

#[tokio::test]
async fn a_namespace_without_the_label_has_no_primary_network_and_waits_for_it() {
    let seen = Seen { namespaces: vec![namespace("blue", json!({}))], ..blue() };
    let plan = rig(&seen).plan(&udn_key("blue", "net"));
    assert_eq!(
        refusal(&plan),
        "invalid primary network state for namespace \"blue\": a valid primary user defined network or network \
         attachment definition custom resource, and required namespace label \
         \"k8s.ovn.org/primary-user-defined-network\" must both be present"
    );
    assert!(plan.causes.contains(&Cause::Namespace("blue".into())));
    let secondary = Seen { udns: vec![udn("blue", "net", layer2_secondary())], ..seen };
    assert_eq!(steps(&rig(&secondary).plan(&udn_key("blue", "net"))), ["blue: create"]);
}

#[tokio::test]
async fn a_cudn_is_made_where_it_can_be_and_refused_elsewhere() {
    let mut seen = two();
    seen.namespaces[1] = namespace("b", json!({"team": "a"}));
    let plan = rig(&seen).plan(&cudn_key("net"));
    let steps = steps(&plan);
    assert_eq!(steps[0], "a: create");
    assert!(steps[1].starts_with("b: invalid primary network state for namespace \"b\""), "{steps:?}");
    assert_eq!(plan.sites.len(), 2, "c is not chosen");
}

#[tokio::test]
async fn a_definition_carries_owner_finalizer_labels_and_annotations_of_the_object() {
    let object = with(udn("blue", "net", layer3()), "/metadata/labels", json!({"l": "v"}));
    let object = with(object, "/metadata/annotations", json!({"k8s.ovn.org/x": "y", "mine": "1"}));
    let plan = rig(&Seen { udns: vec![object], ..blue() }).plan(&udn_key("blue", "net"));
    let [(_, SiteStep::Create(draft))] = plan.sites.as_slice() else { panic!("{plan:?}") };
    assert_eq!(
        serde_json::to_value(&draft.object).unwrap(),
        json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "namespace": "blue", "name": "net",
                "labels": {"k8s.ovn.org/user-defined-network": "", "l": "v"},
                "annotations": {"mine": "1"},
                "finalizers": ["k8s.ovn.org/user-defined-network-protection"],
                "ownerReferences": [{"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "net",
                    "uid": "uid-net", "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"config": "{\"cniVersion\":\"1.1.0\",\"joinSubnet\":\"100.65.0.0/16,fd99::/64\",\"name\":\"blue_net\",\
                \"netAttachDefName\":\"blue/net\",\"role\":\"primary\",\"subnets\":\"10.20.0.0/16/24\",\
                \"topology\":\"layer3\",\"type\":\"ovn-k8s-cni-overlay\"}"},
        })
    );
}

#[tokio::test]
async fn a_label_of_the_object_wins_over_ours() {
    let object = with(
        udn("blue", "net", layer3()),
        "/metadata/labels",
        json!({"k8s.ovn.org/user-defined-network": "foo"}),
    );
    let plan = rig(&Seen { udns: vec![object], ..blue() }).plan(&udn_key("blue", "net"));
    let [(_, SiteStep::Create(draft))] = plan.sites.as_slice() else { panic!("{plan:?}") };
    let labels = draft.object.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["k8s.ovn.org/user-defined-network"], "foo");
}

#[tokio::test]
async fn a_definition_of_somebody_else_is_reported_and_left_alone() {
    let config = primary_config("blue/net", "x");
    let seen = Seen { nads: vec![foreign_nad("blue", "net", &config)], ..blue() };
    let plan = rig(&seen).plan(&udn_key("blue", "net"));
    assert_eq!(
        refusal(&plan),
        "foreign NetworkAttachmentDefinition with the desired name already exist [blue/net]"
    );
    assert_eq!(plan.removals, []);
    assert!(plan.causes.contains(&Cause::Nad("blue/net".parse().unwrap())), "its end wakes the network");
}

#[tokio::test]
async fn a_definition_that_somebody_took_the_owner_from_gets_it_back_and_one_of_others_does_not() {
    let mut seen = blue();
    let nad = made(&seen, &udn_key("blue", "net"), "blue/net").await;
    let owner = nad["metadata"]["ownerReferences"].clone();
    let loose = with(nad.clone(), "/metadata/ownerReferences", json!([]));
    seen.nads = vec![loose.clone()];
    let plan = rig(&seen).plan(&udn_key("blue", "net"));
    let [(_, SiteStep::Update(change))] = plan.sites.as_slice() else { panic!("{plan:?}") };
    assert_eq!(change.0["metadata"]["ownerReferences"], owner);
    let other =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "other", "controller": true}]);
    let annotated = |name: &str| json!({"k8s.ovn.org/network-name": name});
    for foreign in [
        with(loose.clone(), "/metadata/ownerReferences", other),
        with(loose.clone(), "/metadata/finalizers", json!([])),
        with(loose.clone(), "/metadata/annotations", annotated("blue_other")),
        with(loose.clone(), "/metadata/annotations", json!({})),
    ] {
        seen.nads = vec![foreign];
        let why = refusal(&rig(&seen).plan(&udn_key("blue", "net")));
        assert_eq!(why, "foreign NetworkAttachmentDefinition with the desired name already exist [blue/net]");
    }
}

#[tokio::test]
async fn of_a_udn_and_a_cudn_of_one_name_the_later_one_is_refused_in_that_namespace_alone() {
    let mut seen = two();
    seen.udns = vec![with(udn("a", "net", layer3()), "/metadata/uid", json!("uid-udn"))];
    seen.nads = vec![made(&seen, &udn_key("a", "net"), "a/net").await];
    let rig = rig(&seen);
    assert_eq!(steps(&rig.plan(&udn_key("a", "net"))), ["a: keep"]);
    let foreign = "foreign NetworkAttachmentDefinition with the desired name already exist [a/net]";
    assert_eq!(steps(&rig.plan(&cudn_key("net"))), [format!("a: {foreign}"), "b: create".to_owned()]);
}

#[tokio::test]
async fn a_namespace_has_one_primary_network() {
    let mut seen = blue();
    seen.udns.push(udn("blue", "second", layer3()));
    seen.nads = vec![made(&seen, &udn_key("blue", "net"), "blue/net").await];
    let plan = rig(&seen).plan(&udn_key("blue", "second"));
    assert_eq!(refusal(&plan), "primary network already exist in namespace \"blue\": \"net\"");
    assert!(plan.causes.contains(&Cause::Namespace("blue".into())));
    seen.udns[1] = udn("blue", "second", layer2_secondary());
    assert_eq!(steps(&rig(&seen).plan(&udn_key("blue", "second"))), ["blue: create"]);
}

#[tokio::test]
async fn a_primary_network_that_somebody_wrote_by_hand_is_in_the_way_too() {
    let seen = Seen { nads: vec![foreign_nad("blue", "hand", &primary_config("blue/hand", "x"))], ..blue() };
    let plan = rig(&seen).plan(&udn_key("blue", "net"));
    assert_eq!(refusal(&plan), "primary network already exist in namespace \"blue\": \"hand\"");
}

#[tokio::test]
async fn definitions_that_nobody_can_use_are_not_in_the_way() {
    for config in ["null", "{", "", "{\"type\":\"other\",\"role\":\"primary\"}"] {
        let seen = Seen { nads: vec![foreign_nad("blue", "hand", config)], ..blue() };
        assert_eq!(steps(&rig(&seen).plan(&udn_key("blue", "net"))), ["blue: create"], "{config:?}");
    }
}

#[tokio::test]
async fn a_primary_network_whose_definition_somebody_just_edited_is_still_in_the_way() {
    let mut seen = blue();
    seen.udns.push(udn("blue", "second", layer3()));
    let nad = made(&seen, &udn_key("blue", "net"), "blue/net").await;
    for config in ["{", "{\"type\":\"bridge\"}"] {
        seen.nads = vec![with(nad.clone(), "/spec/config", json!(config))];
        let plan = rig(&seen).plan(&udn_key("blue", "second"));
        assert_eq!(refusal(&plan), "primary network already exist in namespace \"blue\": \"net\"");
    }
}

#[tokio::test]
async fn a_definition_that_leaves_is_news_to_who_wants_its_namespace_whatever_its_config_said() {
    let seen = blue();
    let slim = |nad: &Value| {
        let read = serde_json::from_value(nad.clone()).unwrap();
        Nad::of(read, GatewayMode::Shared.into()).unwrap()
    };
    let made = made(&seen, &udn_key("blue", "net"), "blue/net").await;
    let [whole, spoilt] = [&made, &with(made.clone(), "/spec/config", json!("{"))].map(slim);
    let by_hand = slim(&foreign_nad("blue", "hand", &primary_config("blue/hand", "x")));
    let other = slim(&foreign_nad("blue", "other", "{\"type\":\"bridge\"}"));
    for (old, new, is_news) in [
        (None, Some(&whole), true),
        (Some(&whole), Some(&spoilt), true),
        (Some(&spoilt), None, true),
        (Some(&by_hand), None, true),
        (Some(&whole), Some(&whole), false),
        (None, Some(&other), false),
        (Some(&other), None, false),
    ] {
        assert_eq!(plan::is_news_to_rivals(old, new), is_news, "{old:?} {new:?}");
    }
}

#[tokio::test]
async fn what_somebody_changed_is_put_right_and_what_others_keep_there_stays() {
    let mut seen = blue();
    let nad = made(&seen, &udn_key("blue", "net"), "blue/net").await;
    let owner = nad["metadata"]["ownerReferences"][0].clone();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "other"});
    let loose = with(owner.clone(), "/blockOwnerDeletion", json!(false));
    let ids = nad["metadata"]["annotations"].clone();
    let mut more = ids.clone();
    merge(&mut more, &json!({"k8s.ovn.org/theirs": "1", "stray": "2"}));
    for (what, edited, patch) in [
        (
            "config",
            with(nad.clone(), "/spec/config", json!("{}")),
            json!({"spec": {"config": nad["spec"]["config"]}}),
        ),
        (
            "labels",
            with(nad.clone(), "/metadata/labels", json!({"stray": "1"})),
            json!({"metadata": {"labels": {"k8s.ovn.org/user-defined-network": "", "stray": null}}}),
        ),
        (
            "annotations",
            with(nad.clone(), "/metadata/annotations", more),
            json!({"metadata": {"annotations": {"stray": null}}}),
        ),
        (
            "finalizer",
            with(nad.clone(), "/metadata/finalizers", json!(["theirs"])),
            json!({"metadata": {"finalizers": ["theirs", "k8s.ovn.org/user-defined-network-protection"]}}),
        ),
        (
            "owner",
            with(nad.clone(), "/metadata/ownerReferences", json!([other, loose])),
            json!({"metadata": {"ownerReferences": [other, owner]}}),
        ),
    ] {
        seen.nads = vec![edited];
        let plan = rig(&seen).plan(&udn_key("blue", "net"));
        let [(_, SiteStep::Update(change))] = plan.sites.as_slice() else { panic!("{what}: {plan:?}") };
        let mut want = json!({"metadata": {"uid": "uid-made", "resourceVersion": "100"}});
        merge_with_nulls(&mut want, &patch);
        assert_eq!(change.0, want, "{what}");
    }
    seen.nads = vec![nad];
    assert_eq!(steps(&rig(&seen).plan(&udn_key("blue", "net"))), ["blue: keep"]);
}

/// Lays one patch over another; what removes something stays.
fn merge_with_nulls(target: &mut Value, patch: &Value) {
    match (target.as_object_mut(), patch.as_object()) {
        (Some(target), Some(patch)) => {
            for (key, value) in patch {
                merge_with_nulls(target.entry(key).or_insert(json!({})), value);
            }
        }
        _ => *target = patch.clone(),
    }
}

#[tokio::test]
async fn a_definition_that_is_being_deleted_goes_once_no_pod_uses_it() {
    let mut seen = blue();
    seen.nads = vec![terminating(made(&seen, &udn_key("blue", "net"), "blue/net").await)];
    assert_eq!(steps(&rig(&seen).plan(&udn_key("blue", "net"))), ["blue: let go"]);
    for keys in [["blue/net"], ["blue/net/1"]] {
        seen.pods = vec![pod("blue", "p", &keys)];
        let plan = rig(&seen).plan(&udn_key("blue", "net"));
        assert_eq!(steps(&plan), ["blue: terminating"]);
        assert!(
            plan.causes.contains(&Cause::Nad("blue/net".parse().unwrap())),
            "the pod's end wakes the network"
        );
    }
    seen.pods = vec![with(pod("blue", "p", &["blue/net"]), "/status", json!({"phase": "Succeeded"}))];
    assert_eq!(steps(&rig(&seen).plan(&udn_key("blue", "net"))), ["blue: let go"], "ended pods use nothing");
}

#[tokio::test]
async fn a_namespace_that_cannot_be_read_keeps_what_stands_in_it() {
    let mut seen = two();
    seen.nads = vec![made(&seen, &cudn_key("net"), "b/net").await];
    seen.namespaces.remove(1);
    seen.unreadable_namespaces = vec!["b"];
    let plan = rig(&seen).plan(&cudn_key("net"));
    assert_eq!((steps(&plan), plan.removals), (vec!["a: create".to_owned()], Vec::new()));
}

#[tokio::test]
async fn a_namespace_that_is_no_longer_chosen_loses_its_definition_unless_pods_use_it() {
    let mut seen = two();
    seen.nads = vec![made(&seen, &cudn_key("net"), "b/net").await];
    seen.namespaces[1] = namespace("b", json!({"team": "other"}));
    let plan = rig(&seen).plan(&cudn_key("net"));
    assert_eq!(steps(&plan), ["a: create"]);
    let [(key, Removal::Delete { uid, strip: Some(strip), terminating: false })] = plan.removals.as_slice()
    else {
        panic!("{plan:?}")
    };
    assert_eq!((key.to_string(), uid.as_str()), ("b/net".into(), "uid-made"));
    assert_eq!(strip["metadata"], json!({"uid": "uid-made", "resourceVersion": "100", "finalizers": []}));

    seen.pods = vec![pod("b", "z", &["b/net"]), pod("b", "a", &["b/net"])];
    let plan = rig(&seen).plan(&cudn_key("net"));
    let used = Removal::Refuse("network in use by the following pods: [b/a b/z]".to_owned());
    assert_eq!(
        (plan.removals, steps(&rig(&seen).plan(&cudn_key("net")))),
        (vec![("b/net".parse().unwrap(), used)], vec!["a: create".to_owned()])
    );
    assert!(plan.causes.contains(&Cause::Nad("b/net".parse().unwrap())));

    let blind = with(pod("b", "p", &[]), "/metadata/annotations", json!({"k8s.ovn.org/pod-networks": "{"}));
    seen.pods = vec![blind];
    let plan = rig(&seen).plan(&cudn_key("net"));
    let why = "failed to verify NAD not in use [b/net]: failed to unmarshal pod annotation [b/p]";
    assert_eq!(plan.removals, [("b/net".parse().unwrap(), Removal::Refuse(why.to_owned()))]);
    assert!(plan.causes.contains(&Cause::Namespace("b".into())));
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_is_not_chosen() {
    let mut seen = two();
    seen.nads = vec![made(&seen, &cudn_key("net"), "b/net").await];
    seen.namespaces[1] = terminating(primary_namespace("b"));
    let plan = rig(&seen).plan(&cudn_key("net"));
    assert_eq!((steps(&plan), plan.removals.len()), (vec!["a: create".to_owned()], 1));
    let mut seen = blue();
    seen.namespaces = vec![terminating(primary_namespace("blue"))];
    assert_eq!(rig(&seen).plan(&udn_key("blue", "net")).sites, []);
}

#[tokio::test]
async fn an_object_that_is_being_deleted_is_released_and_nothing_is_made_for_it() {
    let seen = Seen { udns: vec![terminating(udn("blue", "net", layer3()))], ..blue() };
    let plan = rig(&seen).plan(&udn_key("blue", "net"));
    assert!(plan.release && !plan.protect && plan.sites.is_empty());
    let object = with(terminating(udn("blue", "net", layer3())), "/metadata/finalizers", json!(["theirs"]));
    let plan = rig(&Seen { udns: vec![object], ..blue() }).plan(&udn_key("blue", "net"));
    assert!(!plan.release, "our finalizer is off already");
}

#[tokio::test]
async fn what_cannot_be_rendered_is_refused_with_the_reason() {
    let overlapping =
        json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.128.0.0/16"}]}});
    let plan =
        rig(&Seen { udns: vec![udn("blue", "net", overlapping)], ..blue() }).plan(&udn_key("blue", "net"));
    let why = refusal(&plan);
    assert!(why.starts_with("failed to generate NetworkAttachmentDefinition: "), "{why}");
    assert!(
        why.contains("user defined subnet \"10.128.0.0/16\" overlaps cluster subnet \"10.128.0.0/14\""),
        "{why}"
    );
    let future = json!({"topology": "Layer9"});
    let plan = rig(&Seen { cudns: vec![cudn("net", future)], ..two() }).plan(&cudn_key("net"));
    assert!(steps(&plan).iter().all(|step| step.contains("failed to generate")), "{plan:?}");
}

#[tokio::test]
async fn a_spec_that_cannot_be_rendered_any_more_leaves_the_definition_as_it_is() {
    let mut seen = blue();
    seen.nads = vec![made(&seen, &udn_key("blue", "net"), "blue/net").await];
    seen.udns = vec![udn(
        "blue",
        "net",
        json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [
            {"cidr": "10.20.0.0/16", "hostSubnet": 24}, {"cidr": "100.65.0.0/16", "hostSubnet": 24}]}}),
    )];
    let plan = rig(&seen).plan(&udn_key("blue", "net"));
    assert!(refusal(&plan).contains("overlaps"), "{plan:?}");
    assert_eq!(plan.removals, []);
}

#[tokio::test]
async fn an_uplink_is_named_in_the_config_and_makes_the_object_ignored_where_uplinks_are_off() {
    let object = with(cudn("net", layer3()), "/spec/uplinks", json!(["br-test"]));
    let seen = Seen { cudns: vec![with(object, "/metadata/finalizers", json!([]))], ..two() };
    let plan = rig(&seen).plan(&cudn_key("net"));
    let [(_, SiteStep::Create(draft)), _] = plan.sites.as_slice() else { panic!("{plan:?}") };
    assert!(draft.object.spec.config.ends_with("\"type\":\"ovn-k8s-cni-overlay\",\"uplink\":\"br-test\"}"));

    // What was made while they were on stays, also where the network is for no more.
    let there = made(&seen, &cudn_key("net"), "a/net").await;
    let elsewhere = with(there.clone(), "/metadata/namespace", json!("c"));
    for nads in [Vec::new(), vec![there, elsewhere]] {
        let seen = Seen { nads, ..seen.clone() };
        let off = rig_with(&seen, Features { uplink: false, ..FEATURES }, []).plan(&cudn_key("net"));
        let why = "spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN";
        assert_eq!((off.halt, off.protect), (Some(Halt::Ignored(why.to_owned())), false));
        assert_eq!((off.sites.len(), off.removals), (0, Vec::new()));
    }
}

#[tokio::test]
async fn a_selector_that_cannot_be_used_takes_nothing_away() {
    let mut seen = two();
    seen.nads = vec![made(&seen, &cudn_key("net"), "a/net").await];
    let bad = json!({"matchExpressions": [{"key": "team", "operator": "Foo", "values": ["a"]}]});
    seen.cudns = vec![with(cudn("net", layer3()), "/spec/namespaceSelector", bad)];
    let plan = rig(&seen).plan(&cudn_key("net"));
    let why = "failed to get selected namespaces: failed to create label-selector: \"Foo\" is not a valid label selector \
               operator";
    assert_eq!(plan.halt, Some(Halt::Selector(why.to_owned())));
    assert_eq!((plan.sites.len(), plan.removals.len()), (0, 0));
}

#[tokio::test]
async fn evpn_is_refused_with_what_is_missing_and_nothing_is_made() {
    let network = json!({"topology": "Layer3", "transport": "EVPN",
        "layer3": {"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16"}]}});
    let seen = Seen { cudns: vec![cudn("net", network)], ..two() };
    let on = Features { evpn: true, route_advertisements: true, ..FEATURES };
    for (features, mode, why) in [
        (FEATURES, GatewayMode::Shared, EvpnProblem::FeatureDisabled),
        (Features { evpn: true, ..FEATURES }, GatewayMode::Local, EvpnProblem::FeatureDisabled),
        (on, GatewayMode::Shared, EvpnProblem::GatewayMode),
        (on, GatewayMode::Local, EvpnProblem::VtepNotFound(String::new())),
    ] {
        let mut rig = rig_with(&seen, features, []);
        rig.room.gateway_mode = mode;
        let plan = rig.plan(&cudn_key("net"));
        assert_eq!((plan.halt, plan.sites.len()), (Some(Halt::Evpn(why)), 0));
        assert!(!plan.protect, "it is protected already");
    }
}

#[tokio::test]
async fn a_definition_that_cannot_be_read_is_neither_overwritten_nor_removed() {
    let seen = Seen { unreadable_nads: vec!["blue/net".parse().unwrap()], ..blue() };
    let plan = rig(&seen).plan(&udn_key("blue", "net"));
    assert_eq!(refusal(&plan), format!("NetworkAttachmentDefinition [blue/net]: {BROKEN}"));
}

#[tokio::test]
async fn three_hundred_networks_in_one_namespace_are_one_primary_and_the_others() {
    let mut seen = blue();
    seen.udns = (0..300).map(|number| udn("blue", &format!("n{number}"), layer2_secondary())).collect();
    seen.udns.push(udn("blue", "net", layer3()));
    let rig = rig(&seen);
    for number in 0..300 {
        assert_eq!(steps(&rig.plan(&udn_key("blue", &format!("n{number}")))), ["blue: create"]);
    }
    assert_eq!(steps(&rig.plan(&udn_key("blue", "net"))), ["blue: create"]);
}
