//! What OVN and Open vSwitch say about a packet that should have arrived.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::pods::{Family, Pod, Side};
use super::world::World;

/// Where a packet goes.
#[derive(Clone, Debug)]
pub struct Target {
    /// What it is called, in names of files too.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Whose MAC address the packet has at first, where that is not the gateway's.
    pub mac: Option<String>,
}

impl Target {
    /// A pod, as another one sends to it.
    #[must_use]
    pub fn pod(from: &Pod, to: &Pod, family: Family) -> Self {
        let address = to.address(family);
        let mac = from.network_address(family).contains(&address).then(|| to.mac().to_string());
        let version = match family {
            Family::V4 => "v4",
            Family::V6 => "v6",
        };
        Self { name: format!("{}-{version}", to.port()), address, mac }
    }
}

/// Writes what both zones know about packets from a pod into a folder of its own below `keep`; where that is.
///
/// # Errors
/// A file cannot be written. A command that fails is in its file.
pub async fn keep(world: &World, from: &Pod, to: &Target, keep: &Path) -> anyhow::Result<PathBuf> {
    let folder = keep.join(format!("{}-to-{}", from.port(), to.name));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let switch = world
        .inputs
        .networks
        .iter()
        .find(|network| network.name.as_str() == from.network)
        .map(|network| network.pod_switch(world.place(from.zone).name()))
        .context("its network")?;
    let (logical, flow) = packet(from, to);
    let appctl = ["ovs-appctl", "-t", "/run/openvswitch/ovs-vswitchd.ctl"];
    let trace = ["ovn-trace", "--detailed", &switch, &logical];
    let fate = [&appctl[..], &["ofproto/trace", "br-int", &flow]].concat();
    for (zone, name, command) in
        [(from.zone, "sender-ovn-trace", &trace[..]), (from.zone, "sender-ofproto-trace", &fate)]
    {
        write(world, zone, &folder, name, command).await?;
    }
    let datapath = [&appctl[..], &["dpctl/dump-flows"]].concat();
    for (zone, who) in [(from.zone, "sender"), (from.zone.other(), "other")] {
        for (what, command) in [
            ("bridges", &["ovs-vsctl", "show"][..]),
            ("chassis", &["ovn-sbctl", "show"]),
            ("ports", &["ovn-nbctl", "show"]),
            ("flows", &["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", "br-int"]),
            ("datapath-flows", &datapath),
        ] {
            write(world, zone, &folder, &format!("{who}-{what}"), command).await?;
        }
    }
    Ok(folder)
}

async fn write(world: &World, zone: Side, folder: &Path, name: &str, command: &[&str]) -> anyhow::Result<()> {
    let told = world.place(zone).exec(command).await.unwrap_or_else(|error| format!("{error:#}"));
    let file = folder.join(format!("{name}.txt"));
    std::fs::write(&file, format!("$ {}\n{told}", command.join(" ")))
        .with_context(|| file.display().to_string())
}

/// The first packet of a ping: as ovn-trace takes it, and as Open vSwitch does.
fn packet(from: &Pod, to: &Target) -> (String, String) {
    let target = to.address;
    let source = from.address(if target.is_ipv4() { Family::V4 } else { Family::V6 });
    let next = to.mac.clone().or_else(|| from.gateway_mac().map(|mac| mac.to_string())).unwrap_or_default();
    let (mac, port, interface) = (from.mac().to_string(), from.port(), from.interface());
    if source.is_ipv4() {
        (
            format!(
                "inport == \"{port}\" && eth.src == {mac} && eth.dst == {next} && ip4.src == {source} && \
                 ip4.dst == {target} && ip.ttl == 64 && icmp4.type == 8"
            ),
            format!(
                "in_port={interface},icmp,dl_src={mac},dl_dst={next},nw_src={source},nw_dst={target},nw_ttl=64,icmp_type=8"
            ),
        )
    } else {
        (
            format!(
                "inport == \"{port}\" && eth.src == {mac} && eth.dst == {next} && ip6.src == {source} && \
                 ip6.dst == {target} && ip.ttl == 64 && icmp6.type == 128"
            ),
            format!(
                "in_port={interface},icmp6,dl_src={mac},dl_dst={next},ipv6_src={source},ipv6_dst={target},nw_ttl=64,icmpv6_type=128"
            ),
        )
    }
}
