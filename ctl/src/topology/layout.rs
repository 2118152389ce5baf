//! Where the parts of a picture lie: each network a block below the one before it, in it the devices in layers from the
//! way out downwards, and lines from layer to layer. Pure; all measures are in pixels.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Device, End, Network, Topology};
use super::render::{heading, rows, title};

/// Width of a character, of the widest font that viewers take for `monospace` at [`FONT`].
const CHARACTER: usize = 8;
/// Size of the font.
pub const FONT: usize = 12;
/// Height of a line of text.
pub const LINE: usize = 18;
/// Room between text and the edge of its box.
pub const PADDING: usize = 10;
/// Room between boxes of a layer, and around everything.
const GAP: usize = 24;
/// Room between layers, in which the lines run.
const LAYER_GAP: usize = 44;

/// A picture's parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Whole width.
    pub width: usize,
    /// Whole height.
    pub height: usize,
    /// Text outside of boxes.
    pub titles: Vec<Title>,
    /// Boxes.
    pub boxes: Vec<Frame>,
    /// Lines between boxes.
    pub links: Vec<Link>,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// Left end.
    pub x: usize,
    /// Base line.
    pub y: usize,
    /// The text.
    pub text: String,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// A router.
    Router,
    /// A switch.
    Switch,
    /// A network outside of OVN.
    Physical,
}

/// A box with lines of text, the first of them a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it stands for.
    pub look: Look,
    /// Left edge.
    pub x: usize,
    /// Upper edge.
    pub y: usize,
    /// Width.
    pub width: usize,
    /// Height.
    pub height: usize,
    /// Text.
    pub lines: Vec<String>,
}

/// A line from the lower edge of a box to the upper edge of one in the next layer, or between the sides of two in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub from: (usize, usize),
    /// The other.
    pub to: (usize, usize),
}

/// Places everything.
#[must_use]
pub fn place(topology: &Topology) -> Layout {
    let mut layout = Layout { width: 2 * GAP, height: GAP, ..Layout::default() };
    for network in &topology.networks {
        block(&mut layout, network, topology.wide);
    }
    let told = topology.problems.iter().map(|problem| format!("Problem: {}", problem.found));
    for text in told.chain(topology.notes.iter().map(|note| format!("Note: {note}"))) {
        write(&mut layout, text);
    }
    layout.height += GAP;
    layout
}

fn write(layout: &mut Layout, text: String) {
    layout.height += LINE;
    layout.width = layout.width.max(2 * GAP + text.chars().count() * CHARACTER);
    layout.titles.push(Title { x: GAP, y: layout.height, text });
}

/// A box that has no place yet.
fn frame(look: Look, lines: Vec<String>) -> Frame {
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let (width, height) = (widest * CHARACTER + 2 * PADDING, lines.len() * LINE + 2 * PADDING);
    Frame { look, x: 0, y: 0, width, height, lines }
}

fn block(layout: &mut Layout, network: &Network, wide: bool) {
    write(layout, title(network));
    let mut layers: BTreeMap<usize, Vec<Frame>> = BTreeMap::new();
    // Physical networks lie above all; one that several switches reach is one box.
    for name in network.devices.iter().flat_map(physical).collect::<BTreeSet<_>>() {
        let lines = vec![format!("physical network {name}")];
        layers.entry(0).or_default().push(frame(Look::Physical, lines));
    }
    for device in &network.devices {
        let look = match device.kind {
            super::model::Kind::Router => Look::Router,
            super::model::Kind::Switch => Look::Switch,
        };
        let mut lines = vec![heading(device)];
        lines.extend(rows(device, wide));
        layers.entry(device.layer + 1).or_default().push(frame(look, lines));
    }
    let begin = layout.boxes.len();
    let widths = layers.values().map(|boxes| breadth(boxes));
    let widest = widths.max().unwrap_or_default();
    layout.width = layout.width.max(widest + 2 * GAP);
    let mut y = layout.height + GAP;
    for boxes in layers.into_values() {
        let mut x = GAP + (widest - breadth(&boxes)) / 2;
        let highest = boxes.iter().map(|frame| frame.height).max().unwrap_or_default();
        for mut frame in boxes {
            (frame.x, frame.y) = (x, y);
            x += frame.width + GAP;
            layout.boxes.push(frame);
        }
        y += highest + LAYER_GAP;
    }
    layout.height = y.saturating_sub(LAYER_GAP) + GAP;
    let placed = layout.boxes.get(begin..).unwrap_or_default();
    layout.links.extend(connect(placed, &pairs(network)));
}

fn breadth(boxes: &[Frame]) -> usize {
    let gaps = boxes.len().saturating_sub(1) * GAP;
    boxes.iter().map(|frame| frame.width).sum::<usize>() + gaps
}

fn physical(device: &Device) -> impl Iterator<Item = &str> {
    device.ports.iter().filter_map(|port| match &port.end {
        End::Physical { network, .. } => Some(network.as_str()),
        _ => None,
    })
}

/// Which boxes of a network are joined, by position: physical networks come first, then the devices in their order.
fn pairs(network: &Network) -> BTreeSet<(usize, usize)> {
    let outside: Vec<&str> =
        network.devices.iter().flat_map(physical).collect::<BTreeSet<_>>().into_iter().collect();
    let mut pairs = BTreeSet::new();
    for (at, device) in network.devices.iter().enumerate() {
        let at = at + outside.len();
        for port in &device.ports {
            let other = match &port.end {
                End::Port { device, .. } => {
                    let other = network.devices.iter().position(|other| other.name == *device);
                    other.map(|other| other + outside.len())
                }
                End::Physical { network, .. } => outside.iter().position(|name| name == network),
                _ => None,
            };
            if let Some(other) = other.filter(|other| *other != at) {
                pairs.insert((at.min(other), at.max(other)));
            }
        }
    }
    pairs
}

fn connect(boxes: &[Frame], pairs: &BTreeSet<(usize, usize)>) -> Vec<Link> {
    let (mut below, mut above): (BTreeMap<usize, Vec<usize>>, BTreeMap<usize, Vec<usize>>) =
        Default::default();
    let mut links = Vec::new();
    let layered = |upper: usize, lower: usize| match (boxes.get(upper), boxes.get(lower)) {
        (Some(upper), Some(lower)) => upper.y < lower.y,
        _ => false,
    };
    for &(upper, lower) in pairs.iter().filter(|(upper, lower)| layered(*upper, *lower)) {
        below.entry(upper).or_default().push(lower);
        above.entry(lower).or_default().push(upper);
    }
    for &(one, other) in pairs {
        let (Some(upper), Some(lower)) = (boxes.get(one), boxes.get(other)) else { continue };
        if layered(one, other) {
            let from = (spread(upper, below.get(&one), other), upper.y + upper.height);
            links.push(Link { from, to: (spread(lower, above.get(&other), one), lower.y) });
        } else {
            let middle = |frame: &Frame| frame.y + LINE.min(frame.height / 2);
            let (left, right) = if upper.x < lower.x { (upper, lower) } else { (lower, upper) };
            links.push(Link { from: (left.x + left.width, middle(left)), to: (right.x, middle(right)) });
        }
    }
    links
}

/// Where on a box's edge the line to one of several others begins, so that they do not fall together.
fn spread(frame: &Frame, others: Option<&Vec<usize>>, other: usize) -> usize {
    let others = others.map_or(&[][..], Vec::as_slice);
    let at = others.iter().position(|one| *one == other).unwrap_or_default();
    frame.x + frame.width * (at + 1) / (others.len() + 1)
}

#[cfg(test)]
mod tests;
