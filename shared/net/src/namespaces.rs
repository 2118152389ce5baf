//! Which namespaces a ClusterUserDefinedNetwork selects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::selector::{Selector, SelectorError};

/// A selector of namespaces that has been checked. Parse once per change of the spec, ask once per namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceSelector(Selector);

/// A selector that cannot be used: the API server accepts it, as its schema does not look into selectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to get selected namespaces: failed to create label-selector: {0}")]
pub struct BadNamespaceSelector(pub SelectorError);

impl NamespaceSelector {
    /// Checks a selector.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn parse(selector: &LabelSelector) -> Result<Self, BadNamespaceSelector> {
        Selector::parse(selector).map(Self).map_err(BadNamespaceSelector)
    }

    /// A label of which every namespace that it selects has one of these values; none where it does not say so.
    #[must_use]
    pub fn one_of(&self) -> Option<(&str, impl Iterator<Item = &str>)> {
        self.0.one_of()
    }

    /// Whether it selects a namespace with these labels. One without requirements selects every namespace, also the
    /// system's.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(selector: &Value) -> Result<NamespaceSelector, BadNamespaceSelector> {
        NamespaceSelector::parse(&serde_json::from_value(selector.clone()).unwrap())
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn an_operator_that_there_is_not_is_told_in_the_captured_words() {
        let bad = json!({"matchExpressions": [{"key": "team", "operator": "Foo", "values": ["a"]}]});
        assert_eq!(
            parse(&bad).unwrap_err().to_string(),
            r#"failed to get selected namespaces: failed to create label-selector: "Foo" is not a valid label selector operator"#
        );
    }

    #[test]
    fn names_select_exactly_their_namespaces_and_nothing_selects_all() {
        let by_name = json!({"matchExpressions":
            [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]});
        let selector = parse(&by_name).unwrap();
        let named = |name| labels(&[("kubernetes.io/metadata.name", name)]);
        assert!(
            selector.selects(&named("a")) && selector.selects(&named("b")) && !selector.selects(&named("c"))
        );
        assert!(parse(&json!({})).unwrap().selects(&named("kube-system")));
        let (label, values) = selector.one_of().unwrap();
        assert_eq!((label, values.collect::<Vec<_>>()), ("kubernetes.io/metadata.name", vec!["a", "b"]));
        let others = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator":
            "NotIn", "values": ["c"]}, {"key": "d", "operator": "DoesNotExist"}]});
        for none in [json!({}), others.clone()] {
            assert!(parse(&none).unwrap().one_of().is_none(), "{none}");
        }
        let mut both = others;
        both["matchLabels"] = json!({"team": "x"});
        let both = parse(&both).unwrap();
        assert_eq!(both.one_of().map(|(label, values)| (label, values.count())), Some(("team", 1)));
    }
}
