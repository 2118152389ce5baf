//! Laws of the planner, over any world: what is planned settles, leaves one mirror at most, and invents nothing.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::endpointslice::fixtures::{
    content, endpoint, host_pod, machine_pod, mirror, network, pod, source, world,
};
use crate::observed::pod::Pod;

/// Names of pods, some of which exist.
const PODS: [&str; 4] = ["p0", "p1", "p2", "p3"];

fn any_pod() -> impl Strategy<Value = Pod> {
    prop_oneof![
        Just(pod(&["10.20.0.5", "fd00:20::5"])),
        Just(pod(&["10.20.0.6"])),
        Just(pod(&["fd00:20::7"])),
        Just(host_pod(&["192.0.2.1"])),
        (0_i64..3, any::<bool>(), any::<bool>()).prop_map(|(created, is_completed, is_ready)| machine_pod(
            "10.20.0.8",
            created,
            is_completed,
            is_ready
        )),
    ]
}

fn any_content() -> impl Strategy<Value = Content> {
    let endpoints = vec((0_usize..5, option::of(any::<bool>())), 0..5).prop_map(|chosen| {
        let of = |(index, ready): (usize, Option<bool>)| {
            // The last one is no pod.
            let mut endpoint = endpoint(PODS.get(index).copied().unwrap_or("p0"));
            if index == PODS.len() {
                endpoint.target_ref = None;
            }
            if let Some(conditions) = &mut endpoint.conditions {
                conditions.ready = ready;
            }
            endpoint
        };
        chosen.into_iter().map(of).collect::<Vec<_>>()
    });
    (prop_oneof![Just("IPv4"), Just("IPv6"), Just("FQDN")], endpoints)
        .prop_map(|(address_type, endpoints)| content(address_type, endpoints))
}

fn any_mirror(number: usize) -> impl Strategy<Value = Mirror> {
    (any_content(), 0_i64..3, any::<bool>(), any::<bool>()).prop_map(
        move |(content, created, other, unversioned)| {
            let mut mirror = mirror(&[]);
            mirror.key = SliceKey::new("blue", &format!("mirror-{number}"));
            mirror.uid = format!("uid-{number}");
            (mirror.content, mirror.created) = (content, created);
            if other {
                mirror.network = Some("other".to_owned());
            }
            if unversioned {
                mirror.source_version = None;
            }
            mirror
        },
    )
}

fn any_world() -> impl Strategy<Value = World> {
    let mirrors = (any_mirror(0), any_mirror(1), any_mirror(2), 0_usize..4)
        .prop_map(|(one, two, three, number)| [one, two, three].into_iter().take(number).collect::<Vec<_>>());
    (option::of(any_content()), mirrors, vec(option::of(any_pod()), PODS.len()), any::<bool>()).prop_map(
        |(content, mirrors, pods, has_network)| {
            let source = content.map(|content| Source { content, ..source(Vec::new()) });
            let pods: Vec<(&str, Pod)> =
                PODS.into_iter().zip(pods).filter_map(|(name, pod)| Some((name, pod?))).collect();
            let network = has_network.then(|| network("blue_net"));
            World { network, ..world(source, mirrors, &pods) }
        },
    )
}

proptest! {
    #[test]
    fn what_is_planned_settles_with_one_mirror_of_the_source_at_most(world in any_world()) {
        let key = crate::endpointslice::fixtures::web();
        let plan = mirrors(&key, &world);
        let after = super::tests::carried_out(&world, &plan);
        prop_assert_eq!(mirrors(&key, &after).steps, Vec::new());
        prop_assert!(after.mirrors.len() <= 1);
        if world.network.is_none() || world.source.is_none() {
            prop_assert!(after.mirrors.is_empty());
        }
    }

    #[test]
    fn each_endpoint_is_mirrored_in_its_place_with_one_address_or_named_as_left_out(world in any_world()) {
        let key = crate::endpointslice::fixtures::web();
        let plan = mirrors(&key, &world);
        let wanted = plan.steps.iter().find_map(|step| match step {
            Step::Create { wanted, .. } | Step::Update { wanted, .. } => Some(wanted),
            Step::Delete { .. } => None,
        });
        if let (Some(wanted), Some(source)) = (wanted, &world.source) {
            let omitted: Vec<usize> = plan.omitted.iter().map(|one| one.index).collect();
            let kept = source.content.endpoints.iter().enumerate().filter(|(index, _)| !omitted.contains(index));
            let kept: Vec<_> = kept.map(|(_, endpoint)| &endpoint.target_ref).collect();
            let mirrored: Vec<_> = wanted.content.endpoints.iter().map(|endpoint| &endpoint.target_ref).collect();
            prop_assert_eq!(kept, mirrored);
            prop_assert!(wanted.content.endpoints.iter().all(|endpoint| endpoint.addresses.len() == 1));
            let family = if source.content.address_type == "IPv6" { ':' } else { '.' };
            prop_assert!(wanted.content.endpoints.iter().all(|endpoint| endpoint.addresses[0].contains(family)));
        }
    }

    #[test]
    fn only_mirrors_that_were_seen_are_deleted_or_changed_and_none_twice(world in any_world()) {
        let plan = mirrors(&crate::endpointslice::fixtures::web(), &world);
        let mut touched: Vec<&str> = plan
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Delete { uid, .. } | Step::Update { uid, .. } => Some(uid.as_str()),
                Step::Create { .. } => None,
            })
            .collect();
        let number = touched.len();
        touched.sort_unstable();
        touched.dedup();
        prop_assert_eq!(touched.len(), number);
        prop_assert!(touched.iter().all(|uid| world.mirrors.iter().any(|mirror| mirror.uid == **uid)));
    }
}
