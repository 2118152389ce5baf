use causeway_api::network::Role;
use proptest::prelude::*;

use super::*;

fn key(text: &str) -> NadKey {
    text.parse().unwrap()
}

fn config(name: &str, role: Role, subnets: &str) -> Config {
    Config {
        name: name.into(),
        topology: Some(Topology::Layer3),
        role: Some(role),
        subnets: subnets.split(',').map(str::to_owned).collect(),
        ..Config::default()
    }
}

fn primary(name: &str, subnets: &str) -> Config {
    config(name, Role::Primary, subnets)
}

struct Check(Registry);

impl Check {
    fn new() -> Self {
        Self(Registry::new(Defaults::default()))
    }

    /// What a change made of networks, and who is refused for what.
    fn set(&mut self, nad: &str, config: &Config) -> String {
        text(&self.0.set(&key(nad), config))
    }

    fn remove(&mut self, nad: &str) -> String {
        text(&self.0.remove(&key(nad)))
    }
}

fn text(update: &Update) -> String {
    let networks = update.networks.iter().map(|(network, change)| format!("{change:?} {network}"));
    let refused = update.nads.values().flatten().map(ToString::to_string);
    networks.chain(refused).collect::<Vec<_>>().join("; ")
}

#[test]
fn nads_of_one_name_and_config_are_one_network() {
    let mut check = Check::new();
    let net = primary("cluster_udn_c", "10.20.0.0/16");
    assert_eq!(check.set("a/c", &net), "Created cluster_udn_c");
    assert_eq!(check.set("b/c", &net), "");
    assert_eq!(check.0.network(&"cluster_udn_c".into()).unwrap().nads, [key("a/c"), key("b/c")].into());
    assert_eq!(check.0.primary_of(&"b".into()), Some(&key("b/c")));
    assert_eq!(check.remove("a/c"), "");
    assert_eq!(check.remove("b/c"), "Ended cluster_udn_c");
    assert_eq!(check.remove("b/c"), "");
}

#[test]
fn a_second_primary_in_a_namespace_is_refused_and_served_when_the_first_is_gone() {
    let mut check = Check::new();
    check.set("a/x", &primary("a_x", "10.20.0.0/16"));
    let second = check.set("a/y", &primary("a_y", "10.21.0.0/16"));
    assert_eq!(second, "NAD a/x is primary for the namespace, NAD a/y can't be primary");
    assert_eq!(check.0.network_of(&key("a/y")), None);
    assert_eq!(check.set("a/s", &config("a_s", Role::Secondary, "10.22.0.0/16")), "Created a_s");
    assert_eq!(check.remove("a/x"), "Ended a_x; Created a_y");
    assert_eq!(check.0.refusal(&key("a/y")), None);
}

#[test]
fn a_config_that_does_not_match_its_network_is_refused_until_the_network_is_gone() {
    let mut check = Check::new();
    let net = config("tenant", Role::Secondary, "10.20.0.0/16");
    let other = Config { mtu: Some(1300), ..net.clone() };
    check.set("a/x", &net);
    let refused = check.set("b/x", &other);
    assert_eq!(refused, "NAD b/x CNI config does not match that of network tenant");
    let Some(Refused::Mismatch { differing, .. }) = check.0.refusal(&key("b/x")) else { panic!("refused") };
    assert_eq!(differing, &["mtu"]);
    assert_eq!(check.remove("a/x"), "Replaced tenant");
    assert_eq!(check.0.network(&"tenant".into()).unwrap().config.mtu, Some(1300));
}

#[test]
fn the_only_nad_of_a_network_replaces_it() {
    let mut check = Check::new();
    let net = primary("a_x", "10.20.0.0/16");
    check.set("a/x", &net);
    assert_eq!(check.set("a/x", &Config { mtu: Some(1300), ..net }), "Replaced a_x");
}

#[test]
fn a_network_whose_nads_change_one_by_one_is_replaced_with_the_last_of_them() {
    let mut check = Check::new();
    let old = primary("cluster_udn_c", "10.20.0.0/16");
    let new = Config { mtu: Some(1300), ..old.clone() };
    for nad in ["a/c", "b/c", "c/c"] {
        check.set(nad, &old);
    }
    let mismatch = |nad| format!("NAD {nad} CNI config does not match that of network cluster_udn_c");
    assert_eq!(check.set("a/c", &new), mismatch("a/c"));
    assert_eq!(check.set("b/c", &new), mismatch("b/c"));
    assert_eq!(check.set("c/c", &new), "Replaced cluster_udn_c");
    let network = check.0.network(&"cluster_udn_c".into()).unwrap();
    assert_eq!((network.nads.len(), network.config.mtu), (3, Some(1300)));
    assert_eq!(check.0.primary_of(&"a".into()), Some(&key("a/c")));
}

#[test]
fn a_namespace_stays_with_its_network_while_the_networks_nads_change_one_by_one() {
    let mut check = Check::new();
    let old = primary("cluster_udn_c", "10.20.0.0/16");
    let new = Config { mtu: Some(1300), ..old.clone() };
    check.set("a/c", &old);
    check.set("b/c", &old);
    check.set("a/waits", &primary("a_waits", "10.30.0.0/16"));
    check.set("a/c", &new);
    assert_eq!(check.0.network_of(&key("a/waits")), None);
    assert_eq!(check.set("b/c", &new), "Replaced cluster_udn_c");
    assert_eq!(check.0.network_of(&key("a/c")), Some("cluster_udn_c".into()));
    assert_eq!(check.remove("a/c"), "Created a_waits");
}

#[test]
fn a_network_that_grows_takes_nothing_back_while_its_nads_follow() {
    let mut check = Check::new();
    let (old, new) =
        (primary("cluster_udn_c", "10.20.0.0/16"), primary("cluster_udn_c", "10.20.0.0/16,10.21.0.0/16"));
    check.set("a/c", &old);
    check.set("b/c", &old);
    assert_eq!(check.set("a/c", &new), "Updated cluster_udn_c");
    // One that is made late from what was read before.
    assert_eq!(check.set("d/c", &old), "");
    assert_eq!(check.set("b/c", &new), "");
    assert_eq!(check.0.network(&"cluster_udn_c".into()).unwrap().config.subnets, new.subnets);
}

#[test]
fn a_nad_that_names_another_network_leaves_its_own() {
    let mut check = Check::new();
    check.set("a/x", &primary("one", "10.20.0.0/16"));
    check.set("b/x", &primary("one", "10.20.0.0/16"));
    assert_eq!(check.set("a/x", &primary("two", "10.20.0.0/16")), "Created two");
    assert_eq!(check.set("b/x", &primary("two", "10.20.0.0/16")), "Ended one");
}

#[test]
fn the_same_again_is_no_change_and_the_key_of_a_nad_is_none() {
    let mut check = Check::new();
    let net = primary("one", "10.20.0.0/16");
    check.set("a/x", &net);
    assert_eq!(check.0.set(&key("a/x"), &net), Update::default());
    let keyed = Config { nad_name: "a/x".into(), ..net };
    assert_eq!(check.0.set(&key("a/x"), &keyed), Update::default());
}

proptest! {
    #[test]
    fn every_nad_that_fits_is_in_its_network_and_every_change_is_told(
        steps in prop::collection::vec((0_usize..6, 0_usize..3, any::<bool>(), 0_u8..3, any::<bool>()), 1..80),
    ) {
        let keys = ["a/x", "a/y", "b/x", "b/y", "c/x", "c/y"].map(key);
        let mut registry = Registry::new(Defaults::default());
        let mut present: BTreeMap<NadKey, Config> = BTreeMap::new();
        for (at, network, is_primary, mtu, there) in steps {
            let key = &keys[at];
            let before: BTreeMap<NetworkName, Network> =
                registry.networks().map(|(name, network)| (name.clone(), network.clone())).collect();
            let role = if is_primary { Role::Primary } else { Role::Secondary };
            let config = Config {
                mtu: (mtu > 0).then(|| 1300 + u32::from(mtu)),
                ..config(["one", "two", "three"][network], role, "10.20.0.0/16")
            };
            let update = if there {
                present.insert(key.clone(), config.clone());
                registry.set(key, &config)
            } else {
                present.remove(key);
                registry.remove(key)
            };
            let after: BTreeMap<NetworkName, Network> =
                registry.networks().map(|(name, network)| (name.clone(), network.clone())).collect();
            for name in before.keys().chain(after.keys()) {
                let (was, is) = (before.get(name).map(|n| &n.config), after.get(name).map(|n| &n.config));
                let want = match (was, is) {
                    (None, Some(_)) => Some(Change::Created),
                    (Some(_), None) => Some(Change::Ended),
                    (Some(was), Some(is)) if was != is => Some(Change::Replaced),
                    _ => None,
                };
                prop_assert_eq!(update.networks.get(name).copied(), want);
            }
            for (key, config) in &present {
                let same = |other: &NadKey| present[other].mtu == config.mtu && present[other].role == config.role;
                match registry.network_of(key) {
                    Some(name) => {
                        prop_assert_eq!(name.as_str(), config.name.as_str());
                        prop_assert!(after[&name].nads.contains(key));
                        prop_assert!(after[&name].nads.iter().all(same), "one network, one config");
                    }
                    // Whoever is out is out for a reason that holds now.
                    None => match registry.refusal(key) {
                        Some(Refused::NotPrimary { holder, .. }) => {
                            prop_assert!(config.is_primary() && holder != key);
                            prop_assert_eq!(registry.primary_of(key.namespace()), Some(holder));
                        }
                        Some(Refused::Mismatch { network, .. }) => {
                            prop_assert!(!after[network].nads.iter().all(same));
                        }
                        None => prop_assert!(false, "{} is nowhere", key),
                    },
                }
            }
            for network in after.values() {
                prop_assert!(!network.nads.is_empty() && network.nads.iter().all(|key| present.contains_key(key)));
            }
        }
    }
}
