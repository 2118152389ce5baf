//! The laws of the planner, on made-up worlds: what is carried out needs no second time, and what belongs to others
//! stays.

use causeway_api::uplink::UplinkType;
use jiff::Timestamp;
use proptest::prelude::*;

use super::{Plan, Step};
use crate::uplink::fixtures::{held_by_others, state, uplink, world};
use crate::uplink::observe::World;
use crate::uplink::ownership::FinalizerOwner;
use crate::uplink::plan;
use crate::uplink::watched::{Resolved, State, Uplink, UplinkName};

prop_compose! {
    fn any_state()(
        node in 0..6_usize,
        resolved in prop_oneof![
            Just(Resolved::Missing),
            Just(Resolved::Yes),
            prop_oneof!["", "WaitingForDPUHost", "BridgeNotFound"].prop_map(Resolved::No),
        ],
        interface in prop_oneof![Just(None), Just(Some("breth0".to_owned())), Just(Some("breth1".to_owned()))],
        owner in prop_oneof![Just(None), Just(Some("uid-br-blue")), Just(Some("uid-earlier"))],
        uplink in prop_oneof![Just("br-blue"), Just("br-red")],
        lies in prop::bool::weighted(0.2),
    ) -> (String, State) {
        let node = format!("node-{node}");
        let key = format!("br-blue.{}", if lies { "node-0" } else { &node });
        let mut made = state(uplink, &node);
        made.resolved = resolved;
        made.interface = interface;
        made.type_ = Some(UplinkType::OvsBridge);
        made.owner_uids.extend(owner.map(str::to_owned));
        (key, made)
    }
}

fn any_uplink() -> impl Strategy<Value = Option<Uplink>> {
    let selector = prop_oneof!["", "role=blue", "role=red", "zone=east", "role Exists x"];
    let configs = prop::collection::vec((prop_oneof!["breth0", "breth1"], selector), 1..4);
    let owner = prop_oneof![
        3 => Just(None),
        1 => Just(Some(FinalizerOwner::Us)),
        1 => Just(Some(held_by_others())),
    ];
    let some = (configs, owner, prop::bool::weighted(0.2), any::<bool>()).prop_map(
        |(configs, finalizer, terminating, owns_obsolete)| {
            let configs: Vec<(&str, &str)> = configs.iter().map(|(i, s)| (i.as_str(), s.as_str())).collect();
            let mut made = uplink("br-blue", &configs);
            made.facts.terminating = terminating;
            Uplink { owns_obsolete, finalizer, ..made }
        },
    );
    prop_oneof![1 => Just(None), 9 => some.prop_map(Some)]
}

fn any_labels() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let role = prop_oneof![Just(None), Just(Some(("role", "blue"))), Just(Some(("role", "red")))];
    let zone = prop_oneof![Just(None), Just(Some(("zone", "east")))];
    (role, zone).prop_map(|(role, zone)| role.into_iter().chain(zone).collect())
}

/// What the world looks like when every step of a plan was carried out.
fn applied(plan: &Plan, mut uplink: Option<Uplink>, states: &mut Vec<(String, State)>) -> Option<Uplink> {
    for step in &plan.steps {
        match step {
            Step::WriteReady { condition, .. } => {
                let uplink = uplink.as_mut().unwrap();
                uplink.conditions = vec![condition.clone()];
                uplink.owns_obsolete = false;
            }
            Step::Protect { .. } => {
                let uplink = uplink.as_mut().unwrap();
                assert!(uplink.finalizer.replace(FinalizerOwner::Us).is_none() && !uplink.facts.terminating);
            }
            Step::DeleteState(deletion) => {
                let before = states.len();
                states.retain(|(key, state)| *key != deletion.state.as_str() || state.uid != deletion.uid);
                assert!(states.len() < before, "{} was there to delete", deletion.state);
            }
            Step::ReleaseFinalizer { .. } => {
                let uplink = uplink.as_mut().unwrap();
                assert!(uplink.finalizer.take().is_some());
            }
        }
    }
    uplink.filter(|uplink| !uplink.facts.terminating || uplink.finalizer.is_some())
}

proptest! {
    /// A pass over what passes have left writes nothing, and what belongs to others stays.
    #[test]
    fn applying_a_plan_leaves_nothing_to_plan(
        uplink in any_uplink(),
        nodes in prop::collection::vec(any_labels(), 0..6),
        states in prop::collection::btree_map(0..8_usize, any_state(), 0..8),
        used in any::<bool>(),
    ) {
        // One without a finalizer goes at once when it is deleted, whoever uses it.
        prop_assume!(!uplink.as_ref().is_some_and(|uplink| uplink.facts.terminating && uplink.finalizer.is_none()));
        let name = UplinkName::from("br-blue");
        let names: Vec<String> = (0..nodes.len()).map(|i| format!("node-{i}")).collect();
        let nodes: Vec<(&str, &[(&str, &str)])> =
            names.iter().zip(&nodes).map(|(name, labels)| (name.as_str(), labels.as_slice())).collect();
        let mut states: Vec<(String, State)> = states.into_values().collect();
        states.sort_by(|a, b| a.0.cmp(&b.0));
        states.dedup_by(|a, b| a.0 == b.0);
        let foreign = |states: &[(String, State)]| -> Vec<(String, State)> {
            states.iter().filter(|(_, state)| state.uplink != name).cloned().collect()
        };
        let foreign_before = foreign(&states);

        let mut uplink = uplink;
        let mut plans = Vec::new();
        for pass in 0..4 {
            let borrowed: Vec<(&str, State)> = states.iter().map(|(k, s)| (k.as_str(), s.clone())).collect();
            let world = World { used, ..world(uplink.clone(), &nodes, &borrowed)(&name) };
            let plan = plan::uplink(&name, &world, Timestamp::from_second(pass).unwrap());
            uplink = applied(&plan, uplink, &mut states);
            plans.push(plan);
        }
        // The second pass may answer what the first one deleted, and take off a finalizer that others hold.
        for plan in &plans[1..] {
            prop_assert_eq!(plan.deletions().count(), 0, "one pass finds every stale state: {}", plan);
        }
        if plans[0].deletions().count() == 0 {
            let writes = |plan: &Plan| plan.steps.iter().any(|step| matches!(step, Step::WriteReady { .. }));
            prop_assert!(!writes(&plans[1]), "nothing changed, yet it writes: {}", plans[1]);
        }
        prop_assert_eq!(&plans[3].steps, &vec![], "the last of {:?}", plans);
        prop_assert_eq!(foreign(&states), foreign_before);
    }
}
