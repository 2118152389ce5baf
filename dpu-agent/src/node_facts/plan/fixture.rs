//! A node out of short texts.

use std::collections::BTreeMap;

use causeway_agent::half::NotObserved;
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::wire::Wire;
use ovsdb::Uuid;

use super::*;
use crate::discovery::representor::Netdev;
use crate::vswitch;

/// What interfaces look like: name, MAC, addresses.
#[derive(Default)]
pub(in super::super) struct Interfaces(pub(in super::super) BTreeMap<String, (String, Vec<String>)>);

impl HostSide for Interfaces {
    fn host_data(&self, interface: &str) -> Result<Result<HostDataOf, Failure>, NotObserved> {
        let Some((mac, addresses)) = self.0.get(interface) else {
            let text = format!("host interface {interface} was not found: Link not found");
            return Ok(Err(Failure::new(DiscoveryReason::HostInterfaceNotFound, text)));
        };
        Ok(Ok(HostDataOf {
            mac: mac.parse().unwrap(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            gateways: Vec::new(),
            function: None,
        }))
    }

    fn wire(&self, _interface: &str) -> Result<Wire, NotObserved> {
        Ok(Wire::default())
    }
}

use causeway_net::host_data::HostData as HostDataOf;
use causeway_net::publish::Failure;

/// A node.
pub(in super::super) struct Machine {
    pub(in super::super) options: Options,
    pub(in super::super) node: NodeView,
    pub(in super::super) bridges: Vec<(String, Vec<String>)>,
    pub(in super::super) macs: BTreeMap<String, String>,
    pub(in super::super) external_ids: BTreeMap<String, String>,
    pub(in super::super) other_config: BTreeMap<String, String>,
    pub(in super::super) capabilities: Option<BTreeMap<String, String>>,
    pub(in super::super) kernel: Kernel,
    pub(in super::super) representors: Representors,
    pub(in super::super) functions: BTreeMap<String, LocalFunction>,
    pub(in super::super) interfaces: Option<Interfaces>,
}

pub(in super::super) fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

impl Machine {
    /// The node of the captured runs, with the options that it ran with.
    pub(in super::super) fn captured() -> Self {
        let gateway = GatewaySettings {
            interface: Some("br-ex".into()),
            next_hops: Some("172.30.0.1".into()),
            node_ports: true,
            checks_packet_size: true,
            ..GatewaySettings::default()
        };
        let interfaces =
            [("br-ex".to_owned(), ("02:42:ac:1e:00:02".to_owned(), vec!["172.30.0.2/24".into()]))];
        Self {
            options: Options {
                mode: GatewayMode::Shared,
                families: Families { ipv4: true, ipv6: false },
                masquerade: vec!["169.254.0.0/17".parse().unwrap(), "fd69::/125".parse().unwrap()],
                gateway,
                encap_ips: vec!["172.30.0.2".parse().unwrap()],
            },
            node: NodeView {
                name: "node1".into(),
                uid: "1".into(),
                address: Some("172.30.0.2".parse().unwrap()),
                ..NodeView::default()
            },
            bridges: vec![
                ("br-ex".into(), vec!["br-ex:internal".into(), "eth1:system".into()]),
                ("br-int".into(), vec!["br-int:internal".into(), "ovn-k8s-mp0:internal".into()]),
            ],
            macs: texts(&[("br-ex", "02:42:AC:1E:00:02")]),
            external_ids: texts(&[("system-id", "11111111-1111-4111-8111-111111111111")]),
            other_config: BTreeMap::new(),
            capabilities: Some(texts(&[("check_pkt_len", "true")])),
            kernel: Kernel {
                addresses: vec![("br-ex".into(), "172.30.0.2/24".parse().unwrap())],
                defaults: vec![route("br-ex", "172.30.0.1", 0)],
            },
            representors: Representors::Switchdev(Vec::new()),
            functions: BTreeMap::new(),
            interfaces: Some(Interfaces(interfaces.into())),
        }
    }

    /// The card of the host that has this machine's addresses.
    pub(in super::super) fn card() -> Self {
        let mut card = Self::captured();
        card.interfaces = None;
        card.options.gateway.interface = Some("brp0".into());
        card.options.gateway.next_hops = None;
        card.options.encap_ips.clear();
        card.external_ids.insert("ovn-encap-ip".into(), "172.30.0.9".into());
        card.bridges[0] =
            ("brp0".into(), vec!["brp0:internal".into(), "p0:system".into(), "pf0hpf:system".into()]);
        card.macs = texts(&[("brp0", "02:42:ac:1e:00:09")]);
        card.kernel = Kernel {
            addresses: vec![("brp0".into(), "172.30.0.9/16".parse().unwrap())],
            defaults: vec![route("brp0", "172.30.0.1", 0)],
        };
        let key = keys::DPU_HOST_ADDRESSES.to_owned();
        card.node.annotations.insert(key, r#"{"ipv4":"172.30.0.2/24"}"#.into());
        card.representors = Representors::Switchdev(vec![
            netdev("p0", Flavour::Physical, None),
            netdev("pf0hpf", Flavour::Pf, Some("02:42:ac:1e:00:02")),
        ]);
        card
    }

    pub(in super::super) fn ovs(&self) -> Snapshot {
        let mut next = 0;
        let mut uuid = || {
            next += 1;
            Uuid::from_u128(next)
        };
        let mut builder = Snapshot::builder()
            .table::<vswitch::Bridge>()
            .table::<vswitch::Port>()
            .table::<vswitch::Interface>()
            .table::<BridgeType>()
            .table::<Datapath>()
            .table::<Port>();
        for (name, ports) in &self.bridges {
            let mut bridge = vswitch::Bridge { name: name.clone(), ..vswitch::Bridge::default() };
            for port in ports {
                let (port, kind) = port.split_once(':').unwrap();
                let (interface, of) = (uuid(), uuid());
                let row = vswitch::Interface { name: port.into(), kind: kind.into() };
                builder = builder.row(interface, row);
                let mac_in_use = self.macs.get(port).cloned();
                builder = builder.row(interface, Port { name: port.into(), mac_in_use });
                let interfaces = [interface].into();
                let row = vswitch::Port { name: port.into(), interfaces, ..vswitch::Port::default() };
                builder = builder.row(of, row);
                bridge.ports.insert(of);
            }
            let at = uuid();
            builder = builder.row(at, bridge);
            builder = builder.row(at, BridgeType { name: name.clone(), datapath_type: "netdev".into() });
        }
        let mut root = Root {
            external_ids: self.external_ids.clone(),
            other_config: self.other_config.clone(),
            datapaths: BTreeMap::new(),
        };
        if let Some(capabilities) = &self.capabilities {
            let at = uuid();
            root.datapaths.insert("netdev".into(), at);
            builder = builder.row(at, Datapath { capabilities: capabilities.clone() });
        }
        builder.row(uuid(), root).build()
    }

    pub(in super::super) fn facts(&self) -> Facts {
        facts(World {
            options: &self.options,
            node: &self.node,
            ovs: &self.ovs(),
            kernel: &self.kernel,
            representors: &self.representors,
            function: &|name| self.functions.get(name).cloned(),
            host: self.interfaces.as_ref().map_or(Host::Elsewhere, |interfaces| Host::Here(interfaces)),
        })
    }

    /// What an annotation should hold, and all that is wrong or missing.
    pub(in super::super) fn told(&self, key: &str) -> String {
        let facts = self.facts();
        match facts.annotations.get(key) {
            Some(Some(text)) => text.clone(),
            Some(None) => "absent".into(),
            None => {
                let problems = facts.problems.iter().map(ToString::to_string);
                problems.chain(facts.waiting.iter().cloned()).collect::<Vec<_>>().join("; ")
            }
        }
    }

    pub(in super::super) fn gateway(&self) -> String {
        self.told(L3_GATEWAY_CONFIG)
    }
}

pub(in super::super) fn route(interface: &str, gateway: &str, metric: u32) -> DefaultRoute {
    let gateway: IpAddr = gateway.parse().unwrap();
    DefaultRoute { interface: interface.into(), is_ipv4: gateway.is_ipv4(), gateway: Some(gateway), metric }
}

pub(in super::super) use crate::discovery::representor::Flavour;

pub(in super::super) fn netdev(name: &str, flavour: Flavour, peer: Option<&str>) -> Netdev {
    Netdev {
        name: name.into(),
        alias: None,
        flavour,
        controller: None,
        pf: Some(0),
        vf: None,
        sf: None,
        device: Some("0000:03:00.0".into()),
        peer_mac: peer.map(|mac| mac.parse().unwrap()),
    }
}
