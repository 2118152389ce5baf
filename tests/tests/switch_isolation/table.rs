//! The table: what others have in it, what they do to it, and how little is written.

use std::sync::Arc;

use anyhow::{bail, ensure};
use causeway_rig::Rig;
use causeway_tests::isolation::{DUAL, Monitor, ON, PodSpec, World};

/// What others have: in our table, and in one of their own.
const FOREIGN: &str = "add table inet ovn-kubernetes\n\
    add set inet ovn-kubernetes remote-node-ips-v4 { type ipv4_addr; comment \"theirs\"; }\n\
    add element inet ovn-kubernetes remote-node-ips-v4 { 172.30.0.3 }\n\
    add chain inet ovn-kubernetes no-pmtud { type filter hook output priority 0; policy accept; comment \"theirs\"; }\n\
    add rule inet ovn-kubernetes no-pmtud ip daddr @remote-node-ips-v4 icmp type destination-unreachable icmp code 4 counter drop\n\
    add map inet ovn-kubernetes nodeports-v4 { type inet_proto . inet_service : ipv4_addr . inet_service; }\n\
    add element inet ovn-kubernetes nodeports-v4 { tcp . 30080 : 10.96.0.9 . 80 }\n\
    add table inet theirs\n\
    add chain inet theirs udn-isolation { type filter hook output priority 0; policy accept; }\n\
    add rule inet theirs udn-isolation ip daddr 203.0.113.9 drop\n";

impl Foreign {
    async fn read(world: &World) -> anyhow::Result<Self> {
        let ours = ["inet", "ovn-kubernetes"];
        let mut texts = Vec::new();
        for (kind, name) in [("set", "remote-node-ips-v4"), ("chain", "no-pmtud"), ("map", "nodeports-v4")] {
            texts.push(world.nft(&["list", kind, ours[0], ours[1], name]).await?);
        }
        texts.push(world.nft(&["list", "table", "inet", "theirs"]).await?);
        Ok(Self(texts))
    }
}

/// Listings of what others have.
#[derive(Debug, PartialEq, Eq)]
struct Foreign(Vec<String>);

pub(crate) async fn by_hand(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "by-hand").await?;
    world.nft_run(FOREIGN).await?;
    let foreign = Foreign::read(&world).await?;
    world.make(&PodSpec::locked("one", &["10.129.5.1", "fd00:10:129:5::1"]).open("- protocol: icmp")).await?;
    let _agent = world.agent(&DUAL).await?;
    world.converged().await?;
    let rules = world.rules().await?;
    let wanted: Vec<&str> = rules.iter().map(String::as_str).collect();
    let handle = {
        let listing = world.nft(&["-a", "list", "chain", "inet", "ovn-kubernetes", "udn-isolation"]).await?;
        let line = listing.lines().find(|line| line.contains("drop")).unwrap_or_default().to_owned();
        line.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    let cases = [
        ("a rule is gone", format!("delete rule inet ovn-kubernetes udn-isolation handle {handle}")),
        ("all rules are gone", "flush chain inet ovn-kubernetes udn-isolation".to_owned()),
        ("a foreign rule is first", "insert rule inet ovn-kubernetes udn-isolation accept".to_owned()),
        ("a foreign rule is last", "add rule inet ovn-kubernetes udn-isolation counter".to_owned()),
        ("the chain is gone", "delete chain inet ovn-kubernetes udn-isolation".to_owned()),
        (
            "the chain is another",
            "delete chain inet ovn-kubernetes udn-isolation\n\
             add chain inet ovn-kubernetes udn-isolation { type filter hook output priority 5; policy drop; }\n\
             add rule inet ovn-kubernetes udn-isolation accept"
                .to_owned(),
        ),
        ("a set is empty", "flush set inet ovn-kubernetes udn-pod-default-ips-v4".to_owned()),
        (
            "a port is open that nobody opened",
            "add element inet ovn-kubernetes udn-open-ports-v4 { 10.129.5.1 . tcp . 22 }".to_owned(),
        ),
        (
            "a set is another",
            "flush chain inet ovn-kubernetes udn-isolation\n\
             delete set inet ovn-kubernetes udn-open-ports-icmp-v6\n\
             add set inet ovn-kubernetes udn-open-ports-icmp-v6 { type ipv4_addr; flags interval; }\n\
             add element inet ovn-kubernetes udn-open-ports-icmp-v6 { 10.0.0.0/8 }"
                .to_owned(),
        ),
    ];
    for (what, text) in cases {
        world.nft_run(&format!("{text}\n")).await?;
        world.until_rules(&format!("to be right again after {what}"), &wanted).await?;
        world.converged().await?;
        ensure!(Foreign::read(&world).await? == foreign, "what others have changed after {what}");
        let chain = world.nft(&["list", "chain", "inet", "ovn-kubernetes", "udn-isolation"]).await?;
        ensure!(chain.contains("hook output priority filter; policy accept;"), "after {what}: {chain}");
    }
    // Those lose what others have too.
    for text in ["delete table inet ovn-kubernetes", "flush ruleset"] {
        world.nft_run(&format!("{text}\n")).await?;
        world.until_rules(&format!("to be right again after {text}"), &wanted).await?;
        world.converged().await?;
    }
    Ok(())
}

pub(crate) async fn one_pod(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::alone(rig, "one-pod").await?;
    for number in 1..=100_u8 {
        world.make(&PodSpec::locked(&format!("p{number}"), &[&format!("10.129.6.{number}")])).await?;
    }
    let monitor = Monitor::start(&world).await?;
    let _agent = world.agent(&DUAL).await?;
    world.converged().await?;
    let seen = monitor.seen().await?;
    let with_elements =
        seen.iter().filter(|lines| lines.iter().any(|line| line.starts_with("add element"))).count();
    ensure!(with_elements == 1, "the pods that there were came in {with_elements} transactions");
    let looks = world.metric("causeway_isolation_looks_total", "").await?;
    world.open("p7", Some("- {protocol: tcp, port: 80}\n- {protocol: icmp}")).await?;
    world.converged().await?;
    let seen = monitor.seen().await?;
    let want = [
        "add element inet ovn-kubernetes udn-open-ports-v4 { 10.129.6.7 . tcp . 80 }",
        "add element inet ovn-kubernetes udn-open-ports-icmp-v4 { 10.129.6.7 }",
    ];
    ensure!(seen == [want.map(str::to_owned).to_vec()], "{seen:?}");
    // What others see of a pod changes nothing.
    world
        .connect(
            "p7",
            Some(&causeway_tests::isolation::pods::networks("infrastructure-locked", &["10.129.6.7"])),
        )
        .await?;
    world.delete("p7").await?;
    world.converged().await?;
    let seen = monitor.seen().await?;
    let [deleted] = &seen[..] else { bail!("several transactions: {seen:?}") };
    ensure!(deleted.len() == 3, "{seen:?}");
    ensure!(
        deleted.iter().all(|line| line.starts_with("delete element") && line.contains("10.129.6.7")),
        "{seen:?}"
    );
    let again = world.metric("causeway_isolation_looks_total", "").await?;
    ensure!(again == looks, "the table was listed {} times for changes of its own", again - looks);
    Ok(())
}

pub(crate) async fn restart(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::alone(rig, "restart").await?;
    for number in 1..=20_u8 {
        let pod = PodSpec::locked(&format!("p{number}"), &[&format!("10.129.7.{number}")]);
        world.make(&pod.open("- {protocol: udp, port: 53}")).await?;
    }
    let agent = world.agent(&DUAL).await?;
    world.converged().await?;
    let rules = world.rules().await?;
    let monitor = Monitor::start(&world).await?;
    agent.kill().await?;
    monitor.saw_nothing("killed").await?;
    ensure!(world.rules().await? == rules, "rules went with the agent");
    agent.restart().await?;
    world.ready().await?;
    monitor.saw_nothing("started again with nothing to do").await?;
    ensure!(
        world.metric("causeway_isolation_transactions_total", "").await? == 0,
        "a transaction was counted"
    );
    agent.stop(causeway_tests::isolation::DEADLINE).await?;
    monitor.saw_nothing("stopped").await?;
    // While it is away.
    world.delete("p1").await?;
    world.make(&PodSpec::locked("new", &["10.129.7.30"])).await?;
    agent.restart().await?;
    world.ready().await?;
    world.converged().await?;
    let seen = monitor.seen().await?;
    let [made_up] = &seen[..] else { bail!("what happened meanwhile took several transactions: {seen:?}") };
    ensure!(made_up.len() == 3, "more than what changed was written: {seen:?}");
    Ok(())
}

pub(crate) async fn clean_up(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::alone(rig, "clean-up").await?;
    world.nft_run(FOREIGN).await?;
    let foreign = Foreign::read(&world).await?;
    world.make(&PodSpec::locked("one", &["10.129.8.1"])).await?;
    let off: [(&str, &[&str]); 3] = [("both", &[]), ("segmentation", &[ON[0]]), ("multi-network", &[ON[1]])];
    // In the last case a part of it is gone already.
    for (at, (what, switches)) in off.into_iter().enumerate() {
        let agent = world.agent(&DUAL).await?;
        world.converged().await?;
        agent.kill().await?;
        if at == 2 {
            world.nft_run("delete chain inet ovn-kubernetes udn-isolation\ndelete set inet ovn-kubernetes udn-open-ports-v6\n").await?;
        }
        let agent = world.node.spawn(world.program("node-agent", &[&DUAL, switches])).await?;
        let look = || async {
            let text = world.nft(&["list", "ruleset"]).await.map_err(|error| format!("{error:#}"))?;
            if text.replace("table inet theirs {\n\tchain udn-isolation", "").contains(" udn-") {
                Err(text)
            } else {
                Ok(())
            }
        };
        world
            .rig()
            .wait_for(
                &format!("nothing to be left with {what} off"),
                causeway_tests::isolation::DEADLINE,
                look,
            )
            .await?;
        ensure!(Foreign::read(&world).await? == foreign, "what others have changed with {what} off");
        let monitor = Monitor::start(&world).await?;
        agent.kill().await?;
        agent.restart().await?;
        let look = || async {
            let passes = world.metric("causeway_isolation_reconcile_passes_total", "outcome=\"done\"").await;
            match passes {
                Ok(passes) if passes > 0 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        };
        world.rig().wait_for("another look", causeway_tests::isolation::DEADLINE, look).await?;
        monitor.saw_nothing("nothing was left to remove").await?;
        agent.kill().await?;
    }
    Ok(())
}
