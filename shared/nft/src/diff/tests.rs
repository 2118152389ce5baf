use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::model::{Cgroup, CgroupPath, Family, Hook, Match, Protocol, Rule, SetKind, Verdict};

const OWNED: Owned = Owned { table: "t", chains: &["c"], sets: &["a", "p"] };

fn drop_rule() -> Rule {
    Rule { matches: vec![Match::Destination(Family::V4, "a".into())], verdict: Verdict::Drop }
}

fn cgroup_rule(number: Option<u64>) -> Rule {
    let cgroup = Cgroup::new(&CgroupPath::parse("k.slice/k.service").unwrap(), number);
    Rule { matches: vec![Match::Cgroup(cgroup)], verdict: Verdict::Accept }
}

fn desired(rules: Vec<Rule>) -> Desired {
    let set = |name: &str, kind| Set { name: name.into(), kind, comment: format!("set {name}") };
    let chain = Chain { name: "c".into(), hook: Hook::Output, priority: 0, comment: "a chain".into(), rules };
    Desired {
        table: "t".into(),
        chains: vec![chain],
        sets: vec![set("a", SetKind::Address(Family::V4)), set("p", SetKind::Endpoint(Family::V4))],
    }
}

fn address(last: u8) -> Element {
    Element::Address(Ipv4Addr::new(192, 0, 2, last).into())
}

fn contents(addresses: &[u8]) -> Contents {
    let elements = addresses.iter().map(|last| address(*last)).collect();
    BTreeMap::from([("a".to_owned(), elements), ("p".to_owned(), BTreeSet::new())])
}

/// The kernel after `desired` with `contents` was applied to nothing.
fn applied(desired: &Desired, contents: &Contents) -> Observed {
    let mut observed = Observed::default();
    observed.apply(&diff(desired, contents, &Observed::default(), false));
    observed
}

#[track_caller]
fn check(want: &Desired, contents: &Contents, have: &Observed, expected: &Expect) {
    expected.assert_eq(&diff(want, contents, have, false).to_string());
}

#[test]
fn everything_is_made_where_there_is_nothing() {
    check(
        &desired(vec![drop_rule()]),
        &contents(&[1, 2]),
        &Observed::default(),
        &expect![[r#"
            add table inet t
            add set inet t a { type ipv4_addr; comment "set a"; }
            add set inet t p { type ipv4_addr . inet_proto . inet_service; comment "set p"; }
            add element inet t a { 192.0.2.1, 192.0.2.2 }
            add chain inet t c { type filter hook output priority 0; policy accept; comment "a chain"; }
            add rule inet t c ip daddr @a drop
        "#]],
    );
}

#[test]
fn elements_alone_change_where_the_rest_is_right() {
    let want = desired(vec![drop_rule()]);
    check(
        &want,
        &contents(&[2, 3]),
        &applied(&want, &contents(&[1, 2])),
        &expect![[r"
            delete element inet t a { 192.0.2.1 }
            add element inet t a { 192.0.2.3 }
        "]],
    );
}

#[test]
fn elements_stay_where_the_contents_are_not_known() {
    let want = desired(vec![drop_rule()]);
    check(&want, &Contents::new(), &applied(&want, &contents(&[1, 2])), &expect![""]);
}

#[test]
fn a_chain_with_a_foreign_rule_gets_its_rules_anew() {
    let want = desired(vec![drop_rule()]);
    let mut have = applied(&want, &contents(&[1]));
    have.chains.get_mut("c").unwrap().rules.push(None);
    check(
        &want,
        &contents(&[1]),
        &have,
        &expect![[r"
            flush chain inet t c
            add rule inet t c ip daddr @a drop
        "]],
    );
}

#[test]
fn a_chain_of_another_kind_is_made_anew() {
    let want = desired(vec![drop_rule()]);
    let cases: [fn(&mut ObservedChain); 3] = [
        |chain| chain.priority = Some(-100),
        |chain| chain.priority = None,
        |chain| chain.comment = Some("another".into()),
    ];
    for spoil in cases {
        let mut have = applied(&want, &contents(&[1]));
        spoil(have.chains.get_mut("c").unwrap());
        check(
            &want,
            &contents(&[1]),
            &have,
            &expect![[r#"
                flush chain inet t c
                delete chain inet t c
                add chain inet t c { type filter hook output priority 0; policy accept; comment "a chain"; }
                add rule inet t c ip daddr @a drop
            "#]],
        );
    }
    // Versions of nft before 1.1 list no comments of chains.
    let mut have = applied(&want, &contents(&[1]));
    have.chains.get_mut("c").unwrap().comment = None;
    check(&want, &contents(&[1]), &have, &expect![""]);
}

#[test]
fn a_set_of_another_kind_is_made_anew_and_keeps_what_is_not_known_to_be_gone() {
    let want = desired(vec![drop_rule()]);
    let mut have = applied(&want, &contents(&[1, 2]));
    have.sets.get_mut("a").unwrap().definition = None;
    check(
        &want,
        &Contents::new(),
        &have,
        &expect![[r#"
            flush chain inet t c
            delete set inet t a
            add set inet t a { type ipv4_addr; comment "set a"; }
            add element inet t a { 192.0.2.1, 192.0.2.2 }
            add rule inet t c ip daddr @a drop
        "#]],
    );
}

#[test]
fn a_listed_cgroup_is_the_wanted_one_by_its_path_or_by_its_number_at_the_same_level() {
    let want = desired(vec![cgroup_rule(Some(77))]);
    let cases = [
        ("k.slice/k.service", 2, true),
        ("77", 2, true),
        ("78", 2, false),
        ("k.slice/other.service", 2, false),
        ("k.slice/k.service", 1, false),
        ("k.slice/k.service", 0, false),
    ];
    for (path, level, is_right) in cases {
        let mut have = applied(&want, &contents(&[]));
        let listed = Match::Cgroup(Cgroup { level, path: path.into(), number: None });
        let rule = Rule { matches: vec![listed], verdict: Verdict::Accept };
        have.chains.get_mut("c").unwrap().rules = vec![Some(rule)];
        assert_eq!(diff(&want, &contents(&[]), &have, false).is_empty(), is_right, "{path} level {level}");
    }
}

#[test]
fn rules_that_look_right_are_loaded_anew_when_asked() {
    let want = desired(vec![cgroup_rule(None)]);
    let transaction = diff(&want, &contents(&[]), &applied(&want, &contents(&[])), true);
    expect![[r#"
        flush chain inet t c
        add rule inet t c socket cgroupv2 level 2 "k.slice/k.service" accept
    "#]]
    .assert_eq(&transaction.to_string());
}

#[test]
fn touched_elements_alone_are_compared() {
    let have = applied(&desired(vec![]), &contents(&[1, 2, 3]));
    let touched = BTreeSet::from([address(1), address(2), address(8), address(9)]);
    let commands = diff_elements("a", &touched, |e| [address(1), address(8)].contains(e), &have);
    let transaction = Transaction { table: "t".into(), commands };
    expect![[r"
        delete element inet t a { 192.0.2.2 }
        add element inet t a { 192.0.2.8 }
    "]]
    .assert_eq(&transaction.to_string());
    assert!(diff_elements("absent", &touched, |_| true, &have).is_empty());
}

#[test]
fn clean_up_deletes_what_there_is_and_nothing_else() {
    let want = desired(vec![drop_rule()]);
    let mut have = applied(&want, &contents(&[1]));
    expect![[r"
        flush chain inet t c
        delete chain inet t c
        delete set inet t a
        delete set inet t p
    "]]
    .assert_eq(&clean_up(&OWNED, &have).to_string());
    have.chains.clear();
    have.sets.remove("p");
    expect![[r"
        delete set inet t a
    "]]
    .assert_eq(&clean_up(&OWNED, &have).to_string());
    assert!(clean_up(&OWNED, &Observed::default()).is_empty());
}

fn element() -> impl Strategy<Value = Element> {
    let endpoint =
        (0_u8..6, prop_oneof![Just(6_u8), Just(17)], 0_u16..4).prop_map(|(last, protocol, port)| {
            Element::Endpoint(Ipv4Addr::new(192, 0, 2, last).into(), Protocol(protocol), port)
        });
    prop_oneof![(0_u8..6).prop_map(address), endpoint]
}

fn elements() -> impl Strategy<Value = BTreeSet<Element>> {
    proptest::collection::btree_set(element(), 0..8)
}

/// Contents of both sets, of elements that each takes.
fn some_contents() -> impl Strategy<Value = Contents> {
    elements().prop_map(|all| {
        let of = |kind: SetKind| all.iter().filter(|element| kind.takes(element)).copied().collect();
        let kinds = [("a", SetKind::Address(Family::V4)), ("p", SetKind::Endpoint(Family::V4))];
        kinds.map(|(name, kind)| (name.to_owned(), of(kind))).into()
    })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = prop_oneof![Just(drop_rule()), Just(cgroup_rule(None)), Just(cgroup_rule(Some(3)))];
    proptest::collection::vec(rule, 0..3)
}

/// Any state of the kernel: something of ours, with parts missing or spoilt.
fn observed() -> impl Strategy<Value = Observed> {
    (rules(), some_contents(), any::<[bool; 6]>()).prop_map(
        |(rules, contents, [table, c, a, p, kind, rule])| {
            let mut have = applied(&desired(rules), &contents);
            if !table {
                return Observed::default();
            }
            if c {
                have.chains.clear();
            }
            if a {
                have.sets.remove("a");
            }
            if let Some(set) = have.sets.get_mut("p").filter(|_| kind) {
                set.definition = None;
            }
            if p {
                have.sets.remove("p");
            }
            if let Some(chain) = have.chains.get_mut("c").filter(|_| rule) {
                chain.rules.push(None);
            }
            have
        },
    )
}

proptest! {
    /// One transaction makes anything what is wanted, and then there is nothing more to do.
    #[test]
    fn one_transaction_is_enough(have in observed(), rules in rules(), contents in some_contents(), reload: bool) {
        let want = desired(rules);
        let mut kernel = have.clone();
        kernel.apply(&diff(&want, &contents, &have, reload));
        prop_assert!(diff(&want, &contents, &kernel, false).is_empty());
        let found: Contents = kernel.sets.iter().map(|(name, set)| (name.clone(), set.elements.clone())).collect();
        prop_assert_eq!(found, contents);
    }

    /// Every element that stays stays all the time: it is in no command.
    #[test]
    fn what_is_right_is_not_touched(before in some_contents(), after in some_contents()) {
        let want = desired(vec![drop_rule()]);
        let have = applied(&want, &before);
        let transaction = diff(&want, &after, &have, false);
        prop_assert!(!transaction.changes_structure());
        for command in &transaction.commands {
            let (Command::AddElements(set, elements) | Command::DeleteElements(set, elements)) = command else {
                continue;
            };
            for element in elements {
                prop_assert!(before[set].contains(element) != after[set].contains(element));
            }
        }
    }

    /// Comparing what was touched says the same as comparing everything, if everything that differs was touched.
    #[test]
    fn the_short_way_and_the_long_way_agree(before in some_contents(), after in some_contents()) {
        let want = desired(vec![drop_rule()]);
        let have = applied(&want, &before);
        let mut short = have.clone();
        for (set, wanted) in &after {
            let touched = before[set].symmetric_difference(wanted).copied().collect();
            let commands = diff_elements(set, &touched, |element| wanted.contains(element), &have);
            short.apply(&Transaction { table: "t".into(), commands });
        }
        let mut long = have.clone();
        long.apply(&diff(&want, &after, &have, false));
        prop_assert_eq!(short, long);
    }

    /// After a clean-up nothing of ours is left.
    #[test]
    fn clean_up_leaves_nothing(have in observed()) {
        let mut kernel = have.clone();
        kernel.apply(&clean_up(&OWNED, &have));
        prop_assert!(kernel.chains.is_empty() && kernel.sets.is_empty());
    }
}
