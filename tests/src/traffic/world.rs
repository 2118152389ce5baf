//! Two zones with every network's rows and pods.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_dpu_agent::topology::chassis_settings::{ChassisSettings, Exporter, Settings};
use causeway_dpu_agent::topology::exit::Exit;
use causeway_dpu_agent::topology::northbound::declare;
use causeway_dpu_agent::topology::plan::{Ways, ZoneOptions, plan, remote_chassis, zone};
use causeway_dpu_agent::topology::southbound::{self, write_chassis};
use causeway_dpu_agent::topology::write::{Parts, Zone};
use ovsdb::{Remote, Store, StoreBuilder};
use tokio_util::sync::CancellationToken;

use super::networks::{Inputs, TENANT_NETWORK, encapsulation_address};
use super::place::{LINKS, Place};
use super::pods::{Family, Pod, Side, bind};
use super::trace::{self, Target};

/// Longer than a first sync takes on a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// Two zones that are wired and at rest.
#[derive(Debug)]
pub struct World {
    west: Place,
    east: Place,
    pub(super) inputs: Inputs,
    pods: Vec<Pod>,
    keep: PathBuf,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How many more routers the last reply could have passed; pods begin with 64.
    pub ttl: u8,
    /// Who sent it.
    pub from: String,
}

impl World {
    /// Writes both zones, binds pods, and waits until both ovn-controllers have done all of it. Traces of pairs that fail
    /// go into folder `keep`. The places are called as the [`Side`]s are.
    ///
    /// # Errors
    /// If a part refuses.
    pub async fn start(west: Place, east: Place, keep: &Path) -> anyhow::Result<Self> {
        let inputs = Inputs::new()?;
        let mut pods = Vec::new();
        for network in &inputs.networks {
            // One in each zone; of networks with somebody else's addresses one more, at an address that only they have.
            let doubles = ["red", "mint", "tagged"].contains(&network.name.as_str());
            let more = doubles.then_some((Side::East, 11));
            for (zone, host) in [(Side::West, 10), (Side::East, 10)].into_iter().chain(more) {
                pods.push(Pod::new(pods.len(), network, zone, host)?);
            }
        }
        let world = Self { west, east, inputs, pods, keep: keep.to_owned() };
        for side in Side::ALL {
            let place = world.place(side);
            underlay(place, side).await.context("the underlay")?;
            settings(place, side).await.context("settings of the chassis")?;
            northbound(place, &world.inputs, side).await.context("the Northbound database")?;
            chassis(place, &world.inputs, side).await.context("the Southbound database")?;
        }
        let mut bound = Vec::new();
        for pod in &world.pods {
            let network = world.inputs.networks.iter().find(|network| network.name.as_str() == pod.network);
            bound.push((pod.clone(), network.context("a network")?));
        }
        for side in Side::ALL {
            bind(world.place(side), side, &bound).await.context("pods")?;
        }
        for side in Side::ALL {
            world.place(side).exec(&["ovn-nbctl", "--timeout=60", "--wait=hv", "sync"]).await?;
        }
        Ok(world)
    }

    /// The pod of a network in a zone.
    ///
    /// # Errors
    /// There is none.
    pub fn pod(&self, network: &str, zone: Side) -> anyhow::Result<&Pod> {
        let mut pods = self.pods.iter().filter(|pod| pod.network == network && pod.zone == zone);
        pods.next().with_context(|| format!("no pod of {network} in zone {}", zone.name()))
    }

    /// The pod at an address that only this network of two with the same ones has.
    ///
    /// # Errors
    /// There is none.
    pub fn only_pod(&self, network: &str) -> anyhow::Result<&Pod> {
        let mut pods = self.pods.iter().filter(|pod| pod.network == network && pod.zone == Side::East);
        pods.nth(1).with_context(|| format!("no further pod of {network}"))
    }

    pub(super) fn place(&self, zone: Side) -> &Place {
        match zone {
            Side::West => &self.west,
            Side::East => &self.east,
        }
    }

    async fn ping(&self, from: &Pod, to: &str, options: &str) -> anyhow::Result<String> {
        // Whether anything came back is in what it prints.
        let command = format!("ip netns exec {} ping -n -i 0.2 {options} {to} || true", from.interface());
        self.place(from.zone).script(&command).await
    }

    /// Sends until `count` replies have come, which the first packets of a pair may not get: addresses are still asked for.
    ///
    /// # Errors
    /// So many do not come; then the traces of the pair are kept.
    pub async fn meet(&self, from: &Pod, to: &Pod, family: Family, count: u8) -> anyhow::Result<Reply> {
        self.meet_within(from, to, family, count, 20).await
    }

    pub(super) async fn meet_within(
        &self,
        from: &Pod,
        to: &Pod,
        family: Family,
        count: u8,
        seconds: u8,
    ) -> anyhow::Result<Reply> {
        self.sent(from, &Target::pod(from, to, family), &format!("-c {count} -w {seconds}"), count).await
    }

    /// Sends to something that is not a pod until a reply comes.
    ///
    /// # Errors
    /// None comes; then the traces are kept.
    pub async fn answered(&self, from: &Pod, to: &Target) -> anyhow::Result<Reply> {
        self.sent(from, to, "-c 1 -w 20", 1).await
    }

    async fn sent(&self, from: &Pod, to: &Target, options: &str, count: u8) -> anyhow::Result<Reply> {
        let told = self.ping(from, &to.address.to_string(), options).await?;
        let mut replies = replies(&told);
        if replies.len() >= usize::from(count) {
            return replies.pop().context("a reply");
        }
        let folder = trace::keep(self, from, to, &self.keep).await?;
        anyhow::bail!(
            "{} in zone {} gets no answer from {}; traces are in {}\n{told}",
            from.port(),
            from.zone.name(),
            to.address,
            folder.display()
        )
    }

    /// Sends three packets to all pods of a broadcast domain.
    ///
    /// # Errors
    /// They cannot be sent.
    pub async fn call(&self, from: &Pod, broadcast: &str) -> anyhow::Result<()> {
        let told = self.ping(from, broadcast, "-b -c 3 -W 1").await?;
        ensure!(told.contains("3 packets transmitted"), "{told}");
        Ok(())
    }

    /// Sends three packets that must not be answered.
    ///
    /// # Errors
    /// One is.
    pub async fn silent(&self, from: &Pod, to: &Pod, family: Family) -> anyhow::Result<()> {
        let told = self.ping(from, &to.address(family).to_string(), "-c 3 -W 1").await?;
        ensure!(
            told.contains("3 packets transmitted, 0 received"),
            "{} reaches {}:\n{told}",
            from.port(),
            to.port()
        );
        Ok(())
    }

    /// How many echo requests of a family a pod has got.
    ///
    /// # Errors
    /// The kernel's counters are not what they should be.
    pub async fn heard(&self, pod: &Pod, family: Family) -> anyhow::Result<u64> {
        let file = match family {
            Family::V4 => "snmp",
            Family::V6 => "snmp6",
        };
        let n = pod.interface();
        let text = self
            .place(pod.zone)
            .exec(&["ip", "netns", "exec", &n, "cat", &format!("/proc/net/{file}")])
            .await?;
        heard(&text, family).with_context(|| format!("counters of {n}: {text}"))
    }
}

/// Source: Linux, `net/ipv4/proc.c` and `net/ipv6/proc.c`: IPv4 has a line of names and one of numbers, IPv6 a line for
/// each number.
fn heard(text: &str, family: Family) -> Option<u64> {
    if family == Family::V6 {
        let line = text.lines().find_map(|line| line.strip_prefix("Icmp6InEchos"))?;
        return line.trim().parse().ok();
    }
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Icmp:"));
    let at = lines.next()?.split_whitespace().position(|name| name == "InEchos")?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// The replies that ping has printed, as `64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.1 ms`.
fn replies(told: &str) -> Vec<Reply> {
    let reply = |line: &str| {
        let (_, rest) = line.split_once(" bytes from ")?;
        let (from, rest) = rest.split_once(": ")?;
        let ttl = rest.split_whitespace().find_map(|word| word.strip_prefix("ttl="))?;
        Some(Reply { ttl: ttl.parse().ok()?, from: from.to_owned() })
    };
    told.lines().filter_map(reply).collect()
}

/// Bridges with their ways out, where they lead in OVN, and the address where tunnels end.
async fn underlay(place: &Place, side: Side) -> anyhow::Result<()> {
    let mut words: Vec<String> = ["ovs-vsctl", "--timeout=60", "show"].map(str::to_owned).into();
    let datapath = format!("datapath_type={}", place.datapath());
    for (link, bridge) in LINKS {
        let add = ["--", "add-br", bridge, "--", "set", "Bridge", bridge, &datapath, "fail_mode=standalone"];
        words.extend(add.map(str::to_owned));
        words.extend(["--", "add-port", bridge, link].map(str::to_owned));
    }
    let mappings = format!("external_ids:ovn-bridge-mappings=physnet:br-ex,{TENANT_NETWORK}:br-loc");
    words.extend(["--", "set", "Open_vSwitch", ".", &mappings].map(str::to_owned));
    place.exec(&words.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let address = encapsulation_address(side);
    // All bridges are on one wire: without this the kernel would tell the tunnels' address behind each of them.
    place
        .script(&format!(
            "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore\n\
             for bridge in br-ex br-phy br-loc; do ip link set $bridge up; done\n\
             ip addr add {address}/24 dev br-phy"
        ))
        .await
        .map(drop)
}

/// A store that has read its database; its driver ends with the guard.
async fn follow(builder: StoreBuilder) -> anyhow::Result<(Store, tokio_util::sync::DropGuard)> {
    let (store, driver) = builder.build();
    let stop = CancellationToken::new();
    tokio::spawn(driver.run(stop.clone()));
    store.synced(DEADLINE).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok((store, stop.drop_guard()))
}

async fn settings(place: &Place, side: Side) -> anyhow::Result<()> {
    let remote = Remote::Unix(place.path("/run/openvswitch/db.sock"));
    let builder = Store::builder(remote, "Open_vSwitch").table::<Settings>().table::<Exporter>();
    let (store, _guard) = follow(builder).await?;
    let wanted =
        ChassisSettings::new(vec![encapsulation_address(side).parse()?], Some(place.name().to_owned()));
    store.transact(&wanted.change(&store.current()?)?).await?;
    Ok(())
}

async fn northbound(place: &Place, inputs: &Inputs, side: Side) -> anyhow::Result<()> {
    let remote = Remote::Unix(place.path("/run/ovn/ovnnb_db.sock"));
    let (store, _guard) = follow(declare(Store::builder(remote, "OVN_Northbound"))).await?;
    let (node, remote) = (inputs.node(side), inputs.node(side.other()));
    let options = ZoneOptions { northd_backoff_ms: Some(300), ct_inv_match: None };
    let zone = Zone {
        node: node.name.clone(),
        default_join: inputs.cluster.join.clone(),
        rows: zone(&inputs.cluster, node.name.as_str(), &options),
    };
    zone.write(&store).await?;
    for network in &inputs.networks {
        let exit = Exit::of_node(network, node);
        let plan = plan(&inputs.cluster, network, node, Ways { exit: &exit, services: &[] }, [remote]);
        ensure!(plan.problems.is_empty(), "{}: {:?}", network.name, plan.problems);
        zone.write_network(&store, &network.name, &plan, &Parts::all()).await?;
    }
    Ok(())
}

async fn chassis(place: &Place, inputs: &Inputs, side: Side) -> anyhow::Result<()> {
    let remote = Remote::Unix(place.path("/run/ovn/ovnsb_db.sock"));
    let (store, _guard) = follow(southbound::declare(Store::builder(remote, "OVN_Southbound"))).await?;
    let other = remote_chassis(&inputs.cluster, inputs.node(side.other()))?;
    let (_, refused) = write_chassis(&store, &[other], &BTreeSet::new()).await?;
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_and_counters_are_read_as_they_are_printed() {
        let told = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n\
                    64 bytes from 10.0.0.1: icmp_seq=1 ttl=62 time=0.4 ms\n\
                    From 10.0.0.9 icmp_seq=2 Destination Host Unreachable\n\
                    64 bytes from fd00::1: icmp_seq=3 ttl=64 time=0.4 ms\n";
        let reply = |ttl, from: &str| Reply { ttl, from: from.to_owned() };
        assert_eq!(replies(told), [reply(62, "10.0.0.1"), reply(64, "fd00::1")]);
        let four = "Ip: Forwarding\nIp: 1\nIcmp: InMsgs InErrors InEchos\nIcmp: 9 1 7\nIcmpMsg: InType8\n";
        assert_eq!(heard(four, Family::V4), Some(7));
        assert_eq!(heard("Icmp6InMsgs  4\nIcmp6InEchos                  \t3\n", Family::V6), Some(3));
        assert_eq!(heard("", Family::V4), None);
    }
}
