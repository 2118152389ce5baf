//! One-off requests, for tools and for looking before opening a [`Store`](crate::Store).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::connection::{CallError, Connection, ConnectionError};
use crate::options::Options;
use crate::remote::Remote;
use crate::schema::{DatabaseSchema, SchemaParseError};
use crate::statistics::{Counters, Statistics};
use crate::transaction::{OperationResult, TransactError, Transaction, read_results};
use crate::value::shorten;

/// A connection that does one request at a time and nothing in between: the server's echo requests are answered only
/// while a request runs, so a client that is kept idle for long is dropped by the server.
pub struct Client {
    connection: Connection,
    options: Options,
    counters: Arc<Counters>,
}

/// A request that got no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No result.
    #[error("request failed")]
    Call(#[from] CallError),
    /// The answer to `list_dbs` is no list of names.
    #[error("malformed reply to list_dbs: {found}")]
    Databases {
        /// The start of the answer.
        found: String,
    },
    /// The answer to `get_schema` is no schema.
    #[error("malformed reply to get_schema")]
    Schema(#[from] SchemaParseError),
    /// The transaction was not committed.
    #[error("transaction failed")]
    Transact(#[from] TransactError),
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`ConnectionError`] says what is wrong with the remote.
    pub async fn connect(remote: &Remote, options: Options) -> Result<Self, ConnectionError> {
        let counters = Arc::new(Counters::default());
        let connection = Connection::open(remote, &options, counters.clone()).await?;
        Ok(Self { connection, options, counters })
    }

    /// Names of the server's databases (`list_dbs`).
    ///
    /// # Errors
    /// [`ClientError::Call`], [`ClientError::Databases`].
    pub async fn databases(&mut self) -> Result<Vec<String>, ClientError> {
        let reply = self.call("list_dbs", json!([])).await?;
        let names: Option<Vec<String>> = reply
            .as_array()
            .and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
        names.ok_or_else(|| ClientError::Databases { found: shorten(&reply) })
    }

    /// The schema of a database (`get_schema`).
    ///
    /// # Errors
    /// [`ClientError::Call`] also if there is no such database, [`ClientError::Schema`].
    pub async fn schema(&mut self, database: &str) -> Result<DatabaseSchema, ClientError> {
        let reply = self.call("get_schema", json!([database])).await?;
        Ok(DatabaseSchema::parse(&reply)?)
    }

    /// Does a transaction; an empty one is not sent.
    ///
    /// # Errors
    /// [`ClientError::Call`], [`ClientError::Transact`].
    pub async fn transact(
        &mut self,
        database: &str,
        transaction: &Transaction,
    ) -> Result<Vec<OperationResult>, ClientError> {
        if transaction.is_empty() {
            return Ok(Vec::new());
        }
        self.counters.transactions.add(1);
        let reply = self.call("transact", transaction.to_params(database)).await?;
        Ok(read_results(transaction, &reply)?)
    }

    /// What this connection has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    async fn call(&mut self, method: &'static str, params: Value) -> Result<Value, CallError> {
        self.connection.call(method, params, self.options.request_timeout).await
    }
}
