//! Reads the Northbound database: its schema, then all rows in one transaction, so that they are of one moment.

use ovsdb::{
    Client, ClientError, Columns, ConnectionError, DatabaseSchema, Datum, Operation, OperationResult,
    Options, Remote, TableSchema, Transaction, Uuid, ValueError,
};
use serde_json::{Map, Value};

use super::plan::is_required;
use super::rows::{Database, TABLES};

/// Where a node's Northbound database is unless told otherwise. Source: ovn-nbctl(8), Debian's run directory.
pub const NORTHBOUND: &str = "unix:/run/ovn/ovnnb_db.sock";

const DATABASE: &str = "OVN_Northbound";

/// Why there is nothing to draw from.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// No server answers.
    #[error(
        "cannot reach the Northbound database at {remote} (call this on the node or the card that has it, or give --nb-address)"
    )]
    Unreachable {
        /// The address.
        remote: Remote,
        /// Why.
        #[source]
        source: Box<ConnectionError>,
    },
    /// Another server answers.
    #[error("the server at {remote} has no database {DATABASE}; it has: {}", found.join(", "))]
    Another {
        /// The address.
        remote: Remote,
        /// Its databases.
        found: Vec<String>,
    },
    /// The server does not answer as it should.
    #[error("cannot read {DATABASE} at {remote}")]
    Unread {
        /// The address.
        remote: Remote,
        /// Why.
        #[source]
        source: Box<ClientError>,
    },
    /// The schema is none that could be drawn.
    #[error("{DATABASE} at {remote} has schema {version} without {missing}: it cannot be drawn")]
    Schema {
        /// The address.
        remote: Remote,
        /// Version of the schema.
        version: String,
        /// `TABLE:COLUMN`.
        missing: String,
    },
    /// A value is not of the schema's type.
    #[error("{DATABASE} at {remote}: {table}:{column}")]
    Value {
        /// The address.
        remote: Remote,
        /// The table.
        table: &'static str,
        /// The column.
        column: String,
        /// Why.
        #[source]
        source: Box<ValueError>,
    },
    /// No address is given.
    #[error("no address of a Northbound database is given")]
    NoAddress,
}

/// Reads from the first of the addresses where a server answers.
///
/// # Errors
/// No server answers (the last failure is told), or the one that does has another database or schema.
pub async fn read(remotes: &[Remote], options: &Options) -> Result<Database, DatabaseError> {
    let mut last = DatabaseError::NoAddress;
    for remote in remotes {
        match Client::connect(remote, options.clone()).await {
            Ok(client) => return read_from(client, remote).await,
            Err(error) => {
                last = DatabaseError::Unreachable { remote: remote.clone(), source: Box::new(error) };
            }
        }
    }
    Err(last)
}

async fn read_from(mut client: Client, remote: &Remote) -> Result<Database, DatabaseError> {
    let unread = |error| DatabaseError::Unread { remote: remote.clone(), source: Box::new(error) };
    let found = client.databases().await.map_err(unread)?;
    if !found.iter().any(|name| name == DATABASE) {
        return Err(DatabaseError::Another { remote: remote.clone(), found });
    }
    let schema = client.schema(DATABASE).await.map_err(unread)?;
    let mut database = lacking(&schema, remote)?;
    let tables: Vec<(&'static str, &TableSchema)> =
        TABLES.iter().filter_map(|(table, ..)| Some((*table, schema.tables.get(*table)?))).collect();
    let mut transaction = Transaction::default();
    transaction.extend(
        tables
            .iter()
            .map(|(table, _)| Operation::Select { table: (*table).to_owned(), conditions: Vec::new() }),
    );
    let results = client.transact(DATABASE, &transaction).await.map_err(unread)?;
    for ((table, schema), result) in tables.into_iter().zip(results) {
        let OperationResult::Rows(rows) = result else { continue };
        for row in rows {
            let (uuid, columns) = columns(&row, schema).map_err(|(column, source)| {
                let (remote, source) = (remote.clone(), Box::new(source));
                DatabaseError::Value { remote, table, column, source }
            })?;
            if let Some(uuid) = uuid {
                database.add(table, uuid, columns);
            }
        }
    }
    Ok(database)
}

/// An empty database that knows what its schema lacks.
fn lacking(schema: &DatabaseSchema, remote: &Remote) -> Result<Database, DatabaseError> {
    let mut database = Database::new(schema.version.clone());
    for (table, required, optional) in TABLES {
        let Some(known) = schema.tables.get(*table) else {
            if let Some(column) = required.first() {
                return Err(unusable(schema, remote, table, column));
            }
            database.missing.insert((*table).to_owned());
            continue;
        };
        for column in required.iter().chain(*optional).filter(|column| !known.columns.contains_key(**column))
        {
            if is_required(table, column) {
                return Err(unusable(schema, remote, table, column));
            }
            database.missing.insert(format!("{table}:{column}"));
        }
    }
    Ok(database)
}

fn unusable(schema: &DatabaseSchema, remote: &Remote, table: &str, column: &str) -> DatabaseError {
    let (version, missing) = (schema.version.clone(), format!("{table}:{column}"));
    DatabaseError::Schema { remote: remote.clone(), version, missing }
}

fn columns(
    row: &Map<String, Value>,
    schema: &TableSchema,
) -> Result<(Option<Uuid>, Columns), (String, ValueError)> {
    let uuid = row.get("_uuid").and_then(Value::as_array).and_then(|pair| pair.get(1));
    let uuid = uuid.and_then(Value::as_str).and_then(|text| Uuid::try_parse(text).ok());
    let known = row.iter().filter_map(|(name, value)| Some((name, value, schema.columns.get(name)?)));
    let columns = known.map(|(name, value, column)| {
        let datum = Datum::from_json(value, column.elements).map_err(|error| (name.clone(), error))?;
        Ok((name.clone(), datum))
    });
    Ok((uuid, columns.collect::<Result<_, _>>()?))
}
