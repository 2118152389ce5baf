//! Why a pass did not end well.

use causeway_runtime::engine::{Retry, Retryable};
use causeway_runtime::telemetry::chain;
use ovsdb::TransactError;

use super::super::chassis_settings::ForeignEncap;
use super::super::write::WriteError;

/// Why a pass did not end well.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    /// Rows could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object that everything depends on cannot be read.
    #[error("Node {name} cannot be read ({error}); what is in the database stays")]
    Unreadable {
        /// The node.
        name: String,
        /// What is wrong with it.
        error: String,
    },
    /// Settings of the chassis could not be written.
    #[error("settings of ovn-controller could not be written")]
    Settings(#[source] TransactError),
    /// They cannot be compared with what is there.
    #[error("settings of ovn-controller cannot be compared with what is there")]
    SettingsDiff(#[source] ovsdb::DiffError),
    /// Tunnels would end nowhere.
    #[error(transparent)]
    Encap(#[from] ForeignEncap),
    /// It is not known where tunnels end.
    #[error(
        "it is not known where tunnels to this node end: give --encap-ip, or set external_ids:ovn-encap-ip of its Open vSwitch"
    )]
    NoEncap,
}

impl Retryable for PassError {
    fn retry(&self) -> Retry {
        match self {
            Self::Write(_) | Self::Settings(_) | Self::SettingsDiff(_) => Retry::Backoff,
            Self::Unreadable { .. } | Self::Encap(_) | Self::NoEncap => Retry::Never,
        }
    }
}

impl PassError {
    /// The text for people, who need not know which network met it first: what a server refuses, it refuses of all.
    pub(super) fn note(&self) -> String {
        match self {
            Self::Write(WriteError::Transact { source: TransactError::NotStored { details }, .. }) => {
                format!("the OVN database cannot store changes: {details}")
            }
            Self::Write(WriteError::Transact { source, .. }) => {
                format!("the OVN database refuses changes: {}", chain(source))
            }
            other => chain(other).to_string(),
        }
    }
}

/// Whether the connection is what is missing: who follows it says when to go on, and nobody has to be told of each row.
pub(super) fn is_away(error: &TransactError) -> bool {
    matches!(error, TransactError::NotConnected(_) | TransactError::Stopped | TransactError::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_once_for_all_networks_and_tried_again() {
        let full = |network: &str| {
            let details = "nb.db: write failed (No space left on device)".to_owned();
            let source = TransactError::NotStored { details };
            PassError::Write(WriteError::Transact { network: network.into(), source })
        };
        let note = "the OVN database cannot store changes: nb.db: write failed (No space left on device)";
        assert_eq!((full("blue").note(), full("red").note()), (note.to_owned(), note.to_owned()));
        assert_eq!(full("blue").retry(), Retry::Backoff);
    }

    #[test]
    fn what_a_server_refuses_is_told_once_for_all_networks_and_tried_again() {
        let refused = |network: &str| {
            PassError::Write(WriteError::Transact {
                network: network.into(),
                source: TransactError::Refused {
                    table: None,
                    error: "not allowed".into(),
                    details: "insert operation not allowed when database server is in read only mode".into(),
                },
            })
        };
        assert_eq!(refused("blue").note(), refused("red").note());
        assert!(refused("blue").note().contains("read only mode"), "{}", refused("blue").note());
        assert_eq!(refused("blue").retry(), Retry::Backoff);
        let unreadable = TransactError::Malformed { found: "x".into() };
        assert!(is_away(&TransactError::Interrupted) && !is_away(&unreadable));
    }
}
