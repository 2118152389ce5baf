//! Rows declared in Rust: the traits, and the macro that implements them.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use crate::column::{Shape, ShapeError};
use crate::value::{Atom, Datum};

/// One declared column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSpec {
    /// Name in the schema.
    pub name: &'static str,
    /// What the Rust type demands.
    pub shape: Shape,
    /// Whether a server without this column is acceptable.
    pub optional: bool,
}

/// One declared table, without its Rust type.
#[derive(Debug, Clone, Copy)]
pub struct TableSpec {
    /// Name in the schema.
    pub name: &'static str,
    /// Declared columns; only these are monitored.
    pub columns: &'static [ColumnSpec],
}

/// A secondary index of a table: an arbitrary number of keys per row.
pub struct Index<T> {
    /// Name, unique within the table.
    pub name: &'static str,
    /// The keys of a row.
    pub keys: fn(&T) -> Vec<Atom>,
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Index<T> {}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.name)
    }
}

/// Names one column of one declared table; `C` is the type it was declared with.
pub struct ColumnRef<T, C> {
    name: &'static str,
    types: PhantomData<fn() -> (T, C)>,
}

impl<T, C> ColumnRef<T, C> {
    /// For the [`table!`](crate::table) macro; the name has to be one of `T::columns()`.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// Name in the schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl<T, C> Clone for ColumnRef<T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, C> Copy for ColumnRef<T, C> {}

impl<T, C> fmt::Debug for ColumnRef<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnRef({})", self.name)
    }
}

/// A row type. Implemented by [`table!`](crate::table).
///
/// The identity of a row (`_uuid`) is not part of it: it is the key under which a snapshot holds the row.
pub trait Row: Any + Clone + PartialEq + Default + fmt::Debug + Send + Sync {
    /// Name of the table in the schema.
    const TABLE: &'static str;

    /// The declared columns.
    fn columns() -> &'static [ColumnSpec];

    /// The declared secondary indexes.
    fn indexes() -> &'static [Index<Self>];

    /// Value of a column by name; `None` if it is optional and absent, or not declared.
    fn datum(&self, column: &str) -> Option<Datum>;

    /// Whether a column has the same value in both, told without taking the values apart.
    fn same(&self, other: &Self, column: &str) -> bool;

    /// Sets a column by name, `None` meaning that the server does not have it. Undeclared names are ignored.
    ///
    /// # Errors
    /// [`ShapeError`] if the value does not fit the declared type.
    fn set_datum(&mut self, column: &str, datum: Option<&Datum>) -> Result<(), ShapeError>;

    /// The declaration without the type.
    #[must_use]
    fn spec() -> TableSpec {
        TableSpec { name: Self::TABLE, columns: Self::columns() }
    }
}

/// Declares a row type: a struct, its table, its columns and its indexes.
///
/// ```
/// use std::collections::{BTreeMap, BTreeSet};
/// use ovsdb::Uuid;
///
/// ovsdb::table! {
///     /// A bridge.
///     pub struct Bridge in "Bridge" {
///         /// Name, unique among bridges.
///         name: String,
///         /// Ports of this bridge.
///         ports: BTreeSet<Uuid>,
///         /// A column whose name is a Rust keyword, or that should read better.
///         kind as "datapath_type": String,
///         /// Notes of managers.
///         external_ids: BTreeMap<String, String>,
///         /// The field is an `Option` of the declared type; `None` means the server has no such column.
///         optional fail_mode: Option<String>,
///     }
///     /// Bridges by name.
///     index by_name = |bridge| Some(bridge.name.as_str());
///     /// The bridge that holds a port.
///     index by_port = |bridge| bridge.ports.iter().copied();
/// }
///
/// assert_eq!(Bridge::external_ids().name(), "external_ids");
/// assert_eq!(Bridge::by_name().name, "by_name");
/// ```
///
/// Each column and index also becomes an associated function that names it in queries and claims. The struct derives
/// `Debug`, `Clone`, `PartialEq` and `Default`.
#[macro_export]
macro_rules! table {
    (
        $(#[$meta:meta])* $vis:vis struct $row:ident in $table:literal { $($columns:tt)* }
        $($(#[$index_meta:meta])* index $index:ident = |$bound:ident| $keys:expr;)*
    ) => {
        $crate::__table_columns! { [$(#[$meta])* $vis $row $table] [] $($columns)* }

        impl $row {
            $(
                $(#[$index_meta])*
                #[must_use]
                #[allow(dead_code, reason = "an index may be of use to other modules only")]
                $vis const fn $index() -> $crate::Index<Self> {
                    fn keys($bound: &$row) -> ::std::vec::Vec<$crate::Atom> {
                        ::std::iter::IntoIterator::into_iter($keys).map(::std::convert::Into::into).collect()
                    }
                    $crate::Index { name: stringify!($index), keys }
                }
            )*
        }

        impl $crate::Indexed for $row {
            const INDEXES: &'static [$crate::Index<Self>] = &[$($row::$index()),*];
        }
    };
}

/// The indexes of a row type; apart from [`Row`] only because the macro emits them separately.
#[doc(hidden)]
pub trait Indexed: Sized + 'static {
    #[doc(hidden)]
    const INDEXES: &'static [Index<Self>];
}

/// Brings the column list of [`table!`] into one form: `(metas) kind field "column" (declared) (stored)` per column.
#[doc(hidden)]
#[macro_export]
macro_rules! __table_columns {
    ($head:tt [$($done:tt)*] $(#[$meta:meta])* optional $field:ident as $column:literal : $type:ty $(, $($rest:tt)*)?) => {
        $crate::__table_columns! {
            $head [$($done)* { ($(#[$meta])*) optional $field ($column) ($type) (::std::option::Option<$type>) }] $($($rest)*)?
        }
    };
    ($head:tt [$($done:tt)*] $(#[$meta:meta])* optional $field:ident : $type:ty $(, $($rest:tt)*)?) => {
        $crate::__table_columns! {
            $head
            [$($done)* { ($(#[$meta])*) optional $field (stringify!($field)) ($type) (::std::option::Option<$type>) }]
            $($($rest)*)?
        }
    };
    ($head:tt [$($done:tt)*] $(#[$meta:meta])* $field:ident as $column:literal : $type:ty $(, $($rest:tt)*)?) => {
        $crate::__table_columns! {
            $head [$($done)* { ($(#[$meta])*) required $field ($column) ($type) ($type) }] $($($rest)*)?
        }
    };
    ($head:tt [$($done:tt)*] $(#[$meta:meta])* $field:ident : $type:ty $(, $($rest:tt)*)?) => {
        $crate::__table_columns! {
            $head [$($done)* { ($(#[$meta])*) required $field (stringify!($field)) ($type) ($type) }] $($($rest)*)?
        }
    };
    (
        [$(#[$meta:meta])* $vis:vis $row:ident $table:literal]
        [$({ ($(#[$field_meta:meta])*) $kind:ident $field:ident ($column:expr) ($type:ty) ($stored:ty) })*]
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default)]
        $vis struct $row {
            $($(#[$field_meta])* pub $field: $stored,)*
        }

        impl $row {
            $(
                #[doc = concat!("Names the column `", $column, "`.")]
                #[must_use]
                #[allow(dead_code, reason = "not every column is named in a claim")]
                $vis const fn $field() -> $crate::ColumnRef<Self, $type> {
                    $crate::ColumnRef::new($column)
                }
            )*
        }

        impl $crate::Row for $row {
            const TABLE: &'static str = $table;

            fn columns() -> &'static [$crate::ColumnSpec] {
                const {
                    &[$($crate::ColumnSpec {
                        name: $column,
                        shape: <$type as $crate::Column>::SHAPE,
                        optional: $crate::__table_field!($kind is_optional),
                    }),*]
                }
            }

            fn indexes() -> &'static [$crate::Index<Self>] {
                <Self as $crate::Indexed>::INDEXES
            }

            fn datum(&self, column: &str) -> ::std::option::Option<$crate::Datum> {
                $(if column == $column {
                    return $crate::__table_field!($kind read self.$field);
                })*
                ::std::option::Option::None
            }

            #[allow(clippy::float_cmp, reason = "the same value is meant, not one that is near")]
            fn same(&self, other: &Self, column: &str) -> bool {
                $(if column == $column {
                    return self.$field == other.$field;
                })*
                false
            }

            fn set_datum(
                &mut self,
                column: &str,
                datum: ::std::option::Option<&$crate::Datum>,
            ) -> ::std::result::Result<(), $crate::ShapeError> {
                $(if column == $column {
                    self.$field = $crate::__table_field!($kind write $type, datum);
                })*
                ::std::result::Result::Ok(())
            }
        }
    };
}

/// The differences between optional and other columns.
#[doc(hidden)]
#[macro_export]
macro_rules! __table_field {
    (required is_optional) => {
        false
    };
    (optional is_optional) => {
        true
    };
    (required read $field:expr) => {
        ::std::option::Option::Some($crate::Column::to_datum(&$field))
    };
    (optional read $field:expr) => {
        $field.as_ref().map($crate::Column::to_datum)
    };
    (required write $type:ty, $datum:expr) => {
        match $datum {
            ::std::option::Option::Some(datum) => <$type as $crate::Column>::from_datum(datum)?,
            ::std::option::Option::None => ::std::default::Default::default(),
        }
    };
    (optional write $type:ty, $datum:expr) => {
        $datum.map(<$type as $crate::Column>::from_datum).transpose()?
    };
}

#[cfg(test)]
mod tests;
