//! Label selectors in the form that flags have: `kubernetes.io/os=windows,tier notin (a, b),!control`.
//!
//! Source: kubernetes.io, "Labels and Selectors", and the parser of k8s.io/apimachinery `labels`.

use std::str::FromStr;

use super::{Requirement, Selector, SelectorError, Test, checked_key, checked_value};

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelectorText {
    /// A requirement has no form that there is.
    #[error("{0:?} is not a label requirement such as key=value, key!=value, key in (a,b), key or !key")]
    Form(String),
    /// A key or a value cannot be one.
    #[error(transparent)]
    Part(#[from] SelectorError),
}

impl FromStr for Selector {
    type Err = BadSelectorText;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = split(text);
        // Nothing at all selects everything; a comma without a requirement beside it is a slip.
        if parts.len() == 1 && text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        parts.into_iter().map(requirement).collect::<Result<_, _>>().map(Self)
    }
}

/// The requirements: commas in parentheses do not part them.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    let parts = text.split(|letter: char| {
        match letter {
            '(' => inside = true,
            ')' => inside = false,
            _ => {}
        }
        letter == ',' && !inside
    });
    parts.map(str::trim).collect()
}

fn requirement(text: &str) -> Result<Requirement, BadSelectorText> {
    let one = |key: &str, value: &str| -> Result<(String, Vec<String>), BadSelectorText> {
        Ok((checked_key(key.trim())?, vec![checked_value(key.trim(), value.trim())?]))
    };
    if let Some((key, value)) = text.split_once("!=") {
        let (key, values) = one(key, value)?;
        return Ok(Requirement { key, test: Test::NotIn(values) });
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        let (key, values) = one(key, value)?;
        return Ok(Requirement { key, test: Test::In(values) });
    }
    if let Some((head, list)) = text.split_once('(') {
        let bad = || BadSelectorText::Form(text.to_owned());
        let list = list.strip_suffix(')').ok_or_else(bad)?;
        let mut words = head.split_whitespace();
        let (Some(key), Some(operator), None) = (words.next(), words.next(), words.next()) else {
            return Err(bad());
        };
        let values: Vec<String> =
            list.split(',').map(|value| checked_value(key, value.trim())).collect::<Result<_, _>>()?;
        let key = checked_key(key)?;
        return match operator {
            "in" => Ok(Requirement { key, test: Test::In(values) }),
            "notin" => Ok(Requirement { key, test: Test::NotIn(values) }),
            _ => Err(bad()),
        };
    }
    match text.strip_prefix('!') {
        Some(key) => Ok(Requirement { key: checked_key(key.trim())?, test: Test::DoesNotExist }),
        None if text.is_empty() || text.contains(char::is_whitespace) => {
            Err(BadSelectorText::Form(text.to_owned()))
        }
        None => Ok(Requirement { key: checked_key(text)?, test: Test::Exists }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_form_selects_as_kubectl_does() {
        let windows = [("kubernetes.io/os", "windows"), ("tier", "a")];
        for (text, want) in [
            ("", true),
            ("kubernetes.io/os=windows", true),
            ("kubernetes.io/os == windows", true),
            ("kubernetes.io/os=linux", false),
            ("kubernetes.io/os!=windows", false),
            ("other!=windows", true),
            ("tier in (b, a),kubernetes.io/os", true),
            ("tier notin (b,a)", false),
            ("!tier", false),
            ("!other , tier", true),
            ("other=", false),
        ] {
            let labels: BTreeMap<String, String> =
                windows.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            assert_eq!(text.parse::<Selector>().unwrap().matches(&labels), want, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_what_is_wrong() {
        for (text, error) in [
            ("a b", "\"a b\" is not a label requirement"),
            ("tier in (a", "\"tier in (a\" is not a label requirement"),
            ("tier like (a)", "\"tier like (a)\" is not a label requirement"),
            ("a=b,,c", "\"\" is not a label requirement"),
            ("a=b c", "value \"b c\" of \"a\" is not a valid label value"),
            ("-a", "key \"-a\" is not a valid label key"),
        ] {
            let found = text.parse::<Selector>().unwrap_err().to_string();
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }
}
