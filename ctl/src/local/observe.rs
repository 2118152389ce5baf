//! Looks at the machine it runs on.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_runtime::telemetry::chain;
use tokio_util::sync::CancellationToken;

use super::plan::{Facts, Interface, OvsFacts};
use super::{devlink, features};
use crate::agent;

/// Where Open vSwitch's database is unless told otherwise, as agents have it.
pub const OVSDB: &str = "unix:/run/openvswitch/db.sock";

/// How long the database may take.
const OVSDB_DEADLINE: Duration = Duration::from_secs(3);

/// Interfaces of this network namespace.
const NET: &str = "/sys/class/net";

ovsdb::table! {
    /// The one row of the switch's settings.
    pub struct OpenVSwitch in "Open_vSwitch" {
        /// Settings of the switch.
        other_config: BTreeMap<String, String>,
        /// Its version, once it runs.
        ovs_version: Option<String>,
    }
}

/// Whether this machine looks like one that has an agent or a switch.
#[must_use]
pub fn is_node(socket: &Path) -> bool {
    socket.exists() || Path::new("/run/openvswitch/db.sock").exists()
}

/// Looks.
pub async fn facts(socket: &Path, ovsdb: &str) -> Facts {
    let (agent, ovs, eswitches) = tokio::join!(agent::ask(socket, None), ovs(ovsdb), devlink::eswitches());
    Facts {
        ovs,
        eswitches,
        interfaces: interfaces().await,
        agent: agent.map_err(|error| chain(&error).to_string()),
    }
}

async fn ovs(address: &str) -> Result<OvsFacts, String> {
    let remotes: ovsdb::Remotes = address.parse().map_err(|error| format!("{address}: {error}"))?;
    let (store, driver) = ovsdb::Store::builder(remotes, "Open_vSwitch").table::<OpenVSwitch>().build();
    let stop = CancellationToken::new();
    let running = tokio::spawn(driver.run(stop.clone()));
    let synced = store.synced(OVSDB_DEADLINE).await;
    stop.cancel();
    let snapshot = match synced {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let status = store.status().borrow().to_string();
            running.abort();
            return Err(format!("{address}: {status} ({error})"));
        }
    };
    running.abort();
    let row = snapshot.rows::<OpenVSwitch>().next().map(|(_, row)| row.clone());
    let row = row.ok_or_else(|| format!("{address}: the database has no row about the switch"))?;
    let hw_offload = row.other_config.get("hw-offload").cloned();
    Ok(OvsFacts { hw_offload, version: row.ovs_version.clone() })
}

/// Interfaces of devices, with their features.
async fn interfaces() -> Result<Vec<Interface>, String> {
    let named = names(Path::new(NET)).map_err(|error| format!("{NET}: {error}"))?;
    let wanted: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let offloads = features::hw_tc_offload(&wanted).await?;
    let facts = named.into_iter().zip(offloads);
    Ok(facts.map(|((name, is_port), hw_tc_offload)| Interface { name, is_port, hw_tc_offload }).collect())
}

/// Interfaces that are of a device or ports of a switch, and whether they are ports.
fn names(folder: &Path) -> io::Result<Vec<(String, bool)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        // Interfaces that are no ports answer EOPNOTSUPP.
        let switch = std::fs::read_to_string(path.join("phys_switch_id")).unwrap_or_default();
        let is_port = !switch.trim().is_empty();
        if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && (is_port || path.join("device").exists())
        {
            found.push((name.to_owned(), is_port));
        }
    }
    found.sort();
    Ok(found)
}
