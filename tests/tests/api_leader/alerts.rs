//! The example alert rules against what the programs really tell.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_tests::{manifests, states};
use regex::Regex;
use serde_yaml_ng::Value;

use crate::budgets;
use crate::world::{DEADLINE, UPSTREAM, World, uplink};

/// Every metric name in the rules of `deploy/alerts/`.
fn wanted() -> anyhow::Result<BTreeSet<String>> {
    let name = Regex::new("causeway_[a-z_]+")?;
    let mut names = BTreeSet::new();
    let text = manifests::folder("alerts")?;
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let rules: Value = serde::Deserialize::deserialize(document)?;
        let groups = rules.get("groups").and_then(Value::as_sequence).context("groups")?;
        for rule in groups.iter().filter_map(|group| group.get("rules")?.as_sequence()).flatten() {
            let alert = rule.get("alert").and_then(Value::as_str).context("a rule without a name")?;
            let expression = rule.get("expr").and_then(Value::as_str).context("a rule without expr")?;
            let summary = rule.get("annotations").and_then(|all| all.get("summary"));
            ensure!(summary.is_some(), "{alert} has no summary");
            let found = name.find_iter(expression).map(|found| found.as_str().to_owned());
            names.extend(found);
            ensure!(expression.contains("causeway_"), "{alert} asks for no metric of ours");
        }
    }
    Ok(names)
}

pub(crate) async fn names() -> anyhow::Result<()> {
    let wanted = wanted()?;
    ensure!(wanted.len() >= 10, "too few metrics in the rules: {wanted:?}");
    let world = World::start().await?;
    let client = world.client();
    for node in ["one", "two"] {
        budgets::make_node(&client, node.to_owned()).await?;
    }
    world.rig.apply(&uplink("blue", "way: out")).await?;
    budgets::make_state(&client, "blue", "two", false).await?;
    let manager = world.replica("a", UPSTREAM).await?;
    let node = world.program("node-agent", "place-node", None, ["--init-node", "one"]).await?;
    states::uplink_says(&client, "blue", "False/UplinkStateNotResolved").await?;
    // A time in state is told when the state ends.
    budgets::resolve(&client, "blue.two").await?;
    let told = || async {
        let mut told = BTreeSet::new();
        for program in [&manager, &node] {
            let text = program.ask("/metrics").await.map_err(|error| format!("{error:#}"))?;
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            told.extend(samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned));
        }
        let missing: Vec<&String> = wanted.difference(&told).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("nobody tells {missing:?}; told: {told:?}")) }
    };
    world.rig.wait_for("every metric of the rules", DEADLINE, told).await
}
