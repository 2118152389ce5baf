//! An explanation as text.

use jiff::Timestamp;

use super::model::{ConditionView, Explanation, NodeView, Stop};
use crate::agent::render::line;
use crate::output::{Shown, age};

impl Shown for Explanation {
    fn text(&self, now: Timestamp) -> String {
        let mut text = String::new();
        let verdict = match &self.ready {
            Some(ready) => format!("Ready={}/{}", ready.status, ready.reason),
            None => "Ready is absent".to_owned(),
        };
        let since =
            self.ready.as_ref().map(|ready| format!(" for {}", age(ready.since, now))).unwrap_or_default();
        line(&mut text, format_args!("Uplink {}: {verdict}{since}", self.uplink));
        if let Some(ready) = &self.ready {
            line(&mut text, format_args!("  {}", ready.message));
        }
        if self.outdated {
            line(&mut text, format_args!("  This is about an older version of the spec."));
        }
        line(&mut text, format_args!("\nAsked:"));
        for entry in &self.entries {
            line(
                &mut text,
                format_args!(
                    "  entry {}: {} {} on nodes with {}",
                    entry.index, entry.type_, entry.interface, entry.selector
                ),
            );
            match &entry.invalid {
                Some(cause) => line(&mut text, format_args!("    INVALID: {cause}")),
                None if entry.nodes.is_empty() => line(&mut text, format_args!("    selects no node")),
                None => line(&mut text, format_args!("    selects {}", entry.nodes.join(", "))),
            }
        }
        line(
            &mut text,
            format_args!("\nFound: {} of {} selected node(s) resolved", self.resolved, self.selected),
        );
        for node in &self.nodes {
            node_text(&mut text, node, now);
        }
        match &self.stops_at {
            None => line(&mut text, format_args!("\nNothing is in the way.")),
            Some(stop) => {
                let node = stop.node.as_ref().map(|node| format!(" of node {node}")).unwrap_or_default();
                line(&mut text, format_args!("\nStops at {}{node}: {}", stop.step.title(), stop.reason));
                stop_text(&mut text, stop, "  ");
            }
        }
        text
    }
}

fn node_text(text: &mut String, node: &NodeView, now: Timestamp) {
    let mark = if node.stops_at.is_some() { "NOT RESOLVED" } else { "ok" };
    let entries: Vec<String> = node.entries.iter().map(ToString::to_string).collect();
    let entries =
        if entries.is_empty() { "no entry".to_owned() } else { format!("entry {}", entries.join(", ")) };
    line(text, format_args!("  node {} ({entries}): {mark}", node.node));
    if !node.published {
        line(text, format_args!("    state {} does not exist", node.state));
    }
    for condition in &node.conditions {
        condition_text(text, condition, now);
    }
    let facts: Vec<String> = node.found.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
    if !facts.is_empty() {
        line(text, format_args!("    published: {}", facts.join("; ")));
    }
    for said in &node.agents {
        line(text, format_args!("    {said}"));
    }
    line(text, format_args!("    rule: {}", node.rule));
    if let Some(stop) = &node.stops_at {
        line(text, format_args!("    stops at {}: {}", stop.step.title(), stop.reason));
        line(text, format_args!("    do: {}", stop.remedy));
    }
    for warning in &node.warnings {
        line(text, format_args!("    warning: {}: {}", warning.reason, warning.message));
        if !warning.remedy.is_empty() {
            line(text, format_args!("    do: {}", warning.remedy));
        }
    }
}

fn condition_text(text: &mut String, condition: &ConditionView, now: Timestamp) {
    let written = condition
        .written
        .as_ref()
        .map_or_else(String::new, |(at, manager)| format!(", written {} ago by {manager}", age(*at, now)));
    line(
        text,
        format_args!(
            "    {}={}/{} for {}{written}",
            condition.type_,
            condition.status,
            condition.reason,
            age(condition.since, now)
        ),
    );
    if !condition.message.is_empty() {
        line(text, format_args!("      {}", condition.message));
    }
}

fn stop_text(text: &mut String, stop: &Stop, indent: &str) {
    line(text, format_args!("{indent}found:  {}", stop.message));
    line(text, format_args!("{indent}means:  {}", stop.means));
    line(text, format_args!("{indent}do:     {}", stop.remedy));
}
