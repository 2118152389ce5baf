//! Services of the default network that every primary network reaches.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_dpu_agent::topology::mark::DEFAULT_SERVICE;
use causeway_dpu_agent::topology::northbound::{AddressSet, LogicalRouter, StaticRoute};
use causeway_dpu_agent::topology::service::ServiceName;
use causeway_rig::Process;
use causeway_tests::topology::world::{DEADLINE, Kind, NetworkSpec, ON, World, rows};
use ovsdb::Snapshot;
use serde_json::json;

/// The set of IPv4 addresses.
const SET: &str = "a3613486944346402462";

fn networks() -> [NetworkSpec; 3] {
    [
        NetworkSpec::new("cluster_udn_blue", 1, Kind::Layer3),
        NetworkSpec::new("cluster_udn_green", 2, Kind::Layer2),
        NetworkSpec::new("ns_far", 3, Kind::Layer3Secondary),
    ]
}

/// Routes to Services as `router service address hop`.
fn routes(have: &Snapshot) -> BTreeSet<String> {
    let of_router = |router: &LogicalRouter| {
        let routes = router.static_routes.iter().filter_map(|route| have.row::<StaticRoute>(*route));
        let noted = routes.filter_map(|route| Some((route, route.external_ids.get(DEFAULT_SERVICE)?)));
        let text = |(route, service): (&std::sync::Arc<StaticRoute>, &str)| {
            format!("{} {service} {} {}", router.name, route.ip_prefix, route.nexthop)
        };
        noted.map(text).collect::<Vec<_>>()
    };
    have.rows::<LogicalRouter>().flat_map(|(_, router)| of_router(router)).collect()
}

/// Routes of the two primary networks to one Service.
fn both(service: &str, address: &str) -> BTreeSet<String> {
    let blue = format!("cluster_udn_blue_ovn_cluster_router {service} {address} 10.200.1.2");
    let green = format!("cluster_udn_green_transit_router {service} {address} 10.201.0.2");
    [blue, green].into()
}

fn set(have: &Snapshot) -> BTreeSet<String> {
    have.find_one(AddressSet::by_name(), SET)
        .into_iter()
        .flat_map(|(_, set)| set.addresses.iter().cloned())
        .collect()
}

async fn apply(world: &mut World, spec: serde_json::Value) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"}, "spec": spec,
    });
    world.rig.apply(&object.to_string()).await?;
    let service = world.service("kube-system", "kube-dns").await?;
    match service {
        Some(service) => drop(world.services.insert(service.name.clone(), service)),
        None => drop(world.services.remove(&dns())),
    }
    Ok(())
}

fn dns() -> ServiceName {
    ServiceName::new("kube-system", "kube-dns")
}

async fn delete(world: &mut World) -> anyhow::Result<()> {
    world.rig.kubectl(["delete", "service", "kube-dns", "-n", "kube-system"]).await?;
    world.services.remove(&dns());
    Ok(())
}

/// Waits until the agent's log has a text, and says how often.
async fn logged(world: &World, agent: &Process, text: &str) -> anyhow::Result<usize> {
    let look = || async {
        let log = agent.log_text().map_err(|error| format!("{error:#}"))?;
        let times = log.matches(text).count();
        if times > 0 { Ok(times) } else { Err("it is not there".to_owned()) }
    };
    world.rig.wait_for(&format!("the log to say {text:?}"), DEADLINE, look).await
}

pub(crate) async fn follow() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    world.add(&networks()).await?;
    let agent = world.agent().await?;
    world.ready().await?;
    let api = both("default/kubernetes", "10.96.0.1");
    let have = world.converged().await?;
    ensure!(routes(&have) == api && set(&have) == ["10.96.0.1".to_owned()].into(), "{:?}", routes(&have));
    let before = rows(&have);
    let missing = "Service kube-system/kube-dns does not exist";
    ensure!(logged(&world, &agent, missing).await? == 1);
    world.until_readiness("that it is ready", |text| text == "ok").await?;

    // One that comes costs each primary network one transaction, and the set one.
    let sent = world.transactions().await?;
    let ports = json!([{"name": "dns", "port": 53, "protocol": "UDP"}]);
    let families = json!({"ipFamilyPolicy": "PreferDualStack", "clusterIP": "10.96.0.10", "ports": ports});
    apply(&mut world, families).await?;
    let addresses = &world.services.get(&dns()).context("the Service")?.addresses;
    ensure!(addresses.len() == 2, "{addresses:?}");
    let have = world.converged().await?;
    let with_dns: BTreeSet<String> =
        api.union(&both("kube-system/kube-dns", "10.96.0.10")).cloned().collect();
    ensure!(routes(&have) == with_dns, "{:?}", routes(&have));
    ensure!(set(&have) == ["10.96.0.1".to_owned(), "10.96.0.10".to_owned()].into(), "{:?}", set(&have));
    ensure!(before.keys().all(|key| rows(&have).contains_key(key)), "another row went");

    // What nobody reads of it, and Services that nobody named, wake nobody.
    world.rig.kubectl(["label", "service", "kube-dns", "-n", "kube-system", "tier=a"]).await?;
    world.rig.kubectl(["create", "service", "clusterip", "other", "-n", "kube-system", "--tcp=80"]).await?;
    // One without an address leads nowhere; another address is another route.
    apply(&mut world, json!({"type": "ExternalName", "externalName": "dns.example.com", "clusterIP": null}))
        .await?;
    let have = world.converged().await?;
    ensure!(routes(&have) == api && set(&have).len() == 1, "{:?}", routes(&have));
    let headless = "Service kube-system/kube-dns has no address in the cluster";
    ensure!(logged(&world, &agent, headless).await? == 1);
    apply(&mut world, json!({"type": "ClusterIP", "clusterIP": "10.96.0.77", "ports": ports})).await?;
    let have = world.converged().await?;
    let moved: BTreeSet<String> = api.union(&both("kube-system/kube-dns", "10.96.0.77")).cloned().collect();
    ensure!(routes(&have) == moved, "{:?}", routes(&have));
    let last = world.until_transactions(sent + 9).await?;
    ensure!(last == sent + 9, "{} transactions for three changes", last - sent);

    // By hand, beside sets of others.
    world.zone.nbctl(["create", "Address_Set", "name=theirs", "addresses=192.0.2.1"]).await?;
    for command in [
        &["lr-route-del", "cluster_udn_blue_ovn_cluster_router", "10.96.0.1"][..],
        &["lr-route-del", "cluster_udn_green_transit_router", "10.96.0.77"],
        &["clear", "Address_Set", SET, "addresses"],
        &["destroy", "Address_Set", SET],
    ] {
        let known = world.store.last_known();
        world.zone.nbctl(command).await.with_context(|| format!("{command:?}"))?;
        world.until("the hand", |have| have.generation() > known.generation()).await?;
        let have = world.converged().await.with_context(|| format!("after {command:?}"))?;
        ensure!(routes(&have) == moved && set(&have).len() == 2, "{command:?}: {:?}", routes(&have));
    }
    ensure!(world.store.current()?.find_one(AddressSet::by_name(), "theirs").is_some());

    let before = rows(&world.converged().await?);
    agent.kill().await?;
    agent.restart().await?;
    world.ready().await?;
    ensure!(world.transactions().await? == 0, "a restart wrote something");
    delete(&mut world).await?;
    let have = world.converged().await?;
    ensure!(routes(&have) == api && rows(&have).len() + 2 == before.len(), "{:?}", routes(&have));
    Ok(())
}

/// As OVN takes a packet of a pod: by the node's own port, behind an address that is the network's alone.
pub(crate) async fn packet() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    // Ports between a network and its node are bound to the node's own chassis.
    let chassis = world.ovs.vsctl(["get", "Open_vSwitch", ".", "external_ids:system-id"]).await?;
    let (key, chassis) = ("k8s.ovn.org/node-chassis-id", chassis.trim().trim_matches('"').to_owned());
    world.annotate("node1", &[(key, Some(&chassis))]).await?;
    world.nodes.entry(1).or_default().insert(key.to_owned(), chassis);
    world.add(&networks()).await?;
    let _agent = world.agent().await?;
    world.ready().await?;
    world.converged().await?;
    for (switch, pod, gateway, own, behind) in [
        (
            "cluster_udn_blue_node1",
            "10.200.1.7",
            "0a:58:0a:c8:01:01",
            "k8s-cluster_udn_blue_node1",
            "169.254.0.12",
        ),
        (
            "cluster_udn_green_ovn_layer2_switch",
            "10.201.0.7",
            "0a:58:0a:c9:00:01",
            "k8s-cluster_udn_green_node1",
            "169.254.0.14",
        ),
    ] {
        let port = format!("pod-of-{switch}");
        let addresses = format!("0a:58:00:00:00:07 {pod}");
        world.zone.nbctl(["lsp-add", switch, &port, "--", "lsp-set-addresses", &port, &addresses]).await?;
        world.zone.nbctl(["--timeout=60", "--wait=hv", "sync"]).await?;
        let traced = async |service: &str| {
            let packet = format!(
                "inport == \"{port}\" && eth.src == 0a:58:00:00:00:07 && eth.dst == {gateway} && ip4.src == {pod} && \
                 ip4.dst == {service} && ip.ttl == 64 && tcp.dst == 443"
            );
            world.machine.exec(["ovn-trace", "--ct=new", "--minimal", switch, &packet]).await
        };
        let (trace, leaves) = (traced("10.96.0.1").await?, format!("output(\"{own}\")"));
        ensure!(trace.contains(&leaves) && trace.contains(&format!("ct_snat(ip4.src={behind})")), "{trace}");
        let trace = traced("10.96.0.99").await?;
        ensure!(!trace.contains(&leaves), "a Service that nobody allowed: {trace}");
    }
    Ok(())
}

pub(crate) async fn gone() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.add(&networks()).await?;
    let ports = json!([{"port": 53, "protocol": "UDP"}]);
    apply(&mut world, json!({"clusterIP": "10.96.0.10", "ports": ports})).await?;
    let agent = world.agent().await?;
    world.ready().await?;
    ensure!(routes(&world.converged().await?).len() == 4);

    // While nobody looks.
    agent.kill().await?;
    delete(&mut world).await?;
    agent.restart().await?;
    world.ready().await?;
    let have = world.converged().await?;
    ensure!(routes(&have) == both("default/kubernetes", "10.96.0.1"), "{:?}", routes(&have));

    // The node's gateway is a local one: the host leads there. The set is for whoever names it.
    let key = "k8s.ovn.org/l3-gateway-config";
    let shared = world.nodes.get(&1).and_then(|all| all.get(key)).cloned().context("a gateway")?;
    let local = shared.replace("\"shared\"", "\"local\"");
    world.annotate("node1", &[(key, Some(&local))]).await?;
    world.nodes.entry(1).or_default().insert(key.to_owned(), local);
    let have = world.converged().await?;
    ensure!(routes(&have).is_empty() && set(&have).len() == 1, "{:?}", routes(&have));
    world.annotate("node1", &[(key, Some(&shared))]).await?;
    world.nodes.entry(1).or_default().insert(key.to_owned(), shared);
    ensure!(routes(&world.converged().await?).len() == 2);

    // Another subnet of this node: the route leads to its port there.
    let key = "k8s.ovn.org/node-subnets";
    let subnets =
        r#"{"default":["10.128.1.0/24"],"cluster_udn_blue":["10.200.9.0/24"],"ns_far":["10.201.1.0/24"]}"#;
    world.annotate("node1", &[(key, Some(subnets))]).await?;
    world.nodes.entry(1).or_default().insert(key.to_owned(), subnets.to_owned());
    let have = world.converged().await?;
    let moved = "cluster_udn_blue_ovn_cluster_router default/kubernetes 10.96.0.1 10.200.9.2";
    ensure!(routes(&have).len() == 2 && routes(&have).contains(moved), "{:?}", routes(&have));

    // Not allowed any more.
    agent.kill().await?;
    let on: Vec<&str> =
        ON.iter().copied().chain(["--udn-allowed-default-services=kube-system/kube-dns"]).collect();
    let _agent = world.machine.spawn(world.program("node-agent", &on).named("node-agent-strict")).await?;
    world.services.clear();
    let have = world.converged().await?;
    ensure!(routes(&have).is_empty() && set(&have).is_empty(), "{:?}", routes(&have));
    world.ready().await
}
