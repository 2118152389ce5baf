use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn nets(text: &str) -> Vec<IpNet> {
    text.split(',').filter(|part| !part.is_empty()).map(net).collect()
}

fn internal() -> Internal {
    Internal {
        cluster: nets("10.128.0.0/14"),
        services: nets("10.96.0.0/16"),
        join: nets("100.64.0.0/16,fd98::/64"),
        masquerade: nets("169.254.169.0/29,fd69::/125"),
        transit: nets("100.88.0.0/16,fd97::/64"),
        user_join: nets("100.65.0.0/16,fd99::/64"),
    }
}

fn verdict(shape: Shape, subnets: &str, join: &str, excluded: &str) -> String {
    let (subnets, join, excluded) = (nets(subnets), nets(join), nets(excluded));
    let own = Own { shape, subnets: &subnets, join: &join, excluded: &excluded };
    match check(&internal(), own, &[]) {
        Ok(()) => "ok".to_owned(),
        Err(overlap) => overlap.0.to_string(),
    }
}

#[test]
fn the_first_pair_is_named_later_one_first() {
    use Shape::{Layer2Primary, Layer2Secondary, Layer3};
    for (shape, subnets, join, want) in [
        (Layer3, "10.20.0.0/16,fd00:20::/48", "", "ok"),
        (
            Layer3,
            "100.65.0.0/16",
            "",
            r#"user defined join subnet "100.65.0.0/16" overlaps user defined subnet "100.65.0.0/16""#,
        ),
        (
            Layer3,
            "100.64.0.0/16",
            "",
            r#"user defined subnet "100.64.0.0/16" overlaps built-in join subnet "100.64.0.0/16""#,
        ),
        (
            Layer3,
            "100.88.0.0/16",
            "",
            r#"user defined subnet "100.88.0.0/16" overlaps transit switch subnet "100.88.0.0/16""#,
        ),
        (Layer2Secondary, "100.88.0.0/16", "", "ok"),
        (Layer2Primary, "100.88.0.0/16", "", "ok"),
        (
            Layer3,
            "10.96.0.0/16",
            "",
            r#"user defined subnet "10.96.0.0/16" overlaps service subnet "10.96.0.0/16""#,
        ),
        (
            Layer3,
            "10.128.0.0/16",
            "",
            r#"user defined subnet "10.128.0.0/16" overlaps cluster subnet "10.128.0.0/14""#,
        ),
        (
            Layer3,
            "169.254.160.0/20",
            "",
            r#"user defined subnet "169.254.160.0/20" overlaps masquerade subnet "169.254.169.0/29""#,
        ),
        (
            Layer3,
            "10.78.0.0/16",
            "10.78.1.0/24",
            r#"user defined join subnet "10.78.1.0/24" overlaps user defined subnet "10.78.0.0/16""#,
        ),
        (
            Layer3,
            "10.20.0.0/16",
            "100.64.10.0/24",
            r#"user defined join subnet "100.64.10.0/24" overlaps built-in join subnet "100.64.0.0/16""#,
        ),
        (
            Layer3,
            "fd00:1::/48",
            "fd98::4/127",
            r#"user defined join subnet "fd98::4/127" overlaps built-in join subnet "fd98::/64""#,
        ),
        (
            Layer2Secondary,
            "10.96.5.0/24",
            "",
            r#"user defined subnet "10.96.5.0/24" overlaps service subnet "10.96.0.0/16""#,
        ),
        // A secondary network has no join subnet; upstream compares it all the same.
        (
            Layer2Secondary,
            "100.65.1.0/24",
            "",
            r#"user defined join subnet "100.65.0.0/16" overlaps user defined subnet "100.65.1.0/24""#,
        ),
        (Layer3, "10.79.0.0/16", "fd79::/64", "ok"),
        (
            Layer3,
            "10.20.9.9/16,10.20.0.0/20",
            "",
            r#"user defined subnet "10.20.0.0/20" overlaps user defined subnet "10.20.0.0/16""#,
        ),
    ] {
        assert_eq!(verdict(shape, subnets, join, ""), want, "{shape:?} {subnets} {join}");
    }
}

#[test]
fn what_a_network_excludes_cannot_overlap() {
    let shape = Shape::Layer2Secondary;
    assert_ne!(verdict(shape, "10.0.0.0/8", "", ""), "ok");
    assert_eq!(verdict(shape, "10.0.0.0/8", "", "10.96.0.0/16,10.128.0.0/14"), "ok");
    // Two excluded neighbours in a row: upstream leaves the second in.
    assert_eq!(verdict(shape, "100.64.0.0/15", "", "100.64.0.0/16,100.65.0.0/16"), "ok");
    assert_ne!(verdict(shape, "10.0.0.0/8", "", "10.96.0.0/17,10.128.0.0/14"), "ok");
}

#[test]
fn transit_subnets_equal_the_published_ones() {
    for (subnets, join, want) in [
        ("10.12.0.0/16,fd12:dbba::/64", "", "100.88.0.0/16,fd97::/64"),
        ("100.88.0.0/15,fd97::/63", "", "100.90.0.0/16,fd97:0:0:2::/64"),
        ("10.12.0.0/16,fd12:dbba::/64", "100.88.0.0/17,fd97::/65", "100.89.0.0/16,fd97:0:0:1::/64"),
        ("100.88.5.0/24", "", "100.89.0.0/16"),
        ("100.80.0.0/12", "", "100.96.0.0/16"),
        ("10.30.0.0/16", "100.88.0.0/16", "100.89.0.0/16"),
        ("100.88.0.0/15,fd97::/65", "100.90.0.0/16,fd97:0:0:1::/64", "100.91.0.0/16,fd97:0:0:2::/64"),
        ("fd00:30::/64", "", "fd97::/64"),
    ] {
        let (subnets, join) = (nets(subnets), nets(join));
        let own = Own { shape: Shape::Layer2Primary, subnets: &subnets, join: &join, excluded: &[] };
        let found = transit_subnets(&internal(), own).unwrap();
        assert_eq!(found, nets(want), "{subnets:?} {join:?}");
        assert_eq!(check(&internal(), own, &found), Ok(()));
    }
}

#[test]
fn an_overlap_that_no_transit_subnet_would_help_is_told_as_it_is() {
    let subnets = nets("100.65.0.0/16");
    let own = Own { shape: Shape::Layer2Primary, subnets: &subnets, join: &[], excluded: &[] };
    assert_eq!(
        transit_subnets(&internal(), own).unwrap_err().to_string(),
        "pod or join subnet overlaps with already configured internal subnets: \
         user defined join subnet \"100.65.0.0/16\" overlaps user defined subnet \"100.65.0.0/16\""
    );
}

#[test]
fn after_ten_candidates_or_at_the_end_of_all_addresses_there_is_no_transit_subnet() {
    let text =
        "can't generate transit subnets: failed to find non-overlapping transit subnet after 10 attempts";
    let own = |subnets| Own { shape: Shape::Layer2Primary, subnets, join: &[], excluded: &[] };
    // Ten blocks in a row, each in the way of one candidate.
    let ten: Vec<IpNet> = (88..98).map(|second| net(&format!("100.{second}.3.0/24"))).collect();
    assert_eq!(transit_subnets(&internal(), own(&ten)).unwrap_err().to_string(), text);
    let nine = &ten[..9];
    assert_eq!(transit_subnets(&internal(), own(nine)).unwrap()[0], net("100.97.0.0/16"));
    let last = Internal { transit: nets("255.255.0.0/16"), ..internal() };
    let (end, other) = (nets("255.255.255.0/24"), nets("fd00::/64"));
    assert_eq!(transit_subnets(&last, own(&end)).unwrap_err().to_string(), text);
    assert_eq!(transit_subnets(&last, own(&other)).unwrap_err(), NoTransit::NotConfigured(Family::V6));
}

#[test]
fn a_cluster_whose_own_ranges_collide_is_told_which() {
    assert_eq!(check_cluster(&internal(), &[]), Ok(()));
    for (wrong, hybrid, want) in [
        (
            Internal { services: nets("10.129.0.0/16"), ..internal() },
            "",
            r#"cluster subnet "10.128.0.0/14" overlaps service subnet "10.129.0.0/16""#,
        ),
        (
            Internal { transit: nets("100.64.3.0/24"), ..internal() },
            "",
            r#"transit switch subnet "100.64.3.0/24" overlaps built-in join subnet "100.64.0.0/16""#,
        ),
        (
            internal(),
            "10.96.0.0/12",
            r#"hybrid overlay subnet "10.96.0.0/12" overlaps service subnet "10.96.0.0/16""#,
        ),
    ] {
        assert_eq!(check_cluster(&wrong, &nets(hybrid)).unwrap_err().to_string(), want);
    }
}
