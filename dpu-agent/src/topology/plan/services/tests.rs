use super::super::super::service::ServiceName;
use super::super::fixture::*;
use super::super::{Network, PlanError, Untold};
use super::*;

fn service(name: &str, addresses: &[&str]) -> DefaultService {
    DefaultService { name: ServiceName::new("default", name), addresses: nets(addresses) }
}

fn api() -> DefaultService {
    service("kubernetes", &["10.96.0.1"])
}

/// Routes with a Service's note, with that note.
fn to_services(plan: &Plan) -> Vec<String> {
    let rows = rows_of(plan);
    let noted = |routes: &Rows| Rows { routes: routes.routes.clone(), ..Rows::default() };
    let mut only = noted(&rows);
    only.routes.retain(|route| route.row.external_ids.contains_key(mark::DEFAULT_SERVICE));
    let names =
        only.routes.iter().map(|route| route.row.external_ids.get(mark::DEFAULT_SERVICE).unwrap().to_owned());
    let names: std::collections::BTreeSet<String> = names.collect();
    routes(&only).into_iter().chain(names).collect()
}

#[test]
fn a_layer3_network_reaches_a_service_by_its_own_port_on_the_node() {
    let plan = planned_with(&cluster(), &layer3(&cluster()), &node(1), &[api()], &[]);
    let want = "cluster_udn_blue_ovn_cluster_router: 10.96.0.1 dst-ip via 10.200.0.2";
    assert_eq!(to_services(&plan), [want, "default/kubernetes"]);
    let part = &plan.parts[&Part::Service(ServiceName::new("default", "kubernetes"))];
    assert_eq!(part.routes.len(), 1, "a part of its own");
    let notes = &part.routes[0].row.external_ids;
    assert_eq!(
        (notes.get(mark::NETWORK).unwrap(), notes.get(mark::TOPOLOGY).unwrap()),
        ("cluster_udn_blue", "layer3")
    );
}

#[test]
fn a_layer2_network_reaches_it_from_its_transit_router() {
    let plan = planned_with(&cluster(), &layer2(&cluster()), &node(1), &[api()], &[]);
    let want = "cluster_udn_blue_transit_router: 10.96.0.1 dst-ip via 10.200.0.2";
    assert_eq!(to_services(&plan), [want, "default/kubernetes"]);
}

#[test]
fn other_networks_have_no_such_routes() {
    let secondary = LAYER3.replace(r#""role":"primary","#, "").replace(",fd20::/48/64", "");
    let secondary = network(&cluster(), "ns_far", &secondary, 2, &[]).unwrap();
    for network in [Network::default_network(&cluster()), secondary] {
        let with = planned_with(&cluster(), &network, &node(1), &[api()], &[]);
        assert_eq!(with, planned(&cluster(), &network, &node(1), &[]), "{}", network.name);
    }
}

#[test]
fn the_first_address_of_a_family_that_the_network_has_is_the_one_that_is_led_to() {
    let router = "cluster_udn_blue_ovn_cluster_router";
    let through_four = format!("{router}: 10.96.0.9 dst-ip via 10.200.0.2");
    let through_six = format!("{router}: fd00:10:96::9 dst-ip via fd20:0:0:1::2");
    for (cluster, addresses, want) in [
        (dual(), &["10.96.0.9", "fd00:10:96::9"][..], Some(&through_four)),
        (dual(), &["fd00:10:96::9", "10.96.0.9"], Some(&through_six)),
        (six(), &["10.96.0.9", "fd00:10:96::9"], Some(&through_six)),
        (six(), &["10.96.0.9"], None),
        (dual(), &[], None),
    ] {
        let node = node_of(&cluster, 1, &[]);
        let services = [service("dns", addresses)];
        let plan = planned_with(&cluster, &layer3(&cluster), &node, &services, &[]);
        let found = to_services(&plan);
        assert_eq!(found.first(), want, "{addresses:?}");
        assert!(plan.parts.contains_key(&Part::Service(services[0].name.clone())), "what is there goes");
    }
}

#[test]
fn with_a_local_gateway_or_none_the_routes_go() {
    let of = |mode: &str| {
        let gateway = format!(
            r#"{{"default":{{"mode":"{mode}","bridge-id":"breth0","interface-id":"breth0_node1",
            "mac-address":"02:42:ac:12:00:02","ip-addresses":["172.18.0.2/16"],"next-hops":["172.18.0.1"]}}}}"#
        );
        let node = node_of(&cluster(), 1, &[("l3-gateway-config", &gateway)]);
        to_services(&planned_with(&cluster(), &layer3(&cluster()), &node, &[api()], &[])).len()
    };
    assert_eq!((of("shared"), of("local")), (2, 0));
    let disabled = node_of(&cluster(), 1, &[("l3-gateway-config", r#"{"default":{"mode":""}}"#)]);
    let plan = planned_with(&cluster(), &layer3(&cluster()), &disabled, &[api()], &[]);
    assert_eq!(to_services(&plan), [""; 0]);
}

#[test]
fn without_a_word_about_the_gateway_or_the_subnet_the_routes_stay_as_they_are_and_nobody_is_told() {
    for missing in ["l3-gateway-config", "node-subnets"] {
        let node = node_of(&cluster(), 1, &[(missing, "")]);
        let plan = planned_with(&cluster(), &layer3(&cluster()), &node, &[api()], &[]);
        let part = Part::Service(ServiceName::new("default", "kubernetes"));
        assert!(!plan.parts.contains_key(&part));
        assert!(plan.problems[&part].is_quiet(), "{missing}: {}", plan.problems[&part]);
    }
    let cause = Untold::Missing("k8s.ovn.org/l3-gateway-config");
    let node = node_of(&cluster(), 1, &[("l3-gateway-config", "")]);
    let plan = planned_with(&cluster(), &layer3(&cluster()), &node, &[api()], &[]);
    let part = Part::Service(ServiceName::new("default", "kubernetes"));
    assert_eq!(plan.problems[&part], PlanError::Node { node: "node1".into(), cause });
}

/// The sets as `name: addresses`.
fn sets(cluster: &Cluster, services: &[DefaultService]) -> Vec<String> {
    let rows = service_addresses(cluster, services);
    let text = |set: &AddressSet| {
        let addresses: Vec<&str> = set.addresses.iter().map(String::as_str).collect();
        format!("{}: {}", set.name, addresses.join(" "))
    };
    rows.address_sets.values().map(text).collect()
}

#[test]
fn sets_have_all_addresses_of_all_services_each_family_for_itself() {
    let services = [service("dns", &["fd00:10:96::9", "10.96.0.9"]), api(), service("headless", &[])];
    let (four, six_set) = ("a3613486944346402462", "a3613484745323146040");
    let both = [format!("{six_set}: fd00:10:96::9"), format!("{four}: 10.96.0.1 10.96.0.9")];
    assert_eq!(sets(&dual(), &services), both);
    assert_eq!(sets(&cluster(), &services), both[1..]);
    assert_eq!(sets(&six(), &services), both[..1]);
    assert_eq!(sets(&cluster(), &[]), [format!("{four}: ")], "the set is there without any Service");
}
