//! Versions of OVN: what this one's schema has of the columns that docs/topology-versions.md lists, and that the captured
//! databases and everything that is declared fit into it. Runs with whatever version the rig has; `make test OVN=next`
//! gives it the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::topology::CapturedRun;
use ovsdb::{Client, DatabaseSchema, Operation, Options, Remote};

const DATABASE: &str = "OVN_Northbound";

/// The version of the schema that has the documented columns: OVN 26.03's.
const NEXT: [u32; 3] = [7, 18, 0];

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    let level = Level::Switch;
    Suite::new()
        .test_in(&shared, level, "documented_columns_are_in_newer_schemas_and_not_in_older_ones", documented)
        .test_in(&shared, level, "captured_databases_fit_whole_into_the_schema", captured)
        .run()
}

/// The schema of a running server.
async fn schema(rig: &Rig, name: &str) -> anyhow::Result<DatabaseSchema> {
    let node = rig.node(name).unregistered().start().await?;
    let ovs = node.ovs().await?;
    let zone = node.ovn_zone(&ovs).await?;
    let remote = Remote::Unix(zone.northbound_socket().to_owned());
    let mut client = Client::connect(&remote, Options::default()).await?;
    Ok(client.schema(DATABASE).await?)
}

/// The table of the document: columns by table.
fn listed() -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/topology-versions.md");
    let text = std::fs::read_to_string(path).context(path)?;
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let mut names = line.split('`').skip(1).step_by(2);
        let (table, column) = names.next().zip(names.next()).with_context(|| line.to_owned())?;
        listed.entry(table.to_owned()).or_default().insert(column.to_owned());
    }
    ensure!(!listed.is_empty(), "{path} lists nothing");
    Ok(listed)
}

async fn documented(rig: Arc<Rig>) -> anyhow::Result<()> {
    let schema = schema(&rig, "documented").await?;
    let version: Vec<u32> = schema.version.split('.').map(str::parse).collect::<Result<_, _>>()?;
    let is_next = version.as_slice() >= &NEXT[..];
    for (table, columns) in listed()? {
        let known = schema.tables.get(&table).with_context(|| format!("no table {table}"))?;
        for column in columns {
            let is_there = known.columns.contains_key(&column);
            ensure!(is_there == is_next, "schema {}: {table}:{column} there: {is_there}", schema.version);
        }
    }
    Ok(())
}

async fn captured(rig: Arc<Rig>) -> anyhow::Result<()> {
    let schema = schema(&rig, "captured").await?;
    for run in
        ["02-default-v4-3zones", "03-cudn-l3-primary", "04-cudn-l2-primary", "06-secondary", "14-before"]
    {
        let captured = CapturedRun::load(run)?;
        // What a server does not know would be left out.
        let mut rows = 0;
        for operation in captured.fill(&schema)?.operations() {
            let (Operation::Insert { table, row, .. } | Operation::Update { table, row, .. }) = operation
            else {
                continue;
            };
            rows += 1;
            let known = &schema.tables.get(table).with_context(|| format!("{run}: {table}"))?.columns;
            ensure!(row.keys().all(|column| known.contains_key(column)), "{run}: {table} {row:?}");
        }
        ensure!(rows == captured.rows(), "{run}: {rows} of {} rows", captured.rows());
        let left = captured.unknown(&schema);
        ensure!(left.is_empty(), "{run}: schema {} has no {left:?}", schema.version);
    }
    Ok(())
}
