//! Which kinds the cluster manager lists and watches, by the API server's own account.

use std::collections::BTreeMap;

use anyhow::ensure;
use causeway_rig::Mark;
use causeway_tests::bench::audit::Request;

use crate::world::{SEGMENTATION, UPLINK, World};
use causeway_tests::control::DEADLINE;

/// Kinds that every cluster manager with tenant networks watches.
const KINDS: [&str; 7] = [
    "clusteruserdefinednetworks",
    "endpointslices",
    "namespaces",
    "network-attachment-definitions",
    "nodes",
    "pods",
    "userdefinednetworks",
];
/// Kinds of Uplinks.
const UPLINKS: [&str; 2] = ["uplinks", "uplinkstates"];

pub(crate) async fn once() -> anyhow::Result<()> {
    let world = World::start().await?;
    let with_uplinks: Vec<&str> = KINDS.into_iter().chain(UPLINKS).collect();
    for (name, without, kinds) in [
        ("everything", &[] as &[&str], with_uplinks),
        ("no-uplinks", &[UPLINK], KINDS.to_vec()),
        ("no-networks", &[SEGMENTATION, UPLINK], Vec::new()),
    ] {
        let mark = world.audit.mark()?;
        let manager = world.manager(name, without).await?;
        let wanted: BTreeMap<String, usize> = kinds.into_iter().map(|kind| (kind.to_owned(), 1)).collect();
        if wanted.is_empty() {
            manager.says(Mark::START, "User-defined networks are switched off", DEADLINE).await?;
        }
        let asked = || -> anyhow::Result<Vec<Request>> {
            let mut asked = world.audit.since(mark)?;
            asked.retain(|request| request.user == World::account());
            Ok(asked)
        };
        let watched = || async {
            let asked = asked().map_err(|error| format!("{error:#}"))?;
            let watched = count(&asked, "watch");
            let all = wanted.keys().all(|kind| watched.contains_key(kind));
            if all { Ok(()) } else { Err(format!("{watched:?}")) }
        };
        world.rig.wait_for(&format!("{name}: every watch"), DEADLINE, watched).await?;
        // Everything that it would ever list or watch was asked for before it began to work.
        if !wanted.is_empty() {
            manager.says(Mark::START, "Watch connected", DEADLINE).await?;
        }
        manager.stop(DEADLINE).await?;
        let asked = asked()?;
        let watched = world.audit.watches_since(mark, &World::account())?;
        ensure!(watched == wanted, "{name}: {watched:?}, wanted {wanted:?}");
        // A list may fail and be tried again, as long as definitions are new to the API server.
        let mut listed = count(&asked, "list");
        // Where Uplinks are off, a leader looks once for what they left behind.
        if without == [UPLINK] {
            listed.remove(UPLINKS[0]);
        }
        ensure!(listed.keys().eq(wanted.keys()), "{name}: {listed:?}, wanted {wanted:?}");
    }
    Ok(())
}

/// How often each kind was asked for.
fn count(asked: &[Request], verb: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for request in asked.iter().filter(|request| request.verb == verb) {
        *found.entry(request.resource.clone()).or_default() += 1;
    }
    found
}
