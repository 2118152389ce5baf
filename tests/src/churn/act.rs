//! What can happen to Nodes, machines, switches and Uplinks. Each act is complete in itself and may find nothing to do.

use std::fmt::{self, Display};

use anyhow::Context;
use causeway_api::uplink_state::UplinkState;
use causeway_rig::{Node, UplinkAnnotations};
use fastrand::Rng;
use kube::Api;
use kube::api::DeleteParams;

use super::fault::Reach;
use crate::blue::{self, BlueWorld};
use crate::manifests::uplink;

/// A node of the cluster.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// The host of the card.
    #[default]
    Host,
    /// The regular node.
    Regular,
}

impl Machine {
    /// Its parts.
    #[must_use]
    pub fn node(self, world: &BlueWorld) -> &Node {
        match self {
            Self::Host => &world.pair.host,
            Self::Regular => &world.node_b,
        }
    }

    /// Name of its Node object.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "node-a",
            Self::Regular => "node-b",
        }
    }
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A script on the host of the card.
    OnHost(String),
    /// A script on the card.
    OnCard(String),
    /// A script on the regular node.
    OnRegular(String),
    /// The pair of links between host and card is made again.
    Connect,
    /// A label of a Node.
    Label(Machine, &'static str, Option<&'static str>),
    /// An annotation of a Node.
    Annotation(Machine, &'static str, Option<String>),
    /// An Uplink is created or edited.
    Apply(String),
    /// An Uplink is deleted.
    Delete(String),
    /// An Uplink is deleted, and another of the same name is created at once.
    Replace(String),
    /// A state is deleted by hand.
    DeleteState(String),
}

/// What became of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Done,
    /// Machine or API server did not want it, as when something to be changed is not there.
    Refused(String),
}

impl Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnHost(script) => write!(f, "host: {script}"),
            Self::OnCard(script) => write!(f, "card: {script}"),
            Self::OnRegular(script) => write!(f, "node-b: {script}"),
            Self::Connect => write!(f, "connect eth0-16 and rep0-16"),
            Self::Label(machine, key, value) => write!(f, "label {} {key}={value:?}", machine.name()),
            Self::Annotation(machine, key, value) => write!(f, "annotate {} {key}={value:?}", machine.name()),
            Self::Apply(yaml) => write!(f, "apply {}", one_line(yaml)),
            Self::Delete(yaml) => write!(f, "delete {}", one_line(yaml)),
            Self::Replace(yaml) => write!(f, "replace {}", one_line(yaml)),
            Self::DeleteState(name) => write!(f, "delete UplinkState {name}"),
        }
    }
}

/// The part of an Uplink's YAML that differs from Uplink to Uplink.
fn one_line(yaml: &str) -> String {
    let words: Vec<&str> = yaml.split_whitespace().skip_while(|word| *word != "name:").skip(1).collect();
    words.join(" ")
}

impl Act {
    /// Draws something that can be done now.
    pub fn draw(rng: &mut Rng, reach: Reach) -> Self {
        loop {
            let act = match rng.u8(0..14) {
                0..=2 => Some(on_host(rng)),
                3..=5 => Some(on_card(rng, reach)),
                6..=9 => Some(on_regular(rng, reach)),
                10 | 11 if reach.api => on_node_object(rng, reach),
                12.. if reach.api => Some(on_uplinks(rng)),
                _ => None,
            };
            if let Some(act) = act {
                return act;
            }
        }
    }

    /// Draws what makes much of it work again, so that the verdict is about more than refusals. Everything has to be
    /// reachable.
    pub fn heal(rng: &mut Rng) -> Vec<Self> {
        let card = "ovs-vsctl --timeout=20 --may-exist add-br br-tenant -- set Bridge br-tenant datapath_type=netdev \
                    -- --if-exists del-port rep0-16 -- add-port br-tenant rep0-16 \
                    -- --if-exists del-port p0 -- add-port br-tenant p0";
        let host = "ip link set eth0-16 up && ip addr replace 172.31.0.10/24 dev eth0-16 && \
                    ip route replace default via 172.31.0.1 dev eth0-16 metric 50";
        let regular = "ovs-vsctl --timeout=20 --may-exist add-br ovsbr1 -- set Bridge ovsbr1 datapath_type=netdev \
                       -- --may-exist add-port ovsbr1 eth1 && ip link set ovsbr1 up && \
                       ip addr replace 172.28.0.2/16 dev ovsbr1 && \
                       ip route replace default via 172.28.0.1 dev ovsbr1 metric 50";
        let mut acts = vec![
            Self::OnHost("ip link del eth0-16 2> /dev/null || true".to_owned()),
            Self::Connect,
            Self::OnHost(host.to_owned()),
            Self::OnCard(card.to_owned()),
            Self::OnRegular(regular.to_owned()),
            Self::Label(Machine::Host, blue::DPU_HOST, Some("true")),
            Self::Label(Machine::Regular, blue::LABEL, Some("true")),
            Self::Apply(blue::UPLINK_YAML.to_owned()),
        ];
        acts.extend(good_annotations());
        for name in UPLINKS.into_iter().skip(1) {
            // One entry that can be read; what it selects and names is another matter.
            let selector = pick(rng, &READABLE);
            let interface = pick(rng, &["eth0-16", "ovsbr1", "ovsbr1", "m0"]);
            acts.push(Self::Apply(uplink(name, &[(selector, interface)])));
        }
        acts.retain(|_| rng.u8(0..8) > 0);
        acts
    }

    /// Makes it happen.
    ///
    /// # Errors
    /// The rig's own parts fail; what is refused is an [`Outcome`].
    pub async fn happen(&self, world: &BlueWorld) -> anyhow::Result<Outcome> {
        let rig = &world.rig;
        let result = match self {
            Self::OnHost(script) => return shell(&world.pair.host, script).await,
            Self::OnCard(script) => return shell(&world.pair.card, script).await,
            Self::OnRegular(script) => return shell(&world.node_b, script).await,
            Self::Connect => world.pair.connect(16).await,
            Self::Label(machine, key, value) => machine.node(world).set_label(key, *value).await,
            Self::Annotation(machine, key, value) => {
                machine.node(world).set_annotation(key, value.as_deref()).await
            }
            Self::Apply(yaml) => rig.apply(yaml).await.map(drop),
            Self::Delete(yaml) => rig.delete(yaml).await,
            Self::Replace(yaml) => match rig.delete(yaml).await {
                Ok(()) => rig.apply(yaml).await.map(drop),
                Err(error) => Err(error),
            },
            Self::DeleteState(name) => {
                let states: Api<UplinkState> = Api::all(world.client());
                match states.delete(name, &DeleteParams::default()).await {
                    Ok(_) => Ok(()),
                    // Whether it is there is up to the agents.
                    Err(kube::Error::Api(refusal)) if refusal.is_not_found() => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
        };
        Ok(result.map_or_else(|error| Outcome::Refused(format!("{error:#}")), |()| Outcome::Done))
    }
}

async fn shell(node: &Node, script: &str) -> anyhow::Result<Outcome> {
    let output = node.output(["sh", "-uc", script]).await.context("running a script")?;
    if output.status.success() {
        return Ok(Outcome::Done);
    }
    Ok(Outcome::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Both Nodes have the annotations that they had at first.
pub(super) fn good_annotations() -> Vec<Act> {
    const KEYS: [&str; 2] =
        [causeway_api::annotation::L3_GATEWAY_CONFIG, causeway_api::annotation::NODE_CHASSIS_ID];
    let machines = [Machine::Host, Machine::Regular].into_iter();
    let of_machine = |machine: Machine| {
        let mut all = UplinkAnnotations::default().render(machine.name());
        KEYS.map(|key| Act::Annotation(machine, key, all.remove(key)))
    };
    machines.flat_map(of_machine).collect()
}

fn pick<T: Copy + Default>(rng: &mut Rng, from: &[T]) -> T {
    rng.choice(from).copied().unwrap_or_default()
}

/// Something that happens to an interface in the kernel. `hosts` and `gateways` are addresses that make sense on it.
fn on_interface(rng: &mut Rng, interface: &str, hosts: &[&str], gateways: &[&str]) -> String {
    let (host, gateway) = (pick(rng, hosts), pick(rng, gateways));
    let metric = pick(rng, &[100, 200, 50_000]);
    let family = if gateway.contains(':') { "-6" } else { "-4" };
    // Told of as being on the link, so that it is accepted whatever the addresses are.
    let onlink = format!("via {gateway} dev {interface} metric {metric} onlink");
    match rng.u8(0..18) {
        0..=3 => format!("ip addr replace {host} dev {interface}"),
        4 | 5 => format!("ip addr del {host} dev {interface} || true"),
        6..=8 => format!("ip {family} route replace default {onlink}"),
        9 => format!("ip {family} route append default {onlink} || true"),
        10 => format!("ip {family} route prepend default {onlink} || true"),
        11 | 16 | 17 => format!("ip {family} route del default dev {interface} || true"),
        12 => format!("ip {family} addr flush dev {interface} scope global"),
        13 => format!("ip link set {interface} mtu {}", pick(rng, &[1400, 1500, 1450])),
        14 => format!("ip link set {interface} down; ip link set {interface} up"),
        _ => format!("ip link set {interface} {}", pick(rng, &["down", "up"])),
    }
}

fn on_host(rng: &mut Rng) -> Act {
    const HOSTS: [&str; 4] = ["172.31.0.10/24", "172.31.0.11/24", "172.31.7.7/16", "fd00:31::10/64"];
    const GATEWAYS: [&str; 4] = ["172.31.0.1", "172.31.0.254", "fd00:31::1", "fe80::31"];
    let interface = pick(rng, &["eth0-16", "eth0-16", "eth0-0"]);
    match rng.u8(0..12) {
        0 => Act::OnHost("ip link del eth0-16 2> /dev/null || true".to_owned()),
        1 | 2 => Act::Connect,
        3 => Act::OnHost(
            "ip link set eth0-0 down && ip link set eth0-0 name away0 && ip link set away0 name eth0-0 && \
             ip link set eth0-0 up"
                .to_owned(),
        ),
        4 => {
            let byte = rng.u8(0..4);
            Act::OnHost(format!("ip link set {interface} address 52:54:00:d9:21:0{byte}"))
        }
        _ => Act::OnHost(on_interface(rng, interface, &HOSTS, &GATEWAYS)),
    }
}

/// ovs-vsctl that does not wait for the switch: what it does later is one more thing that happens at any time.
pub(super) const VSCTL: &str = "ovs-vsctl --timeout=10 --no-wait";

fn on_card(rng: &mut Rng, reach: Reach) -> Act {
    let link = pick(rng, &["rep0-16", "rep0-16", "rep0-0", "p0"]);
    let bridge = pick(rng, &["br-tenant", "br-tenant", "br-two"]);
    if !reach.card_database || rng.u8(0..4) == 0 {
        let script = match rng.u8(0..3) {
            0 => format!("ip link set {link} mtu {}", pick(rng, &[1400, 1500, 1450])),
            1 => format!("ip link set {link} {}", pick(rng, &["down", "up"])),
            _ => format!("ip link set {link} down; ip link set {link} up"),
        };
        return Act::OnCard(script);
    }
    let make = format!("--may-exist add-br {bridge} -- set Bridge {bridge} datapath_type=netdev");
    Act::OnCard(match rng.u8(0..10) {
        0..=3 => format!("{VSCTL} --if-exists del-port {link} -- {make} -- add-port {bridge} {link}"),
        4 | 5 => format!("{VSCTL} --if-exists del-port {link}"),
        6 => format!("{VSCTL} --if-exists del-br {bridge}"),
        7 => format!("{VSCTL} -- {make} -- set Bridge {bridge} external_ids:churn={}", rng.u8(..)),
        8 => format!("{VSCTL} --if-exists set Port {link} tag={}", rng.u16(1..4000)),
        _ => format!("{VSCTL} --if-exists clear Port {link} tag"),
    })
}

fn on_regular(rng: &mut Rng, reach: Reach) -> Act {
    const HOSTS: [&str; 4] = ["172.28.0.2/16", "172.28.0.3/16", "10.77.0.2/24", "fd00:28::2/64"];
    const GATEWAYS: [&str; 4] = ["172.28.0.1", "172.28.0.254", "fd00:28::1", "fe80::28"];
    let (bridge, wire) = pick(rng, &[("ovsbr1", "eth1"), ("ovsbr1", "eth1"), ("m0", "w0")]);
    if !reach.regular_database || rng.u8(0..2) == 0 {
        let script = match rng.u8(0..8) {
            0 => format!("ip link set {wire} {}", pick(rng, &["down", "up"])),
            1 => "ip link del w0 2> /dev/null || true".to_owned(),
            2 => "ip link show w0 > /dev/null 2>&1 || ip link add w0 type veth peer name v0".to_owned(),
            _ => {
                // What OVS makes is there when OVS has come to it.
                let script = on_interface(rng, bridge, &HOSTS, &GATEWAYS);
                format!("ip link show {bridge} > /dev/null 2>&1 || exit 0; {script}")
            }
        };
        return Act::OnRegular(script);
    }
    let make = format!("--may-exist add-br {bridge} -- set Bridge {bridge} datapath_type=netdev");
    Act::OnRegular(match rng.u8(0..10) {
        0..=3 => format!("{VSCTL} --if-exists del-port {wire} -- {make} -- add-port {bridge} {wire}"),
        4 | 5 => format!("{VSCTL} --if-exists del-port {wire}"),
        6 => format!("{VSCTL} --if-exists del-br {bridge}"),
        7 => format!("{VSCTL} -- {make} -- set Bridge {bridge} external_ids:churn={}", rng.u8(..)),
        8 => format!(
            "{VSCTL} -- {make} -- set Bridge {bridge} other_config:hwaddr=02:ab:00:00:00:0{}",
            rng.u8(1..4)
        ),
        _ => format!(
            "{VSCTL} -- {make} -- --may-exist add-port {bridge} {bridge}-in -- set Interface {bridge}-in type=internal"
        ),
    })
}

/// Label by which some Uplinks select.
pub(super) const ZONE: &str = "example.com/zone";

fn on_node_object(rng: &mut Rng, reach: Reach) -> Option<Act> {
    let machine = pick(rng, &[Machine::Host, Machine::Regular]);
    if !reach.has(machine) {
        return None;
    }
    let own = match machine {
        Machine::Host => blue::DPU_HOST,
        Machine::Regular => blue::LABEL,
    };
    let gateway = causeway_api::annotation::L3_GATEWAY_CONFIG;
    Some(match rng.u8(0..12) {
        0..=3 => Act::Label(machine, own, Some("true")),
        4 => Act::Label(machine, own, None),
        5 | 6 => Act::Label(machine, ZONE, Some(pick(rng, &["one", "two"]))),
        7 => Act::Label(machine, ZONE, None),
        8 | 9 => {
            let bridge = pick(rng, &["breth0", "breth0", "ovsbr1", "br-tenant"]).to_owned();
            let mut all = UplinkAnnotations { bridge, ..UplinkAnnotations::default() }.render(machine.name());
            Act::Annotation(machine, gateway, all.remove(gateway))
        }
        10 => Act::Annotation(machine, gateway, pick(rng, &[None, Some("{")]).map(str::to_owned)),
        _ => {
            let chassis = pick(rng, &[None, Some("chassis-id")]).map(str::to_owned);
            Act::Annotation(machine, causeway_api::annotation::NODE_CHASSIS_ID, chassis)
        }
    })
}

const UPLINKS: [&str; 4] = [blue::UPLINK, "one", "two", "three"];

fn on_uplinks(rng: &mut Rng) -> Act {
    let name = pick(rng, &UPLINKS);
    if rng.u8(0..5) == 0 {
        let machine = pick(rng, &[Machine::Host, Machine::Regular]);
        return Act::DeleteState(format!("{name}.{}", machine.name()));
    }
    let yaml =
        if name == blue::UPLINK && rng.bool() { blue::UPLINK_YAML.to_owned() } else { any_uplink(rng, name) };
    match rng.u8(0..8) {
        0..=3 => Act::Apply(yaml),
        4 | 5 => Act::Replace(yaml),
        _ => Act::Delete(yaml),
    }
}

/// Selectors that can be read.
const READABLE: [&str; 7] = [
    "{matchLabels: {example.com/tenant-blue-uplink: \"true\"}}",
    "{matchExpressions: [{key: k8s.ovn.org/dpu-host, operator: Exists}]}",
    "{matchLabels: {kubernetes.io/hostname: node-a}}",
    "{matchLabels: {kubernetes.io/hostname: node-b}}",
    "{matchLabels: {kubernetes.io/hostname: node-b}}",
    "{matchLabels: {example.com/zone: one}}",
    "{matchExpressions: [{key: example.com/zone, operator: In, values: [one, two]}]}",
];

/// A selector with an operator that there is not.
const UNREADABLE: &str = "{matchExpressions: [{key: example.com/zone, operator: Near}]}";

fn any_uplink(rng: &mut Rng, name: &str) -> String {
    let entries: Vec<_> = (0..rng.u8(1..=2))
        .map(|_| {
            let selector = if rng.u8(0..16) == 0 { UNREADABLE } else { pick(rng, &READABLE) };
            let interfaces = ["eth0-16", "eth0-16", "eth0-0", "ovsbr1", "ovsbr1", "m0", "nowhere0"];
            (selector, pick(rng, &interfaces))
        })
        .collect();
    uplink(name, &entries)
}
