use super::*;
use crate::topology::fixture::captured;
use crate::topology::plan::draw;

const RUNS: [&str; 4] = ["02-default-v4-3zones", "06-secondary", "14-before", "17-remote-node-deleted"];

fn placed() -> impl Iterator<Item = (String, Topology, Layout)> {
    RUNS.iter().flat_map(|run| [false, true].map(|wide| (*run, wide))).map(|(run, wide)| {
        let mut drawn = draw(&captured(run), None).unwrap();
        drawn.wide = wide;
        let layout = place(&drawn);
        (format!("{run}, wide {wide}"), drawn, layout)
    })
}

#[test]
fn boxes_lie_apart_inside_the_picture_with_their_text_inside() {
    for (run, _, layout) in placed() {
        assert!(layout.boxes.len() > 5, "{run}");
        for (at, one) in layout.boxes.iter().enumerate() {
            assert!(
                one.x + one.width <= layout.width && one.y + one.height <= layout.height,
                "{run}: {one:?}"
            );
            for line in &one.lines {
                assert!(line.chars().count() * CHARACTER + 2 * PADDING <= one.width, "{run}: {line}");
            }
            for other in layout.boxes.iter().skip(at + 1) {
                let beside = one.x + one.width < other.x || other.x + other.width < one.x;
                let below = one.y + one.height < other.y || other.y + other.height < one.y;
                assert!(beside || below, "{run}: {one:?} and {other:?}");
            }
        }
    }
}

#[test]
fn every_line_joins_two_boxes_and_crosses_none() {
    for (run, _, layout) in placed() {
        for link in &layout.links {
            for (x, y) in [link.from, link.to] {
                let touched = layout.boxes.iter().filter(|frame| {
                    (frame.x..=frame.x + frame.width).contains(&x)
                        && (frame.y..=frame.y + frame.height).contains(&y)
                });
                assert_eq!(touched.count(), 1, "{run}: {link:?}");
            }
            // From layer to layer: nothing lies between.
            let between = layout
                .boxes
                .iter()
                .filter(|frame| frame.y > link.from.1 && frame.y + frame.height < link.to.1);
            assert_eq!(between.count(), 0, "{run}: {link:?}");
        }
    }
}

#[test]
fn there_are_as_many_lines_as_pairs_that_are_connected() {
    for (run, drawn, layout) in placed() {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for device in drawn.networks.iter().flat_map(|network| &network.devices) {
            for port in &device.ports {
                let other = match &port.end {
                    End::Port { device, .. } => device.clone(),
                    // One box for all that reach it, but one in each network.
                    End::Physical { network, .. } => format!("physical {network}"),
                    _ => continue,
                };
                let mut pair = [device.name.clone(), other];
                pair.sort();
                let [one, other] = pair;
                pairs.push((one, other));
            }
        }
        pairs.sort();
        pairs.dedup();
        assert_eq!(layout.links.len(), pairs.len(), "{run}");
    }
}
