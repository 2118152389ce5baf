//! From a changed fact to the API server: how soon a watch of the API server delivers what changed on a machine, in a
//! switch, in a Node or an Uplink, or in the other side's half of a state.
//!
//! In turn with each change, a plain client applies a state of its own and waits for the same kind of watch event: that
//! is the least that any agent has to pay.
//!
//! [`host`] changes the host of a card, [`card`] the card, [`regular`] a regular node, [`objects`] what is in the API.

mod card;
mod host;
mod objects;
mod regular;

use std::time::{Duration, Instant};

use anyhow::ensure;
use causeway_api::uplink_state::{UplinkState, UplinkStateStatus};
use causeway_rig::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::measure::{Goal, Taken};
use super::session::Session;
use super::stage::{DUAL_STACK, Part, Stage};
use crate::blue::{BRIDGE, CARD_BRIDGE, CARD_INTERFACE};
use crate::observer::{Observer, Seen};
use crate::states::{message, verdict};

/// Goal of the middle reaction, in ms.
const MEDIAN: f64 = 50.0;
/// Goal of the slowest reaction in a hundred, in ms.
const P99: f64 = 150.0;
/// What the incumbent does: it looks every so often until it has succeeded, and then never again.
pub(super) const INCUMBENT: &str = "up to 30 s, then never";
/// Metric of the default routes.
const METRIC: u32 = 50_000;
/// The baseline's own state. No node is called so, and the cluster manager is not running when it is written.
const OWN: &str = "bench.bench";

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    let all = [host::MEASURES, card::MEASURES, regular::MEASURES, objects::MEASURES];
    if !session.wants_any(all.into_iter().flatten().copied()) {
        return Ok(());
    }
    let mut stage = set().await?;
    let bench = Bench { client: stage.world.client(), session };
    host::run(&bench, &stage.world).await?;
    card::run(&bench, &stage.world).await?;
    regular::run(&bench, &stage.world).await?;
    objects::run(&bench, &mut stage).await
}

/// The scenario with both families, two wires on the card, of which one is named, and no cluster manager: it would delete
/// the baseline's state, and rightly so.
async fn set() -> anyhow::Result<Stage> {
    let mut stage = Stage::set().await?;
    let world = &stage.world;
    both_families(&world.pair.host, CARD_INTERFACE, "fd00:31::10/64", "fd00:31::1").await?;
    both_families(&world.node_b, BRIDGE, "fd00:28::2/64", "fd00:28::1").await?;
    world.pair.card.physical_port("p1").await?;
    world.card_ovs.vsctl(["add-port", CARD_BRIDGE, "p1"]).await?;
    world.card_ovs.vsctl(["set", "Bridge", CARD_BRIDGE, "external_ids:bridge-uplink=p0"]).await?;
    stage.open(&DUAL_STACK).await?;
    stage.process(Part::ClusterManager)?.kill().await?;
    Ok(stage)
}

/// An IPv6 address and default route that stay while the link is down, and that nobody has to check for duplicates.
async fn both_families(node: &Node, interface: &str, address: &str, gateway: &str) -> anyhow::Result<()> {
    let settings = format!("/proc/sys/net/ipv6/conf/{interface}");
    let script = format!("echo 0 > {settings}/accept_dad; echo 1 > {settings}/keep_addr_on_down");
    node.exec(["sh", "-euc", &script]).await?;
    let links = format!(
        "addr add {address} dev {interface}\nroute add default via {gateway} dev {interface} metric {METRIC}\n"
    );
    node.ip_batch(&links).await
}

/// What every kind of change needs.
struct Bench<'s> {
    client: Client,
    session: &'s Session,
}

impl Bench<'_> {
    /// Alternates between two facts, each followed by the baseline's own write. The last round is an odd one: it leaves
    /// what there was before the first.
    async fn alternate(
        &self,
        measure: &str,
        mut change: impl AsyncFnMut(bool) -> anyhow::Result<Instant>,
        mut shows: impl FnMut(&Seen<UplinkState>, bool) -> bool,
    ) -> anyhow::Result<()> {
        if !self.session.wants(measure) {
            return Ok(());
        }
        let changes = self.session.changes().next_multiple_of(2).max(2);
        let mut observer = Observer::start(&self.client).await?;
        let mut samples = Vec::with_capacity(changes);
        let mut beside = Vec::with_capacity(changes);
        for round in 0..changes {
            let odd = round % 2 == 1;
            let start = change(odd).await?;
            let seen = observer.until(measure, |seen| shows(seen, odd)).await?;
            samples.push(seen.at.saturating_duration_since(start));
            beside.push(self.plain_write(&mut observer, round).await?);
        }
        let taken = Taken::times(measure, &samples).beside(&beside).incumbent(INCUMBENT);
        self.session.tell(taken.goal(Goal::median(MEDIAN)).goal(Goal::p99(P99)))
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
}

/// Whether this is a version of a state whose condition has this verdict.
fn says(seen: &Seen<UplinkState>, state: &str, type_: &str, want: &str) -> bool {
    !seen.deleted && seen.is(state) && verdict(seen.object.conditions(), type_) == want
}

/// Whether this is a version of a state whose condition has this text in its message.
fn tells(seen: &Seen<UplinkState>, state: &str, type_: &str, text: &str) -> bool {
    !seen.deleted && seen.is(state) && message(seen.object.conditions(), type_).contains(text)
}

/// The one of two that belongs to a round.
fn of<T: Copy>([even, odd]: [T; 2], is_odd: bool) -> T {
    if is_odd { odd } else { even }
}

/// The wanted one of two texts is that of an odd round, the other that of an even one.
fn gateways(net: &str) -> anyhow::Result<[std::net::IpAddr; 2]> {
    let [other, own] = ["2", "1"].map(|host| format!("{net}{host}").parse());
    let (other, own) = (other?, own?);
    ensure!(other != own, "gateways that are the same");
    Ok([other, own])
}
