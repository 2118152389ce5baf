//! Management ports on the integration bridge, as rows of Open vSwitch. Source: ovs-vswitchd.conf.db(5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovsdb::{Claim, Desired, DiffError, Snapshot, Transaction, Uuid, diff};

use super::PortKey;
use super::network::{ManagedNetwork, PREFIX};
use crate::discovery::ovs::INTEGRATION_BRIDGE;
use crate::vswitch::{Bridge, Port};

ovsdb::table! {
    /// An interface, as far as it may be a management port's.
    pub struct ManagementInterface in "Interface" {
        /// Name, unique among interfaces.
        name: String,
        /// Type.
        kind as "type": String,
        /// MAC address that it should have.
        mac: Option<String>,
        /// Largest packet that it should take.
        mtu_request: Option<i64>,
        /// Whose it is.
        external_ids: BTreeMap<String, String>,
    }
    /// By name.
    index by_name = |interface| Some(interface.name.as_str());
}

/// The logical port of an interface. Source: ovn-architecture(7).
const INTERFACE_ID: &str = "iface-id";
/// The network of a port that is not the default network's. Source: ovn-kubernetes, `types.NetworkExternalID`.
const NETWORK: &str = "k8s.ovn.org/network";
/// Beginning of the logical ports of management ports. Source: ovn-kubernetes, `types.K8sPrefix`.
const LOGICAL_PREFIX: &str = "k8s-";
/// Type of an interface that is this machine's end of a port.
const INTERNAL: &str = "internal";

/// Why a port cannot be made or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// ovn-controller has not made the bridge yet.
    #[error("there is no bridge {INTEGRATION_BRIDGE} yet; ovn-controller makes it")]
    NoBridge,
    /// Somebody else has a port of this name.
    #[error("port {0} is somebody else's: it is on another bridge, or no internal port")]
    Foreign(String),
    /// The rows cannot be compared.
    #[error(transparent)]
    Diff(#[from] DiffError),
}

/// Declares what management ports read and write.
#[must_use]
pub fn tables(builder: ovsdb::StoreBuilder) -> ovsdb::StoreBuilder {
    builder.table::<Bridge>().table::<Port>().table::<ManagementInterface>()
}

/// The port with an interface's name, if it is one that management ports have.
#[must_use]
pub(crate) fn key(name: &str) -> Option<PortKey> {
    let digits = name.strip_prefix(PREFIX)?;
    let is_canonical = !digits.is_empty()
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    is_canonical.then(|| digits.parse().ok().map(PortKey))?
}

/// Whether an interface is marked as a management port: upstream's marks, so that a cluster can change over.
fn is_ours(interface: &ManagementInterface) -> bool {
    let logical = interface.external_ids.get(INTERFACE_ID);
    let Some(PortKey(id)) = key(&interface.name) else { return false };
    interface.kind == INTERNAL
        && logical.is_some_and(|port| port.starts_with(LOGICAL_PREFIX))
        && (id == 0 || interface.external_ids.contains_key(NETWORK))
}

/// The management ports that there are.
pub(crate) fn present(have: &Snapshot) -> Vec<PortKey> {
    let ours = have.rows::<ManagementInterface>().filter(|(_, row)| is_ours(row));
    ours.filter_map(|(_, row)| key(&row.name)).collect()
}

/// The change after which a port is as it should be.
///
/// # Errors
/// [`PortError`]; then nothing is to be written.
pub fn wanted(port: &ManagedNetwork, have: &Snapshot) -> Result<Transaction, PortError> {
    let name = port.interface();
    let (_, bridge) = integration_bridge(have)?;
    if let Some((_, interface)) = have.find_one(ManagementInterface::by_name(), name.as_str())
        && !(interface.kind == INTERNAL && is_on(bridge, &name, have))
    {
        return Err(PortError::Foreign(name));
    }
    let mut want = Desired::default();
    let is_default = port.id.is_default();
    let mut external_ids = BTreeMap::from([(INTERFACE_ID.to_owned(), port.interface_id.clone())]);
    if !is_default {
        external_ids.insert(NETWORK.to_owned(), port.network.as_str().to_owned());
    }
    let claim = Claim::by(ManagementInterface::by_name())
        .all()
        .keys(ManagementInterface::external_ids(), [INTERFACE_ID, NETWORK]);
    let interface = want.row(
        &Arc::new(claim),
        ManagementInterface {
            name: name.clone(),
            kind: INTERNAL.to_owned(),
            mac: Some(port.mac.to_string()),
            mtu_request: Some(i64::from(port.mtu)),
            external_ids,
        },
    );
    let claim = Claim::by(Port::by_name()).whole(Port::name()).whole(Port::interfaces());
    let row = Port { name: name.clone(), interfaces: [interface].into(), ..Port::default() };
    let of_bridge = want.row(&Arc::new(claim), row);
    hold(&mut want, &name, Some(of_bridge));
    Ok(diff(&want, have)?)
}

/// The change after which there is no management port of this key; nothing where there is none, or a foreign one.
///
/// # Errors
/// [`PortError`]; then nothing is to be written.
pub(crate) fn unwanted(key: PortKey, have: &Snapshot) -> Result<Transaction, PortError> {
    let name = key.to_string();
    let found = have.find_one(ManagementInterface::by_name(), name.as_str());
    if !found.is_some_and(|(_, row)| is_ours(row)) {
        return Ok(Transaction::default());
    }
    let Ok((_, bridge)) = integration_bridge(have) else { return Ok(Transaction::default()) };
    if !is_on(bridge, &name, have) {
        return Ok(Transaction::default());
    }
    let mut want = Desired::default();
    hold(&mut want, &name, None);
    Ok(diff(&want, have)?)
}

/// The integration bridge refers to this port of this name, or to none. The database drops what nothing refers to.
fn hold(want: &mut Desired, name: &str, port: Option<Uuid>) {
    let own = name.to_owned();
    let claim = Claim::by(Bridge::by_name())
        .must_exist()
        .references(Bridge::ports(), move |port: &Port| port.name == own);
    let ports: BTreeSet<Uuid> = port.into_iter().collect();
    want.row(&Arc::new(claim), Bridge { name: INTEGRATION_BRIDGE.to_owned(), ports, ..Bridge::default() });
}

fn integration_bridge(have: &Snapshot) -> Result<(Uuid, &Arc<Bridge>), PortError> {
    have.find_one(Bridge::by_name(), INTEGRATION_BRIDGE).ok_or(PortError::NoBridge)
}

fn is_on(bridge: &Bridge, name: &str, have: &Snapshot) -> bool {
    have.find(Port::by_name(), name).any(|(uuid, _)| bridge.ports.contains(&uuid))
}

#[cfg(test)]
mod tests;
