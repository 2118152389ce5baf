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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{IdentityKind, Input, NodeMode, Program, Settings};
    use super::*;

    const NODE: Program =
        Program { name: "node-agent", about: "test", identity: IdentityKind::Node(NodeMode::Full) };

    fn load(line: &str) -> Result<OvnSettings, String> {
        let args = format!("--init-node n {line}").split_whitespace().map(str::to_owned).collect();
        let input = Input { args, env: BTreeMap::new(), default_file: None };
        Settings::load(&NODE, &input).map(|settings| settings.ovn).map_err(|error| error.to_string())
    }

    #[test]
    fn databases_are_where_ovn_puts_them_unless_somebody_says_otherwise() {
        let default = load("").unwrap();
        assert_eq!(default.northbound.address, "unix:/var/run/ovn/ovnnb_db.sock");
        assert_eq!(default.southbound.address, "unix:/var/run/ovn/ovnsb_db.sock");
        assert!(!default.northbound.configured);
        let moved = load("--nb-run-dir /run/other --sb-address tcp:[::1]:6642").unwrap();
        assert_eq!(moved.northbound.address, "unix:/run/other/ovnnb_db.sock");
        assert_eq!((&*moved.southbound.address, moved.southbound.configured), ("tcp:[::1]:6642", true));
        let files = "--nb-client-privkey /k --nb-client-cert /c --nb-client-cacert /a";
        let tls = load(&format!("--nb-address ssl:a:6641,ssl:b:6641 {files}")).unwrap().northbound.tls;
        assert_eq!(tls, Some(["/k", "/c", "/a"].map(PathBuf::from)));
    }

    #[test]
    fn rows_and_ovn_controller_get_upstreams_defaults() {
        let ovn = load("").unwrap();
        assert_eq!((ovn.port_range, ovn.acl_log_rate, ovn.geneve_port), (None, 20, 6081));
        assert_eq!(ovn.encap_ips, Vec::<IpAddr>::new());
        let ControllerSettings { remote_probe, monitor_all, flow_cache, flow_cache_entries, .. } =
            ovn.controller;
        assert_eq!((remote_probe, monitor_all, flow_cache, flow_cache_entries), (None, true, true, None));
        let given = load("--encap-ip 192.0.2.1,2001:db8::1 --inactivity-probe 5000 --lflow-cache-limit 9");
        let given = given.unwrap();
        assert_eq!(given.encap_ips, ["192.0.2.1", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap()));
        assert_eq!(given.controller.remote_probe, Some(5000));
        assert_eq!(given.controller.flow_cache_entries, Some(9));
        assert_eq!(
            load("--ephemeral-port-range 1000-2000").unwrap().port_range.as_deref(),
            Some("1000-2000")
        );
    }

    #[test]
    fn what_cannot_be_used_stops_the_start_and_is_named() {
        for (line, want) in [
            ("--nb-address /run/ovn/db.sock", "--nb-address must be unix:PATH"),
            ("--sb-address tcp:", "--sb-address must be unix:PATH"),
            ("--nb-address ssl:a:6641", "--nb-address with ssl: needs --nb-client-privkey"),
            ("--encap-ip 192.0.2.1,here", "--encap-ip must be addresses with commas, not \"here\""),
            ("--encap-port 0", "--encap-port must be between 1 and 65535"),
            ("--encap-type vxlan", "--encap-type must be geneve"),
            ("--inactivity-probe=-1", "--inactivity-probe must not be negative"),
            ("--ephemeral-port-range 9-1", "--ephemeral-port-range must be FIRST-LAST"),
            ("--ephemeral-port-range 0-9", "--ephemeral-port-range must be FIRST-LAST"),
        ] {
            let error = load(line).unwrap_err();
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
