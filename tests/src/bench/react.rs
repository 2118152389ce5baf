//! From a changed fact to the API server: how soon a watch of the API server delivers what changed on a machine.
//!
//! In turn with each change, a plain client applies a state of its own and waits for the same kind of watch event: that
//! is the least that any agent has to pay.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_api::uplink_state::{UplinkState, UplinkStateStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use ovsdb::{Datum, Mutation, Mutator, Operation, Transaction};
use serde_json::json;

use super::hand::Hand;
use super::measure::{Conditions, Goal, Measure, Stat};
use crate::blue::{BRIDGE, BlueWorld, CARD_BRIDGE, CARD_INTERFACE, STATE_A, STATE_B, UPLINK, UPLINK_YAML};
use crate::observer::{Observer, Seen};
use crate::states::{uplink_says, verdict};

/// How many changes of each kind.
const CHANGES: usize = 200;
/// The goal of every reaction.
const GOAL: Goal = Goal { stat: Stat::Median, below: 50.0 };
/// Metric of the default routes.
const METRIC: u32 = 50_000;
/// The baseline's own state. No node is called so, and the cluster manager is not running when it is written.
const OWN: &str = "bench.bench";

ovsdb::table! {
    /// A bridge, as far as the bench changes it.
    struct Bridge in "Bridge" {
        /// Name.
        name: String,
    }
    index by_name = |bridge| Some(bridge.name.as_str());
}

/// Takes every measure of this kind.
///
/// # Errors
/// One could not be taken.
pub async fn all(conditions: &Conditions) -> anyhow::Result<Vec<Measure>> {
    let mut world = BlueWorld::start().await?;
    // Two wires, so that naming one of them decides whether the bridge has an uplink.
    world.pair.card.physical_port("p1").await?;
    world.card_ovs.vsctl(["add-port", CARD_BRIDGE, "p1"]).await?;
    world.card_ovs.vsctl(["set", "Bridge", CARD_BRIDGE, "external_ids:bridge-uplink=p0"]).await?;
    world.start_causeway().await?;
    world.rig.apply(UPLINK_YAML).await?;
    uplink_says(&world.client(), UPLINK, "True/Ready").await?;
    // It would delete the baseline's state, and rightly so.
    world.agents.cluster_manager.take().context("the cluster manager was never started")?.kill().await?;

    let bench = Bench { client: world.client(), conditions: conditions.clone() };
    Ok(vec![
        bench.host_mac("react_host_mac", &world).await?,
        bench.gateway("react_host_route", &world.pair.host, CARD_INTERFACE, "172.31.0", STATE_A).await?,
        bench.gateway("react_node_route", &world.node_b, BRIDGE, "172.28.0", STATE_B).await?,
        bench.card_uplink("react_card_uplink", &world).await?,
    ])
}

struct Bench {
    client: Client,
    conditions: Conditions,
}

impl Bench {
    /// Alternates between two facts, each followed by the baseline's own write.
    async fn alternate(
        &self,
        measure: &str,
        mut change: impl AsyncFnMut(bool) -> anyhow::Result<Instant>,
        mut shows: impl FnMut(&Seen<UplinkState>, bool) -> bool,
    ) -> anyhow::Result<Measure> {
        let mut observer = Observer::start(&self.client).await?;
        let mut samples = Vec::with_capacity(CHANGES);
        let mut baseline = Vec::with_capacity(CHANGES);
        for round in 0..CHANGES {
            let odd = round % 2 == 1;
            let start = change(odd).await?;
            let seen = observer.until(measure, |seen| shows(seen, odd)).await?;
            samples.push(seen.at.saturating_duration_since(start));
            baseline.push(self.plain_write(&mut observer, round).await?);
        }
        Measure::of(measure, &samples, &baseline, GOAL, self.conditions.clone())
    }

    /// What a client pays that knows what to write: one apply, until the watch delivers it.
    async fn plain_write(
        &self,
        observer: &mut Observer<UplinkState>,
        round: usize,
    ) -> anyhow::Result<Duration> {
        let address = format!("192.0.2.{}/24", round % 250 + 1);
        let status =
            UplinkStateStatus { ip_addresses: vec![address.clone()], ..UplinkStateStatus::default() };
        let body = json!({
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState", "metadata": {"name": OWN},
            "spec": {"uplinkName": "bench", "nodeName": "bench"}, "status": status,
        });
        let api: Api<UplinkState> = Api::all(self.client.clone());
        let start = Instant::now();
        api.patch(OWN, &PatchParams::apply("bench").force(), &Patch::Apply(body)).await?;
        let is_it = |seen: &Seen<UplinkState>| {
            seen.object.name_any() == OWN && seen.object.status_or_default().ip_addresses == [address.clone()]
        };
        let seen = observer.until("the baseline's write", is_it).await?;
        Ok(seen.at.saturating_duration_since(start))
    }

    async fn host_mac(&self, measure: &str, world: &BlueWorld) -> anyhow::Result<Measure> {
        let hand = Hand::in_node(&world.pair.host)?;
        let index = hand.index(CARD_INTERFACE).await?;
        let own = [0x52, 0x54, 0x00, 0xd9, 0x20, 0x10];
        let other = [0x02, 0, 0, 0, 0, 0x99];
        let texts = ["02:00:00:00:00:99", "52:54:00:d9:20:10"];
        self.alternate(
            measure,
            async |odd| hand.set_mac(index, if odd { own } else { other }).await,
            |seen, odd| {
                let [other, own] = texts;
                let want = if odd { own } else { other };
                seen.is(STATE_A) && seen.object.status_or_default().mac_address.as_deref() == Some(want)
            },
        )
        .await
    }

    async fn gateway(
        &self,
        measure: &str,
        node: &causeway_rig::Node,
        interface: &str,
        net: &str,
        state: &str,
    ) -> anyhow::Result<Measure> {
        let hand = Hand::in_node(node)?;
        let index = hand.index(interface).await?;
        let gateways = [2, 1].map(|host| format!("{net}.{host}"));
        let [other, own]: [Ipv4Addr; 2] = [gateways[0].parse()?, gateways[1].parse()?];
        self.alternate(
            measure,
            async |odd| hand.replace_default(index, if odd { own } else { other }, METRIC).await,
            |seen, odd| {
                let want = if odd { own } else { other };
                seen.is(state) && seen.object.status_or_default().default_gateways == [want.to_string()]
            },
        )
        .await
    }

    async fn card_uplink(&self, measure: &str, world: &BlueWorld) -> anyhow::Result<Measure> {
        let remote: ovsdb::Remotes = format!("unix:{}", world.card_ovs.socket().display()).parse()?;
        let (store, driver) = ovsdb::Store::builder(remote, "Open_vSwitch").table::<Bridge>().build();
        let stop = tokio_util::sync::CancellationToken::new();
        let running = tokio::spawn(driver.run(stop.clone()));
        let snapshot = store.synced(Duration::from_secs(10)).await?;
        let (uuid, _) =
            snapshot.find_one(Bridge::by_name(), CARD_BRIDGE).context("the card's bridge is gone")?;
        let mutate = |mutator, value| {
            let mutation = Mutation { column: "external_ids".to_owned(), mutator, value };
            let mut transaction = Transaction::default();
            transaction.push(Operation::Mutate {
                table: "Bridge".to_owned(),
                conditions: vec![ovsdb::Condition::row(uuid)],
                mutations: vec![mutation],
            });
            transaction
        };
        let named = mutate(Mutator::Insert, Datum::map([("bridge-uplink", "p0")]));
        let unnamed = mutate(Mutator::Delete, Datum::set(["bridge-uplink"]));
        let measured = self
            .alternate(
                measure,
                async |odd| {
                    let start = Instant::now();
                    store.transact(if odd { &named } else { &unnamed }).await?;
                    Ok(start)
                },
                |seen, odd| {
                    let want = if odd { "True/Resolved" } else { "False/BridgeUplinkNotFound" };
                    seen.is(STATE_A) && verdict(seen.object.conditions(), "Resolved") == want
                },
            )
            .await;
        stop.cancel();
        running.await.context("the bench's own connection to Open vSwitch")?;
        measured
    }
}

/// The conditions of a run: versions of the parts, taken from a rig, and the load of the machine before it.
///
/// # Errors
/// A part does not answer.
pub async fn conditions() -> anyhow::Result<Conditions> {
    let load = load()?;
    let rig = causeway_rig::Rig::start(causeway_rig::RigOptions::bare()).await?;
    let server = rig.client().apiserver_version().await?.git_version;
    let node = rig.node("versions").unregistered().start().await?;
    let ovs = node.exec(["ovs-vsctl", "--version"]).await?;
    let ovs = ovs.lines().next().unwrap_or_default();
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    Ok(Conditions {
        versions: format!("kube-apiserver {server}, {ovs}"),
        level: "cluster".to_owned(),
        load,
        profile: profile.to_owned(),
    })
}

/// Load of the machine over the last minute.
fn load() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").context("reading the load")?;
    let first = text.split(' ').next().unwrap_or_default();
    let load = first.parse().with_context(|| format!("the load {first:?}"))?;
    ensure!(f64::is_finite(load), "the load {load}");
    Ok(load)
}
