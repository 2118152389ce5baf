//! Replicas of the cluster manager on a real API server: who writes, what happens to the lease, what people and alert rules
//! get to see, and how much is written.

#[path = "api_leader/alerts.rs"]
mod alerts;
#[path = "api_leader/budgets.rs"]
mod budgets;
#[path = "api_leader/world.rs"]
mod world;

use std::process::ExitCode;
use std::time::Duration;

use self::world::{DEADLINE, QUICK, Timing, UPSTREAM, World, uplink};
use anyhow::{Context, ensure};
use causeway_api::uplink::Uplink;
use causeway_rig::{Level, Suite, wait_object};
use causeway_tests::{manifests, states};
use kube::Api;
use nix::sys::signal::Signal;

/// Longest hand-over that only the watch can explain, in microseconds: half of upstream's time between two tries.
const HANDED_OVER: i64 = 13_000_000;

fn main() -> ExitCode {
    Suite::new()
        .test(
            Level::Api,
            "a_killed_leader_is_followed_after_its_lease_by_one_that_writes_nothing_twice",
            killed,
        )
        .test(
            Level::Api,
            "a_leader_that_is_told_to_stop_hands_over_long_before_its_lease_runs_out",
            told_to_stop,
        )
        .test(Level::Api, "a_leader_that_was_paused_beyond_its_lease_writes_nothing_when_it_wakes", paused)
        .test(Level::Api, "a_leader_without_an_api_server_gives_up_in_time_and_leads_again_later", cut_off)
        .test(Level::Api, "a_status_that_somebody_else_wrote_is_put_right", put_right)
        .test(Level::Api, "a_missing_namespace_is_named_and_waited_for", no_namespace)
        .test(
            Level::Api,
            "a_converged_cluster_manager_that_restarts_writes_its_lease_and_nothing_else",
            restarted,
        )
        .test(Level::Api, "people_see_in_kubectl_describe_why_an_uplink_is_not_ready", budgets::described)
        .test(
            Level::Api,
            "an_uplink_with_three_states_is_ready_after_three_writes_at_most",
            budgets::three_states,
        )
        .test(
            Level::Api,
            "a_thousand_states_that_change_at_once_cost_an_uplink_one_write_in_100_ms",
            budgets::thousand_states,
        )
        .test(Level::Api, "every_metric_of_the_alert_rules_is_told_by_a_program", alerts::names)
        .run()
}

async fn killed() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (a, b) = world.pair(QUICK).await?;
    let standing_by = b.ready().await?;
    ensure!(standing_by.contains("standby, a leads"), "the standby says {standing_by:?}");
    ensure!(b.count("causeway_leader").await? == 0, "two leaders");
    world.rig.apply(&uplink("first", "")).await?;
    states::uplink_says(&world.client(), "first", "False/NoMatchingNodes").await?;
    a.wrote(1).await?;
    ensure!(b.writes().await? == 0, "both write");

    a.process.kill().await?;
    let renewed = world.lease().await?.renew_time.context("a lease without a renewal")?;
    world.rig.apply(&uplink("second", "")).await?;
    states::uplink_says(&world.client(), "second", "False/NoMatchingNodes").await?;
    b.leads().await?;
    let acquired = world.lease().await?.acquire_time.context("a lease that nobody acquired")?;
    let waited = acquired.0.duration_since(renewed.0);
    ensure!(waited.unsigned_abs() >= QUICK.lease(), "the other took the lease {waited:?} after its renewal");
    b.quiet(2).await?;
    b.wrote(1).await.context("what the dead leader wrote was written again")
}

async fn told_to_stop() -> anyhow::Result<()> {
    let world = World::start().await?;
    // With a lease of more than two minutes only the watch can make this fast.
    let (a, b) = world.pair(UPSTREAM).await?;
    for (round, (leader, standby)) in [(&a, &b), (&b, &a)].into_iter().enumerate() {
        let name = format!("round-{round}");
        let stopped = jiff_now();
        leader.process.signal(Signal::SIGTERM)?;
        world.rig.apply(&uplink(&name, "")).await?;
        let mut versions = 0;
        let api: Api<Uplink> = Api::all(world.client());
        wait_object(api, &name, "a verdict", DEADLINE, |uplink| {
            versions += 1;
            uplink.is_some_and(|uplink| !uplink.conditions().is_empty())
        })
        .await?;
        ensure!(versions <= 3, "{versions} versions of one Uplink: it was written twice");
        let exit = leader.process.wait_exit(Duration::from_secs(2)).await?;
        ensure!(exit.code() == Some(0), "the leader ended with {exit}");
        standby.leads().await?;
        let (former, present) = if round == 0 { ("a", "b") } else { ("b", "a") };
        is_told_of_the_lease(&world, &format!("{former} stopped leading")).await?;
        is_told_of_the_lease(&world, &format!("{present} became leader")).await?;
        let acquired = world.lease().await?.acquire_time.map(|time| time.0.as_microsecond());
        let took = acquired.unwrap_or(i64::MAX).saturating_sub(stopped);
        println!("the other leads {took} µs after the leader was told to stop");
        ensure!(took <= HANDED_OVER, "the other leads {took} µs after the leader was told to stop");
        standby.quiet(1).await?;
        ensure!(standby.writes().await? <= 1, "the new leader wrote more than the new Uplink");
        leader.process.restart().await?;
        leader.ready().await?;
    }
    Ok(())
}

/// `kubectl describe` shows this sentence in an Event of the lease.
async fn is_told_of_the_lease(world: &World, sentence: &str) -> anyhow::Result<()> {
    let lease = ["describe", "lease", "-n", "ovn-kubernetes", "ovn-kubernetes-master"];
    let look = || async move {
        let text = world.rig.kubectl(lease).await.map_err(|error| format!("{error:#}"))?;
        let told = text.split_once("Events:").is_some_and(|(_, events)| events.contains(sentence));
        if told { Ok(()) } else { Err(text) }
    };
    world.rig.wait_for(&format!("the lease to tell {sentence:?}"), DEADLINE, look).await
}

fn jiff_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.ok().and_then(|now| i64::try_from(now.as_micros()).ok()).unwrap_or_default()
}

async fn paused() -> anyhow::Result<()> {
    let world = World::start().await?;
    let timing = Timing { lease: 6, renew: 4, retry: 1 };
    let (a, b) = world.pair(timing).await?;
    world.rig.apply(&uplink("first", "")).await?;
    states::uplink_says(&world.client(), "first", "False/NoMatchingNodes").await?;
    a.wrote(1).await?;
    let before = a.writes().await?;

    a.process.pause().await?;
    world.rig.apply(&uplink("second", "")).await?;
    states::uplink_says(&world.client(), "second", "False/NoMatchingNodes").await?;
    b.leads().await?;
    // Work that nobody does: the new leader sleeps, its lease lasts, the old one wakes up and sees the work.
    b.process.pause().await?;
    world.rig.apply(&uplink("third", "")).await?;
    a.process.resume()?;
    a.stands_by().await?;
    world
        .rig
        .wait_for("the old leader to see the work", DEADLINE, || async {
            match a.count("causeway_watch_objects{kind=\"Uplink\"}").await {
                Ok(3) => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        })
        .await?;
    ensure!(a.writes().await? == before, "the old leader wrote after its lease");
    let third = Api::<Uplink>::all(world.client()).get("third").await?;
    ensure!(third.conditions().is_empty(), "somebody wrote: {:?}", third.conditions());
    b.process.resume()?;
    states::uplink_says(&world.client(), "third", "False/NoMatchingNodes").await?;
    ensure!(a.process.is_running() && a.writes().await? == before, "the old leader wrote");
    ensure!(a.count("causeway_leader_losses_total").await? == 1, "it does not know that it lost the lease");
    Ok(())
}

async fn cut_off() -> anyhow::Result<()> {
    let world = World::start().await?;
    let a = world.replica("a", QUICK).await?;
    a.leads().await?;
    world.rig.pause_api().await?;
    a.says("Lease not renewed in time; nothing is written any more").await?;
    ensure!(a.count("causeway_leader").await? == 0, "it leads without a lease");
    world.rig.resume_api()?;
    is_told_of_the_lease(&world, "a stopped leading: its lease was not renewed in time").await?;
    a.leads().await?;
    world.rig.apply(&uplink("later", "")).await?;
    states::uplink_says(&world.client(), "later", "False/NoMatchingNodes").await?;
    ensure!(a.count("causeway_leader_terms_total").await? == 2, "not a new term");
    Ok(())
}

async fn put_right() -> anyhow::Result<()> {
    let world = World::start().await?;
    let a = world.replica("a", QUICK).await?;
    a.leads().await?;
    world.rig.apply(&uplink("mine", "")).await?;
    states::uplink_says(&world.client(), "mine", "False/NoMatchingNodes").await?;
    let ready = "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Ready\",\"message\":\"\",\
                 \"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}";
    let patch = ["patch", "uplink", "mine", "--subresource=status", "--type=merge", "-p", ready];
    world.rig.kubectl(patch).await?;
    states::uplink_says(&world.client(), "mine", "False/NoMatchingNodes").await.map(drop)
}

async fn no_namespace() -> anyhow::Result<()> {
    let world = World::without_namespace().await?;
    let a = world.replica("a", QUICK).await?;
    a.says("No lease without its namespace: create it, or name another by --ovn-config-namespace").await?;
    let ready = a.ready().await?;
    ensure!(ready.contains("standby, no leader is known"), "it says {ready:?}");
    world.rig.apply(manifests::NAMESPACE).await?;
    a.leads().await
}

async fn restarted() -> anyhow::Result<()> {
    let world = World::start().await?;
    let a = world.replica("a", UPSTREAM).await?;
    world.rig.apply(&uplink("there", "")).await?;
    states::uplink_says(&world.client(), "there", "False/NoMatchingNodes").await?;
    // As a crash, which leaves the lease held: the next process of this name takes it at once.
    a.process.restart().await?;
    a.leads().await?;
    a.quiet(1).await?;
    ensure!(a.writes().await? == 0, "it wrote");
    let lease = a.count("causeway_lease_writes_total").await?;
    ensure!(lease == 1, "{lease} writes of the lease");
    Ok(())
}
