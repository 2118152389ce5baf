//! What processes of the host reach, with a pod that has a real interface.

use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{Program, Rig};
use causeway_tests::isolation::{DEADLINE, DUAL, PodSpec, World};

const POD4: &str = "10.129.11.2";
const POD6: &str = "fd00:10:129:11::2";

/// A namespace that stands for the pod, with TCP servers on two ports for each family.
async fn pod(world: &World) -> anyhow::Result<causeway_rig::Process> {
    world.node.ip(["netns", "add", "pod"]).await?;
    world
        .node
        .ip_batch(&format!(
            "link add host0 type veth peer name eth0 netns pod\nlink set host0 up\n\
             addr add 10.129.11.1/24 dev host0\naddr add fd00:10:129:11::1/64 dev host0 nodad\n\
             netns exec pod ip link set lo up\nnetns exec pod ip link set eth0 up\n\
             netns exec pod ip addr add {POD4}/24 dev eth0\nnetns exec pod ip addr add {POD6}/64 dev eth0 nodad\n"
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
        server.says(0, port, DEADLINE).await?;
    }
    Ok(server)
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
async fn reached(world: &World) -> anyhow::Result<Vec<bool>> {
    let mut reached = Vec::new();
    for address in [POD4, POD6] {
        for port in [80, 8080] {
            reached.push(connects(world, address, port).await?);
        }
        reached.push(pings(world, address).await?);
    }
    Ok(reached)
}

pub(crate) async fn reach(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "reach").await?;
    let _server = pod(&world).await?;
    let _agent = world.agent(&DUAL).await?;
    ensure!(
        reached(&world).await? == [true; 6],
        "the pod cannot be reached at all: {:?}",
        reached(&world).await?
    );
    let check = async |what: &str, want: [bool; 3]| {
        world.converged().await?;
        let found = reached(&world).await.with_context(|| what.to_owned())?;
        ensure!(found == [want, want].concat(), "{what}: {found:?}");
        anyhow::Ok(())
    };
    world.make(&PodSpec::locked("web", &[POD4, POD6])).await?;
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
        world.node.output(["ip", "netns", "exec", "other", "nc", "-z", "-w5", POD4, "80"]).await?;
    ensure!(forwarded.status.success(), "forwarded traffic is dropped");
    world.delete("web").await?;
    world.make(&PodSpec::default_network("web", &[POD4, POD6])).await?;
    check("on the default network", [true; 3]).await
}
