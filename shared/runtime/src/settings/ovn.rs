//! Settings of who writes to OVN: where its databases are, what rows say, what ovn-controller is told.

use std::net::IpAddr;
use std::path::PathBuf;

use super::layers::Values;
use super::value::{self, ValueError};

/// What concerns OVN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OvnSettings {
    /// The Northbound database.
    pub northbound: DatabaseSettings,
    /// The Southbound database.
    pub southbound: DatabaseSettings,
    /// Whether services have node ports, for gateways that do not say so themselves.
    pub node_ports: bool,
    /// Ports that translations to node addresses use, as `first-last`; `None` leaves it to OVN.
    pub port_range: Option<String>,
    /// Log lines of access rules in a second.
    pub acl_log_rate: u32,
    /// UDP port of tunnels.
    pub geneve_port: u16,
    /// Where the node's tunnels end; empty: at its own address.
    pub encap_ips: Vec<IpAddr>,
    /// What ovn-controller is told.
    pub controller: ControllerSettings,
}

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// One address or several, comma separated: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`.
    pub address: String,
    /// Whether somebody set the address. Without, a machine that has no OVN is no mistake.
    pub configured: bool,
    /// For `ssl:`: private key, certificate, certificate of the CA.
    pub tls: Option<[PathBuf; 3]>,
}

/// Settings of ovn-controller; `None` is upstream's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSettings {
    /// Idle time in ms before it asks whether its databases live.
    pub remote_probe: Option<u32>,
    /// The same towards Open vSwitch.
    pub bridge_probe: Option<u32>,
    /// How long in ms it keeps flows that it found.
    pub wait_before_clear: Option<u32>,
    /// Whether it watches the whole Southbound database.
    pub monitor_all: bool,
    /// Whether it keeps translated flows.
    pub flow_cache: bool,
    /// At most so many of them.
    pub flow_cache_entries: Option<u32>,
    /// In at most so much memory, in KB.
    pub flow_cache_kb: Option<u32>,
}

/// Reads them.
pub(super) fn read(values: &Values, problems: &mut Vec<String>) -> Result<OvnSettings, ValueError> {
    let mut number = |name: &'static str| whole(values, name, problems);
    let controller = ControllerSettings {
        remote_probe: number("inactivity-probe")?,
        bridge_probe: number("openflow-probe")?,
        wait_before_clear: number("ofctrl-wait-before-clear")?,
        monitor_all: values.is_on("monitor-all"),
        flow_cache: values.is_on("enable-lflow-cache"),
        flow_cache_entries: number("lflow-cache-limit")?,
        flow_cache_kb: number("lflow-cache-limit-kb")?,
    };
    let acl_log_rate = number("acl-logging-rate-limit")?.unwrap_or_default();
    let geneve_port = number("encap-port")?.unwrap_or_default();
    let geneve_port = u16::try_from(geneve_port).ok().filter(|port| *port > 0).unwrap_or_else(|| {
        problems.push(format!("--encap-port must be between 1 and 65535, not {geneve_port}"));
        1
    });
    let encap_type = values.text("encap-type").unwrap_or_default();
    if encap_type != "geneve" {
        problems.push(format!("--encap-type must be geneve, not {encap_type:?}"));
    }
    Ok(OvnSettings {
        northbound: database(values, "nb", "ovnnb_db.sock", problems),
        southbound: database(values, "sb", "ovnsb_db.sock", problems),
        node_ports: values.is_on("nodeport"),
        port_range: port_range(values, problems),
        acl_log_rate,
        geneve_port,
        encap_ips: encap_ips(values, problems),
        controller,
    })
}

fn whole(values: &Values, name: &'static str, problems: &mut Vec<String>) -> Result<Option<u32>, ValueError> {
    let Some(text) = values.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = value::number(text)?;
    let fits = u32::try_from(number).ok();
    if fits.is_none() {
        problems.push(format!("--{name} must not be negative or above {}, not {number}", u32::MAX));
    }
    Ok(fits)
}

/// Upstream writes addresses as OVN does, and looks in the run folder where there is none. Source: ovn-kubernetes
/// `config.OvnAuthConfig`.
fn database(values: &Values, short: &str, socket: &str, problems: &mut Vec<String>) -> DatabaseSettings {
    let text =
        |part: &str| values.text(&format!("{short}-{part}")).map(str::trim).filter(|text| !text.is_empty());
    let folder = text("run-dir").unwrap_or_default().trim_end_matches('/');
    let configured = text("address");
    let address = configured.map_or_else(|| format!("unix:{folder}/{socket}"), str::to_owned);
    let files = ["client-privkey", "client-cert", "client-cacert"].map(|part| text(part).map(PathBuf::from));
    let tls = match files {
        [Some(key), Some(certificate), Some(ca)] => Some([key, certificate, ca]),
        _ => None,
    };
    let mut remotes = address.split(',').map(str::trim);
    let known = ["unix:", "tcp:", "ssl:"];
    let is_known =
        |remote: &str| known.iter().any(|scheme| remote.len() > scheme.len() && remote.starts_with(scheme));
    if !remotes.clone().all(is_known) {
        problems.push(format!(
            "--{short}-address must be unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several of them with commas, not \
             {address:?}"
        ));
    }
    if tls.is_none() && remotes.any(|remote| remote.starts_with("ssl:")) {
        problems.push(format!(
            "--{short}-address with ssl: needs --{short}-client-privkey, --{short}-client-cert and --{short}-client-cacert"
        ));
    }
    DatabaseSettings { address, configured: configured.is_some(), tls }
}

fn port_range(values: &Values, problems: &mut Vec<String>) -> Option<String> {
    let text = values.text("ephemeral-port-range").map(str::trim).filter(|text| !text.is_empty())?;
    let ports = text.split_once('-').and_then(|(first, last)| {
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        Some((port(first)?, port(last)?))
    });
    if ports.is_none_or(|(first, last)| first > last) {
        problems.push(format!(
            "--ephemeral-port-range must be FIRST-LAST with ports from 1 to 65535, not {text:?}"
        ));
    }
    Some(text.to_owned())
}

fn encap_ips(values: &Values, problems: &mut Vec<String>) -> Vec<IpAddr> {
    let text = values.text("encap-ip").unwrap_or_default();
    let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let mut address = |text: &str| {
        let address = text.parse().ok();
        if address.is_none() {
            problems.push(format!("--encap-ip must be addresses with commas, not {text:?}"));
        }
        address
    };
    texts.filter_map(&mut address).collect()
}
