//! The value model of RFC 7047: atoms, sets and maps, and their JSON form (section 5.1).
//!
//! Every column value is a [`Datum`]. A scalar is a set of exactly one atom, an optional value a set of at most one;
//! on the wire a set of one is written as the bare atom.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

/// The five atomic types of RFC 7047 section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AtomicType {
    /// A signed 64-bit integer.
    Integer,
    /// An IEEE double.
    Real,
    /// True or false.
    Boolean,
    /// A UTF-8 string.
    String,
    /// The identity of a row.
    Uuid,
}

impl AtomicType {
    /// The type with the given name in a schema, if there is one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "integer" => Some(Self::Integer),
            "real" => Some(Self::Real),
            "boolean" => Some(Self::Boolean),
            "string" => Some(Self::String),
            "uuid" => Some(Self::Uuid),
            _ => None,
        }
    }

    /// The value that a row has in a scalar column nobody has written (RFC 7047 section 5.2.1).
    #[must_use]
    pub fn default_atom(self) -> Atom {
        match self {
            Self::Integer => Atom::Integer(0),
            Self::Real => Atom::Real(0.0),
            Self::Boolean => Atom::Boolean(false),
            Self::String => Atom::String(String::new()),
            Self::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }
}

impl fmt::Display for AtomicType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        })
    }
}

/// One atomic value.
///
/// Atoms are totally ordered (reals by IEEE total order), so that they can be members of sets and keys of maps.
#[derive(Debug, Clone)]
pub enum Atom {
    /// A signed 64-bit integer.
    Integer(i64),
    /// An IEEE double.
    Real(f64),
    /// True or false.
    Boolean(bool),
    /// A UTF-8 string.
    String(String),
    /// The identity of an existing row.
    Uuid(Uuid),
    /// A row that an `insert` of the same transaction creates; exists only in requests.
    NamedUuid(String),
}

impl Atom {
    fn rank(&self) -> u8 {
        match self {
            Self::Integer(_) => 0,
            Self::Real(_) => 1,
            Self::Boolean(_) => 2,
            Self::String(_) => 3,
            Self::Uuid(_) => 4,
            Self::NamedUuid(_) => 5,
        }
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Integer(value) => Value::from(*value),
            Self::Real(value) => Value::from(*value),
            Self::Boolean(value) => Value::from(*value),
            Self::String(value) => Value::from(value.as_str()),
            Self::Uuid(value) => Value::Array(vec!["uuid".into(), value.to_string().into()]),
            Self::NamedUuid(name) => Value::Array(vec!["named-uuid".into(), name.as_str().into()]),
        }
    }

    /// Reads an atom of a known type: the server writes the real 1.0 as `1`, so the type has to be known.
    ///
    /// # Errors
    /// [`ValueError`] if the JSON is no atom of that type.
    pub fn from_json(value: &Value, kind: AtomicType) -> Result<Self, ValueError> {
        let wrong = || ValueError { wanted: kind.to_string(), found: shorten(value) };
        match (kind, value) {
            (AtomicType::Integer, Value::Number(number)) => number.as_i64().map(Self::Integer),
            (AtomicType::Real, Value::Number(number)) => number.as_f64().map(Self::Real),
            (AtomicType::Boolean, Value::Bool(value)) => Some(Self::Boolean(*value)),
            (AtomicType::String, Value::String(value)) => Some(Self::String(value.clone())),
            (AtomicType::Uuid, Value::Array(pair)) => match pair.as_slice() {
                [Value::String(tag), Value::String(text)] if tag == "uuid" => {
                    parse_uuid(text).map(Self::Uuid)
                }
                [Value::String(tag), Value::String(name)] if tag == "named-uuid" => {
                    Some(Self::NamedUuid(name.clone()))
                }
                _ => None,
            },
            _ => None,
        }
        .ok_or_else(wrong)
    }
}

/// Only the hyphenated form is a UUID on the wire (RFC 7047 section 5.1, `<uuid>`).
pub(crate) fn parse_uuid(text: &str) -> Option<Uuid> {
    if text.len() == 36 { Uuid::try_parse(text).ok() } else { None }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Real(a), Self::Real(b)) => a.total_cmp(b),
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) | (Self::NamedUuid(a), Self::NamedUuid(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::String(value) => write!(f, "{value:?}"),
            Self::Uuid(value) => write!(f, "{value}"),
            Self::NamedUuid(name) => write!(f, "@{name}"),
        }
    }
}

impl From<i64> for Atom {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Atom {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<bool> for Atom {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<String> for Atom {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<&str> for Atom {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<&String> for Atom {
    fn from(value: &String) -> Self {
        Self::String(value.clone())
    }
}

impl From<Uuid> for Atom {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}

/// The atomic types of a column's elements: keys, and values where the column is a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementType {
    /// Type of a set's elements or a map's keys.
    pub key: AtomicType,
    /// Type of a map's values; `None` for a set.
    pub value: Option<AtomicType>,
}

/// The value of one column of one row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    /// A set, also used for scalars (one element) and optional values (none or one).
    Set(BTreeSet<Atom>),
    /// A map.
    Map(BTreeMap<Atom, Atom>),
}

impl Datum {
    /// A set of one atom: the form of a scalar.
    #[must_use]
    pub fn scalar(atom: impl Into<Atom>) -> Self {
        Self::Set(BTreeSet::from([atom.into()]))
    }

    /// A set of the given atoms.
    #[must_use]
    pub fn set<A: Into<Atom>>(atoms: impl IntoIterator<Item = A>) -> Self {
        Self::Set(atoms.into_iter().map(Into::into).collect())
    }

    /// A map of the given pairs.
    #[must_use]
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// Number of elements or pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Set(atoms) => atoms.len(),
            Self::Map(pairs) => pairs.len(),
        }
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The JSON form: a bare atom, `["set", [...]]` or `["map", [...]]`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Set(atoms) => match atoms.first() {
                Some(atom) if atoms.len() == 1 => atom.to_json(),
                _ => tagged("set", atoms.iter().map(Atom::to_json).collect()),
            },
            Self::Map(pairs) => {
                let pair = |(key, value): (&Atom, &Atom)| Value::Array(vec![key.to_json(), value.to_json()]);
                tagged("map", pairs.iter().map(pair).collect())
            }
        }
    }

    /// Reads a value whose element types are known.
    ///
    /// # Errors
    /// [`ValueError`] if the JSON is not a set, map or atom of these types.
    pub fn from_json(value: &Value, kind: ElementType) -> Result<Self, ValueError> {
        let wrong = |wanted: &str| ValueError { wanted: wanted.to_owned(), found: shorten(value) };
        let items = match value {
            Value::Array(parts) => match parts.as_slice() {
                [Value::String(tag), Value::Array(items)] if tag == "set" || tag == "map" => {
                    Some((tag, items))
                }
                _ => None,
            },
            _ => None,
        };
        match (kind.value, items) {
            (None, None) => Ok(Self::Set(BTreeSet::from([Atom::from_json(value, kind.key)?]))),
            (None, Some((tag, items))) if tag == "set" => items
                .iter()
                .map(|item| Atom::from_json(item, kind.key))
                .collect::<Result<_, _>>()
                .map(Self::Set),
            (Some(value_kind), Some((tag, items))) if tag == "map" => items
                .iter()
                .map(|item| match item.as_array().map(Vec::as_slice) {
                    Some([key, value]) => {
                        Ok((Atom::from_json(key, kind.key)?, Atom::from_json(value, value_kind)?))
                    }
                    _ => Err(wrong("map of pairs")),
                })
                .collect::<Result<_, _>>()
                .map(Self::Map),
            (None, _) => Err(wrong("set")),
            (Some(_), _) => Err(wrong("map")),
        }
    }

    /// As [`from_json`](Self::from_json), from JSON that is not taken apart yet.
    pub(crate) fn from_text(text: &RawValue, kind: ElementType) -> Result<Self, ValueError> {
        // Numbers that no type holds are JSON all the same.
        let wrong = |_| ValueError { wanted: kind.key.to_string(), found: shorten_text(text.get()) };
        Self::from_json(&serde_json::from_str(text.get()).map_err(wrong)?, kind)
    }

    /// The same value with every atom passed through `change`; used to put named rows in place of placeholders.
    #[must_use]
    pub fn map_atoms(&self, change: impl Fn(&Atom) -> Atom) -> Self {
        match self {
            Self::Set(atoms) => Self::Set(atoms.iter().map(change).collect()),
            Self::Map(pairs) => {
                Self::Map(pairs.iter().map(|(key, value)| (change(key), change(value))).collect())
            }
        }
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(atoms) => match atoms.first() {
                Some(atom) if atoms.len() == 1 => write!(f, "{atom}"),
                _ => write_list(f, ('[', ']'), atoms.iter()),
            },
            Self::Map(pairs) => {
                write_list(f, ('{', '}'), pairs.iter().map(|(key, value)| format!("{key}={value}")))
            }
        }
    }
}

fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    (open, close): (char, char),
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    write!(f, "{open}")?;
    for (position, item) in items.enumerate() {
        let separator = if position == 0 { "" } else { ", " };
        write!(f, "{separator}{item}")?;
    }
    write!(f, "{close}")
}

fn tagged(tag: &str, items: Vec<Value>) -> Value {
    Value::Array(vec![tag.into(), Value::Array(items)])
}

/// JSON that is not a value of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {wanted}, found {found}")]
pub struct ValueError {
    /// The type that was expected.
    pub wanted: String,
    /// The start of the JSON that was found.
    pub found: String,
}

/// The first characters of some JSON, for error texts. Costs no more than that, however large the JSON is.
pub(crate) fn shorten(value: &Value) -> String {
    let mut short = Short { text: String::new(), room: 120 };
    match write!(short, "{value}") {
        Ok(()) => short.text,
        Err(fmt::Error) => short.text + "…",
    }
}

/// The same of JSON that is not taken apart.
pub(crate) fn shorten_text(json: &str) -> String {
    let mut short = Short { text: String::new(), room: 120 };
    match short.write_str(json) {
        Ok(()) => short.text,
        Err(fmt::Error) => short.text + "…",
    }
}

/// Takes characters until it is full, and then fails, which ends the formatting.
struct Short {
    text: String,
    room: usize,
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
