//! Random trouble for isolation: pods with random addresses and ports, an agent and a kubelet that are killed.
//!
//! A number of pods are there all the time with nothing but random ports open, others share their addresses now and then,
//! and visitors ([`visit`]) come with addresses of their own and go. A prober sends to a port that nobody opens all the
//! while, and nothing may get through; in the end the sets are those that the pods call for, and the kubelet, whose cgroup
//! went with it now and then, reaches all pods.

mod visit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_rig::{Process, Rig};
use fastrand::Rng;
use futures::{StreamExt, TryStreamExt, stream};

use crate::isolation::kubelet::StandIn;
use crate::isolation::pods::networks;
use crate::isolation::{DUAL, PodSpec, World};

/// Pods that come and go.
const PODS: u32 = 1000;
/// Pods that stay; their addresses are probed.
const GUARDED: u32 = 30;
/// Requests to the API server at a time.
const AT_A_TIME: usize = 8;
/// Longest time between two deaths of one program.
const LIFE: u64 = 6000;

/// One thing that is done to a pod.
enum Act {
    Make(PodSpec),
    Open(String, Option<String>),
    Complete(String),
    Delete(String),
}

/// When somebody dies next.
struct Deaths {
    next: Instant,
    count: usize,
}

impl Deaths {
    fn new(rng: &mut Rng) -> Self {
        Self { next: Instant::now() + Duration::from_millis(rng.u64(..LIFE)), count: 0 }
    }

    /// Whether it is time; if so, the next one is drawn.
    fn due(&mut self, rng: &mut Rng) -> bool {
        let due = Instant::now() > self.next;
        if due {
            *self = Self { count: self.count + 1, ..Self::new(rng) };
        }
        due
    }
}

/// Lets things happen for `time` on a node called `name`.
///
/// # Errors
/// Something got through, or the sets are not those of the pods in the end.
pub async fn churn(rig: Arc<Rig>, name: &str, seed: u64, time: Duration) -> anyhow::Result<()> {
    let world = World::start(rig, name).await?;
    world.road_to_pods().await?;
    let mut rng = Rng::with_seed(seed);
    let guarded: Vec<[String; 2]> = (1..=GUARDED).map(guarded_addresses).collect();
    for (at, addresses) in guarded.iter().enumerate() {
        let [four, six] = addresses;
        world.make(&PodSpec::locked(&format!("guarded-{at}"), &[four.as_str(), six.as_str()])).await?;
    }
    let kubelet = world.kubelet(&guarded.concat()).await?;
    let agent = world.agent(&DUAL).await?;
    world.converged().await?;
    let prober = world.probe(&guarded.concat()).await?;
    let over = AtomicBool::new(false);
    let visitors = visit::visitors(&world, &prober, rng.u64(..), &over);
    let trouble = async {
        let happened = trouble(&world, &agent, &kubelet, &mut rng, time).await;
        over.store(true, Ordering::SeqCst);
        happened
    };
    let (happened, visits) = futures::try_join!(trouble, visitors)?;
    let Happened { there, done, agents, kubelets } = happened;
    world.ready().await?;
    world.converged().await?;
    world.until_kubelet_is_let_through().await?;
    kubelet.reaches_all().await?;
    let rounds = prober.found_no_hole(&world).await?;
    println!(
        "{done} things happened to {} pods, {visits} visitors came and went, {agents} deaths of the agent, {kubelets} of the \
         kubelet, {rounds} rounds of probes",
        there.len(),
    );
    // The prober finds a hole where there is one: the pod of the last address is gone.
    world.delete(&format!("guarded-{}", GUARDED - 1)).await?;
    for pod in there.keys().filter(|pod| pod.starts_with("sharer")) {
        world.delete(pod).await?;
    }
    world.converged().await?;
    let look = || async {
        let (_, others) = prober.told().map_err(|error| error.to_string())?;
        if others.is_empty() { Err("no hole".to_owned()) } else { Ok(()) }
    };
    world
        .rig()
        .wait_for("the prober to find the address of a pod that is gone", crate::isolation::DEADLINE, look)
        .await
}

/// What happened.
struct Happened {
    /// Pods that are still there, and whether they run.
    there: BTreeMap<String, bool>,
    /// Things that were done to pods.
    done: usize,
    /// Deaths of the agent.
    agents: usize,
    /// Deaths of the kubelet.
    kubelets: usize,
}

/// Lets things happen to pods, agent and kubelet.
async fn trouble(
    world: &World,
    agent: &Process,
    kubelet: &StandIn,
    rng: &mut Rng,
    time: Duration,
) -> anyhow::Result<Happened> {
    let end = Instant::now() + time;
    let mut there = BTreeMap::new();
    let mut done = 0_usize;
    let (mut agents, mut kubelets) = (Deaths::new(rng), Deaths::new(rng));
    // As much as the name of the test says, however slow the machine.
    while Instant::now() < end || done < PODS as usize {
        let acts: Vec<Act> = (0..AT_A_TIME * 4).filter_map(|_| draw(rng, &mut there)).collect();
        done += acts.len();
        happen(world, by_pod(acts)).await?;
        if agents.due(rng) {
            die(agent, rng).await?;
        }
        if kubelets.due(rng) {
            kubelet_dies(world, kubelet, rng).await?;
        }
    }
    // Once more at the end, so that short runs have it too.
    die(agent, rng).await?;
    kubelet_dies(world, kubelet, rng).await?;
    Ok(Happened { there, done, agents: agents.count + 1, kubelets: kubelets.count + 1 })
}

fn guarded_addresses(number: u32) -> [String; 2] {
    [format!("10.128.200.{number}"), format!("fd00:10:128:200::{number:x}")]
}

/// The agent is killed, and started again at once or while more happens.
async fn die(agent: &Process, rng: &mut Rng) -> anyhow::Result<()> {
    if agent.is_running() {
        agent.kill().await?;
    }
    if rng.bool() {
        return agent.restart().await;
    }
    agent.restart().await?;
    // Once more, before it can have done much.
    agent.kill().await?;
    agent.restart().await
}

/// The kubelet is killed and started again, in the same cgroup or in a new one.
async fn kubelet_dies(world: &World, kubelet: &StandIn, rng: &mut Rng) -> anyhow::Result<()> {
    kubelet.kill().await?;
    let times = rng.usize(..3);
    for time in 0..times {
        if time > 0 {
            kubelet.start().await?;
            kubelet.kill().await?;
        }
        kubelet.remove_cgroup(world).await?;
    }
    kubelet.start().await
}

/// The next thing, and what is there after it.
fn draw(rng: &mut Rng, there: &mut BTreeMap<String, bool>) -> Option<Act> {
    let number = rng.u32(..PODS);
    let sharer = rng.u8(..10) == 0;
    let name = if sharer { format!("sharer-{}", number % 20) } else { format!("pod-{number}") };
    match there.get(&name).copied() {
        None => {
            there.insert(name.clone(), true);
            Some(Act::Make(pod(rng, &name, number, sharer)))
        }
        Some(running) => match rng.u8(..4) {
            0 if running => {
                there.insert(name.clone(), false);
                Some(Act::Complete(name))
            }
            1 | 2 if running => Some(Act::Open(name, ports(rng))),
            3 => {
                there.remove(&name);
                Some(Act::Delete(name))
            }
            _ => None,
        },
    }
}

fn pod(rng: &mut Rng, name: &str, number: u32, sharer: bool) -> PodSpec {
    let [four, six] = if sharer {
        guarded_addresses(1 + number % GUARDED)
    } else {
        // Half as many addresses as pods: they change hands while both are there.
        let number = number % (PODS / 2);
        [
            format!("10.128.{}.{}", 100 + number / 250, 1 + number % 250),
            format!("fd00:10:128:100::{number:x}"),
        ]
    };
    let both = [four.as_str(), six.as_str()];
    let addresses = if rng.bool() { &both[..] } else { &both[..1] };
    let pod = match rng.u8(..10) {
        0 => PodSpec::new(name).addresses(addresses),
        1 => PodSpec::default_network(name, addresses),
        2 => PodSpec::new(name).networks("{").addresses(addresses),
        3 => PodSpec::new(name)
            .host_network()
            .networks(&networks("infrastructure-locked", addresses))
            .addresses(addresses),
        _ => PodSpec::locked(name, addresses),
    };
    match ports(rng) {
        Some(text) => pod.open(&text),
        None => pod,
    }
}

/// Random ports, none of them the probed one; now and then nonsense.
fn ports(rng: &mut Rng) -> Option<String> {
    let protocols = ["tcp", "udp", "sctp"];
    match rng.u8(..6) {
        0 => None,
        1 => Some("- {protocol: tcp, port: 70000}".to_owned()),
        _ => {
            let entries = (0..rng.usize(..4)).map(|_| {
                let protocol = rng.choice(protocols).unwrap_or("tcp");
                let port = rng.u16(10..);
                format!("- {{protocol: {protocol}, port: {port}}}\n")
            });
            let mut text: String = entries.collect();
            if rng.bool() {
                text.push_str("- {protocol: icmp}\n");
            }
            Some(text)
        }
    }
}

/// Those of one pod one after the other.
fn by_pod(acts: Vec<Act>) -> Vec<Vec<Act>> {
    let mut pods: BTreeMap<String, Vec<Act>> = BTreeMap::new();
    for act in acts {
        let (Act::Open(pod, _) | Act::Complete(pod) | Act::Delete(pod)) = &act else {
            let Act::Make(spec) = &act else { continue };
            pods.entry(spec.name().to_owned()).or_default().push(act);
            continue;
        };
        pods.entry(pod.clone()).or_default().push(act);
    }
    pods.into_values().collect()
}

async fn happen(world: &World, acts: Vec<Vec<Act>>) -> anyhow::Result<()> {
    let of_one_pod = |acts: Vec<Act>| async move {
        for act in acts {
            match act {
                Act::Make(pod) => world.make(&pod).await?,
                Act::Open(pod, text) => world.open(&pod, text.as_deref()).await?,
                Act::Complete(pod) => world.phase(&pod, "Succeeded").await?,
                Act::Delete(pod) => world.delete(&pod).await?,
            }
        }
        anyhow::Ok(())
    };
    stream::iter(acts).map(of_one_pod).buffer_unordered(AT_A_TIME).try_collect::<Vec<()>>().await.map(drop)
}
