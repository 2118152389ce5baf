//! What processes of the host reach, with a pod that has a real interface.

use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{Mark, Process, Program, Rig};
use causeway_tests::isolation::{DEADLINE, DUAL, PodSpec, World};

/// A pod that a namespace stands for. Each test has one of its own: agents know the pods of all.
struct Pod {
    four: String,
    six: String,
    /// The host's own addresses on the way to it.
    host: [String; 2],
    _server: Process,
}

impl Pod {
    fn addresses(&self) -> [&str; 2] {
        [&self.four, &self.six]
    }
}

/// A namespace that stands for the pod, with TCP servers on two ports for each family.
async fn pod(world: &World, number: u8) -> anyhow::Result<Pod> {
    let (v4, v6) = (format!("10.129.{number}"), format!("fd00:10:129:{number}:"));
    world.node.ip(["netns", "add", "pod"]).await?;
    world
        .node
        .ip_batch(&format!(
            "link add host0 type veth peer name eth0 netns pod\nlink set host0 up\n\
             addr add {v4}.1/24 dev host0\naddr add {v6}:1/64 dev host0 nodad\n\
             netns exec pod ip link set lo up\nnetns exec pod ip link set eth0 up\n\
             netns exec pod ip addr add {v4}.2/24 dev eth0\nnetns exec pod ip addr add {v6}:2/64 dev eth0 nodad\n"
        ))
        .await?;
    let script = "import socket, threading\n\
        def serve(port):\n\
        \x20   s = socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)\n\
        \x20   print('port', port, flush=True)\n\
        \x20   while True: s.accept()[0].close()\n\
        [threading.Thread(target=serve, args=(p,)).start() for p in (80, 8080)]\n";
    let program = Program::new("ip").named("pod").args(["netns", "exec", "pod", "python3", "-c", script]);
    let server = world.node.spawn(program).await?;
    for port in ["port 80\n", "port 8080\n"] {
        server.says(Mark::START, port, DEADLINE).await?;
    }
    let host = [format!("{v4}.1"), format!("{v6}:1")];
    Ok(Pod { four: format!("{v4}.2"), six: format!("{v6}:2"), host, _server: server })
}

/// Whether a process of the host gets a connection: in two seconds, which a dropped packet lets pass.
async fn connects(world: &World, address: &str, port: u16) -> anyhow::Result<bool> {
    let attempt = world.node.output(["nc", "-z", "-w2", address, &port.to_string()]).await?;
    Ok(attempt.status.success())
}

async fn pings(world: &World, address: &str) -> anyhow::Result<bool> {
    Ok(world.node.output(["ping", "-c1", "-W2", address]).await?.status.success())
}

/// What of the pod the host reaches: for each family TCP 80, TCP 8080, ping.
async fn reached(world: &World, pod: &Pod) -> anyhow::Result<Vec<bool>> {
    let mut reached = Vec::new();
    for address in pod.addresses() {
        for port in [80, 8080] {
            reached.push(connects(world, address, port).await?);
        }
        reached.push(pings(world, address).await?);
    }
    Ok(reached)
}

pub(crate) async fn reach(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "reach").await?;
    let pod = pod(&world, 11).await?;
    let _agent = world.agent(&DUAL).await?;
    ensure!(
        reached(&world, &pod).await? == [true; 6],
        "the pod cannot be reached at all: {:?}",
        reached(&world, &pod).await?
    );
    let check = async |what: &str, want: [bool; 3]| {
        world.converged().await?;
        let found = reached(&world, &pod).await.with_context(|| what.to_owned())?;
        ensure!(found == [want, want].concat(), "{what}: {found:?}");
        anyhow::Ok(())
    };
    world.make(&PodSpec::locked("web", &pod.addresses())).await?;
    check("with nothing open", [false; 3]).await?;
    world.open("web", Some("- {protocol: tcp, port: 80}")).await?;
    check("with a port open", [true, false, false]).await?;
    world.open("web", Some("- {protocol: tcp, port: 80}\n- {protocol: icmp}")).await?;
    check("with ICMP open", [true, false, true]).await?;
    world.open("web", Some("- {protocol: tcp, port: 80}\n- {protocol: icmpv6}")).await?;
    check("with a bad list", [false; 3]).await?;
    // What the host forwards is not its own: another pod reaches this one, as far as the host is concerned.
    world.node.ip(["netns", "add", "other"]).await?;
    world
        .node
        .ip_batch(
            "link add host1 type veth peer name eth0 netns other\nlink set host1 up\naddr add 10.129.12.1/24 dev host1\n\
             netns exec other ip link set eth0 up\nnetns exec other ip addr add 10.129.12.2/24 dev eth0\n\
             netns exec other ip route add default via 10.129.12.1\nnetns exec pod ip route add default via 10.129.11.1\n",
        )
        .await?;
    let forwarded =
        world.node.output(["ip", "netns", "exec", "other", "nc", "-z", "-w5", &pod.four, "80"]).await?;
    ensure!(forwarded.status.success(), "forwarded traffic is dropped");
    world.delete("web").await?;
    world.make(&PodSpec::default_network("web", &pod.addresses())).await?;
    check("on the default network", [true; 3]).await
}

pub(crate) async fn from_the_pod(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "from-pod").await?;
    let pod = pod(&world, 17).await?;
    // What stands for the API server: it is the host's own, and it answers.
    let script = "import socket\n\
        s = socket.create_server(('::', 6443), family=socket.AF_INET6, dualstack_ipv6=True)\n\
        print('port 6443', flush=True)\n\
        while True: s.accept()[0].close()\n";
    let server = world.node.spawn(Program::new("python3").named("api").args(["-c", script])).await?;
    server.says(Mark::START, "port 6443\n", DEADLINE).await?;
    let _agent = world.agent(&DUAL).await?;
    let found = || async {
        let mut found = Vec::new();
        for (address, ping) in pod.host.iter().zip(["-4", "-6"]) {
            let connects = ["nc", "-z", "-w2", address, "6443"];
            let pings = ["ping", ping, "-I", "eth0", "-c1", "-W2", address];
            for attempt in [&connects[..], &pings] {
                let inside = ["ip", "netns", "exec", "pod"].iter().chain(attempt);
                found.push(world.node.output(inside).await?.status.success());
            }
        }
        anyhow::Ok(found)
    };
    ensure!(found().await? == [true; 4], "a pod of the default network: {:?}", found().await?);
    // The host must not answer: whoever answers a pod could reach it as well.
    world.make(&PodSpec::locked("web", &pod.addresses())).await?;
    world.converged().await?;
    ensure!(found().await? == [false; 4], "a pod with a network of its own: {:?}", found().await?);
    // Opened ports are for those who come from outside; ICMP is open in both directions.
    world.open("web", Some("- {protocol: tcp, port: 80}\n- {protocol: icmp}")).await?;
    world.converged().await?;
    let found = found().await?;
    ensure!(found == [false, true, false, true], "with ICMP open: {found:?}");
    Ok(())
}

pub(crate) async fn elsewhere(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "elsewhere").await?;
    // Somewhere else, as far as the API server and this node's agent know.
    let pod = pod(&world, 18).await?;
    let _agent = world.agent(&DUAL).await?;
    world.make(&PodSpec::locked("far", &pod.addresses()).on("some-other-node")).await?;
    for (what, ports, want) in [
        ("with nothing open", None, [false; 3]),
        ("with a port open", Some("- {protocol: tcp, port: 80}"), [true, false, false]),
        ("with a bad list", Some("- {protocol: tcp, port: 80}\n- {protocol: tcp}"), [false; 3]),
        ("with the port open again", Some("- {protocol: tcp, port: 80}"), [true, false, false]),
    ] {
        world.open("far", ports).await?;
        world.converged().await?;
        let found = reached(&world, &pod).await.with_context(|| what.to_owned())?;
        ensure!(found == [want, want].concat(), "{what}: {found:?}");
    }
    Ok(())
}
