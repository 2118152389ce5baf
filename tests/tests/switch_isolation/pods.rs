//! Which pods are in the sets.

use std::sync::Arc;

use anyhow::ensure;
use causeway_rig::Rig;
use causeway_tests::isolation::pods::networks;
use causeway_tests::isolation::{DEADLINE, DUAL, PodSpec, World};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

pub(crate) async fn follow(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "follow").await?;
    // Before the agent starts.
    world.make(&PodSpec::locked("pod1", &["10.129.1.1", "fd00:10:129::1"])).await?;
    world.make(&PodSpec::locked("pod2", &["10.129.1.2"])).await?;
    world.make(&PodSpec::default_network("pod3", &["10.129.1.3"])).await?;
    world.make(&PodSpec::default_network("shares", &["10.129.1.2"])).await?;
    let on_the_host = networks("infrastructure-locked", &["10.129.1.9"]);
    world
        .make(&PodSpec::new("host").host_network().networks(&on_the_host).addresses(&["10.129.1.9"]))
        .await?;
    world.make(&PodSpec::new("bare").addresses(&["10.129.1.4"])).await?;
    let _agent = world.agent(&DUAL).await?;
    world.converged().await?;
    // From here on one thing after the other; the sets are computed anew from the API server each time.
    world.delete("shares").await?;
    world.converged().await?;
    let has = async |text: &str| {
        anyhow::Ok(world.nft(&["list", "table", "inet", "ovn-kubernetes"]).await?.contains(text))
    };
    ensure!(has("10.129.1.2").await?, "an address left with a pod of the default network");
    ensure!(!has("10.129.1.9").await? && !has("10.129.1.4").await?, "a pod that is in no set is in one");
    world.connect("bare", Some(&networks("infrastructure-locked", &["10.129.1.4"]))).await?;
    world.converged().await?;
    ensure!(has("10.129.1.4").await?, "a pod that was annotated later is not in its set");
    let open = "- {protocol: tcp, port: 80}\n- {protocol: sctp, port: 0}\n- {protocol: icmp}";
    world.open("pod1", Some(open)).await?;
    world.converged().await?;
    ensure!(has("fd00:10:129::1 . sctp . 0").await?, "an open port of the second family is missing");
    world.open("pod1", None).await?;
    world.converged().await?;
    // A pod of the same name with another uid.
    world.delete("pod1").await?;
    world.make(&PodSpec::locked("pod1", &["10.129.1.5"]).on("elsewhere")).await?;
    world.converged().await?;
    for pod in ["pod1", "pod2", "pod3", "bare"] {
        world.delete(pod).await?;
        world.converged().await?;
    }
    Ok(())
}

pub(crate) async fn bad_pod(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::alone(rig, "bad-pod").await?;
    world.make(&PodSpec::new("bad").networks("{not JSON").addresses(&["10.129.2.9"])).await?;
    let on_the_host = networks("infrastructure-locked", &["10.129.2.8"]);
    world
        .make(&PodSpec::new("host").host_network().networks(&on_the_host).addresses(&["10.129.2.8"]))
        .await?;
    for (name, address) in [("one", "10.129.2.1"), ("two", "10.129.2.2"), ("three", "10.129.2.3")] {
        world.make(&PodSpec::locked(name, &[address])).await?;
    }
    let _agent = world.agent(&DUAL).await?;
    let sets = world.converged().await?;
    ensure!(format!("{sets:?}").matches("10.129.2.").count() == 3, "{sets:?}");
    told(&world, "bad", "failed to check if pod bad-pod/bad is in primary UDN: ").await?;
    // What could not be read at the start can be now.
    world.connect("bad", Some(&networks("infrastructure-locked", &["10.129.2.9"]))).await?;
    let sets = world.converged().await?;
    ensure!(format!("{sets:?}").contains("10.129.2.9"), "{sets:?}");
    // And is not let go when it is spoilt again: nothing is concluded from what cannot be read.
    world.connect("bad", Some("{not JSON")).await?;
    let passes = world.metric("causeway_isolation_reconcile_passes_total", "").await?;
    world.make(&PodSpec::locked("later", &["10.129.2.4"])).await?;
    let look = || async {
        let sets = world.sets().await.map_err(|error| format!("{error:#}"))?;
        let text = format!("{sets:?}");
        if text.contains("10.129.2.4") && text.contains("10.129.2.9") { Ok(()) } else { Err(text) }
    };
    world.rig().wait_for("both addresses", DEADLINE, look).await?;
    ensure!(world.metric("causeway_isolation_reconcile_passes_total", "").await? > passes, "no pass");
    // Agents of other tests see it too, and keep what they knew.
    world.delete("bad").await
}

/// Waits for a warning about a pod that begins so.
async fn told(world: &World, pod: &str, note: &str) -> anyhow::Result<()> {
    let events: Api<Event> = Api::namespaced(world.rig().client(), &world.namespace);
    let look = || async {
        let list = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let about = |event: &&Event| {
            let regarding = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            let kind = (event.reason.as_deref(), event.type_.as_deref());
            regarding == Some(pod)
                && kind == (Some("ErrorUpdatingResource"), Some("Warning"))
                && event.note.as_deref().is_some_and(|text| text.starts_with(note))
        };
        let all: Vec<_> = list.items.iter().map(|event| (&event.reason, &event.note)).collect();
        list.items.iter().find(about).map(|_| ()).ok_or_else(|| format!("{all:?}"))
    };
    world.rig().wait_for(&format!("an Event on pod {pod}"), DEADLINE, look).await
}

pub(crate) async fn bad_ports(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "bad-ports").await?;
    let good = "- {protocol: tcp, port: 80}";
    world.make(&PodSpec::locked("web", &["10.129.3.1"]).open(good)).await?;
    world.make(&PodSpec::locked("other", &["10.129.3.2"]).open(good)).await?;
    let _agent = world.agent(&DUAL).await?;
    world.converged().await?;
    let cases = [
        ("- protocol: ppp\n  port: 80", "invalid protocol ppp"),
        ("- {protocol: tcp, port: 65536}", "invalid port 65536"),
        ("- {protocol: icmp, port: 8}", "invalid port 8 for icmp protocol, should be empty"),
        ("- protocol: tcp", "port is required for tcp protocol"),
        ("- ", "failed to unmarshal UDN open ports annotation - : "),
        ("{", "failed to unmarshal UDN open ports annotation {: "),
    ];
    for (text, error) in cases {
        world.open("web", Some(text)).await?;
        let beginning = "Annotation k8s.ovn.org/open-default-ports is not used, and no port of the pod is open to its host: ";
        told(&world, "web", &format!("{beginning}{error}")).await?;
        let look = || async {
            let sets = format!("{:?}", world.sets().await.map_err(|error| format!("{error:#}"))?);
            let closed = sets.contains("10.129.3.1") && !sets.contains("10.129.3.1 . tcp");
            if closed && sets.contains("10.129.3.2 . tcp . 80") { Ok(()) } else { Err(sets) }
        };
        world.rig().wait_for("the ports to be closed and the address to stay", DEADLINE, look).await?;
        world.open("web", Some(good)).await?;
        world.converged().await?;
    }
    Ok(())
}

pub(crate) async fn completed(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::alone(rig, "completed").await?;
    let web = "- {protocol: tcp, port: 80}";
    let _agent = world.agent(&DUAL).await?;
    world.make(&PodSpec::locked("job", &["10.129.4.9"]).open(web)).await?;
    world.converged().await?;
    // To a pod of the default network.
    world.phase("job", "Succeeded").await?;
    let sets = world.converged().await?;
    ensure!(!format!("{sets:?}").contains("10.129.4.9"), "a completed pod kept its address: {sets:?}");
    world.make(&PodSpec::default_network("plain", &["10.129.4.9"])).await?;
    world.delete("job").await?;
    let sets = world.converged().await?;
    ensure!(!format!("{sets:?}").contains("10.129.4.9"), "{sets:?}");
    // To another one with a network of its own, which has it throughout.
    world.delete("plain").await?;
    world.make(&PodSpec::locked("job2", &["10.129.4.9"]).open(web)).await?;
    world.make(&PodSpec::locked("next", &["10.129.4.9"]).open(web)).await?;
    world.converged().await?;
    let monitor = causeway_tests::isolation::Monitor::start(&world).await?;
    world.phase("job2", "Failed").await?;
    world.delete("job2").await?;
    world.make(&PodSpec::locked("mark", &["10.129.4.10"])).await?;
    let sets = world.converged().await?;
    ensure!(format!("{sets:?}").contains("10.129.4.9 . tcp . 80"), "{sets:?}");
    let seen = monitor.seen().await?;
    ensure!(!format!("{seen:?}").contains("10.129.4.9"), "a shared address was touched: {seen:?}");
    Ok(())
}
