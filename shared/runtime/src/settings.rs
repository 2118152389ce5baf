//! Settings of a binary: flag over environment over file over default.
//!
//! In: command line, environment and file, in upstream's names ([`CATALOGUE`]). Out: [`Settings`], checked and
//! typed, or every problem at once. Nothing else in Causeway reads the command line or the environment.
//!
//! Differs from upstream: the environment wins over the file (upstream: the other way round), because a DaemonSet
//! sets per node what a shared file cannot; unknown keys of a file stop the start; secrets are never logged.

mod access;
mod catalogue;
mod cgroup;
mod check;
mod file;
mod gateway;
mod layers;
mod ovn;
mod services;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tracing::{info, warn};

pub use self::access::{KubeAccess, Secret, TokenSource};
pub use self::catalogue::{CATALOGUE, OptionSpec, Status};
pub use self::cgroup::{CgroupPath, CgroupPathError};
pub use self::gateway::GatewaySettings;
pub use self::layers::{Input, Origin};
pub use self::ovn::{ControllerSettings, DatabaseSettings, OvnSettings};
pub use self::value::{ClusterSubnet, Kind, ValueError};
use crate::watch::NamespacedName;

/// What distinguishes one binary from another before its settings are read.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Name in help, logs and metrics.
    pub name: &'static str,
    /// One sentence for `--help`.
    pub about: &'static str,
    /// Whom it works for.
    pub identity: IdentityKind,
}

/// Which identity options a program takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityKind {
    /// `--init-cluster-manager ID`.
    ClusterManager,
    /// `--init-node NAME`, `--init-ovnkube-controller NAME` or both with one name; the node mode is fixed.
    Node(NodeMode),
}

/// Which part of a node's work a process does; the text form is upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeMode {
    /// All of it.
    Full,
    /// The host's part of a node with a DPU.
    DpuHost,
    /// The DPU's part.
    Dpu,
}

/// How nodes reach the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayMode {
    /// Not through OVN.
    Disabled,
    /// Through a bridge shared with the host.
    Shared,
    /// Through the host's routing.
    Local,
}

/// Address families of the cluster; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Families {
    /// IPv4 pods exist.
    pub ipv4: bool,
    /// IPv6 pods exist.
    pub ipv6: bool,
}

/// One subnet per family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubnetPair {
    /// The IPv4 subnet.
    pub v4: Ipv4Net,
    /// The IPv6 subnet.
    pub v6: Ipv6Net,
}

/// Feature switches as given; [`Features::uplinks`] and its like say what is effective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch each, named after its option")]
pub struct Features {
    /// `--enable-multi-network`.
    pub multi_network: bool,
    /// `--enable-network-segmentation`.
    pub network_segmentation: bool,
    /// `--enable-uplink`.
    pub uplink: bool,
    /// `--enable-persistent-ips`.
    pub persistent_ips: bool,
    /// `--enable-preconfigured-udn-addresses`.
    pub preconfigured_addresses: bool,
    /// `--enable-dynamic-udn-allocation`.
    pub dynamic_allocation: bool,
    /// `--enable-route-advertisements`.
    pub route_advertisements: bool,
    /// `--enable-evpn`.
    pub evpn: bool,
    /// `--enable-egress-ip`.
    pub egress_ips: bool,
    /// `--enable-network-connect`.
    pub network_connect: bool,
}

impl Features {
    /// User-defined networks are on: needs multi-network too. Source: OVN-Kubernetes, `pkg/util/multi_network.go`.
    #[must_use]
    pub fn user_defined_networks(self) -> bool {
        self.multi_network && self.network_segmentation
    }

    /// Uplinks are on: needs user-defined networks too.
    #[must_use]
    pub fn uplinks(self) -> bool {
        self.user_defined_networks() && self.uplink
    }

    /// Networks exist only on nodes that use them: needs user-defined networks too.
    #[must_use]
    pub fn dynamic_networks(self) -> bool {
        self.user_defined_networks() && self.dynamic_allocation
    }

    /// Workloads may bring addresses: needs user-defined networks too.
    #[must_use]
    pub fn preconfigured_udn_addresses(self) -> bool {
        self.user_defined_networks() && self.preconfigured_addresses
    }

    /// RouteAdvertisements are on: needs multi-network too.
    #[must_use]
    pub fn advertises_routes(self) -> bool {
        self.multi_network && self.route_advertisements
    }
}

/// Form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What is logged and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// klog verbosity (`--loglevel`).
    pub verbosity: i64,
    /// Levels by module; wins over the verbosity.
    pub filter: Option<String>,
    /// Form of lines.
    pub format: LogFormat,
}

/// Timing of leader election; `lease > renew > retry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderElection {
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew: Duration,
    /// Time between attempts.
    pub retry: Duration,
}

/// Timing of the card's lease; `duration > renew`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DpuLease {
    /// Time between renewals; zero switches the lease off.
    pub renew: Duration,
    /// After this long without renewal the card counts as gone.
    pub duration: Duration,
}

/// Checked settings of one process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name given by an identity option: the node's, or the cluster manager's.
    pub identity: String,
    /// The part of a node's work; [`NodeMode::Full`] for a cluster manager.
    pub node_mode: NodeMode,
    /// The card is simulated by veth pairs; never set in mode [`NodeMode::Full`], where it has no effect.
    pub simulate_dpu: bool,
    /// How to reach the API server.
    pub kube: KubeAccess,
    /// How nodes reach the outside.
    pub gateway_mode: GatewayMode,
    /// What the default gateway of a node is made of.
    pub gateway: GatewaySettings,
    /// Families of the cluster subnets.
    pub families: Families,
    /// MTU of overlay networks that name none.
    pub mtu: u32,
    /// How long a network stays on a node that no longer uses it.
    pub network_grace: Duration,
    /// Pod subnets of the default network.
    pub cluster_subnets: Vec<ClusterSubnet>,
    /// Subnets of Services.
    pub service_cidrs: Vec<IpNet>,
    /// Services of the default network that every primary network reaches.
    pub default_services: BTreeSet<NamespacedName>,
    /// Masquerade subnets.
    pub masquerade: SubnetPair,
    /// Join subnets of the default network.
    pub join: SubnetPair,
    /// Transit subnets.
    pub transit: SubnetPair,
    /// Feature switches.
    pub features: Features,
    /// First routing table of user-defined networks.
    pub routing_table_start: u32,
    /// The kubelet's cgroup; `None`: it is looked for. Used where user-defined networks are on, and checked always.
    pub kubelet_cgroup_path: Option<CgroupPath>,
    /// The card's lease.
    pub dpu_lease: DpuLease,
    /// Whether the cluster manager elects a leader; without, it writes as if it were alone.
    pub leader_elect: bool,
    /// Timing of that election.
    pub leader_election: LeaderElection,
    /// Namespace of the network stack's own objects.
    pub namespace: String,
    /// Where `/metrics`, `/healthz` and `/readyz` are served; `None`: nowhere.
    pub metrics_address: Option<SocketAddr>,
    /// Unix socket on which an agent tells what it sees; `None`: nowhere.
    pub introspect_socket: Option<PathBuf>,
    /// Logging.
    pub log: LogSettings,
    /// Open vSwitch database: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`.
    pub ovsdb_address: String,
    /// What concerns OVN.
    pub ovn: OvnSettings,
    /// Nodes that get no subnet of any network: a label selector, as kubectl takes it.
    pub no_host_subnet: Option<String>,
    /// Whether metrics are kept that have a series for each network and cost in proportion.
    pub scale_metrics: bool,
    /// Period of the slow resync; `None`: never.
    pub resync: Option<Duration>,
    /// What is odd but does not stop the start; logged by [`Settings::log_effective`].
    pub warnings: Vec<String>,
    effective: Vec<(&'static str, String, Origin)>,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Help or version was asked for; the text is it. Not a failure.
    #[error("{0}")]
    Shown(String),
    /// The command line cannot be read.
    #[error("{0}")]
    Usage(String),
    /// The settings file cannot be read.
    #[error("cannot read the settings file {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Values that are wrong or do not fit together: one sentence each, all of them.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
}

impl Settings {
    /// Reads the settings of `program`.
    pub fn load(program: &Program, input: &Input) -> Result<Self, SettingsError> {
        let (values, mut warnings) = layers::read(program, input)?;
        let settings = check::settings(program, &values, &mut warnings).map_err(SettingsError::Invalid)?;
        Ok(Self { warnings, ..settings })
    }

    /// Logs the warnings, and once every setting that is not a default, without secrets.
    pub fn log_effective(&self) {
        for warning in &self.warnings {
            warn!(warning, "Questionable setting");
        }
        let settings: Vec<String> =
            self.effective().map(|(name, value, origin)| format!("{name}={value} ({origin})")).collect();
        info!(identity = self.identity, settings = settings.join(", "), "Effective settings");
    }

    /// Every setting that is not a default: name, value (secrets hidden) and where it comes from.
    pub fn effective(&self) -> impl Iterator<Item = (&'static str, &str, &Origin)> {
        self.effective.iter().map(|(name, value, origin)| (*name, value.as_str(), origin))
    }
}

impl NodeMode {
    /// Upstream's text of this mode.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::DpuHost => "dpu-host",
            Self::Dpu => "dpu",
        }
    }
}

impl fmt::Display for NodeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The options as a Markdown table, for the documentation.
#[must_use]
pub fn markdown() -> String {
    let rows = CATALOGUE.iter().map(|spec| {
        let keys = spec.keys.iter().map(|(section, key)| format!("`[{section}] {key}`"));
        let environment = spec.env.map(str::to_owned).into_iter().chain([spec.own_env()]);
        let environment = environment.map(|name| format!("`{name}`"));
        let default = if spec.default.is_empty() { String::new() } else { format!("`{}`", spec.default) };
        let status = match spec.status {
            Status::Implemented => String::new(),
            Status::Accepted => " (accepted, no effect yet)".to_owned(),
            Status::Unimplemented(feature) => format!(" (not in this version: {feature})"),
        };
        let (keys, environment) = (comma_separated(keys), comma_separated(environment));
        format!("| `--{}` | {keys} | {environment} | {default} | {}{status} |\n", spec.name, spec.help)
    });
    let head = "| Option | File key | Environment | Default | Meaning |\n|---|---|---|---|---|\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
}

fn comma_separated(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
