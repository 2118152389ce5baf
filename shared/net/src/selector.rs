//! Label selectors, parsed once and checked by the rules of the API machinery.
//!
//! Source: OVN-Kubernetes, `pkg/uplink/selection.go`; label syntax: k8s.io/apimachinery validation of qualified names.

mod text;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub use self::text::BadSelectorText;

/// Why a selector cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is none of the four.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// `In` or `NotIn` without values.
    #[error("values of {key:?}: operator {operator} needs at least one value")]
    NoValues {
        /// Label key.
        key: String,
        /// Operator as written.
        operator: String,
    },
    /// `Exists` or `DoesNotExist` with values.
    #[error("values of {key:?}: operator {operator} takes no values")]
    Values {
        /// Label key.
        key: String,
        /// Operator as written.
        operator: String,
    },
    /// The key is not a qualified name.
    #[error(
        "key {0:?} is not a valid label key (an optional DNS subdomain and /, then at most 63 letters, digits, -, _ or .)"
    )]
    Key(String),
    /// A value is not a label value.
    #[error("value {value:?} of {key:?} is not a valid label value (at most 63 letters, digits, -, _ or .)")]
    Value {
        /// Label key.
        key: String,
        /// The value.
        value: String,
    },
}

/// A label selector that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// From the form of the API.
    ///
    /// # Errors
    /// Its first requirement that the API machinery would refuse.
    pub fn parse(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement {
                key: checked_key(key)?,
                test: Test::In(vec![checked_value(key, value)?]),
            });
        }
        for expression in selector.match_expressions.iter().flatten() {
            let (key, operator) = (&expression.key, &expression.operator);
            let values = expression.values.as_deref().unwrap_or_default();
            let some_values = || {
                if values.is_empty() {
                    return Err(SelectorError::NoValues { key: key.clone(), operator: operator.clone() });
                }
                values.iter().map(|value| checked_value(key, value)).collect()
            };
            let no_values = |test| {
                if values.is_empty() {
                    Ok(test)
                } else {
                    Err(SelectorError::Values { key: key.clone(), operator: operator.clone() })
                }
            };
            let test = match operator.as_str() {
                "In" => Test::In(some_values()?),
                "NotIn" => Test::NotIn(some_values()?),
                "Exists" => no_values(Test::Exists)?,
                "DoesNotExist" => no_values(Test::DoesNotExist)?,
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            requirements.push(Requirement { key: checked_key(key)?, test });
        }
        Ok(Self(requirements))
    }

    /// A label of which everything that is selected has one of these values; none where no requirement says so.
    #[must_use]
    pub fn one_of(&self) -> Option<(&str, impl Iterator<Item = &str>)> {
        self.0.iter().find_map(|requirement| match &requirement.test {
            Test::In(values) => Some((requirement.key.as_str(), values.iter().map(String::as_str))),
            Test::NotIn(_) | Test::Exists | Test::DoesNotExist => None,
        })
    }

    /// Whether labels meet every requirement; no requirement means yes.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let found = labels.get(&requirement.key);
            match &requirement.test {
                Test::In(values) => found.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => found.is_none_or(|value| !values.contains(value)),
                Test::Exists => found.is_some(),
                Test::DoesNotExist => found.is_none(),
            }
        })
    }
}

fn checked_key(key: &str) -> Result<String, SelectorError> {
    let name_ok = match key.split_once('/') {
        None => is_name(key),
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
    };
    name_ok.then(|| key.to_owned()).ok_or_else(|| SelectorError::Key(key.to_owned()))
}

fn checked_value(key: &str, value: &str) -> Result<String, SelectorError> {
    (value.is_empty() || is_name(value))
        .then(|| value.to_owned())
        .ok_or_else(|| SelectorError::Value { key: key.to_owned(), value: value.to_owned() })
}

/// 1 to 63 bytes of letters, digits, `-`, `_`, `.`; letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// RFC 1123 subdomain of at most 253 bytes.
fn is_subdomain(text: &str) -> bool {
    let label_ok = |label: &str| {
        let bytes = label.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(plain))
            && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(label_ok)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.into(),
                operator: operator.into(),
                values: Some(values.iter().map(|&v| v.to_owned()).collect()),
            }]),
            match_labels: None,
        }
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    #[test]
    fn operators_match_as_the_api_machinery_does() {
        type Case<'c> = (&'c str, &'c [&'c str], &'c [(&'c str, &'c str)], bool);
        let cases: &[Case<'_>] = &[
            ("In", &["a", "b"], &[("rack", "b")], true),
            ("In", &["a", "b"], &[("rack", "c")], false),
            ("In", &["a"], &[], false),
            ("NotIn", &["a"], &[("rack", "b")], true),
            ("NotIn", &["a"], &[("rack", "a")], false),
            ("NotIn", &["a"], &[], true),
            ("Exists", &[], &[("rack", "")], true),
            ("Exists", &[], &[], false),
            ("DoesNotExist", &[], &[], true),
            ("DoesNotExist", &[], &[("rack", "")], false),
        ];
        for (operator, values, on, want) in cases {
            let selector = Selector::parse(&expression("rack", operator, values)).unwrap();
            assert_eq!(selector.matches(&labels(on)), *want, "{operator} {values:?} on {on:?}");
        }
    }

    #[test]
    fn an_empty_selector_matches_every_node() {
        assert!(Selector::parse(&LabelSelector::default()).unwrap().matches(&labels(&[])));
    }

    #[test]
    fn what_the_api_server_accepts_but_nobody_can_use_is_refused_with_its_cause() {
        let long = "x".repeat(64);
        let cases = [
            (expression("rack", "Foo", &[]), r#""Foo" is not a valid label selector operator"#.to_owned()),
            (
                expression("rack", "In", &[]),
                r#"values of "rack": operator In needs at least one value"#.to_owned(),
            ),
            (
                expression("rack", "Exists", &["x"]),
                r#"values of "rack": operator Exists takes no values"#.to_owned(),
            ),
            (expression("ra ck", "Exists", &[]), r#"key "ra ck" is not a valid label key"#.to_owned()),
            (
                expression("Ex.com/rack", "Exists", &[]),
                r#"key "Ex.com/rack" is not a valid label key"#.to_owned(),
            ),
            (
                expression("rack", "In", &["a b"]),
                r#"value "a b" of "rack" is not a valid label value"#.to_owned(),
            ),
            (expression("rack", "In", &[&long]), "is not a valid label value".to_owned()),
            (expression("rack", "In", &["-a"]), "is not a valid label value".to_owned()),
        ];
        for (selector, text) in cases {
            let found = Selector::parse(&selector).unwrap_err().to_string();
            assert!(found.contains(&text), "{selector:?}: {found}");
        }
    }

    #[test]
    fn keys_with_a_prefix_and_empty_values_are_legal() {
        let mut selector = expression("example.com/tenant-blue_uplink", "In", &[""]);
        selector.match_labels = Some(labels(&[("kubernetes.io/hostname", "node-a")]));
        let on = labels(&[("example.com/tenant-blue_uplink", ""), ("kubernetes.io/hostname", "node-a")]);
        assert!(Selector::parse(&selector).unwrap().matches(&on));
    }
}
