//! What tenant networks cost in the control plane: how soon one is there, what it costs among few and among many, and what
//! many at once, many nodes, many namespaces and a restart cost.
//!
//! Nodes are objects without a machine. Times are those at which a watch of the bench has something; writes are counted in
//! the API server's audit log. Where the API server itself is what takes the time, a plain client sends the very same
//! writes to an API server without cluster manager: those for many networks before and after ([`rerun`]), those for one
//! network in turn with it ([`beside`]).

pub mod beside;
mod field;
mod many;
mod namespaces;
mod nodes;
pub mod rerun;
mod sight;
mod single;

use super::session::Session;

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    single::run(session).await?;
    many::run(session).await?;
    nodes::run(session).await?;
    namespaces::run(session).await
}
