//! Pods: network namespaces whose interface is a port of the integration bridge, bound by hand to a port of their
//! network's switch, as the part of an agent that serves pods would.

use std::fmt::Write as _;
use std::net::IpAddr;

use causeway_dpu_agent::topology::network::{Network, Shape};
use causeway_net::mac::MacAddress;
use ipnet::IpNet;

use super::place::Place;

/// One of the two zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    West,
    /// The second.
    East,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::West, Self::East];

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::West => Self::East,
            Self::East => Self::West,
        }
    }

    /// Name of its node, which is that of its chassis too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::West => "west",
            Self::East => "east",
        }
    }

    /// Number of its node, from 1.
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Self::West => 1,
            Self::East => 2,
        }
    }
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Number, unique over both zones; also in its names.
    pub number: usize,
    /// Its network's name.
    pub network: String,
    /// Its zone.
    pub zone: Side,
    /// Its IPv4 address.
    pub v4: IpNet,
    /// Its IPv6 address.
    pub v6: IpNet,
    /// The gateway of each family, IPv4 first, where the network has one.
    gateways: Option<[IpAddr; 2]>,
    /// Whether all pods of the network, wherever they are, have a port in each zone.
    is_everywhere: bool,
}

impl Pod {
    /// A pod of a network in a zone with host number `host`.
    ///
    /// # Errors
    /// An address is none.
    pub fn new(number: usize, network: &Network, zone: Side, host: usize) -> anyhow::Result<Self> {
        // Whether the second last part is the node's, as in networks with a subnet for each node.
        let (four, six, length, is_routed) = match network.name.as_str() {
            "default" => ("10.128", "fd01", (24, 64), true),
            "blue" | "red" => ("10.200", "fd20", (24, 64), true),
            "second" => ("10.211", "fd21", (24, 64), true),
            "green" | "mint" => ("10.201", "fd22", (16, 64), false),
            "flat" => ("10.210", "fd23", (16, 64), false),
            _ => ("10.212", "fd24", (24, 64), false),
        };
        let part = if is_routed { zone.number() } else { 0 };
        let host = if is_routed { host } else { 100 * (zone.number() - 1) + host };
        let address = |host: usize| -> anyhow::Result<[IpAddr; 2]> {
            Ok([format!("{four}.{part}.{host}").parse()?, format!("{six}:0:0:{part}::{host:x}").parse()?])
        };
        let [v4, v6] = address(host)?;
        let has_router = !matches!(network.shape, Shape::Layer2Secondary | Shape::Localnet { .. });
        Ok(Self {
            number,
            network: network.name.to_string(),
            zone,
            v4: IpNet::new(v4, length.0)?,
            v6: IpNet::new(v6, length.1)?,
            gateways: if has_router { Some(address(1)?) } else { None },
            is_everywhere: matches!(network.shape, Shape::Layer2Primary(_) | Shape::Layer2Secondary),
        })
    }

    /// The port of its network's switch.
    #[must_use]
    pub fn port(&self) -> String {
        format!("traffic_{}_{}", self.network, self.number)
    }

    /// Its interface on the integration bridge.
    #[must_use]
    pub fn interface(&self) -> String {
        format!("pod{}", self.number)
    }

    /// Its MAC address.
    #[must_use]
    pub fn mac(&self) -> MacAddress {
        MacAddress::of_ip(self.v4.addr())
    }

    /// Where its packets go first on their way to another subnet.
    #[must_use]
    pub fn gateway_mac(&self) -> Option<MacAddress> {
        self.gateways.map(|[v4, _]| MacAddress::of_ip(v4))
    }

    /// Its address of a family, with its subnet.
    #[must_use]
    pub fn network_address(&self, family: Family) -> IpNet {
        match family {
            Family::V4 => self.v4,
            Family::V6 => self.v6,
        }
    }

    /// Its address of a family.
    #[must_use]
    pub fn address(&self, family: Family) -> IpAddr {
        self.network_address(family).addr()
    }

    /// Arguments of ovn-nbctl that add its port to a zone, or nothing where the network has it in the pod's own zone alone.
    fn northbound(&self, network: &Network, zone: Side) -> Vec<String> {
        let is_here = self.zone == zone;
        if !is_here && !self.is_everywhere {
            return Vec::new();
        }
        let (port, switch) = (self.port(), network.pod_switch(zone.name()));
        let address = format!("{} {} {}", self.mac(), self.v4.addr(), self.v6.addr());
        let mut words = vec!["--", "lsp-add", &switch, &port, "--", "lsp-set-addresses", &port, &address];
        let (chassis, key) = (
            format!("requested-chassis={}", self.zone.name()),
            format!("requested-tnl-key={}", 100 + self.number),
        );
        if self.is_everywhere {
            words.extend(["--", "lsp-set-options", &port, &chassis, &key]);
        }
        if !is_here {
            words.extend(["--", "lsp-set-type", &port, "remote"]);
        }
        words.into_iter().map(str::to_owned).collect()
    }

    /// Commands that make its namespace.
    fn namespace(&self, script: &mut String) {
        let (n, v4, v6, mac) = (self.interface(), self.v4, self.v6, self.mac());
        // Writing to a String cannot fail.
        write!(
            script,
            "ip netns add {n}\nip link add {n} type veth peer name eth0 netns {n}\nip link set {n} up\n\
             ip netns exec {n} bash -ec '\necho 0 >/proc/sys/net/ipv6/conf/eth0/accept_ra\n\
             ip link set lo up\n\
             ip link set eth0 address {mac} up\nip addr add {v4} brd + dev eth0\nip addr add {v6} dev eth0 nodad\n"
        )
        .ok();
        if let Some([v4, v6]) = self.gateways {
            write!(script, "ip route add default via {v4}\nip -6 route add default via {v6}\n").ok();
        }
        script.push_str("'\n");
    }
}

/// Adds pods of both zones to one zone: their ports in OVN, and for its own their namespaces and the ports of the
/// switch. Returns when OVN has bound and wired all of them.
///
/// # Errors
/// If a command fails.
pub async fn bind(place: &Place, zone: Side, pods: &[(Pod, &Network)]) -> anyhow::Result<()> {
    let mut northbound = vec!["ovn-nbctl".to_owned(), "--timeout=60".to_owned(), "--wait=sb".to_owned()];
    northbound.push("init".to_owned());
    northbound.extend(pods.iter().flat_map(|(pod, network)| pod.northbound(network, zone)));
    let mut switch: Vec<String> = ["ovs-vsctl", "--timeout=60", "show"].map(str::to_owned).into();
    let mut wait: Vec<String> = ["ovn-nbctl", "--timeout=60", "init"].map(str::to_owned).into();
    let mut script = String::new();
    for (pod, _) in pods.iter().filter(|(pod, _)| pod.zone == zone) {
        pod.namespace(&mut script);
        let (port, interface) = (pod.port(), pod.interface());
        let identity = format!("external_ids:iface-id={port}");
        let add = ["--", "add-port", "br-int", &interface, "--", "set", "Interface", &interface, &identity];
        switch.extend(add.map(str::to_owned));
        let up = ["--", "wait-until", "Logical_Switch_Port", &port, "up=true"];
        wait.extend(up.map(str::to_owned));
    }
    place.script(&script).await?;
    for words in [northbound, switch, wait] {
        place.exec(&words.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    }
    Ok(())
}
