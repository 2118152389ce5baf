//! Management ports of a regular node, with a real Open vSwitch, a real kernel and a real API server.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{FABRIC_V4, KUBECONFIG, Level, Node, Ovs, Process, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::states::DEADLINE;
use serde_json::json;

/// Where the agent serves `/metrics` and `/readyz`, in the network namespace of its node.
const HEALTH: &str = "127.0.0.1:9410";
const SUBNETS: &str = "k8s.ovn.org/node-subnets";

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(
            &shared,
            Level::Switch,
            "ports_of_the_default_and_of_primary_networks_come_and_go_and_a_restart_writes_nothing",
            come_and_go,
        )
        .test_in(&shared, Level::Switch, "what_others_do_to_a_port_is_undone_and_foreign_ports_stay", undone)
        .test_in(
            &shared,
            Level::Switch,
            "ports_of_networks_that_went_while_the_agent_was_down_are_removed_at_its_start",
            gone_meanwhile,
        )
        .run()
}

/// A node with an integration bridge, as ovn-controller makes it, and a bridge that leads out.
struct World {
    rig: Arc<Rig>,
    node: Node,
    ovs: Ovs,
}

impl World {
    async fn start(rig: &Arc<Rig>, name: &str) -> anyhow::Result<Self> {
        let node = rig.node(name).start().await?;
        let ovs = node.ovs().await?;
        let bridge = ovs.add_bridge(&node, "br-ex").physical("eth1").address("192.0.2.9/24");
        bridge.address("2001:db8::9/64").create().await?;
        ovs.vsctl(["add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev"]).await?;
        Ok(Self { rig: Arc::clone(rig), node, ovs })
    }

    async fn agent(&self) -> anyhow::Result<Process> {
        let hop = FABRIC_V4.to_string();
        let arguments = [
            "--init-node",
            self.node.name(),
            "--k8s-kubeconfig",
            KUBECONFIG,
            "--metrics-bind-address",
            HEALTH,
            "--gateway-mode",
            "shared",
            "--gateway-interface",
            "br-ex",
            "--gateway-nexthop",
            &hop,
            "--enable-multi-network",
            "--enable-network-segmentation",
            "--cluster-subnets",
            "10.128.0.0/14/24,fd01::/48/64",
            "--gateway-v4-masquerade-subnet",
            "169.254.0.0/17",
            "--gateway-v6-masquerade-subnet",
            "fd69::/112",
        ];
        self.node.spawn_built("node-agent", arguments).await
    }

    async fn subnets(&self, text: &str) -> anyhow::Result<()> {
        self.node.set_annotation(SUBNETS, Some(text)).await
    }

    /// A definition of a primary network, with the annotations of the cluster manager.
    async fn network(&self, namespace: &str, id: u32, topology: &str, subnets: &str) -> anyhow::Result<()> {
        let name = format!("net{id}");
        let keys = if topology == "layer2" {
            format!("[{},{}]", 16_711_683 + id, 16_715_778 + id)
        } else {
            "[]".into()
        };
        let config = json!({
            "cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": name,
            "netAttachDefName": format!("{namespace}/{name}"), "role": "primary", "topology": topology,
            "subnets": subnets, "mtu": 1300,
        });
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {
                "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": name, "namespace": namespace, "annotations": {
                    "k8s.ovn.org/network-name": name, "k8s.ovn.org/network-id": id.to_string(),
                    "k8s.ovn.org/tunnel-keys": keys,
                }},
                "spec": {"config": config.to_string()},
            },
        ]});
        let path = format!("/tmp/{namespace}.json");
        self.node.write(&path, objects.to_string())?;
        self.node.exec(["kubectl", "apply", "-f", &path]).await.map(drop)
    }

    async fn forget(&self, namespace: &str, id: u32) -> anyhow::Result<()> {
        let name = format!("net{id}");
        self.node.exec(["kubectl", "-n", namespace, "delete", "net-attach-def", &name]).await.map(drop)
    }

    /// Waits until a command prints what it should.
    async fn until(&self, what: &str, argv: &[&str], accept: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let accept = &accept;
        let look = || async move {
            // A command about something that is not there yet fails.
            let text = match self.node.exec(argv).await {
                Ok(text) => text,
                Err(error) => format!("{error:#}"),
            };
            if accept(&text) { Ok(()) } else { Err(text) }
        };
        self.rig.wait_for(what, DEADLINE, look).await
    }

    /// Waits until an interface is up with these addresses, and only these beside its own of the link.
    async fn until_up(&self, interface: &str, addresses: &[&str]) -> anyhow::Result<()> {
        let argv = ["ip", "-o", "addr", "show", "dev", interface, "scope", "global"];
        let has = |text: &str| {
            let found: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
            found == addresses
        };
        self.until(&format!("{interface} to have {addresses:?}"), &argv, has).await?;
        let argv = ["ip", "-o", "link", "show", "dev", interface, "up"];
        self.until(&format!("{interface} to be up"), &argv, |text| text.contains(interface)).await
    }

    async fn until_gone(&self, interface: &str) -> anyhow::Result<()> {
        let argv = ["ovs-vsctl", "list-ports", "br-int"];
        let gone = |text: &str| text.lines().all(|line| line != interface);
        self.until(&format!("{interface} to be gone"), &argv, gone).await
    }

    async fn get(&self, record: &str, column: &str) -> anyhow::Result<String> {
        Ok(self.ovs.vsctl(["get", "Interface", record, column]).await?.trim().trim_matches('"').to_owned())
    }

    async fn number(&self, name: &str) -> anyhow::Result<u64> {
        let url = format!("http://{HEALTH}/metrics");
        let text = self.node.exec(["curl", "-sS", "--max-time", "5", &url]).await?;
        let mut sum = 0;
        for line in text.lines().filter(|line| line.starts_with(name)) {
            sum += line.rsplit_once(' ').context("a metric without value")?.1.parse::<u64>()?;
        }
        Ok(sum)
    }

    /// Everything of the management ports that an agent writes, in an order of its own. Identities are in it: a port that
    /// is made anew is another one.
    async fn state(&self) -> anyhow::Result<String> {
        let columns = "--columns=_uuid,name,type,mac,mtu_request,external_ids";
        let rows = self.ovs.vsctl(["--format=csv", "--no-headings", columns, "list", "Interface"]).await?;
        let mut lines: Vec<String> = rows.lines().map(str::to_owned).collect();
        for argv in [&["-br", "link"][..], &["-br", "addr"], &["route"], &["-6", "route"]] {
            lines.extend(self.node.ip(argv).await?.lines().map(str::to_owned));
        }
        lines.retain(|line| line.contains("ovn-k8s-mp"));
        lines.sort_unstable();
        Ok(lines.join("\n"))
    }
}

/// Tests of one rig run side by side: the definition is made once.
static DEFINED: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();

async fn crds(rig: &Rig) -> anyhow::Result<()> {
    DEFINED.get_or_try_init(|| define(rig)).await.copied()
}

async fn define(rig: &Rig) -> anyhow::Result<()> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
        "spec": {
            "group": "k8s.cni.cncf.io", "scope": "Namespaced",
            "names": {
                "kind": "NetworkAttachmentDefinition", "plural": "network-attachment-definitions",
                "singular": "network-attachment-definition", "shortNames": ["net-attach-def"],
            },
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let path = rig.folder().join("net-attach-def.json");
    std::fs::write(&path, definition.to_string())?;
    rig.kubectl(["apply", "-f", &path.to_string_lossy()]).await?;
    let name = "crd/network-attachment-definitions.k8s.cni.cncf.io";
    rig.kubectl(["wait", "--for=condition=Established", "--timeout=30s", name]).await.map(drop)
}

async fn come_and_go(rig: Arc<Rig>) -> anyhow::Result<()> {
    crds(&rig).await?;
    let world = World::start(&rig, "mp-a").await?;
    world.subnets(r#"{"default":["10.128.0.0/24","fd01::/64"]}"#).await?;
    let agent = world.agent().await?;
    world.until_up("ovn-k8s-mp0", &["10.128.0.2/24", "fd01::2/64"]).await?;
    let argv = ["ip", "route", "show", "dev", "ovn-k8s-mp0"];
    let routed = |text: &str| {
        text.contains("10.128.0.0/14 via 10.128.0.1") && text.contains("169.254.0.3 via 10.128.0.1")
    };
    world.until("the default network's routes", &argv, routed).await?;
    let argv = ["ip", "-6", "route", "show", "dev", "ovn-k8s-mp0"];
    let routed = |text: &str| text.contains("fd01::/48 via fd01::1") && text.contains("fd69::3 via fd01::1");
    world.until("its IPv6 routes", &argv, routed).await?;
    let argv = ["ip", "neigh", "show", "dev", "ovn-k8s-mp0", "nud", "permanent"];
    let known = |text: &str| {
        let at = |address: &str| text.contains(&format!("{address} lladdr 0a:58:0a:80:00:01"));
        at("10.128.0.1") && at("fd01::1")
    };
    world.until("its router as neighbour", &argv, known).await?;
    for (column, want) in [("mac", "0a:58:0a:80:00:02"), ("mtu_request", "1400"), ("type", "internal")] {
        let found = world.get("ovn-k8s-mp0", column).await?;
        ensure!(found == want, "{column}: {found}");
    }
    let ids = world.get("ovn-k8s-mp0", "external_ids").await?;
    ensure!(ids == "{iface-id=k8s-mp-a}", "{ids}");
    for (setting, want) in [("forwarding", "1"), ("rp_filter", "2")] {
        let path = format!("/proc/sys/net/ipv4/conf/ovn-k8s-mp0/{setting}");
        world.until(setting, &["cat", &path], |text| text.trim() == want).await?;
    }

    // Both families of a layer 2 network, and a routed one whose subnet comes later.
    world.network("green", 21, "layer2", "10.201.0.0/16,fd21::/64").await?;
    world.until_up("ovn-k8s-mp21", &["10.201.0.2/16", "fd21::2/64"]).await?;
    let ids = world.get("ovn-k8s-mp21", "external_ids").await?;
    ensure!(
        ids.contains("iface-id=k8s-net21_mp-a") && ids.contains("\"k8s.ovn.org/network\"=net21"),
        "{ids}"
    );
    let argv = ["ip", "-o", "link", "show", "dev", "ovn-k8s-mp21"];
    world.until("its MTU", &argv, |text| text.contains("mtu 1300")).await?;
    world.network("blue", 20, "layer3", "10.200.0.0/16/24").await?;
    world.subnets(r#"{"default":["10.128.0.0/24","fd01::/64"],"net20":["10.200.4.0/24"]}"#).await?;
    world.until_up("ovn-k8s-mp20", &["10.200.4.2/24"]).await?;
    // The node moves to another subnet.
    world.subnets(r#"{"default":["10.128.0.0/24","fd01::/64"],"net20":["10.200.5.0/24"]}"#).await?;
    world.until_up("ovn-k8s-mp20", &["10.200.5.2/24"]).await?;
    let mac = world.get("ovn-k8s-mp20", "mac").await?;
    ensure!(mac == "0a:58:0a:c8:05:02", "{mac}");

    let before = world.state().await?;
    agent.restart().await?;
    let ready = ["curl", "-sS", &format!("http://{HEALTH}/readyz")];
    world.until("the agent to be ready", &ready, |text| text.lines().next() == Some("ok")).await?;
    let counter = r#"causeway_management_reconcile_passes_total{room="management",outcome="done"}"#;
    let passed = || async {
        let passes = world.number(counter).await.map_err(|error| format!("{error:#}"))?;
        if passes >= 3 { Ok(()) } else { Err(format!("{passes} passes")) }
    };
    rig.wait_for("the agent to look at three ports", DEADLINE, passed).await?;
    let after = world.state().await?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    let log = agent.log_text()?;
    let since = log.rsplit("Management ports started").next().unwrap_or_default();
    ensure!(!since.contains("Management port set") && !since.contains("Management port changed"), "{since}");

    world.forget("green", 21).await?;
    world.until_gone("ovn-k8s-mp21").await?;
    ensure!(world.node.path("/sys/class/net/ovn-k8s-mp20").exists(), "another network's port is gone too");
    world.forget("blue", 20).await?;
    world.until_gone("ovn-k8s-mp20").await
}

async fn undone(rig: Arc<Rig>) -> anyhow::Result<()> {
    crds(&rig).await?;
    let world = World::start(&rig, "mp-b").await?;
    world.subnets(r#"{"default":["10.128.1.0/24"],"net30":["10.202.1.0/24"]}"#).await?;
    // A port of somebody else, with a name that a management port could have, and one of a pod.
    let foreign = [
        "add-port",
        "br-int",
        "ovn-k8s-mp77",
        "--",
        "set",
        "Interface",
        "ovn-k8s-mp77",
        "type=internal",
        "--",
        "add-port",
        "br-int",
        "pod1",
        "--",
        "set",
        "Interface",
        "pod1",
        "type=internal",
        "external_ids:iface-id=ns_pod1",
    ];
    world.ovs.vsctl(foreign).await?;
    world.network("grey", 30, "layer3", "10.202.0.0/16/24").await?;
    let _agent = world.agent().await?;
    world.until_up("ovn-k8s-mp30", &["10.202.1.2/24"]).await?;
    world.until_up("ovn-k8s-mp0", &["10.128.1.2/24"]).await?;
    for interface in ["ovn-k8s-mp30", "ovn-k8s-mp0"] {
        let uuid = world.get(interface, "_uuid").await?;
        world.ovs.vsctl(["del-port", interface]).await?;
        let argv = ["ovs-vsctl", "get", "Interface", interface, "_uuid"];
        let anew = |text: &str| !text.contains(&uuid) && !text.contains("no row");
        world.until("the port to be made anew", &argv, anew).await?;
    }
    world.until_up("ovn-k8s-mp30", &["10.202.1.2/24"]).await?;
    world.until_up("ovn-k8s-mp0", &["10.128.1.2/24"]).await?;
    world.node.ip(["addr", "flush", "dev", "ovn-k8s-mp30", "scope", "global"]).await?;
    world.until_up("ovn-k8s-mp30", &["10.202.1.2/24"]).await?;
    world.node.ip(["link", "set", "ovn-k8s-mp0", "down"]).await?;
    world.until_up("ovn-k8s-mp0", &["10.128.1.2/24"]).await?;
    world.node.ip(["route", "del", "10.128.0.0/14"]).await?;
    let argv = ["ip", "route", "show", "dev", "ovn-k8s-mp0"];
    world.until("the route", &argv, |text| text.contains("10.128.0.0/14 via 10.128.1.1")).await?;
    world.ovs.vsctl(["set", "Interface", "ovn-k8s-mp30", "external_ids:iface-id=x"]).await?;
    let argv = ["ovs-vsctl", "get", "Interface", "ovn-k8s-mp30", "external_ids:iface-id"];
    world.until("the logical port", &argv, |text| text.contains("k8s-net30_mp-b")).await?;
    let ports = world.ovs.vsctl(["list-ports", "br-int"]).await?;
    for foreign in ["ovn-k8s-mp77", "pod1"] {
        ensure!(ports.lines().any(|port| port == foreign), "{foreign} is gone: {ports}");
    }
    // ovn-controller is not there yet on a new node: its bridge is waited for.
    world.ovs.vsctl(["del-br", "br-int"]).await?;
    world.ovs.vsctl(["add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev"]).await?;
    world.until_up("ovn-k8s-mp30", &["10.202.1.2/24"]).await?;
    world.until_up("ovn-k8s-mp0", &["10.128.1.2/24"]).await
}

async fn gone_meanwhile(rig: Arc<Rig>) -> anyhow::Result<()> {
    crds(&rig).await?;
    let world = World::start(&rig, "mp-c").await?;
    world.subnets(r#"{"default":["10.128.2.0/24"],"net40":["10.203.1.0/24"]}"#).await?;
    world.network("dark", 40, "layer3", "10.203.0.0/16/24").await?;
    let agent = world.agent().await?;
    world.until_up("ovn-k8s-mp40", &["10.203.1.2/24"]).await?;
    agent.stop(DEADLINE).await?;
    // An agent that stops takes nothing away.
    ensure!(world.get("ovn-k8s-mp40", "type").await? == "internal", "the port went with the agent");
    world.forget("dark", 40).await?;
    // What upstream would have left of another network.
    let stale = [
        "add-port",
        "br-int",
        "ovn-k8s-mp99",
        "--",
        "set",
        "Interface",
        "ovn-k8s-mp99",
        "type=internal",
        "external_ids:iface-id=k8s-old_mp-c",
        "external_ids:k8s.ovn.org/network=old",
    ];
    world.ovs.vsctl(stale).await?;
    let _again = world.agent().await?;
    world.until_gone("ovn-k8s-mp40").await?;
    world.until_gone("ovn-k8s-mp99").await?;
    world.until_up("ovn-k8s-mp0", &["10.128.2.2/24"]).await
}
