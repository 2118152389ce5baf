//! What the conditions say.

use causeway_api::condition::{ConditionStatus, Wanted};

use super::*;
use crate::network::verdict::{Outcome, created};

fn cr(object: Value) -> Cr {
    Cr::of_cudn(serde_json::from_value(object).unwrap()).unwrap()
}

fn says(wanted: &Wanted) -> (ConditionStatus, &str, &str) {
    (wanted.status, wanted.reason, &wanted.message)
}

#[test]
fn created_says_where_the_network_is_what_goes_and_what_is_wrong() {
    let (udn, cudn_key, object) = (udn_key("blue", "net"), cudn_key("net"), cr(cudn("net", layer3())));
    let nads = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<NadKey>>();
    let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
    let there = || Outcome { there: vec!["b".into(), "a".into()], ..Outcome::default() };
    let going = || Outcome { terminating: nads(&["b/net", "a/net"]), ..there() };
    let wrong = || Outcome { problems: vec!["z".into(), "a".into(), "z".into()], ..going() };
    let halted = |halt| Outcome { halt: Some(halt), ..wrong() };
    for (key, outcome, want) in [
        (
            &udn,
            there(),
            (yes, "NetworkAttachmentDefinitionCreated", "NetworkAttachmentDefinition has been created"),
        ),
        (
            &cudn_key,
            there(),
            (
                yes,
                "NetworkAttachmentDefinitionCreated",
                "NetworkAttachmentDefinition has been created in following namespaces: [a, b]",
            ),
        ),
        (
            &cudn_key,
            Outcome::default(),
            (
                yes,
                "NetworkAttachmentDefinitionCreated",
                "NetworkAttachmentDefinition has been created in following namespaces: []",
            ),
        ),
        (
            &udn,
            going(),
            (no, "NetworkAttachmentDefinitionDeleted", "NetworkAttachmentDefinition is being deleted"),
        ),
        (
            &cudn_key,
            going(),
            (
                no,
                "NetworkAttachmentDefinitionDeleted",
                "NetworkAttachmentDefinition are being deleted: [a/net b/net]",
            ),
        ),
        (
            &udn,
            Outcome { ignored: vec!["reservedSubnets", "defaultGatewayIPs"], ..there() },
            (
                yes,
                "NetworkAttachmentDefinitionCreated",
                "NetworkAttachmentDefinition has been created; without effect, as preconfigured addresses are off: \
                 reservedSubnets, defaultGatewayIPs",
            ),
        ),
        (&udn, Outcome { ignored: vec!["reservedSubnets"], ..wrong() }, (no, "SyncError", "a\nz")),
        (&udn, wrong(), (no, "SyncError", "a\nz")),
        (&cudn_key, wrong(), (no, "NetworkAttachmentDefinitionSyncError", "a\nz")),
        (&cudn_key, halted(Halt::Ignored("off".into())), (no, "NetworkAttachmentDefinitionSyncError", "off")),
        (
            &cudn_key,
            halted(Halt::Selector("bad".into())),
            (no, "NetworkAttachmentDefinitionSyncError", "bad"),
        ),
        (
            &cudn_key,
            halted(Halt::Evpn(EvpnProblem::FeatureDisabled)),
            (no, "EVPNConfigError", "EVPN transport requested but EVPN feature is not enabled"),
        ),
        (
            &cudn_key,
            Outcome { halt: Some(Halt::Frozen(Vec::new())), ..there() },
            (
                yes,
                "NetworkAttachmentDefinitionCreated",
                "NetworkAttachmentDefinition has been created in following namespaces: [a, b]",
            ),
        ),
    ] {
        let wanted = created(key, &object, &outcome);
        assert_eq!(says(&wanted), want);
        assert_eq!((wanted.type_, wanted.observed_generation), ("NetworkCreated", Some(1)));
    }
}
