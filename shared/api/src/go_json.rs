//! JSON as Go's encoding/json writes it: compact, with `<`, `>`, `&`, U+2028 and U+2029 escaped.
//!
//! Annotations and network configs are compared as text, by Causeway and by what it replaces: one byte of
//! difference would be a write for every object at a change-over. Writing by hand cannot fail, other than serde.

/// A string with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
                let code = u32::from(letter);
                out.push_str("\\u");
                for shift in [12, 8, 4, 0] {
                    out.extend(char::from_digit((code >> shift) & 0xf, 16));
                }
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// An array of texts that are JSON already.
pub(crate) fn array(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

/// An array of strings.
pub(crate) fn strings<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    array(items.into_iter().map(|item| quoted(item.as_ref())))
}

/// An object; its keys are written in the order in which they are added.
#[derive(Debug, Default)]
pub(crate) struct Object(String);

impl Object {
    /// Adds a value that is JSON already.
    pub(crate) fn raw(mut self, key: &str, value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&quoted(key));
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    /// Adds a string.
    pub(crate) fn string(self, key: &str, value: &str) -> Self {
        self.raw(key, &quoted(value))
    }

    /// Adds a string unless it is empty.
    pub(crate) fn string_if_any(self, key: &str, value: &str) -> Self {
        if value.is_empty() { self } else { self.string(key, value) }
    }

    /// Adds a number, where there is one.
    pub(crate) fn number_if_any(self, key: &str, value: Option<impl std::fmt::Display>) -> Self {
        match value {
            Some(value) => self.raw(key, &value.to_string()),
            None => self,
        }
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        format!("{{{}}}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_escaped_as_go_does() {
        assert_eq!(
            quoted("a<b>&\"\\\u{8}\u{c}\n\r\t\u{1}\u{2028}é"),
            r#""a\u003cb\u003e\u0026\"\\\b\f\n\r\t\u0001\u2028é""#
        );
    }

    proptest! {
        #[test]
        fn any_text_reads_back_as_it_was(key: String, value: String) {
            let text = Object::default().string(&key, &value).finish();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read, serde_json::json!({key: value}));
        }
    }
}
