//! An agent's answer as text.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::view::{AgentView, UplinkView};
use crate::output::{Shown, age};

impl Shown for AgentView {
    fn text(&self, now: Timestamp) -> String {
        let mut text = String::new();
        let up = self.started.map(|started| format!(", up {}", age(started, now))).unwrap_or_default();
        line(
            &mut text,
            format_args!("{} {} for node {} (role {}{up})", self.program, self.version, self.node, self.role),
        );
        for note in &self.notes {
            line(&mut text, format_args!("  note: {note}"));
        }
        line(&mut text, format_args!("Stores:"));
        for store in &self.stores {
            let state = if store.ready { "ready".to_owned() } else { format!("NOT READY: {}", store.reason) };
            let objects = store.objects.map(|count| format!(" ({count} objects)")).unwrap_or_default();
            line(&mut text, format_args!("  {:<16} {state}{objects}", store.name));
        }
        match &self.uplinks {
            None => line(&mut text, format_args!("Uplinks: this agent has no discovery")),
            Some(uplinks) if uplinks.is_empty() => line(&mut text, format_args!("Uplinks: none")),
            Some(uplinks) => {
                line(&mut text, format_args!("Uplinks:"));
                for uplink in uplinks {
                    uplink_text(&mut text, uplink, "  ", now);
                }
            }
        }
        guard_text(&mut text, self);
        if let Some(topology) = &self.topology {
            topology.lines().iter().for_each(|text_line| line(&mut text, format_args!("{text_line}")));
        }
        if !self.candidates.is_empty() {
            line(&mut text, format_args!("Seen here:"));
        }
        for candidate in &self.candidates {
            let facts: Vec<_> = candidate.facts.iter().map(|(name, fact)| format!("{name}={fact}")).collect();
            line(
                &mut text,
                format_args!("  {:<12} {:<16} {}", candidate.kind, candidate.name, facts.join("; ")),
            );
        }
        text
    }
}

/// What an agent says about isolation of pods from its host.
fn guard_text(text: &mut String, view: &AgentView) {
    if let Some(kubelet) = &view.kubelet {
        line(text, format_args!("Kubelet: {}", kubelet.sentence()));
    }
    if let Some(isolation) = &view.isolation {
        line(text, format_args!("Isolated pods: {} ({})", isolation.pods, isolation.families.join(", ")));
    }
}

/// What an agent says about one Uplink, a few indented lines.
pub(crate) fn uplink_text(text: &mut String, uplink: &UplinkView, indent: &str, now: Timestamp) {
    let ago =
        |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", age(at, now)));
    line(text, format_args!("{indent}{}: {}", uplink.name, uplink.decision));
    if !uplink.detail.is_empty() {
        line(text, format_args!("{indent}  because     {}", uplink.detail));
    }
    if let Some(verdict) = &uplink.verdict {
        let status = if verdict.holds { "True" } else { "False" };
        let since = ago(verdict.since);
        line(
            text,
            format_args!(
                "{indent}  says        {}={status}/{} since {since}",
                verdict.condition, verdict.reason
            ),
        );
        line(text, format_args!("{indent}              {}", verdict.message));
    }
    for (name, fact) in uplink.host.iter().filter(|(_, fact)| !fact.is_empty()) {
        line(text, format_args!("{indent}  {name:<11} {fact}"));
    }
    if let Some(bridge) = &uplink.bridge {
        line(text, format_args!("{indent}  bridge      {bridge}"));
    }
    if !uplink.rests_on.is_empty() {
        line(text, format_args!("{indent}  rests on    {}", uplink.rests_on.join(", ")));
    }
    if let Some(failure) = &uplink.failure {
        let next = match failure.retry.as_str() {
            "event" => "the next event",
            "after" => "a pause",
            "backoff" => "a short wait",
            other => other,
        };
        line(
            text,
            format_args!(
                "{indent}  LAST ERROR  {} ({}; again after {next})",
                failure.message,
                ago(failure.at)
            ),
        );
    }
    line(
        text,
        format_args!(
            "{indent}  passes      {} (last {}), writes {} (last {})",
            uplink.passes,
            ago(uplink.last_pass),
            uplink.writes,
            ago(uplink.last_write)
        ),
    );
}

/// One line. Writing to a String cannot fail.
pub(crate) fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").ok();
}
