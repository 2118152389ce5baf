use expect_test::expect_file;
use serde_json::json;

use super::*;
use crate::topology::fixture::{captured, database};
use crate::topology::plan::draw;

#[test]
fn a_captured_network_is_drawn_as_a_picture() {
    let drawn = draw(&captured("06-secondary"), Some("cluster_udn_sec3")).unwrap();
    expect_file!["../goldens/layer3-secondary.svg"].assert_eq(&picture(&drawn));
}

#[test]
fn a_picture_is_well_formed_whatever_names_are() {
    let mut names = vec![
        "<&>\"'".to_owned(),
        "]]>".to_owned(),
        "\u{1}\u{1b}[0m\ttab".to_owned(),
        "ü \u{ffff}".to_owned(),
    ];
    names.push("<script>alert(1)</script>".to_owned());
    let switches: Vec<_> =
        names.iter().enumerate().map(|(at, name)| json!({"_uuid": at.to_string(), "name": name})).collect();
    let drawn =
        draw(&database(&json!({"NB_Global": [{"name": "<node&>"}], "Logical_Switch": switches})), None)
            .unwrap();
    let svg = picture(&drawn);
    let document = roxmltree::Document::parse(&svg).unwrap();
    let count = |name: &str| {
        document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name))).count()
    };
    // The background and a box for each switch; each box has its heading, and there is one title.
    assert_eq!((count("rect"), count("text"), count("script")), (names.len() + 1, names.len() + 1, 0));
    let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.contains(&"switch <&>\"'"), "{texts:?}");
}

#[test]
fn every_captured_database_is_a_well_formed_picture_with_its_devices() {
    for run in ["01-default-v4", "06-secondary", "14-before"] {
        let mut drawn = draw(&captured(run), None).unwrap();
        drawn.wide = true;
        let svg = picture(&drawn);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
        for device in drawn.networks.iter().flat_map(|network| &network.devices) {
            let heading = crate::topology::render::heading(device);
            assert!(texts.contains(&heading.as_str()), "{run}: {heading}");
        }
    }
}
