//! The order in which a network's devices are shown: from the way out inwards.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::topology::model::{Device, End, Kind};

/// Gives each device its steps from the way out, and sorts by them, then by name.
///
/// Switches with a physical network are the first layer. What they do not lead to begins at its routers, and what has no
/// router at itself.
pub(super) fn arrange(devices: &mut [Device]) {
    let at: BTreeMap<&str, usize> =
        devices.iter().enumerate().map(|(at, device)| (device.name.as_str(), at)).collect();
    let mut next: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); devices.len()];
    for (from, device) in devices.iter().enumerate() {
        for port in &device.ports {
            if let End::Port { device: other, .. } = &port.end
                && let Some(&to) = at.get(other.as_str())
            {
                for (one, other) in [(from, to), (to, from)] {
                    if let Some(next) = next.get_mut(one) {
                        next.insert(other);
                    }
                }
            }
        }
    }
    let is_out = |device: &Device| device.ports.iter().any(|port| matches!(port.end, End::Physical { .. }));
    let mut layers: BTreeMap<usize, usize> = BTreeMap::new();
    for begins in [is_out, |device: &Device| device.kind == Kind::Router, |_: &Device| true] {
        let begin = devices.iter().enumerate().filter(|(_, device)| begins(device)).map(|(at, _)| at);
        let mut queue = VecDeque::new();
        for at in begin {
            layers.entry(at).or_insert_with(|| {
                queue.push_back(at);
                0
            });
        }
        while let Some(at) = queue.pop_front() {
            let layer = layers.get(&at).copied().unwrap_or_default() + 1;
            for &to in next.get(at).into_iter().flatten() {
                layers.entry(to).or_insert_with(|| {
                    queue.push_back(to);
                    layer
                });
            }
        }
    }
    for (at, layer) in layers {
        if let Some(device) = devices.get_mut(at) {
            device.layer = layer;
        }
    }
    devices
        .sort_by(|one, other| (one.layer, &one.name, one.kind).cmp(&(other.layer, &other.name, other.kind)));
}
