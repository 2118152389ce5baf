//! From texts that are valid alone to settings that are valid together.
//!
//! Messages are upstream's where the reference has them (`udn-api.md` 9, `isolation-and-pods.md` 5.1,
//! `uplinks-control-plane.md` 5).

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::layers::Values;
use super::value::{self, ClusterSubnet, ValueError};
use super::{
    CgroupPath, CgroupPathError, DpuLease, Families, Features, GatewayMode, IdentityKind, LeaderElection,
    LogFormat, LogSettings, NodeMode, Program, Settings, SubnetPair, access, gateway, ovn, services,
};

/// Largest routing table number upstream accepts.
const LAST_TABLE: i64 = 2_147_483_647;

/// Smallest routing table number of user-defined networks.
const FIRST_TABLE: i64 = 1000;

/// The settings that `values` describe, or every reason why there are none.
pub(super) fn settings(
    program: &Program,
    values: &Values,
    warnings: &mut Vec<String>,
) -> Result<Settings, Vec<String>> {
    let mut problems = Vec::new();
    // Values were checked for their kind before, so this only names what could not happen.
    let reading = read(program, values, &mut problems).map_err(|error| vec![error.to_string()])?;
    check_features(reading.features, &mut problems, warnings);
    check_service_cidrs(&reading.service_cidrs, &mut problems);
    check_overlaps(&reading, &mut problems);
    if problems.is_empty() { Ok(reading) } else { Err(problems) }
}

fn read(program: &Program, values: &Values, problems: &mut Vec<String>) -> Result<Settings, ValueError> {
    let text = |name: &str| values.text(name).unwrap_or_default();
    let cluster_subnets = value::cluster_subnets(text("cluster-subnets"))?;
    let node_mode = node_mode(program, values, problems);
    Ok(Settings {
        identity: identity(program, values, problems),
        node_mode,
        simulate_dpu: values.is_on("simulate-dpu") && node_mode != NodeMode::Full,
        kube: access::kube(values, problems),
        gateway_mode: match text("gateway-mode") {
            "shared" => GatewayMode::Shared,
            "local" => GatewayMode::Local,
            _ => GatewayMode::Disabled,
        },
        gateway: gateway::read(values, problems)?,
        families: families(&cluster_subnets),
        mtu: mtu(value::number(text("mtu"))?, problems),
        network_grace: value::duration(text("udn-deletion-grace-period"))?,
        cluster_subnets,
        service_cidrs: value::cidrs(text("k8s-service-cidrs"))?,
        default_services: services::read(values, problems),
        masquerade: pair(values, "gateway-v4-masquerade-subnet", "gateway-v6-masquerade-subnet")?,
        join: pair(values, "gateway-v4-join-subnet", "gateway-v6-join-subnet")?,
        transit: pair(values, "cluster-manager-v4-transit-subnet", "cluster-manager-v6-transit-subnet")?,
        features: Features {
            multi_network: values.is_on("enable-multi-network"),
            network_segmentation: values.is_on("enable-network-segmentation"),
            uplink: values.is_on("enable-uplink"),
            persistent_ips: values.is_on("enable-persistent-ips"),
            preconfigured_addresses: values.is_on("enable-preconfigured-udn-addresses"),
            dynamic_allocation: values.is_on("enable-dynamic-udn-allocation"),
            route_advertisements: values.is_on("enable-route-advertisements"),
            evpn: values.is_on("enable-evpn"),
            egress_ips: values.is_on("enable-egress-ip"),
            network_connect: values.is_on("enable-network-connect"),
        },
        routing_table_start: routing_table_start(
            value::number(text("ovnkube-node-routing-table-id-start"))?,
            problems,
        ),
        kubelet_cgroup_path: kubelet_cgroup_path(values, problems),
        dpu_lease: dpu_lease(values, problems)?,
        leader_elect: values.is_on("leader-elect"),
        leader_election: leader_election(values, problems)?,
        namespace: text("ovn-config-namespace").to_owned(),
        metrics_address: values.text("metrics-bind-address").map(value::socket_address).transpose()?,
        introspect_socket: values.text("introspect-socket").map(PathBuf::from),
        log: LogSettings {
            verbosity: value::number(text("loglevel"))?,
            filter: values.text("log-filter").map(str::to_owned),
            format: if text("log-format") == "json" { LogFormat::Json } else { LogFormat::Text },
        },
        ovsdb_address: ovsdb_address(values, problems),
        ovn: ovn::read(values, problems)?,
        no_host_subnet: values.text("no-hostsubnet-nodes").filter(|text| !text.is_empty()).map(str::to_owned),
        scale_metrics: values.is_on("metrics-enable-scale"),
        resync: Some(value::duration(text("resync-period"))?).filter(|period| !period.is_zero()),
        warnings: Vec::new(),
        effective: values.effective(),
    })
}

/// Exactly one identity; node and controller may be combined.
fn identity(program: &Program, values: &Values, problems: &mut Vec<String>) -> String {
    let manager = values.text("init-cluster-manager");
    let node = values.text("init-node");
    let controller = values.text("init-ovnkube-controller");
    let name = program.name;
    let found = match program.identity {
        IdentityKind::ClusterManager if node.is_some() || controller.is_some() => {
            problems.push(format!(
                "{name} works for the cluster: --init-node and --init-ovnkube-controller do not fit"
            ));
            manager
        }
        IdentityKind::ClusterManager if manager.is_none() => {
            problems.push(format!("{name} needs an identity: give --init-cluster-manager ID"));
            None
        }
        IdentityKind::ClusterManager => manager,
        IdentityKind::Node(_) if manager.is_some() => {
            problems.push(format!("{name} works for one node: --init-cluster-manager does not fit"));
            None
        }
        IdentityKind::Node(_) => match (node, controller) {
            (Some(node), Some(controller)) if node != controller => {
                problems.push(format!(
                    "--init-node {node} and --init-ovnkube-controller {controller} must name the same node"
                ));
                None
            }
            (None, None) => {
                problems.push(format!("{name} needs the name of its node: give --init-node NAME"));
                None
            }
            (node, controller) => node.or(controller),
        },
    };
    found.unwrap_or_default().to_owned()
}

fn node_mode(program: &Program, values: &Values, problems: &mut Vec<String>) -> NodeMode {
    let modes = [NodeMode::Full, NodeMode::Dpu, NodeMode::DpuHost];
    let wanted = values.text("ovnkube-node-mode").and_then(|text| {
        let mode = modes.into_iter().find(|mode| mode.as_str() == text);
        if mode.is_none() {
            problems
                .push(format!("unexpected ovnkube-node-mode: {text}. supported modes: [full dpu dpu-host]"));
        }
        mode
    });
    match (program.identity, wanted) {
        (IdentityKind::ClusterManager, wanted) => wanted.unwrap_or(NodeMode::Full),
        (IdentityKind::Node(own), Some(wanted)) if own != wanted => {
            problems.push(format!("{} runs in node mode {own} only, not {wanted}", program.name));
            own
        }
        (IdentityKind::Node(own), _) => own,
    }
}

fn families(subnets: &[ClusterSubnet]) -> Families {
    Families {
        ipv4: subnets.iter().any(|entry| matches!(entry.subnet, IpNet::V4(_))),
        ipv6: subnets.iter().any(|entry| matches!(entry.subnet, IpNet::V6(_))),
    }
}

fn pair(values: &Values, v4: &str, v6: &str) -> Result<SubnetPair, ValueError> {
    Ok(SubnetPair {
        v4: value::cidr4(values.text(v4).unwrap_or_default())?,
        v6: value::cidr6(values.text(v6).unwrap_or_default())?,
    })
}

fn routing_table_start(start: i64, problems: &mut Vec<String>) -> u32 {
    if start < FIRST_TABLE {
        problems.push(format!("invalid routing-table-id-start '{start}'. must be >= {FIRST_TABLE}"));
    } else if start > LAST_TABLE {
        problems.push(format!("invalid routing-table-id-start '{start}'. must be <= {LAST_TABLE}"));
    }
    u32::try_from(start).unwrap_or_default()
}

fn kubelet_cgroup_path(values: &Values, problems: &mut Vec<String>) -> Option<CgroupPath> {
    match values.text("kubelet-cgroup-path")?.parse() {
        Ok(path) => Some(path),
        Err(error) => {
            problems.push(CgroupPathError::to_string(&error));
            None
        }
    }
}

fn dpu_lease(values: &Values, problems: &mut Vec<String>) -> Result<DpuLease, ValueError> {
    let renew = value::number(values.text("dpu-node-lease-renew-interval").unwrap_or_default())?;
    let duration = value::number(values.text("dpu-node-lease-duration").unwrap_or_default())?;
    if renew < 0 {
        problems.push(format!("invalid dpu-node-lease-renew-interval '{renew}'. must be >= 0"));
    }
    if duration <= 0 {
        problems.push(format!("invalid dpu-node-lease-duration '{duration}'. must be > 0"));
    } else if duration <= renew {
        problems.push(format!(
            "invalid dpu-node-lease-duration '{duration}'. must be > dpu-node-lease-renew-interval '{renew}'"
        ));
    }
    Ok(DpuLease { renew: seconds(renew), duration: seconds(duration) })
}

fn leader_election(values: &Values, problems: &mut Vec<String>) -> Result<LeaderElection, ValueError> {
    let number = |part: &str| {
        value::number(values.text(&format!("cluster-manager-ha-election-{part}")).unwrap_or_default())
    };
    let (lease, renew, retry) =
        (number("lease-duration")?, number("renew-deadline")?, number("retry-period")?);
    if !(lease > renew && renew > retry && retry > 0) {
        problems.push(format!(
            "leader election needs lease-duration > renew-deadline > retry-period > 0, not {lease}, {renew}, {retry}"
        ));
    }
    Ok(LeaderElection { lease: seconds(lease), renew: seconds(renew), retry: seconds(retry) })
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or_default())
}

fn ovsdb_address(values: &Values, problems: &mut Vec<String>) -> String {
    let Some(address) = values.text("ovsdb-address") else {
        let folder = values.text("ovs-run-dir").unwrap_or_default().trim_end_matches('/');
        return format!("unix:{folder}/db.sock");
    };
    let known = ["unix:", "tcp:", "ssl:"]
        .iter()
        .any(|scheme| address.len() > scheme.len() && address.starts_with(scheme));
    if !known {
        problems.push(format!(
            "--ovsdb-address must be unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, not {address:?}"
        ));
    }
    address.to_owned()
}

fn check_features(features: Features, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    if features.dynamic_allocation && !features.network_segmentation {
        problems.push(
            "dynamic UDN allocation cannot be enabled without also enabling Network Segmentation".to_owned(),
        );
    }
    if features.evpn && !features.route_advertisements {
        problems.push("EVPN cannot be enabled without also enabling RouteAdvertisements".to_owned());
    }
    if features.uplink && !features.network_segmentation {
        problems.push(
            "the Uplink feature cannot be enabled without also enabling Network Segmentation".to_owned(),
        );
    }
    if features.multi_network {
        return;
    }
    // Differs from upstream: it takes both silently, and nothing works. Whoever asks for Uplinks gets none and would
    // find no word about it in any object, so the start says it.
    if features.uplink {
        problems.push(
            "the Uplink feature cannot be enabled without also enabling Multi Network: give --enable-multi-network"
                .to_owned(),
        );
    } else if features.network_segmentation {
        warnings.push("User-defined networks stay off: they need --enable-multi-network too".to_owned());
    }
}

/// The smallest MTU that IPv4 hosts must take is 576 bytes (RFC 791), the largest of the kernel's devices 65536.
fn mtu(mtu: i64, problems: &mut Vec<String>) -> u32 {
    u32::try_from(mtu).ok().filter(|mtu| (576..=65_536).contains(mtu)).unwrap_or_else(|| {
        problems.push(format!("--mtu must be between 576 and 65536, not {mtu}"));
        1400
    })
}

fn check_service_cidrs(cidrs: &[IpNet], problems: &mut Vec<String>) {
    let ipv4 = cidrs.iter().filter(|cidr| matches!(cidr, IpNet::V4(_))).count();
    if ipv4 > 1 || cidrs.len() - ipv4 > 1 {
        problems.push("--k8s-service-cidrs must be one subnet, or one of each family".to_owned());
    }
}

/// No two of the built-in subnets may overlap; the entry later in the list is named first.
fn check_overlaps(settings: &Settings, problems: &mut Vec<String>) {
    let mut subnets: Vec<(&str, IpNet)> = Vec::new();
    subnets.extend(settings.cluster_subnets.iter().map(|entry| ("cluster subnet", entry.subnet)));
    subnets.extend(settings.service_cidrs.iter().map(|cidr| ("service subnet", *cidr)));
    for (kind, pair) in [
        ("built-in join subnet", settings.join),
        ("masquerade subnet", settings.masquerade),
        ("transit switch subnet", settings.transit),
    ] {
        subnets.extend([(kind, IpNet::V4(pair.v4)), (kind, IpNet::V6(pair.v6))]);
    }
    for (at, (kind, subnet)) in subnets.iter().enumerate() {
        for (earlier_kind, earlier) in subnets.iter().take(at) {
            if subnet.contains(earlier) || earlier.contains(subnet) {
                problems.push(format!("{kind} \"{subnet}\" overlaps {earlier_kind} \"{earlier}\""));
            }
        }
    }
}
