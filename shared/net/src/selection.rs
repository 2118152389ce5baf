//! Which entry of an Uplink selects a node.
//!
//! Source: OVN-Kubernetes, `pkg/uplink/selection.go`.

use std::collections::BTreeMap;

use causeway_api::uplink::{NodeConfig, UplinkSpec};

use crate::selector::Selector;
pub use crate::selector::SelectorError;

/// The entries of an Uplink with their selectors parsed. Parse once per change of the spec, ask once per node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeConfigs(Vec<(Selector, NodeConfig)>);

/// An entry whose selector cannot be used. One such entry makes the whole Uplink unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nodeConfig {index} has invalid nodeSelector: {cause}")]
pub struct InvalidNodeSelector {
    /// Position of the entry, from 0.
    pub index: usize,
    /// What is wrong. Part of the text on purpose: it goes into conditions as one line.
    pub cause: SelectorError,
}

/// What an Uplink says about one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selection<'c> {
    /// No entry selects the node.
    None,
    /// Exactly one entry does.
    One(&'c NodeConfig),
    /// Two or more do, even if they are equal.
    Overlap,
}

impl NodeConfigs {
    /// Parses every selector, also those that no node would ever reach.
    ///
    /// # Errors
    /// The first entry whose selector cannot be used.
    pub fn parse(spec: &UplinkSpec) -> Result<Self, InvalidNodeSelector> {
        let parsed = spec.node_configs.iter().enumerate().map(|(index, config)| {
            let selector = Selector::parse(&config.node_selector)
                .map_err(|cause| InvalidNodeSelector { index, cause })?;
            Ok((selector, config.clone()))
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }

    /// What the entries say about a node with these labels.
    #[must_use]
    pub fn select(&self, labels: &BTreeMap<String, String>) -> Selection<'_> {
        let mut matching =
            self.0.iter().filter(|(selector, _)| selector.matches(labels)).map(|(_, config)| config);
        match (matching.next(), matching.next()) {
            (None, _) => Selection::None,
            (Some(one), None) => Selection::One(one),
            (Some(_), Some(_)) => Selection::Overlap,
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::uplink::UplinkType;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

    use super::*;

    fn config(labels: &[(&str, &str)], interface: &str) -> NodeConfig {
        NodeConfig {
            type_: UplinkType::OvsBridge,
            node_selector: LabelSelector { match_labels: Some(map(labels)), match_expressions: None },
            host_interface_name: interface.into(),
        }
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    #[track_caller]
    fn check(configs: &[NodeConfig], labels: &[(&str, &str)], want: &str) {
        let configs = NodeConfigs::parse(&UplinkSpec { node_configs: configs.to_vec() }).unwrap();
        let found = match configs.select(&map(labels)) {
            Selection::None => "none".to_owned(),
            Selection::One(config) => config.host_interface_name.clone(),
            Selection::Overlap => "overlap".to_owned(),
        };
        assert_eq!(found, want);
    }

    #[test]
    fn the_reference_cases_select_as_published() {
        let two = [config(&[("role", "blue")], "breth0"), config(&[("zone", "east")], "breth1")];
        check(&two, &[("role", "blue")], "breth0");
        check(&two, &[("role", "red")], "none");
        check(&two, &[("role", "blue"), ("zone", "east")], "overlap");
        check(
            &[config(&[], "breth0"), config(&[("role", "blue")], "breth1")],
            &[("role", "blue")],
            "overlap",
        );
        check(&[config(&[], "breth0")], &[("any", "thing")], "breth0");
        check(&[config(&[], "breth0")], &[], "breth0");
    }

    #[test]
    fn two_identical_entries_overlap() {
        check(&[config(&[], "breth0"), config(&[], "breth0")], &[], "overlap");
    }

    #[test]
    fn an_invalid_selector_is_named_by_its_index_without_any_node() {
        let mut bad = config(&[], "breth1");
        bad.node_selector.match_expressions = Some(vec![LabelSelectorRequirement {
            key: "role".into(),
            operator: "Invalid".into(),
            values: None,
        }]);
        let spec = UplinkSpec { node_configs: vec![config(&[], "breth0"), bad] };
        assert_eq!(
            NodeConfigs::parse(&spec).unwrap_err().to_string(),
            r#"nodeConfig 1 has invalid nodeSelector: "Invalid" is not a valid label selector operator"#
        );
    }
}
