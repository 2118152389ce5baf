//! Pods that come and go, probed while they are there.
//!
//! A visitor's address is nobody else's, before and after it. It is probed from when the kernel has it in its set, by which
//! time nothing may get through any more, until shortly before the pod goes, whatever happens to the agent meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::future::try_join_all;

use super::ports;
use crate::isolation::prober::Prober;
use crate::isolation::{DEADLINE, PodSpec, World};

/// Visitors at a time.
const AT_A_TIME: u32 = 3;
/// The least number of visits of each of them, however slow the machine.
const LEAST: u32 = 3;
/// The longest a visitor stays, in milliseconds.
const STAY: u64 = 3000;

/// Lets visitors come and go until it is over; how many came.
pub(super) async fn visitors(
    world: &World,
    prober: &Prober,
    seed: u64,
    over: &AtomicBool,
) -> anyhow::Result<u32> {
    let each = (0..AT_A_TIME).map(|first| async move {
        let mut rng = Rng::with_seed(seed.wrapping_add(u64::from(first)));
        let mut visits = 0;
        while !over.load(Ordering::SeqCst) || visits < LEAST {
            visit(world, prober, first + visits * AT_A_TIME, &mut rng).await?;
            visits += 1;
        }
        anyhow::Ok(visits)
    });
    Ok(try_join_all(each).await?.iter().sum())
}

async fn visit(world: &World, prober: &Prober, number: u32, rng: &mut Rng) -> anyhow::Result<()> {
    let addresses = addresses(number);
    let name = format!("visitor-{number}");
    let pod = PodSpec::locked(&name, &addresses.each_ref().map(String::as_str));
    let pod = if rng.bool() { pod.on("elsewhere") } else { pod };
    world.make(&pod).await?;
    until_protected(world, &addresses).await?;
    prober.also(world, &addresses).await?;
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(rng.u64(..STAY / 2))).await;
        world.open(&name, ports(rng).as_deref()).await?;
    }
    prober.no_longer(world, &addresses).await?;
    if rng.bool() {
        world.phase(&name, "Succeeded").await?;
    }
    world.delete(&name).await
}

fn addresses(number: u32) -> [String; 2] {
    [format!("10.128.{}.{}", 220 + number / 250, 1 + number % 250), format!("fd00:10:128:220::{number:x}")]
}

/// Waits until the kernel has these addresses in its sets.
async fn until_protected(world: &World, addresses: &[String; 2]) -> anyhow::Result<()> {
    let [four, six] = addresses;
    let elements = [("udn-pod-default-ips-v4", four), ("udn-pod-default-ips-v6", six)];
    for (set, address) in elements {
        let element = format!("{{ {address} }}");
        let look = || async {
            let found = world.nft(&["get", "element", "inet", "ovn-kubernetes", set, &element]).await;
            found.map(drop).map_err(|error| format!("{error:#}"))
        };
        world.rig().wait_for(&format!("{set} to have {address}"), DEADLINE, look).await?;
    }
    Ok(())
}
