//! A thousand states change at once: what the cluster manager spends on it, and how often it writes.

use std::collections::BTreeMap;

use anyhow::ensure;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::audit::Request;
use super::crowd::Crowd;
use super::measure::{Goal, Taken};
use super::process::cpu;
use super::session::Session;

/// Nodes of the cluster: each Uplink has a state on each.
const NODES: usize = 100;
/// Its Uplinks.
const UPLINKS: usize = 10;
/// In so long an Uplink may be written once.
const INTERVAL: SignedDuration = SignedDuration::from_millis(100);
/// CPU time of the cluster manager.
const CPU: &str = "burst_cpu";
/// Writes of one Uplink.
const WRITES: &str = "burst_writes_in_100ms";

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    if !session.wants_any([CPU, WRITES]) {
        return Ok(());
    }
    let crowd = Crowd::gather(NODES, UPLINKS).await?;
    let (mark, before) = (crowd.audit.mark()?, cpu(&crowd.manager)?);
    crowd.resolve_all().await?;
    crowd.probe.rests(&crowd.manager, 1.0).await?;
    let spent = cpu(&crowd.manager)?.saturating_sub(before);
    let taken = Taken::times(CPU, &[spent]);
    session.tell(taken.goal(Goal::max(1000.0)).incumbent("one pass and one write for each event"))?;
    let requests = crowd.audit.since(mark)?;
    let densest = densest(requests.iter().filter(|request| request.is_write()));
    ensure!(densest.len() == UPLINKS, "the API server noted writes of {} Uplinks", densest.len());
    let taken = Taken::values(WRITES, "writes", densest.into_values().map(f64::from).collect());
    session.tell(taken.goal(Goal::max(1.0)).incumbent("one for each event"))
}

/// The largest number of requests for each object in any [`INTERVAL`].
fn densest<'r>(requests: impl Iterator<Item = &'r Request>) -> BTreeMap<&'r str, u32> {
    let mut times: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for request in requests {
        times.entry(&request.name).or_default().push(request.received);
    }
    let most = |mut times: Vec<Timestamp>| {
        times.sort_unstable();
        let within = |from: &Timestamp| {
            let near = times.iter().filter(|to| *to >= from && to.duration_since(*from) < INTERVAL);
            u32::try_from(near.count()).unwrap_or(u32::MAX)
        };
        times.iter().map(within).max().unwrap_or_default()
    };
    times.into_iter().map(|(name, times)| (name, most(times))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_requests_in_any_tenth_of_a_second_are_found() {
        let at = |name: &str, ms: i64| Request {
            user: String::new(),
            verb: "patch".into(),
            resource: "uplinks/status".into(),
            name: name.into(),
            received: Timestamp::from_millisecond(ms).unwrap(),
        };
        let requests = [at("a", 0), at("b", 10), at("a", 250), at("a", 320), at("a", 349), at("b", 110)];
        let found = densest(requests.iter());
        assert_eq!(found, BTreeMap::from([("a", 3), ("b", 1)]));
    }
}
