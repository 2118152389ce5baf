//! Ways to Services, and the sets of their addresses.

use super::super::super::mark;
use super::super::super::service::{self, DefaultService, ServiceName};
use super::*;

fn api(addresses: &[&str]) -> DefaultService {
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    DefaultService { name: ServiceName::new("default", "kubernetes"), addresses }
}

fn part() -> Part {
    Part::Service(api(&[]).name)
}

/// What is written of each network where these Services are there.
#[track_caller]
fn check(services: &[DefaultService], parts: &Parts, want: &[&str]) {
    let mut run = Run::load("14-before");
    let have = altered(&run, &Changes::default());
    run.services = Some(services.to_vec());
    for network in &run.networks {
        let plan = run.plan(network);
        let change = zone_of(&run).network_change(&network.name, &plan, parts, &have).unwrap();
        let want = if network.is_default() { &[] } else { want };
        assert_eq!(words(&change), want, "{}", network.name);
    }
}

#[test]
fn a_service_that_changes_or_goes_changes_its_own_route_alone() {
    let (only, all) = (Parts::Only([part()].into()), Parts::all());
    for parts in [&only, &all] {
        check(&[api(&["10.96.0.1"])], parts, &[]);
        let replaced = ["insert Logical_Router_Static_Route", "mutate Logical_Router static_routes"];
        check(&[api(&["10.96.0.7"])], parts, &replaced);
        check(&[api(&[])], parts, &["mutate Logical_Router static_routes"]);
        // Gone, or not allowed any more.
        check(&[], parts, &["mutate Logical_Router static_routes"]);
    }
}

#[test]
fn the_route_to_a_service_of_which_nothing_is_known_stays() {
    check(&[], &Parts::AllBut([part()].into()), &[]);
    let other = DefaultService { name: ServiceName::new("kube-system", "kube-dns"), ..api(&["10.96.0.10"]) };
    let added = ["insert Logical_Router_Static_Route", "mutate Logical_Router static_routes"];
    check(&[other], &Parts::AllBut([part()].into()), &added);
}

#[test]
fn an_altered_route_to_a_service_comes_back() {
    let changes = Changes {
        route: Some(|route| {
            if route.external_ids.contains_key(super::super::super::mark::DEFAULT_SERVICE) {
                route.nexthop = "192.0.2.1".to_owned();
            }
        }),
        ..Changes::default()
    };
    for network in ["cluster_udn_blue", "cluster_udn_green"] {
        let want = ["update Logical_Router_Static_Route nexthop"];
        super::check(network, &changes, &Parts::Only([part()].into()), &want);
        super::check(network, &changes, &Parts::Only([Part::Gateway, Part::Network].into()), &[]);
    }
}

/// What is written of the sets of a captured database.
fn sets(changes: &Changes, services: &[DefaultService], all: bool) -> Vec<String> {
    let mut run = Run::load("14-before");
    let have = altered(&run, changes);
    run.services = Some(services.to_vec());
    words(&Zone::services_change(&run.service_addresses(), all, &have).unwrap())
}

#[test]
fn sets_follow_services_and_lose_nothing_while_one_of_them_is_unknown() {
    let none = Changes::default();
    assert_eq!(sets(&none, &[api(&["10.96.0.7"])], true), ["update Address_Set addresses"]);
    assert_eq!(sets(&none, &[], true), ["update Address_Set addresses"]);
    assert_eq!(sets(&none, &[], false), [""; 0]);
    assert_eq!(sets(&none, &[api(&["10.96.0.7"])], false), ["mutate Address_Set addresses"]);
}

#[test]
fn a_set_of_a_family_that_the_cluster_has_not_goes_and_sets_of_others_stay() {
    let run = Run::load("14-before");
    let database = raw(run.name);
    let six = AddressSet {
        name: "old".to_owned(),
        external_ids: mark::pairs(service::set_id(false).external_ids()),
        ..AddressSet::default()
    };
    let foreign = AddressSet { name: "theirs".to_owned(), ..AddressSet::default() };
    let builder = table::<AddressSet>(Snapshot::builder(), &database, |_| {});
    let have = builder.row(Uuid::from_u128(6), six).row(Uuid::from_u128(7), foreign).build();
    let change = Zone::services_change(&run.service_addresses(), true, &have).unwrap();
    assert_eq!(words(&change), ["delete Address_Set"]);
}

#[test]
fn a_set_that_lost_its_notes_gets_them_back() {
    let changes = Changes { set: Some(|set| set.external_ids.clear()), ..Changes::default() };
    assert_eq!(sets(&changes, &[api(&["10.96.0.1"])], true), ["mutate Address_Set external_ids"]);
}
