//! Two primary networks that both have a NetworkAttachmentDefinition in one namespace: a leader that died had sent the
//! second one on its way before the next leader took stock and made the first.

use super::*;

const SECOND: &str = "/apis/k8s.ovn.org/v1/namespaces/blue/userdefinednetworks/second";

fn second() -> CrKey {
    udn_key("blue", "second")
}

/// Both networks with what is theirs.
async fn both() -> Seen {
    let mut seen = Seen {
        udns: vec![udn("blue", "net", layer3()), udn("blue", "second", layer3())],
        namespaces: vec![primary_namespace("blue")],
        ..Seen::default()
    };
    let nads =
        [made(&seen, &udn_key("blue", "net"), "blue/net").await, made(&seen, &second(), "blue/second").await];
    seen.nads = nads.into();
    seen
}

/// A room whose book was made from what is annotated, as at the beginning of a term.
fn leading(seen: &Seen) -> Rig {
    let rig = rig(seen);
    rig.room.book.rebuild(&rig.room.stores);
    rig
}

#[tokio::test]
async fn the_second_one_goes_and_its_network_waits_for_the_first() {
    let seen = both().await;
    let rig = leading(&seen);
    let pass = rig.pass(&udn_key("blue", "net")).await;
    pass.result.unwrap();
    assert!(!pass.asked.contains("network-attachment-definitions"), "the first one stays: {}", pass.asked);
    rig.pass(&second()).await.result.unwrap();
    assert!(rig.object(&nad_path("blue/second")).is_none());
    assert!(rig.object(&nad_path("blue/net")).is_some());

    let rig = rig.restarted(&seen);
    rig.room.book.rebuild(&rig.room.stores);
    rig.pass(&second()).await.result.unwrap();
    assert!(rig.object(&nad_path("blue/second")).is_none(), "it is not made again");
    let (status, _, message) = rig.condition(SECOND, "NetworkCreated").unwrap();
    assert_eq!(
        (status.as_str(), message.as_str()),
        ("False", "primary network already exist in namespace \"blue\": \"net\"")
    );
    assert_eq!(rig.room.waiting.for_cause(&Cause::Namespace("blue".into())), [second()]);
}

#[tokio::test]
async fn the_second_one_stays_while_pods_use_it_and_its_network_says_that_it_is_not_the_primary_one() {
    let seen = Seen { pods: vec![pod("blue", "p", &["blue/second"])], ..both().await };
    let rig = leading(&seen);
    rig.pass(&second()).await.result.unwrap();
    assert!(rig.object(&nad_path("blue/second")).is_some());
    assert_eq!(rig.condition(SECOND, "NetworkCreated").unwrap().0, "False");
    let waiting = rig.room.waiting.for_cause(&Cause::Nad("blue/second".parse().unwrap()));
    assert_eq!(waiting, [second()], "the pod that goes wakes it");
}

#[tokio::test]
async fn a_first_one_that_is_gone_already_takes_nothing_away() {
    let seen = both().await;
    let mut rig = leading(&seen);
    let left = Seen { nads: vec![seen.nads[1].clone()], ..seen };
    rig.room.stores = left.stores(rig.room.stores.mode());
    let pass = rig.pass(&second()).await;
    pass.result.unwrap();
    assert!(!pass.asked.contains("network-attachment-definitions"), "{}", pass.asked);
}
