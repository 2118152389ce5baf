//! What an agent says about networks in OVN, as `causewayctl` shows it.

use causeway_proto::introspect;
use serde::Serialize;

/// Which networks an agent writes to OVN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyView {
    /// Why nothing can be written; empty where something can.
    pub reason: String,
    /// How many networks there are.
    pub networks: u64,
    /// How many of them have not all of their rows.
    pub incomplete: u64,
    /// Those, by name.
    pub described: Vec<NetworkView>,
    /// What is wrong with something other than a network.
    pub problems: Vec<String>,
}

/// One network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkView {
    /// Its name.
    pub name: String,
    /// Its id, once it has one.
    pub id: Option<u32>,
    /// Why all of it is left as it is.
    pub reason: String,
    /// Parts that have no rows, or not the newest.
    pub parts: Vec<PartView>,
    /// Transactions about it since the agent started.
    pub transactions: u64,
}

/// One part of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartView {
    /// Which.
    pub name: String,
    /// Why.
    pub reason: String,
    /// Whether something is only awaited.
    pub waits: bool,
}

impl TopologyView {
    pub(crate) fn of(section: introspect::TopologySection) -> Self {
        Self {
            reason: section.reason,
            networks: section.networks,
            incomplete: section.incomplete,
            described: section.described.into_iter().map(NetworkView::of).collect(),
            problems: section.problems,
        }
    }

    /// As text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Networks in OVN: {}, incomplete: {}", self.networks, self.incomplete)];
        if !self.reason.is_empty() {
            lines.push(format!("  NOT WRITTEN: {}", self.reason));
        }
        lines.extend(self.problems.iter().map(|problem| format!("  {problem}")));
        for network in &self.described {
            let id = network.id.map_or_else(|| "no id".to_owned(), |id| format!("id {id}"));
            lines.push(format!("  {} ({id})", network.name));
            if !network.reason.is_empty() {
                lines.push(format!("    all of it: {}", network.reason));
            }
            lines.extend(network.parts.iter().map(|part| {
                let how = if part.waits { "waits: " } else { "" };
                format!("    {}: {how}{}", part.name, part.reason)
            }));
        }
        lines
    }
}

impl NetworkView {
    fn of(network: introspect::TopologyNetwork) -> Self {
        let part = |part: introspect::TopologyPart| PartView {
            name: part.name,
            reason: part.reason,
            waits: part.waits,
        };
        Self {
            name: network.name,
            id: network.id,
            reason: network.reason,
            parts: network.parts.into_iter().map(part).collect(),
            transactions: network.transactions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_without_rows_is_shown_with_the_reason_of_each_part() {
        let part = |name: &str, reason: &str, waits| introspect::TopologyPart {
            name: name.into(),
            reason: reason.into(),
            waits,
        };
        let section = introspect::TopologySection {
            reason: String::new(),
            networks: 3,
            incomplete: 2,
            described: vec![
                introspect::TopologyNetwork {
                    name: "blue".into(),
                    id: Some(1),
                    parts: vec![
                        part("gateway", "annotation k8s.ovn.org/l3-gateway-config is missing", true),
                        part("remote node n2", "failed to get node id for node - n2", false),
                    ],
                    ..Default::default()
                },
                introspect::TopologyNetwork { name: "red".into(), reason: "no".into(), ..Default::default() },
            ],
            problems: vec!["chassis: node n3: taken".into()],
        };
        assert_eq!(
            TopologyView::of(section).lines(),
            [
                "Networks in OVN: 3, incomplete: 2",
                "  chassis: node n3: taken",
                "  blue (id 1)",
                "    gateway: waits: annotation k8s.ovn.org/l3-gateway-config is missing",
                "    remote node n2: failed to get node id for node - n2",
                "  red (no id)",
                "    all of it: no",
            ]
        );
    }
}
