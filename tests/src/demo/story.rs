//! What happens in the demo.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_rig::Rig;
use kube::{Api, ResourceExt};

use super::networks;
use super::picture::halves;
use super::telling::Telling;
use crate::blue::{
    BRIDGE, BlueWorld, CARD_ADDRESS, CARD_BRIDGE, CARD_GATEWAY, CARD_INTERFACE, CARD_WIRE, DPU_HOST, LABEL,
    STATE_A, STATE_B, UPLINK, UPLINK_YAML, WIRE,
};
use crate::observer::{Observer, Seen};
use crate::states::{DEADLINE, message, uplink_says, verdict};

/// How long nothing may be written for the story to call it quiet.
const QUIET: Duration = Duration::from_millis(1500);

/// Tells the whole story on a new rig, and returns the world for whoever wants to keep it.
///
/// # Errors
/// Something in the story is not true.
pub async fn tell(telling: &mut Telling) -> anyhow::Result<BlueWorld> {
    let mut world = set_the_scene(telling).await?;
    apply(telling, &mut world).await?;
    break_and_heal(telling, &world).await?;
    kill_the_card(telling, &mut world).await?;
    networks::tell(telling, &world).await?;
    Ok(world)
}

async fn set_the_scene(telling: &mut Telling) -> anyhow::Result<BlueWorld> {
    telling.chapter("A cluster of real parts on this machine");
    let start = Instant::now();
    let rig = Rig::start(causeway_rig::RigOptions::bare()).await?;
    let version = rig.client().apiserver_version().await?.git_version;
    telling.line(&format!(
        "kube-apiserver {version} over etcd, ready after {:.1} s",
        start.elapsed().as_secs_f64()
    ));
    let world = BlueWorld::on(rig).await?;
    let ovs = world.node_b_ovs.vsctl(["--version"]).await?;
    let ovs = ovs.lines().next().unwrap_or_default().to_owned();
    telling.line(&format!("node-a  a host; {CARD_INTERFACE} leads to its simulated card"));
    telling.line(&format!(
        "        its card has bridge {CARD_BRIDGE}: representor rep0-16 and the wire {CARD_WIRE}"
    ));
    telling.line(&format!("node-b  a regular node; bridge {BRIDGE} with the wire {WIRE}"));
    telling.line(&format!(
        "{ovs} on node-b and on the card; all of it up after {:.1} s",
        start.elapsed().as_secs_f64()
    ));
    Ok(world)
}

async fn apply(telling: &mut Telling, world: &mut BlueWorld) -> anyhow::Result<()> {
    telling.chapter("Causeway starts, and an administrator applies an Uplink");
    world.start_causeway().await?;
    for (place, program) in [
        ("control", "cluster-manager"),
        ("node-a", "host-agent"),
        ("card of node-a", "dpu-agent"),
        ("node-b", "node-agent"),
    ] {
        telling.line(&format!("{place:15} {program}"));
    }
    let client = world.client();
    let mut observer = Observer::<UplinkState>::start(&client).await?;
    let mut uplinks = Observer::<Uplink>::start(&client).await?;
    let file = world.rig.folder().join("tenant-blue.yaml");
    std::fs::write(&file, UPLINK_YAML).with_context(|| format!("writing {}", file.display()))?;
    telling.line("");
    telling.block(UPLINK_YAML);
    telling.line("");
    telling.deed("admin", "kubectl apply -f tenant-blue.yaml");
    world.rig.kubectl([OsStr::new("apply"), OsStr::new("-f"), file.as_os_str()]).await?;
    // The clock starts when the API server has the Uplink, not when kubectl is done with it.
    let start = uplinks.until("the Uplink", |seen| seen.is(UPLINK)).await?.at;
    let mut halves_seen = [None, None, None];
    while halves_seen.iter().any(Option::is_none) {
        let seen = observer.until("the halves of both states", |seen| !seen.deleted).await?;
        let says = |type_| verdict(seen.object.conditions(), type_).starts_with("True");
        let facts = [
            (seen.is(STATE_A) && says("HostDataReady"), "node-a: the host agent found its half"),
            (seen.is(STATE_A) && says("Resolved"), "node-a: the DPU agent found its half"),
            (seen.is(STATE_B) && says("Resolved"), "node-b: the node agent found both"),
        ];
        for (slot, (true_now, text)) in halves_seen.iter_mut().zip(facts) {
            if true_now && slot.is_none() {
                *slot = Some(seen.at);
                let type_ = if text.contains("host agent") { "HostDataReady" } else { "Resolved" };
                telling.outcome(
                    true,
                    text,
                    message(seen.object.conditions(), type_),
                    seen.at.saturating_duration_since(start),
                );
            }
        }
    }
    let is_ready = |seen: &Seen<Uplink>| verdict(seen.object.conditions(), "Ready") == "True/Ready";
    let seen = uplinks.until("Ready", is_ready).await?;
    let all = message(seen.object.conditions(), "Ready");
    telling.outcome(true, "Uplink tenant-blue is Ready", all, seen.at.saturating_duration_since(start));
    let state = get(world, STATE_A).await?;
    telling.line("");
    telling.block(&halves(&state));
    telling.line("");
    show_states(telling, world).await
}

/// `kubectl get uplinkstates -o wide`, as the user would see it.
async fn show_states(telling: &Telling, world: &BlueWorld) -> anyhow::Result<()> {
    telling.deed("admin", "kubectl get uplinkstates -o wide");
    telling.block(&world.rig.kubectl(["get", "uplinkstates", "-o", "wide"]).await?);
    Ok(())
}

async fn get(world: &BlueWorld, name: &str) -> anyhow::Result<UplinkState> {
    Api::all(world.client()).get(name).await.with_context(|| format!("reading UplinkState {name}"))
}

async fn break_and_heal(telling: &mut Telling, world: &BlueWorld) -> anyhow::Result<()> {
    telling.chapter("Things break and heal; nothing is restarted");
    let mut scene = Scene { telling, world, observer: Observer::start(&world.client()).await? };

    scene.telling.line("The host's interface loses its address.");
    let command = format!("ip addr del {CARD_ADDRESS} dev {CARD_INTERFACE}");
    scene.on_host(&command, STATE_A, "HostDataReady", "False/GatewayInfoUnavailable").await?;
    scene.uplink("False/UplinkStateNotResolved", "node-a=GatewayInfoUnavailable").await?;
    scene
        .on_host_batch(
            &[
                &format!("ip addr add {CARD_ADDRESS} dev {CARD_INTERFACE}"),
                &format!("ip route add default via 172.31.0.1 dev {CARD_INTERFACE} metric 50000"),
            ],
            STATE_A,
            "True/Resolved",
        )
        .await?;
    scene.uplink("True/Ready", "all 2 selected").await?;

    scene.telling.line("");
    scene.telling.line("The card's bridge loses its uplink.");
    scene.on_card(&["del-port", CARD_BRIDGE, CARD_WIRE], STATE_A, "False/BridgeUplinkNotFound").await?;
    show_states(scene.telling, world).await?;
    scene.on_card(&["add-port", CARD_BRIDGE, CARD_WIRE], STATE_A, "True/Resolved").await?;

    scene.telling.line("");
    scene.telling.line("A node stops matching: its state goes, and comes back as a new object.");
    scene.label("node-b", LABEL, None, STATE_B, None).await?;
    scene.uplink("True/Ready", "all 1 selected").await?;
    scene.label("node-b", LABEL, Some("true"), STATE_B, Some("True/Resolved")).await?;

    scene.telling.line("");
    scene.telling.line("Two nodeConfigs overlap on a node.");
    scene.label("node-b", DPU_HOST, Some(""), STATE_B, Some("False/NodeSelectorOverlap")).await?;
    scene.uplink("False/NodeSelectorOverlap", "node-b=NodeSelectorOverlap").await?;
    scene.label("node-b", DPU_HOST, None, STATE_B, Some("True/Resolved")).await?;
    scene.uplink("True/Ready", "all 2 selected").await
}

async fn kill_the_card(telling: &mut Telling, world: &mut BlueWorld) -> anyhow::Result<()> {
    telling.chapter("The DPU agent is killed; the host goes on; the card comes back");
    let client = world.client();
    let before = get(world, STATE_A).await?;
    let dpu = world.agents.dpu.as_ref().context("the DPU agent was never started")?;
    telling.deed("card", "kill -9 $(pidof dpu-agent)");
    dpu.kill().await?;
    let after = get(world, STATE_A).await?;
    ensure!(after.status == before.status, "the card's last half did not stay");
    telling.line("Its last half stays as it was: bridge and Resolved are still there.");

    let mut observer = Observer::start(&client).await?;
    let command = format!("ip addr add 172.31.0.11/24 dev {CARD_INTERFACE}");
    telling.deed("host", &format!("ip addr del {CARD_ADDRESS} dev {CARD_INTERFACE}; {command}"));
    let start = Instant::now();
    world
        .pair
        .host
        .ip_batch(&format!(
            "addr del {CARD_ADDRESS} dev {CARD_INTERFACE}\naddr add 172.31.0.11/24 dev {CARD_INTERFACE}\n"
        ))
        .await?;
    let has_new = |state: &UplinkState| state.status_or_default().ip_addresses == ["172.31.0.11/24"];
    let seen = observer.until("the new address", |seen| seen.is(STATE_A) && has_new(&seen.object)).await?;
    telling.outcome(true, "the host's half says 172.31.0.11/24", "", seen.at - start);

    telling.deed("host", &format!("ip link set {CARD_INTERFACE} address 02:00:00:00:00:99"));
    let start = Instant::now();
    world.pair.host.ip(["link", "set", CARD_INTERFACE, "address", "02:00:00:00:00:99"]).await?;
    let has_mac =
        |state: &UplinkState| state.status_or_default().mac_address.as_deref() == Some("02:00:00:00:00:99");
    let seen = observer.until("the new MAC", |seen| seen.is(STATE_A) && has_mac(&seen.object)).await?;
    telling.outcome(
        true,
        "the host's half says 02:00:00:00:00:99, which no representor has",
        "",
        seen.at - start,
    );

    telling.deed("card", "dpu-agent …");
    let start = Instant::now();
    world.agents.dpu = Some(world.spawn_dpu_agent().await?);
    let seen = observer
        .until("the card's judgement", |seen| {
            seen.is(STATE_A) && verdict(seen.object.conditions(), "Resolved") == "False/BridgeNotFound"
        })
        .await?;
    telling.outcome(
        false,
        "the card publishes the right half: False/BridgeNotFound",
        message(seen.object.conditions(), "Resolved"),
        seen.at - start,
    );
    let extra = observer.count_for(QUIET).await;
    ensure!(extra == 0, "{extra} more writes came after the card's half");
    telling.line(&format!("One write, and no other for {} ms.", QUIET.as_millis()));

    let mac = causeway_rig::simulated_mac("node-a", causeway_rig::CardSide::Host, 16)?;
    telling.deed("host", &format!("ip link set {CARD_INTERFACE} address {mac}"));
    let start = Instant::now();
    world.pair.host.ip(["link", "set", CARD_INTERFACE, "address", &mac]).await?;
    let resolved = |seen: &Seen<UplinkState>| {
        seen.is(STATE_A) && verdict(seen.object.conditions(), "Resolved") == "True/Resolved"
    };
    let seen = observer.until("Resolved", resolved).await?;
    telling.outcome(
        true,
        "and all is well again",
        message(seen.object.conditions(), "Resolved"),
        seen.at - start,
    );
    uplink_says(&client, UPLINK, "True/Ready").await?;

    let restore = [
        format!("addr del 172.31.0.11/24 dev {CARD_INTERFACE}"),
        format!("addr add {CARD_ADDRESS} dev {CARD_INTERFACE}"),
        format!("route add default via {CARD_GATEWAY} dev {CARD_INTERFACE} metric 50000"),
    ];
    telling
        .deed("host", &restore.iter().map(|command| format!("ip {command}")).collect::<Vec<_>>().join("; "));
    let start = Instant::now();
    world.pair.host.ip_batch(&format!("{}\n", restore.join("\n"))).await?;
    let as_before = |seen: &Seen<UplinkState>| {
        let status = seen.object.status_or_default();
        let resolved = verdict(seen.object.conditions(), "Resolved") == "True/Resolved";
        let data = status.default_gateways == [CARD_GATEWAY] && status.ip_addresses == [CARD_ADDRESS];
        seen.is(STATE_A) && data && resolved
    };
    let seen = observer.until("the old address and route", as_before).await?;
    telling.outcome(true, "address and gateway are as they were", "", seen.at - start);
    telling.line("");
    telling.block(&halves(&seen.object));
    Ok(())
}

/// The place where things break: does a deed and reports what the API server says about it, and how soon.
struct Scene<'s> {
    telling: &'s mut Telling,
    world: &'s BlueWorld,
    observer: Observer<UplinkState>,
}

impl Scene<'_> {
    async fn on_host(&mut self, command: &str, state: &str, type_: &str, want: &str) -> anyhow::Result<()> {
        self.telling.deed("host", command);
        let start = Instant::now();
        self.world.pair.host.exec(command.split(' ')).await?;
        self.expect(start, state, type_, want).await
    }

    async fn on_host_batch(&mut self, commands: &[&str], state: &str, want: &str) -> anyhow::Result<()> {
        let start = Instant::now();
        for command in commands {
            self.telling.deed("host", command);
            self.world.pair.host.exec(command.split(' ')).await?;
        }
        self.expect(start, state, "Resolved", want).await
    }

    async fn on_card(&mut self, command: &[&str], state: &str, want: &str) -> anyhow::Result<()> {
        self.telling.deed("card", &format!("ovs-vsctl {}", command.join(" ")));
        let start = Instant::now();
        self.world.card_ovs.vsctl(command).await?;
        self.expect(start, state, "Resolved", want).await
    }

    /// Sets or removes a label; `want` is the verdict of `Resolved`, or none if the state has to go.
    async fn label(
        &mut self,
        node: &str,
        key: &str,
        value: Option<&str>,
        state: &str,
        want: Option<&str>,
    ) -> anyhow::Result<()> {
        let argument = value.map_or_else(|| format!("{key}-"), |value| format!("{key}={value}"));
        self.telling.deed("admin", &format!("kubectl label node {node} {argument}"));
        let start = Instant::now();
        self.world.node_b.set_label(key, value).await?;
        if let Some(want) = want {
            return self.expect(start, state, "Resolved", want).await;
        }
        let seen = self.observer.until("the state's end", |seen| seen.is(state) && seen.deleted).await?;
        self.telling.outcome(true, &format!("UplinkState {state} is gone"), "", seen.at - start);
        Ok(())
    }

    async fn expect(&mut self, start: Instant, state: &str, type_: &str, want: &str) -> anyhow::Result<()> {
        let what = format!("{type_}={want} of {state}");
        let says = |seen: &Seen<UplinkState>| {
            seen.is(state) && !seen.deleted && verdict(seen.object.conditions(), type_) == want
        };
        let seen = self.observer.until(&what, says).await?;
        let name = seen.object.name_any();
        let text = format!("{name}: {type_} {}", want.replace('/', ", "));
        self.telling.outcome(
            want.starts_with("True"),
            &text,
            message(seen.object.conditions(), type_),
            seen.at - start,
        );
        Ok(())
    }

    /// What the Uplink as a whole says: the verdict of `Ready`, and a part of its message.
    async fn uplink(&mut self, want: &str, part: &str) -> anyhow::Result<()> {
        let says = |uplink: Option<&Uplink>| {
            uplink.is_some_and(|uplink| {
                verdict(uplink.conditions(), "Ready") == want
                    && message(uplink.conditions(), "Ready").contains(part)
            })
        };
        let what = format!("Ready {want} with {part:?}");
        let found =
            causeway_rig::wait_object(Api::all(self.world.client()), UPLINK, &what, DEADLINE, says).await?;
        let text = found.as_ref().map_or("", |uplink| message(uplink.conditions(), "Ready"));
        self.telling.line(&format!("→ Uplink {UPLINK}: Ready {}: {text}", want.replace('/', ", ")));
        Ok(())
    }
}
