//! Annotations with an entry for each of many networks or families: one bad entry does not take the others with it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// An annotation that cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} {text:?}: {cause}")]
pub struct AnnotationError {
    /// Annotation key.
    pub key: &'static str,
    /// What the annotation holds.
    pub text: String,
    /// What is wrong with it.
    pub cause: String,
}

impl AnnotationError {
    pub(super) fn new(key: &'static str, text: &str, cause: &impl ToString) -> Self {
        Self { key, text: text.to_owned(), cause: cause.to_string() }
    }
}

/// An entry that cannot be read, in an annotation that can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key}: entry {entry:?} is {value}: {cause}")]
pub struct BadEntry {
    /// Annotation key.
    pub key: &'static str,
    /// Which entry: the network, family or place in the list.
    pub entry: String,
    /// Its value as JSON.
    pub value: String,
    /// What is wrong with it.
    pub cause: String,
}

/// What an annotation says, and which of its entries say nothing that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read<T> {
    /// The entries that can be read.
    pub value: T,
    /// The others.
    pub bad: Vec<BadEntry>,
}

/// Values by network.
pub type Networks<T> = BTreeMap<String, T>;

/// The JSON object in an annotation.
pub(super) fn object(key: &'static str, text: &str) -> Result<Map<String, Value>, AnnotationError> {
    // A null is what Go writes for, and reads as, an empty map.
    serde_json::from_str::<Option<Map<String, Value>>>(text)
        .map(Option::unwrap_or_default)
        .map_err(|error| AnnotationError::new(key, text, &error))
}

/// The JSON array in an annotation.
pub(super) fn array(key: &'static str, text: &str) -> Result<Vec<Value>, AnnotationError> {
    serde_json::from_str::<Option<Vec<Value>>>(text)
        .map(Option::unwrap_or_default)
        .map_err(|error| AnnotationError::new(key, text, &error))
}

/// Reads each entry of an object.
pub(super) fn each<T>(
    key: &'static str,
    object: Map<String, Value>,
    mut read: impl FnMut(&Value) -> Result<T, String>,
) -> Read<Networks<T>> {
    let mut found = Read { value: Networks::new(), bad: Vec::new() };
    for (entry, value) in object {
        match read(&value) {
            Ok(read) => drop(found.value.insert(entry, read)),
            Err(cause) => found.bad.push(BadEntry { key, entry, value: value.to_string(), cause }),
        }
    }
    found
}

/// Reads each item of an array.
pub(super) fn items<T>(
    key: &'static str,
    array: &[Value],
    mut read: impl FnMut(&Value) -> Result<T, String>,
) -> Read<Vec<T>> {
    let mut found = Read { value: Vec::new(), bad: Vec::new() };
    for (place, value) in array.iter().enumerate() {
        match read(value) {
            Ok(read) => found.value.push(read),
            Err(cause) => {
                found.bad.push(BadEntry { key, entry: place.to_string(), value: value.to_string(), cause });
            }
        }
    }
    found
}

/// A value that is text in a form that the standard library, or a crate, reads.
pub(super) fn parsed<T>(value: &Value) -> Result<T, String>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let text = value.as_str().ok_or("no string")?;
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// A number in decimal digits alone: neither sign nor spaces.
pub(super) fn decimal(text: &str, most: u32) -> Result<u32, String> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("no decimal number".to_owned());
    }
    match text.parse::<u32>() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(format!("more than {most}")),
    }
}
