//! The scenario, converged and shared by tests that leave it as they found it.

use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::{StateCondition, UplinkState};
use causeway_rig::wait_object;
use causeway_tests::blue::{self, BlueWorld};
use causeway_tests::states::{self, DEADLINE};
use kube::Api;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::agents::Agent;
use crate::wire;

/// MAC address of `eth0-16` on `node-a`. Source: OVN-Kubernetes, `dpu-simulator/lib/dpusim`.
pub(crate) const CARD_MAC: &str = "52:54:00:d9:20:10";

/// The scenario with everything started and resolved.
pub(crate) struct World {
    /// Its parts.
    pub(crate) blue: BlueWorld,
    /// MAC address of the regular node's interface.
    bridge_mac: String,
}

impl std::ops::Deref for World {
    type Target = BlueWorld;

    fn deref(&self) -> &BlueWorld {
        &self.blue
    }
}

impl std::ops::DerefMut for World {
    fn deref_mut(&mut self) -> &mut BlueWorld {
        &mut self.blue
    }
}

impl World {
    async fn start() -> anyhow::Result<Self> {
        let mut blue = BlueWorld::start().await?;
        for agent in Agent::ALL {
            let process = agent.spawn(&blue, &[]).await?;
            *agent.slot(&mut blue) = Some(process);
        }
        blue.rig.apply(blue::UPLINK_YAML).await?;
        let bridge_mac = mac_of(&blue.node_b, blue::BRIDGE).await?;
        let world = Self { blue, bridge_mac };
        let rests = world.rests().await;
        rests.map_err(|error| anyhow!("{error:#}\n{}", world.rig.log_tails()))?;
        Ok(world)
    }

    /// All that the state of the node with a card says when nothing is broken, without times.
    pub(crate) fn whole_card() -> Value {
        json!({
            "type": "OVSBridge",
            "hostInterfaceName": blue::CARD_INTERFACE,
            "macAddress": CARD_MAC,
            "ipAddresses": [blue::CARD_ADDRESS],
            "defaultGateways": [blue::CARD_GATEWAY],
            "hostFunction": {"pfID": 0, "vfID": 16},
            "ovsBridge": {"name": blue::CARD_BRIDGE},
            "conditions": [
                {
                    "type": "HostDataReady", "status": "True", "reason": "HostDataDiscovered",
                    "message": "Uplink host interface data discovered",
                },
                {
                    "type": "Resolved", "status": "True", "reason": "Resolved",
                    "message": "Uplink DPU bridge discovery succeeded via host function",
                },
            ],
        })
    }

    /// All that the state of the regular node says when nothing is broken, without times.
    pub(crate) fn whole_regular(&self) -> Value {
        json!({
            "type": "OVSBridge",
            "hostInterfaceName": blue::BRIDGE,
            "macAddress": self.bridge_mac,
            "ipAddresses": ["172.28.0.2/16"],
            "defaultGateways": ["172.28.0.1"],
            "ovsBridge": {"name": blue::BRIDGE},
            "conditions": [{
                "type": "Resolved", "status": "True", "reason": "Resolved", "message": "Uplink discovery succeeded",
            }],
        })
    }

    /// Waits until nothing is broken: both states say all they should, and the Uplink is ready.
    pub(crate) async fn is_whole(&self) -> anyhow::Result<()> {
        let (card, regular) = (Self::whole_card(), self.whole_regular());
        tokio::try_join!(
            self.says(blue::STATE_A, &card),
            self.says(blue::STATE_B, &regular),
            self.uplink_says("True/Ready", "all 2 selected node(s) are resolved"),
        )?;
        Ok(())
    }

    /// Waits until nothing is broken and no program has anything to do: what is said of the wire comes after what discovery
    /// says, and Nodes may be annotated last of all.
    pub(crate) async fn rests(&self) -> anyhow::Result<()> {
        self.is_whole().await?;
        wire::fits(self).await?;
        for agent in Agent::ALL {
            agent.rests(self).await?;
        }
        Ok(())
    }

    /// Waits until a state says exactly this.
    pub(crate) async fn says(&self, name: &str, want: &Value) -> anyhow::Result<UplinkState> {
        let what = format!("status {want}");
        let accept = |state: Option<&UplinkState>| state.is_some_and(|state| said(state) == *want);
        let found = wait_object(self.states(), name, &what, DEADLINE, accept).await?;
        found.with_context(|| format!("there is no UplinkState {name}"))
    }

    /// Waits until the Uplink's `Ready` has this verdict and message.
    pub(crate) async fn uplink_says(&self, verdict: &str, message: &str) -> anyhow::Result<Uplink> {
        let accept = |uplink: Option<&Uplink>| {
            uplink.is_some_and(|uplink| {
                let conditions = uplink.conditions();
                states::verdict(conditions, "Ready") == verdict
                    && states::message(conditions, "Ready") == message
            })
        };
        let what = format!("Ready {verdict}: {message}");
        let found = wait_object(Api::all(self.client()), blue::UPLINK, &what, DEADLINE, accept).await?;
        found.context("there is no Uplink")
    }

    /// A state as it is now.
    pub(crate) async fn state(&self, name: &str) -> anyhow::Result<UplinkState> {
        self.states().get(name).await.with_context(|| format!("reading UplinkState {name}"))
    }

    /// All states.
    pub(crate) fn states(&self) -> Api<UplinkState> {
        Api::all(self.client())
    }

    /// Waits until there is no state of this name.
    pub(crate) async fn state_is_gone(&self, name: &str) -> anyhow::Result<()> {
        wait_object(self.states(), name, "absence", DEADLINE, |state| state.is_none()).await.map(drop)
    }

    /// Versions of both states and the Uplink.
    pub(crate) async fn versions(&self) -> anyhow::Result<[Option<String>; 3]> {
        let uplinks: Api<Uplink> = Api::all(self.client());
        let uplink = uplinks.get(blue::UPLINK).await.context("reading the Uplink")?;
        let [a, b] = [self.state(blue::STATE_A).await?, self.state(blue::STATE_B).await?];
        Ok([a.metadata, b.metadata, uplink.metadata].map(|metadata| metadata.resource_version))
    }
}

/// What discovery says in a state: without times, conditions by type, those about the wire left to their own tests.
pub(crate) fn said(state: &UplinkState) -> Value {
    let mut status = serde_json::to_value(state.status_or_default()).unwrap_or_default();
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        let of_discovery =
            [StateCondition::HostDataReady, StateCondition::Resolved].map(|type_| json!(type_.as_str()));
        conditions
            .retain(|condition| condition.get("type").is_some_and(|type_| of_discovery.contains(type_)));
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    status
}

async fn mac_of(node: &causeway_rig::Node, interface: &str) -> anyhow::Result<String> {
    let links: Value = serde_json::from_str(&node.ip(["-json", "link", "show", interface]).await?)?;
    let mac = links.pointer("/0/address").and_then(Value::as_str);
    mac.map(str::to_owned).with_context(|| format!("no address of {interface} in {links}"))
}

/// One world for several tests, one after the other.
///
/// A test that fails may leave anything behind: its world ends with it, and the next test gets a new one. A world that
/// does not start is not tried again: what keeps it from starting would cost every test its deadline.
#[derive(Clone, Default)]
pub(crate) struct SharedWorld(Arc<Mutex<Slot>>);

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Whole(Box<World>),
    Broken(String),
}

impl SharedWorld {
    /// Runs a test in the world and checks that it left nothing broken.
    pub(crate) async fn run(
        &self,
        test: impl AsyncFnOnce(&mut World) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut slot = self.0.lock().await;
        let mut world = match std::mem::take(&mut *slot) {
            Slot::Whole(world) => world,
            Slot::Empty => match Box::pin(World::start()).await {
                Ok(world) => Box::new(world),
                Err(error) => {
                    *slot = Slot::Broken(format!("{error}"));
                    return Err(error.context("starting the scenario"));
                }
            },
            Slot::Broken(why) => {
                *slot = Slot::Broken(why.clone());
                bail!("the scenario did not start: {why}");
            }
        };
        let outcome = async {
            test(&mut world).await?;
            world.rests().await.context("the test left something broken")
        };
        if let Err(error) = outcome.await {
            return Err(anyhow!("{error:#}\n{}", world.rig.log_tails()));
        }
        let agents =
            Agent::ALL.map(|agent| agent.process(&world).is_ok_and(causeway_rig::Process::is_running));
        ensure!(
            agents.iter().all(|running| *running),
            "running after the test, of {:?}: {agents:?}",
            Agent::ALL
        );
        *slot = Slot::Whole(world);
        Ok(())
    }
}
