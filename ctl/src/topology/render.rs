//! A drawing as text, and the lines of one device as both text and picture have them.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::model::{Device, End, Kind, Nat, Network, Policy, Port, Route, Topology};
use super::svg;
use crate::agent::render::line;
use crate::output::Shown;

/// Names of other nodes that are listed before the rest is counted.
const NAMED_NODES: usize = 5;

impl Shown for Topology {
    fn text(&self, _now: Timestamp) -> String {
        let mut text = String::new();
        let zone = self.zone.as_deref().unwrap_or("without a name");
        let devices = || self.networks.iter().flat_map(|network| &network.devices);
        let of = |kind| devices().filter(|device| device.kind == kind).count();
        let counts = [
            count(self.networks.iter().filter(|network| network.name.is_some()).count(), "network"),
            count(of(Kind::Router), "router"),
            count_of(of(Kind::Switch), "switch", "switches"),
            count(devices().map(|device| device.pods).sum(), "pod"),
        ];
        line(&mut text, format_args!("Zone {zone} (schema {}): {}", self.schema, counts.join(", ")));
        for network in &self.networks {
            line(&mut text, format_args!("\n{}", title(network)));
            for device in &network.devices {
                line(&mut text, format_args!("  {}", heading(device)));
                for row in rows(device, self.wide) {
                    line(&mut text, format_args!("    {row}"));
                }
            }
        }
        for note in &self.notes {
            line(&mut text, format_args!("\nNote: {note}"));
        }
        for problem in &self.problems {
            line(&mut text, format_args!("\nProblem: {}", problem.found));
            line(&mut text, format_args!("  do: {}", problem.remedy));
        }
        text
    }

    fn svg(&self) -> Option<String> {
        Some(svg::picture(self))
    }
}

fn count(number: usize, what: &str) -> String {
    count_of(number, what, &format!("{what}s"))
}

fn count_of(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What a network is.
pub(super) fn title(network: &Network) -> String {
    let Some(name) = &network.name else {
        return "Of no network: rows without the marks and names that networks have".to_owned();
    };
    let words: Vec<&str> =
        [&network.topology, &network.role].into_iter().flatten().map(String::as_str).collect();
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    format!("Network {name}{words}")
}

/// What a device is.
pub(super) fn heading(device: &Device) -> String {
    let kind = match device.kind {
        Kind::Router => "router",
        Kind::Switch => "switch",
    };
    let mut heading = format!("{kind} {}", device.name);
    let facts = [
        (!device.subnets.is_empty()).then(|| device.subnets.join(", ")),
        device.chassis.as_ref().map(|chassis| format!("on chassis {chassis}")),
        device.tunnel_key.as_ref().map(|key| format!("tunnel key {key}")),
    ];
    for fact in facts.into_iter().flatten() {
        heading.push_str("  ");
        heading.push_str(&fact);
    }
    heading
}

/// The lines below a device's heading.
pub(super) fn rows(device: &Device, wide: bool) -> Vec<String> {
    let remotes: Vec<&Port> =
        device.ports.iter().filter(|port| matches!(port.end, End::Node { .. })).collect();
    let shown = device.ports.iter().filter(|port| wide || !matches!(port.end, End::Node { .. }));
    let mut rows = columns(shown.map(|port| cells(port, wide)).collect());
    if !wide && !remotes.is_empty() {
        rows.push(to_nodes(&remotes));
    }
    if device.pods > 0 {
        rows.push(count(device.pods, "pod"));
    }
    if device.remote_pods > 0 {
        rows.push(format!("{} of other nodes", count(device.remote_pods, "pod")));
    }
    if device.kind == Kind::Router {
        rows.extend(if wide { rules(device) } else { rule_counts(device) });
    }
    rows
}

fn to_nodes(remotes: &[&Port]) -> String {
    let nodes: BTreeSet<&str> = remotes
        .iter()
        .filter_map(|port| match &port.end {
            End::Node { node } => Some(node.as_str()),
            _ => None,
        })
        .collect();
    let mut named: Vec<String> = nodes.iter().take(NAMED_NODES).map(|node| (*node).to_owned()).collect();
    if nodes.len() > NAMED_NODES {
        named.push(format!("{} more", nodes.len() - NAMED_NODES));
    }
    format!("{} to other nodes: {}", count(remotes.len(), "port"), named.join(", "))
}

/// Name, MAC address, addresses, where it leads.
fn cells(port: &Port, wide: bool) -> [String; 4] {
    let mut end = match &port.end {
        End::Port { device, port } if wide => format!("-> {port} of {device}"),
        End::Port { device, .. } => format!("-> {device}"),
        End::Node { node } => format!("-> node {node}"),
        End::Physical { network, vlan: None } => format!("-> physical network {network}"),
        End::Physical { network, vlan: Some(vlan) } => format!("-> physical network {network}, VLAN {vlan}"),
        End::Host => "-> this node".to_owned(),
        End::Other { kind } => format!("-> {kind}"),
        End::Missing { port } => format!("-> {port}, NOT THERE"),
        End::Nothing => "-> nothing".to_owned(),
    };
    if wide {
        let key = port.tunnel_key.as_ref().map(|key| format!("tunnel key {key}"));
        let chassis = port.chassis.iter().map(|chassis| format!("on chassis {chassis}"));
        for fact in key.into_iter().chain(chassis) {
            end.push_str("  ");
            end.push_str(&fact);
        }
    }
    [port.name.clone(), port.mac.clone().unwrap_or_default(), port.addresses.join(", "), end]
}

/// Cells as lines with columns; one that is empty in every row takes no room.
fn columns<const N: usize>(rows: Vec<[String; N]>) -> Vec<String> {
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(widths).filter(|(_, width)| *width > 0) {
            if !text.is_empty() {
                text.push_str("  ");
            }
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
        }
        text.truncate(text.trim_end().len());
        lines.push(text);
    }
    lines
}

fn rule_counts(device: &Device) -> Vec<String> {
    let counts = [
        (device.routes.len(), "route", "routes"),
        (device.nats.len(), "translation", "translations"),
        (device.policies.len(), "policy", "policies"),
        (device.neighbours.len(), "neighbour", "neighbours"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, one, many)| count_of(number, one, many))
        .collect();
    if counts.is_empty() { Vec::new() } else { vec![counts.join(", ")] }
}

fn rules(device: &Device) -> Vec<String> {
    let mut rows = columns(device.routes.iter().map(route).collect());
    rows.extend(columns(device.nats.iter().map(nat).collect()));
    rows.extend(columns(device.policies.iter().map(policy).collect()));
    let neighbours = device.neighbours.iter().map(|neighbour| {
        let at = format!("at {}", neighbour.port);
        ["neighbour".to_owned(), neighbour.address.clone(), neighbour.mac.clone(), at]
    });
    rows.extend(columns(neighbours.collect()));
    rows
}

fn route(route: &Route) -> [String; 4] {
    let side = if route.by_source { "from" } else { "to" };
    let mut more: Vec<String> = route.port.iter().map(|port| format!("through {port}")).collect();
    more.extend(route.table.iter().map(|table| format!("in table {table}")));
    ["route".to_owned(), format!("{side} {}", route.prefix), format!("via {}", route.nexthop), more.join(" ")]
}

fn nat(nat: &Nat) -> [String; 4] {
    let mut more: Vec<String> = nat.ports.iter().map(|ports| format!("ports {ports}")).collect();
    more.extend(nat.port.iter().map(|port| format!("at {port}")));
    more.extend(nat.only.iter().map(|only| format!("if {only}")));
    let (from, to) =
        if nat.kind == "snat" { (&nat.inside, &nat.outside) } else { (&nat.outside, &nat.inside) };
    [nat.kind.clone(), from.clone(), format!("as {to}"), more.join(" ")]
}

fn policy(policy: &Policy) -> [String; 4] {
    let mut action = policy.action.clone();
    if !policy.nexthops.is_empty() {
        action.push_str(" to ");
        action.push_str(&policy.nexthops.join(", "));
    }
    if let Some(port) = &policy.port {
        action.push_str(" through ");
        action.push_str(port);
    }
    ["policy".to_owned(), policy.priority.to_string(), action, format!("if {}", policy.only)]
}
