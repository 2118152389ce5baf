//! Transactions (RFC 7047 section 5.2) as values: made by [`diff`](crate::diff()) or by hand, printed, sent.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::value::{Atom, Datum};

mod result;

pub(crate) use result::read as read_results;
pub use result::{Committed, OperationResult, TransactError};

/// A comparison of a column with a value (RFC 7047 section 5.1, `<function>`), as far as this crate needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The column has exactly this value.
    Equal,
    /// The column has another value.
    NotEqual,
    /// The column has all these elements or pairs.
    Includes,
    /// The column has none of these elements or pairs.
    Excludes,
}

impl Function {
    fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Includes => "includes",
            Self::Excludes => "excludes",
        }
    }
}

/// One condition; an operation applies to the rows that meet all of its conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Column name, `_uuid` included.
    pub column: String,
    /// Comparison.
    pub function: Function,
    /// Value to compare with.
    pub value: Datum,
}

impl Condition {
    /// A condition on any column.
    #[must_use]
    pub fn new(column: &str, function: Function, value: Datum) -> Self {
        Self { column: column.to_owned(), function, value }
    }

    /// The condition that selects one row.
    #[must_use]
    pub fn row(uuid: Uuid) -> Self {
        Self::new("_uuid", Function::Equal, Datum::scalar(uuid))
    }

    fn to_json(&self) -> Value {
        json!([self.column, self.function.symbol(), self.value.to_json()])
    }
}

/// How a mutation changes a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutator {
    /// Adds elements; pairs only where the key is free.
    Insert,
    /// Removes elements; from a map also by a set of keys.
    Delete,
}

/// A change of some elements of a set or map.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// Column name.
    pub column: String,
    /// What to do with the elements.
    pub mutator: Mutator,
    /// The elements, pairs or keys.
    pub value: Datum,
}

impl Mutation {
    fn to_json(&self) -> Value {
        let mutator = match self.mutator {
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        };
        json!([self.column, mutator, self.value.to_json()])
    }
}

/// Values by column name.
pub type Columns = BTreeMap<String, Datum>;

/// One operation. All names are those of the schema.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Fails the transaction at once unless the rows that meet the conditions are exactly `rows`, seen through
    /// `columns`. Never waits: its timeout on the wire is 0.
    Wait {
        /// Table.
        table: String,
        /// Which rows to look at.
        conditions: Vec<Condition>,
        /// Which columns to look at.
        columns: Vec<String>,
        /// What has to be found.
        rows: Vec<Columns>,
    },
    /// A new row.
    Insert {
        /// Table.
        table: String,
        /// Columns that differ from their default.
        row: Columns,
        /// Name under which other operations of the transaction refer to the row.
        name: Option<String>,
    },
    /// New values for columns.
    Update {
        /// Table.
        table: String,
        /// Which rows.
        conditions: Vec<Condition>,
        /// New values.
        row: Columns,
    },
    /// Changes of elements.
    Mutate {
        /// Table.
        table: String,
        /// Which rows.
        conditions: Vec<Condition>,
        /// Changes, done in order.
        mutations: Vec<Mutation>,
    },
    /// Removes rows.
    Delete {
        /// Table.
        table: String,
        /// Which rows.
        conditions: Vec<Condition>,
    },
    /// Reads rows.
    Select {
        /// Table.
        table: String,
        /// Which rows.
        conditions: Vec<Condition>,
    },
    /// A note in the server's log of transactions.
    Comment(String),
}

impl Operation {
    /// The table it concerns; a comment concerns none.
    #[must_use]
    pub fn table(&self) -> Option<&str> {
        match self {
            Self::Wait { table, .. }
            | Self::Insert { table, .. }
            | Self::Update { table, .. }
            | Self::Mutate { table, .. }
            | Self::Delete { table, .. }
            | Self::Select { table, .. } => Some(table),
            Self::Comment(_) => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Wait { table, conditions, columns, rows } => json!({
                "op": "wait", "timeout": 0, "table": table, "where": conditions_json(conditions),
                "columns": columns, "until": "==", "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
            }),
            Self::Insert { table, row, name } => {
                let mut operation = json!({"op": "insert", "table": table, "row": row_json(row)});
                if let (Some(name), Some(fields)) = (name, operation.as_object_mut()) {
                    fields.insert("uuid-name".to_owned(), name.as_str().into());
                }
                operation
            }
            Self::Update { table, conditions, row } => json!({
                "op": "update", "table": table, "where": conditions_json(conditions), "row": row_json(row),
            }),
            Self::Mutate { table, conditions, mutations } => json!({
                "op": "mutate", "table": table, "where": conditions_json(conditions),
                "mutations": mutations.iter().map(Mutation::to_json).collect::<Vec<_>>(),
            }),
            Self::Delete { table, conditions } => {
                json!({"op": "delete", "table": table, "where": conditions_json(conditions)})
            }
            Self::Select { table, conditions } => {
                json!({"op": "select", "table": table, "where": conditions_json(conditions)})
            }
            Self::Comment(text) => json!({"op": "comment", "comment": text}),
        }
    }
}

fn conditions_json(conditions: &[Condition]) -> Value {
    conditions.iter().map(Condition::to_json).collect()
}

fn row_json(row: &Columns) -> Value {
    Value::Object(row.iter().map(|(column, value)| (column.clone(), value.to_json())).collect::<Map<_, _>>())
}

/// A list of operations that happen together or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transaction {
    operations: Vec<Operation>,
}

impl Transaction {
    /// Adds an operation at the end.
    pub fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// The operations, in order.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether there is nothing to do. An empty transaction is never sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Adds a note, so that the server's log says who did this. An empty transaction stays empty.
    #[must_use]
    pub fn with_comment(mut self, comment: &str) -> Self {
        if !self.is_empty() {
            self.push(Operation::Comment(comment.to_owned()));
        }
        self
    }

    /// Parameters of the `transact` request.
    pub(crate) fn to_params(&self, database: &str) -> Value {
        let operations = self.operations.iter().map(Operation::to_json);
        std::iter::once(Value::from(database)).chain(operations).collect()
    }
}

impl Extend<Operation> for Transaction {
    fn extend<I: IntoIterator<Item = Operation>>(&mut self, operations: I) {
        self.operations.extend(operations);
    }
}

impl fmt::Display for Transaction {
    /// One line per operation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operations.iter().try_for_each(|operation| writeln!(f, "{operation}"))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait { table, conditions, rows, .. } if rows.is_empty() => {
                write!(f, "expect no {table} where{}", Joined(conditions))
            }
            Self::Wait { table, conditions, .. } => write!(f, "expect {table} where{}", Joined(conditions)),
            Self::Insert { table, row, name } => {
                write!(f, "insert {table}")?;
                if let Some(name) = name {
                    write!(f, " {}", Atom::NamedUuid(name.clone()))?;
                }
                write!(f, ":{}", Assignments(row))
            }
            Self::Update { table, conditions, row } => {
                write!(f, "update {table} where{}:{}", Joined(conditions), Assignments(row))
            }
            Self::Mutate { table, conditions, mutations } => {
                write!(f, "mutate {table} where{}:{}", Joined(conditions), Joined(mutations))
            }
            Self::Delete { table, conditions } => write!(f, "delete {table} where{}", Joined(conditions)),
            Self::Select { table, conditions } => write!(f, "select {table} where{}", Joined(conditions)),
            Self::Comment(text) => write!(f, "comment {text:?}"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.column, self.function.symbol(), self.value)
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.mutator {
            Mutator::Insert => '+',
            Mutator::Delete => '-',
        };
        write!(f, "{} {sign}= {}", self.column, self.value)
    }
}

struct Joined<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if position == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

struct Assignments<'a>(&'a Columns);

impl fmt::Display for Assignments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (column, value)) in self.0.iter().enumerate() {
            write!(f, "{}{column} = {value}", if position == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
