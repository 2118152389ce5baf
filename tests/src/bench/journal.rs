//! Transactions of a database, counted by ovsdb-server itself.
//!
//! A standalone server keeps its database as a journal: one record for each transaction that changed a row. Source:
//! ovsdb(5), "Standalone Database Format". Columns that are not kept (statistics, link states) make no record, and no
//! program but the switch writes those.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use causeway_rig::Node;

/// Where the database of the switch is inside a node: Debian keeps a link to it in `/etc/openvswitch`, which leads
/// nowhere from outside.
const DATABASE: &str = "/var/lib/openvswitch/conf.db";
/// How each record begins.
const RECORD: &str = "OVSDB JSON ";

/// The journal of the switch's database on a node.
pub struct Journal(PathBuf);

impl Journal {
    /// Of a node with Open vSwitch.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        Self(node.path(DATABASE))
    }

    /// How many transactions there were so far.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn transactions(&self) -> anyhow::Result<usize> {
        let bytes = std::fs::read(&self.0).with_context(|| format!("reading {}", self.0.display()))?;
        let count = count(&String::from_utf8_lossy(&bytes));
        ensure!(count > 0, "{} is no standalone database", self.0.display());
        Ok(count)
    }
}

fn count(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with(RECORD)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_a_transaction() {
        let text = "OVSDB JSON 15 abc\n{\"name\":\"x\"}\nOVSDB JSON 30 def\n{\"_comment\":\"OVSDB JSON \"}\n";
        assert_eq!(count(text), 2);
        assert_eq!(count("OVSDB CLUSTER 1 x\n"), 0);
    }
}
