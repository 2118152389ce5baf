//! Reads what an explanation rests on.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::Client;

use super::model::World;
use crate::agent::{self, AgentView};
use crate::cluster;
use crate::error::CtlError;

/// Reads the world around an Uplink. A socket that was asked for has to answer; the usual one is asked if it is there.
///
/// # Errors
/// The API server, or an agent that was asked for.
pub async fn world(
    client: &Client,
    uplink: &str,
    only: Option<&str>,
    sockets: &[PathBuf],
    now: Timestamp,
) -> Result<World, CtlError> {
    let found = cluster::uplink(client, uplink).await?;
    let found = found.ok_or_else(|| CtlError::NotFound { kind: "Uplink", name: uplink.to_owned() })?;
    let (nodes, states) = tokio::try_join!(cluster::nodes(client), cluster::states(client))?;
    if let Some(node) = only
        && !nodes.iter().any(|row| row.name == node)
    {
        return Err(CtlError::NotFound { kind: "Node", name: node.to_owned() });
    }
    let agents = agents(sockets, Some(uplink)).await?;
    Ok(World { uplink: found, nodes, states, agents, only: only.map(str::to_owned), now })
}

/// The agents behind sockets; without any the usual one, if it is there and answers.
///
/// # Errors
/// An agent that was asked for does not answer.
pub async fn agents(sockets: &[PathBuf], uplink: Option<&str>) -> Result<Vec<AgentView>, CtlError> {
    if sockets.is_empty() {
        let usual = Path::new(causeway_proto::INTROSPECT_SOCKET);
        return Ok(agent::ask(usual, uplink).await.into_iter().collect());
    }
    let mut agents = Vec::new();
    for socket in sockets {
        agents.push(agent::ask(socket, uplink).await?);
    }
    Ok(agents)
}
