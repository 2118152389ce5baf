//! Which Rust types can hold the value of a column.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::flat_set::FlatSet;
use crate::text_map::TextMap;
use crate::value::{Atom, AtomicType, Datum, ElementType};

/// How many elements a Rust type can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one: the column must have `min` 1 and `max` 1.
    One,
    /// None or one: the column must have `min` 0 and `max` 1.
    Optional,
    /// Any number: fits every column of the right element types.
    Many,
}

/// What a Rust type demands of its column; compared with the server's schema at connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Element types.
    pub elements: ElementType,
    /// Number of elements.
    pub arity: Arity,
}

/// A value that does not fit the Rust type it should be stored in.
///
/// The schema check at connect rules this out for a server that keeps to its own schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("value {found} does not fit the declared type")]
pub struct ShapeError {
    /// The value, as text.
    pub found: String,
}

impl ShapeError {
    fn new(datum: &Datum) -> Self {
        Self { found: datum.to_string() }
    }
}

/// A Rust type that can hold one atom. Implemented by newtypes that want to be set elements or map keys.
pub trait Scalar: Sized {
    /// The atomic type on the wire.
    const TYPE: AtomicType;

    /// The atom that stands for this value.
    fn to_atom(&self) -> Atom;

    /// The value that stands for an atom, `None` if the atom is not acceptable.
    fn from_atom(atom: &Atom) -> Option<Self>;
}

/// A Rust type that can hold the whole value of a column.
pub trait Column: Sized + Clone + PartialEq + Default {
    /// What the column must look like in the server's schema.
    const SHAPE: Shape;

    /// The value on the wire.
    fn to_datum(&self) -> Datum;

    /// The Rust value.
    ///
    /// # Errors
    /// [`ShapeError`] if the number or type of the elements does not fit.
    fn from_datum(datum: &Datum) -> Result<Self, ShapeError>;
}

/// A Rust type that can hold a map.
pub trait MapColumn: Column {}

const fn set_of(key: AtomicType, arity: Arity) -> Shape {
    Shape { elements: ElementType { key, value: None }, arity }
}

macro_rules! scalar {
    ($type:ty, $kind:ident, $to:expr) => {
        impl Scalar for $type {
            const TYPE: AtomicType = AtomicType::$kind;

            fn to_atom(&self) -> Atom {
                let convert: fn(&$type) -> Atom = $to;
                convert(self)
            }

            fn from_atom(atom: &Atom) -> Option<Self> {
                match atom {
                    Atom::$kind(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }

        impl Column for $type {
            const SHAPE: Shape = set_of(<$type as Scalar>::TYPE, Arity::One);

            fn to_datum(&self) -> Datum {
                Datum::scalar(self.to_atom())
            }

            fn from_datum(datum: &Datum) -> Result<Self, ShapeError> {
                Option::<$type>::from_datum(datum)?.ok_or_else(|| ShapeError::new(datum))
            }
        }
    };
}

scalar!(i64, Integer, |value| Atom::Integer(*value));
scalar!(f64, Real, |value| Atom::Real(*value));
scalar!(bool, Boolean, |value| Atom::Boolean(*value));
scalar!(String, String, |value| Atom::String(value.clone()));
scalar!(Uuid, Uuid, |value| Atom::Uuid(*value));

impl<T: Scalar + Clone + PartialEq> Column for Option<T> {
    const SHAPE: Shape = set_of(T::TYPE, Arity::Optional);

    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(Scalar::to_atom).collect())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ShapeError> {
        let wrong = || ShapeError::new(datum);
        match datum {
            Datum::Set(atoms) if atoms.len() <= 1 => {
                atoms.first().map(|atom| T::from_atom(atom).ok_or_else(wrong)).transpose()
            }
            _ => Err(wrong()),
        }
    }
}

fn elements<T: Scalar, C: FromIterator<T>>(datum: &Datum) -> Result<C, ShapeError> {
    let wrong = || ShapeError::new(datum);
    match datum {
        Datum::Set(atoms) => atoms.iter().map(|atom| T::from_atom(atom).ok_or_else(wrong)).collect(),
        Datum::Map(_) => Err(wrong()),
    }
}

impl<T: Scalar + Clone + Ord> Column for BTreeSet<T> {
    const SHAPE: Shape = set_of(T::TYPE, Arity::Many);

    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(Scalar::to_atom).collect())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ShapeError> {
        elements(datum)
    }
}

impl<T: Scalar + Clone + Ord> Column for FlatSet<T> {
    const SHAPE: Shape = set_of(T::TYPE, Arity::Many);

    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(Scalar::to_atom).collect())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ShapeError> {
        elements(datum)
    }
}

/// A set in ascending order; duplicates vanish on the wire. `BTreeSet` says more, except for reals, which have no `Ord`.
impl<T: Scalar + Clone + PartialEq> Column for Vec<T> {
    const SHAPE: Shape = set_of(T::TYPE, Arity::Many);

    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(Scalar::to_atom).collect())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ShapeError> {
        elements(datum)
    }
}

const fn map_of(key: AtomicType, value: AtomicType) -> Shape {
    Shape { elements: ElementType { key, value: Some(value) }, arity: Arity::Many }
}

impl<K: Scalar + Clone + Ord, V: Scalar + Clone + PartialEq> Column for BTreeMap<K, V> {
    const SHAPE: Shape = map_of(K::TYPE, V::TYPE);

    fn to_datum(&self) -> Datum {
        Datum::Map(self.iter().map(|(key, value)| (key.to_atom(), value.to_atom())).collect())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ShapeError> {
        let wrong = || ShapeError::new(datum);
        let Datum::Map(pairs) = datum else { return Err(wrong()) };
        let pair = |(key, value): (&Atom, &Atom)| K::from_atom(key).zip(V::from_atom(value));
        pairs.iter().map(|atoms| pair(atoms).ok_or_else(wrong)).collect()
    }
}

impl<K: Scalar + Clone + Ord, V: Scalar + Clone + PartialEq> MapColumn for BTreeMap<K, V> {}

impl Column for TextMap {
    const SHAPE: Shape = map_of(AtomicType::String, AtomicType::String);

    fn to_datum(&self) -> Datum {
        Datum::map(self)
    }

    fn from_datum(datum: &Datum) -> Result<Self, ShapeError> {
        let wrong = || ShapeError::new(datum);
        let Datum::Map(pairs) = datum else { return Err(wrong()) };
        let texts = pairs.iter().map(|pair| match pair {
            (Atom::String(key), Atom::String(value)) => Ok((key.as_str(), value.as_str())),
            _ => Err(wrong()),
        });
        texts.collect()
    }
}

impl MapColumn for TextMap {}

#[cfg(test)]
mod tests;
