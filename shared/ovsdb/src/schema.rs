//! The server's schema (RFC 7047 section 3.2) and the check of declared rows against it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::column::{Arity, Shape};
use crate::row::TableSpec;
use crate::value::{AtomicType, Datum, ElementType, shorten};

/// A database schema as the server reports it; only what a client needs to read and write rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSchema {
    /// Name of the database.
    pub name: String,
    /// Version of the schema; empty where the server omits it.
    pub version: String,
    /// Tables by name.
    pub tables: BTreeMap<String, TableSchema>,
}

/// One table of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// Columns by name, without `_uuid` and `_version`.
    pub columns: BTreeMap<String, ColumnSchema>,
    /// Whether rows live without being referenced; others are collected by the server once nothing refers to them.
    pub is_root: bool,
}

/// Type of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Element types.
    pub elements: ElementType,
    /// Least number of elements: 0 or 1.
    pub min: u64,
    /// Greatest number of elements; `None` means unlimited.
    pub max: Option<u64>,
    /// Table that keys refer to, where keys are row references.
    pub ref_table: Option<String>,
}

impl ColumnSchema {
    /// Whether a value may have more than one element. The server sends changes of such columns as differences,
    /// those of other columns as whole new values (ovsdb-server(7), "Update2 Notification").
    #[must_use]
    pub fn is_composite(&self) -> bool {
        self.max.is_none_or(|max| max > 1)
    }

    /// The value of a row that nobody has written; servers omit it from `update2` and `update3`.
    #[must_use]
    pub fn default_datum(&self) -> Datum {
        match (self.elements.value, self.min) {
            (None, 0) => Datum::Set([].into()),
            (None, _) => Datum::scalar(self.elements.key.default_atom()),
            (Some(_), 0) => Datum::Map([].into()),
            (Some(value), _) => Datum::map([(self.elements.key.default_atom(), value.default_atom())]),
        }
    }

    fn fits(&self, shape: Shape) -> bool {
        self.elements == shape.elements
            && match shape.arity {
                Arity::One => self.min == 1 && self.max == Some(1),
                Arity::Optional => self.min == 0 && self.max == Some(1),
                Arity::Many => true,
            }
    }
}

impl fmt::Display for ColumnSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, self.elements, self.min, self.max)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arity {
            Arity::One => write_type(f, self.elements, 1, Some(1)),
            Arity::Optional => write_type(f, self.elements, 0, Some(1)),
            Arity::Many => write_type(f, self.elements, 0, None),
        }
    }
}

fn write_type(f: &mut fmt::Formatter<'_>, elements: ElementType, min: u64, max: Option<u64>) -> fmt::Result {
    match (elements.value, min, max) {
        (None, 1, Some(1)) => return write!(f, "{}", elements.key),
        (None, ..) => write!(f, "set of {}", elements.key)?,
        (Some(value), ..) => write!(f, "map of {} to {value}", elements.key)?,
    }
    match max {
        Some(max) => write!(f, " ({min}..{max})"),
        None => write!(f, " ({min} or more)"),
    }
}

/// A `get_schema` reply that is not a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema: {place} is not usable: {found}")]
pub struct SchemaParseError {
    /// Which part.
    pub place: String,
    /// The start of what was found there.
    pub found: String,
}

impl DatabaseSchema {
    /// Reads the reply to `get_schema`.
    ///
    /// # Errors
    /// [`SchemaParseError`] names the part that is missing or malformed.
    pub fn parse(json: &Value) -> Result<Self, SchemaParseError> {
        let wrong =
            |place: &str, found: &Value| SchemaParseError { place: place.to_owned(), found: shorten(found) };
        let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = text("name").ok_or_else(|| wrong("name", json))?;
        let tables = json.get("tables").and_then(Value::as_object).ok_or_else(|| wrong("tables", json))?;
        let tables = tables
            .iter()
            .map(|(table, body)| Ok((table.clone(), TableSchema::parse(table, body)?)))
            .collect::<Result<_, _>>()?;
        Ok(Self { name, version: text("version").unwrap_or_default(), tables })
    }
}

impl TableSchema {
    fn parse(table: &str, json: &Value) -> Result<Self, SchemaParseError> {
        let columns = json
            .get("columns")
            .and_then(Value::as_object)
            .ok_or_else(|| SchemaParseError { place: format!("columns of {table}"), found: shorten(json) })?;
        let columns = columns
            .iter()
            .map(|(column, body)| {
                let wrong =
                    || SchemaParseError { place: format!("type of {table}.{column}"), found: shorten(body) };
                let parsed = body.get("type").and_then(ColumnSchema::parse).ok_or_else(wrong)?;
                Ok((column.clone(), parsed))
            })
            .collect::<Result<_, SchemaParseError>>()?;
        Ok(Self { columns, is_root: json.get("isRoot").and_then(Value::as_bool).unwrap_or(false) })
    }
}

impl ColumnSchema {
    fn parse(json: &Value) -> Option<Self> {
        if let Value::String(atomic) = json {
            let elements = ElementType { key: AtomicType::parse(atomic)?, value: None };
            return Some(Self { elements, min: 1, max: Some(1), ref_table: None });
        }
        let object = json.as_object()?;
        let key = object.get("key")?;
        let value = match object.get("value") {
            Some(value) => Some(base_type(value)?),
            None => None,
        };
        Some(Self {
            elements: ElementType { key: base_type(key)?, value },
            min: bound(object, "min")??,
            max: bound(object, "max")?,
            ref_table: key.get("refTable").and_then(Value::as_str).map(str::to_owned),
        })
    }
}

fn base_type(json: &Value) -> Option<AtomicType> {
    match json {
        Value::String(name) => AtomicType::parse(name),
        other => AtomicType::parse(other.get("type")?.as_str()?),
    }
}

/// Outer `None`: malformed. Inner `None`: unlimited.
#[expect(clippy::option_option, reason = "malformed and unlimited are different answers")]
fn bound(object: &Map<String, Value>, key: &str) -> Option<Option<u64>> {
    match object.get(key) {
        None => Some(Some(1)), // both default to 1, RFC 7047 section 3.2 <type>
        Some(Value::String(text)) if text == "unlimited" => Some(None),
        Some(other) => other.as_u64().map(Some),
    }
}

/// A declared table or column that the server's schema does not have in that form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaMismatch {
    /// The table is missing.
    #[error("table {table} is missing")]
    MissingTable {
        /// The table.
        table: String,
    },
    /// The column is missing and not declared optional.
    #[error("column {table}.{column} is missing")]
    MissingColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The column has another type.
    #[error("column {table}.{column} is {found}, but {declared} was declared")]
    WrongType {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The server's type, as text.
        found: String,
        /// The declared type, as text.
        declared: String,
    },
}

/// What the schema check found out about one declared table: for each declared column its type at this server, or
/// `None` for an optional column that the server does not have. Same order as the declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableLayout {
    pub(crate) columns: Vec<Option<ColumnSchema>>,
}

/// Compares declared tables with the schema; all differences are reported together.
pub(crate) fn check(
    declared: &[TableSpec],
    schema: &DatabaseSchema,
) -> Result<Vec<TableLayout>, Vec<SchemaMismatch>> {
    let mut wrong = Vec::new();
    let mut layouts = Vec::new();
    for spec in declared {
        let table = spec.name.to_owned();
        let Some(found) = schema.tables.get(spec.name) else {
            wrong.push(SchemaMismatch::MissingTable { table });
            continue;
        };
        let mut columns = Vec::new();
        for column in spec.columns {
            let known = found.columns.get(column.name);
            let name = || (table.clone(), column.name.to_owned());
            match known {
                Some(known) if !known.fits(column.shape) => {
                    let (table, column_name) = name();
                    wrong.push(SchemaMismatch::WrongType {
                        table,
                        column: column_name,
                        found: known.to_string(),
                        declared: column.shape.to_string(),
                    });
                }
                None if !column.optional => {
                    let (table, column) = name();
                    wrong.push(SchemaMismatch::MissingColumn { table, column });
                }
                _ => {}
            }
            columns.push(known.cloned());
        }
        layouts.push(TableLayout { columns });
    }
    if wrong.is_empty() { Ok(layouts) } else { Err(wrong) }
}

#[cfg(test)]
mod tests;
