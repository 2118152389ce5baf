//! The table of a node, read without anything of Causeway.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use causeway_rig::{Mark, Process, Program};
use serde_json::Value;

use super::{DEADLINE, World};

/// The six sets, by name.
const NAMES: [&str; 6] = [
    "udn-open-ports-v4",
    "udn-open-ports-v6",
    "udn-open-ports-icmp-v4",
    "udn-open-ports-icmp-v6",
    "udn-pod-default-ips-v4",
    "udn-pod-default-ips-v6",
];

/// Elements of the six sets, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sets(BTreeMap<String, BTreeSet<String>>);

impl Sets {
    /// All six, empty.
    #[must_use]
    pub fn empty() -> Self {
        Self(NAMES.iter().map(|name| ((*name).to_owned(), BTreeSet::new())).collect())
    }

    /// All six, with these elements: name of the set without `udn-`, element.
    #[must_use]
    pub fn of(elements: &[(&str, &str)]) -> Self {
        let mut sets = Self::empty();
        for (set, element) in elements {
            sets.insert(&format!("udn-{set}"), (*element).to_owned());
        }
        sets
    }

    /// One more element.
    pub fn insert(&mut self, set: &str, element: String) {
        self.0.entry(set.to_owned()).or_default().insert(element);
    }

    /// Those of a listing in JSON.
    ///
    /// # Errors
    /// It is none.
    pub fn read(listing: &str) -> anyhow::Result<Self> {
        let listing: Value = serde_json::from_str(listing)?;
        let objects = listing.get("nftables").and_then(Value::as_array).context("a listing")?;
        let mut sets = BTreeMap::new();
        for set in objects.iter().filter_map(|object| object.get("set")) {
            let name = set.get("name").and_then(Value::as_str);
            let Some(name) = name.filter(|name| NAMES.contains(name)) else { continue };
            let elements = set.get("elem").and_then(Value::as_array).into_iter().flatten();
            let elements = elements.map(element).collect();
            sets.insert(name.to_owned(), elements);
        }
        Ok(Self(sets))
    }
}

fn element(value: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value.get("concat").and_then(Value::as_array) {
        Some(parts) => parts.iter().map(plain).collect::<Vec<_>>().join(" . "),
        None => plain(value),
    }
}

/// What happens to the node's nftables, as `nft monitor` tells it.
pub struct Monitor<'w> {
    process: Process,
    world: &'w World,
    marks: std::sync::atomic::AtomicU32,
}

impl<'w> Monitor<'w> {
    /// Listens from now on.
    ///
    /// # Errors
    /// nft does not start.
    pub async fn start(world: &'w World) -> anyhow::Result<Self> {
        let process = world.node.spawn(Program::new("nft").named("nft-monitor").arg("monitor")).await?;
        let monitor = Self { process, world, marks: std::sync::atomic::AtomicU32::new(0) };
        // It says nothing when it begins to listen; what it tells of a change says that it does.
        monitor.listens().await?;
        monitor.seen().await?;
        Ok(monitor)
    }

    async fn listens(&self) -> anyhow::Result<()> {
        let look = || async move {
            self.world
                .nft_run("add table ip listens\ndelete table ip listens\n")
                .await
                .map_err(|e| e.to_string())?;
            let log = self.process.log_text().map_err(|error| error.to_string())?;
            if log.contains("listens") { Ok(()) } else { Err("nothing yet") }.map_err(str::to_owned)
        };
        self.world.rig().wait_for("nft monitor to listen", DEADLINE, look).await
    }

    /// What was told since the last call: the lines of each transaction, without those of this monitor's own marks.
    ///
    /// # Errors
    /// nft tells nothing.
    pub async fn seen(&self) -> anyhow::Result<Vec<Vec<String>>> {
        let mark = self.marks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        // Word of changes comes in the order of changes: what is told before the mark is all that was before it.
        self.world.nft_run(&format!("add table ip mark{mark}\ndelete table ip mark{mark}\n")).await?;
        let end = format!("delete table ip mark{mark}\n");
        self.process.says(Mark::START, &end, DEADLINE).await?;
        let log = self.process.log_text()?;
        let begin = mark.checked_sub(1).map(|last| format!("delete table ip mark{last}\n"));
        let log = begin.and_then(|begin| log.split_once(&begin)).map_or(log.as_str(), |(_, rest)| rest);
        let (log, _) = log.split_once(&format!("add table ip mark{mark}\n")).context("the mark")?;
        let mut transactions = vec![Vec::new()];
        for line in log.lines() {
            if line.starts_with("# new generation") {
                transactions.push(Vec::new());
            } else if let Some(last) = transactions.last_mut() {
                last.push(line.to_owned());
            }
        }
        transactions
            .retain(|lines| !lines.is_empty() && !lines.iter().all(|line| line.contains("table ip ")));
        Ok(transactions)
    }

    /// Nothing was told since the last call.
    ///
    /// # Errors
    /// Something was.
    pub async fn saw_nothing(&self, when: &str) -> anyhow::Result<()> {
        let seen = self.seen().await?;
        ensure!(seen.is_empty(), "{when}: {seen:?}");
        Ok(())
    }
}
