use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use super::*;

const MANAGER: Program =
    Program { name: "cluster-manager", about: "test", identity: IdentityKind::ClusterManager };
const NODE: Program =
    Program { name: "node-agent", about: "test", identity: IdentityKind::Node(NodeMode::Full) };
const HOST: Program =
    Program { name: "host-agent", about: "test", identity: IdentityKind::Node(NodeMode::DpuHost) };

/// Command lines of recorded runs of upstream, one per program and flag set; tokens and paths are placeholders.
const CAPTURED: &str = include_str!("captured-command-lines.txt");

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn load(program: &Program, line: &str) -> Result<Settings, SettingsError> {
    load_with(program, line, &[], None)
}

fn load_with(
    program: &Program,
    line: &str,
    env: &[(&str, &str)],
    file: Option<&Path>,
) -> Result<Settings, SettingsError> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::load(program, &Input { args: words(line), env, default_file: file.map(Path::to_owned) })
}

fn node(line: &str) -> Settings {
    load(&NODE, &format!("--init-node n {line}")).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[track_caller]
fn refused(program: &Program, line: &str) -> String {
    load(program, line).map_or_else(|error| error.to_string(), |_| panic!("{line} was accepted"))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("the file is written");
    file
}

#[test]
fn every_captured_command_line_is_accepted() {
    let mut lines = 0;
    for line in CAPTURED.lines().filter(|line| !line.starts_with('#')) {
        let program = if line.contains("--init-cluster-manager") { &MANAGER } else { &NODE };
        let unimplemented: BTreeSet<&str> = words(line)
            .iter()
            .filter_map(|word| catalogue::by_flag(word.strip_prefix("--")?))
            .filter_map(|spec| match spec.status {
                Status::Unimplemented(feature) => Some(feature),
                Status::Implemented | Status::Accepted => None,
            })
            .collect();
        let settings = load(program, &format!("{line} --allow-unimplemented"))
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(["cm0", "node1"].contains(&settings.identity.as_str()));
        assert_eq!(settings.warnings.len(), unimplemented.len(), "{line}: {:?}", settings.warnings);
        match load(program, line) {
            Ok(_) => assert!(unimplemented.is_empty(), "{line}: {unimplemented:?} should have stopped it"),
            Err(error) => {
                assert!(!unimplemented.is_empty(), "{line}: {error}");
                for feature in unimplemented {
                    assert!(error.to_string().contains(feature), "{error} does not name {feature}");
                }
            }
        }
        lines += 1;
    }
    assert!(lines >= 10, "only {lines} captured lines");
}

#[test]
fn a_captured_node_line_means_what_it_says() {
    let line = CAPTURED.lines().find(|l| l.contains("--init-node") && l.contains("--enable-uplink"));
    let line = format!("{} --allow-unimplemented", line.expect("there is such a line"));
    let settings = load(&NODE, &line).expect("it is accepted");
    assert_eq!(settings.identity, "node1");
    assert_eq!(settings.gateway_mode, GatewayMode::Shared);
    assert_eq!(settings.gateway.interface.as_deref(), Some("br-ex"));
    assert_eq!(settings.gateway.next_hops.as_deref(), Some("172.30.0.1"));
    assert_eq!(settings.ovn.encap_ips, ["172.30.0.2".parse::<std::net::IpAddr>().unwrap()]);
    assert!(settings.gateway.node_ports && settings.gateway.checks_packet_size);
    assert_eq!((settings.gateway.vlan, &settings.gateway.external_interface), (0, &None));
    assert_eq!(settings.families, Families { ipv4: true, ipv6: false });
    assert_eq!(settings.masquerade.v4.to_string(), "169.254.0.0/17");
    assert_eq!(settings.metrics_address.map(|a| a.to_string()).as_deref(), Some("127.0.0.1:29410"));
    assert!(settings.features.uplinks());
    assert_eq!(settings.log.verbosity, 5);
    let KubeAccess::Server { url, token, ca } = &settings.kube else { panic!("{:?}", settings.kube) };
    assert_eq!(url, "https://127.0.0.1:28443");
    assert_eq!(ca.as_deref(), Some(Path::new("<ca.crt>")));
    assert!(matches!(token, Some(TokenSource::Inline(secret)) if secret.expose() == "<token>"));
}

#[test]
fn defaults_are_upstreams() {
    let settings = node("");
    assert_eq!(settings.node_mode, NodeMode::Full);
    assert_eq!(settings.kube, KubeAccess::InCluster);
    assert_eq!(settings.gateway_mode, GatewayMode::Disabled);
    assert_eq!(settings.cluster_subnets, value::cluster_subnets("10.128.0.0/14/23").expect("a subnet"));
    assert_eq!(settings.masquerade.v4.to_string(), "169.254.169.0/29");
    assert_eq!(settings.masquerade.v6.to_string(), "fd69::/125");
    assert_eq!(settings.join.v4.to_string(), "100.64.0.0/16");
    assert_eq!(settings.transit.v6.to_string(), "fd97::/64");
    assert_eq!(settings.routing_table_start, 1000);
    assert_eq!(settings.dpu_lease.duration, Duration::from_secs(40));
    assert_eq!(settings.leader_election.lease, Duration::from_secs(137));
    assert!(settings.leader_elect && !node("--leader-elect=false").leader_elect);
    assert_eq!(settings.namespace, "ovn-kubernetes");
    assert_eq!(settings.ovsdb_address, "unix:/run/openvswitch/db.sock");
    assert_eq!(settings.resync, Some(Duration::from_mins(10)));
    assert_eq!(settings.log, LogSettings { verbosity: 4, filter: None, format: LogFormat::Text });
    assert_eq!(settings.metrics_address, None);
    assert!(!settings.features.uplinks());
}

#[test]
fn allowed_services_are_names_with_a_namespace_and_a_bad_one_is_named() {
    let names = |line: &str| {
        node(line).default_services.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(""), "default/kubernetes kube-system/kube-dns");
    let line = "--udn-allowed-default-services=ns1/svc.a,ns/svc,ns/svc";
    assert_eq!(names(line), "ns/svc ns1/svc.a");
    let long = "n".repeat(64);
    for (item, what) in [
        ("svc", "no namespace"),
        ("/svc", "no namespace"),
        ("Ns/svc", "an invalid namespace"),
        (&*format!("{long}/svc"), "an invalid namespace"),
        ("ns/", "an invalid name"),
        ("ns/-svc", "an invalid name"),
        ("ns/a/b", "an invalid name"),
    ] {
        let error = load(&NODE, &format!("--init-node n --udn-allowed-default-services=good/one,{item}"));
        let want = format!("--udn-allowed-default-services: service {item:?} has {what}");
        assert_eq!(error.map(drop).unwrap_err().to_string(), want);
    }
}

#[test]
fn every_catalogue_row_is_sound() {
    let mut names = BTreeSet::new();
    let mut keys = BTreeMap::new();
    for spec in CATALOGUE {
        for name in [spec.name].iter().chain(spec.aliases) {
            assert!(names.insert(*name), "--{name} twice");
        }
        for key in spec.keys {
            assert_eq!(keys.insert(*key, spec.name), None, "[{}] {} twice", key.0, key.1);
            assert!(key.0 == key.0.to_lowercase() && key.1 == key.1.to_lowercase(), "{key:?}");
        }
        let default = if spec.default.is_empty() && spec.kind == Kind::Flag { "false" } else { spec.default };
        assert_eq!(spec.kind.check(default), Ok(()), "default of --{}", spec.name);
    }
    layers::command(&NODE).debug_assert();
    assert_eq!(markdown().lines().count(), CATALOGUE.len() + 2);
}

#[test]
fn one_dash_two_dashes_equals_signs_and_repetition_work_as_in_go() {
    for line in ["-mtu 1300", "--mtu=1300", "-mtu=1300", "--mtu 9 --mtu 1300"] {
        let settings = node(line);
        let mtu = settings.effective().find(|(name, ..)| *name == "mtu").map(|(_, value, _)| value);
        assert_eq!(mtu, Some("1300"), "{line}");
    }
    for (line, want) in [
        ("--enable-multi-network --enable-network-segmentation=true -enable-uplink=1", true),
        ("--enable-multi-network --enable-network-segmentation --enable-uplink=false", false),
    ] {
        assert_eq!(node(line).features.uplinks(), want, "{line}");
    }
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default() {
    let file = file(
        "[OvnKubernetesFeature]\nenable-multi-network = true\n[default]\nmtu=1300\n[KUBERNETES]\nOVN-config-namespace=\"f\"\n",
    );
    let load = |line: &str, env: &[(&str, &str)]| {
        load_with(&NODE, &format!("--init-node n {line}"), env, Some(file.path())).expect("valid settings")
    };
    let settings = load("", &[]);
    assert!(settings.features.multi_network);
    assert_eq!(settings.namespace, "f");
    let env = [("CAUSEWAY_OVN_CONFIG_NAMESPACE", "e"), ("CAUSEWAY_ENABLE_MULTI_NETWORK", "false")];
    let settings = load("", &env);
    assert_eq!(settings.namespace, "e");
    assert!(!settings.features.multi_network, "a switch can be turned off again");
    assert_eq!(load("--ovn-config-namespace c", &env).namespace, "c");
    let origins: Vec<String> =
        settings.effective().map(|(name, value, o)| format!("{name}={value} ({o})")).collect();
    assert!(origins.contains(&format!("mtu=1300 ({}:4)", file.path().display())), "{origins:?}");
    assert!(
        origins.contains(&"ovn-config-namespace=e (environment CAUSEWAY_OVN_CONFIG_NAMESPACE)".to_owned()),
        "{origins:?}"
    );
}

#[test]
fn empty_environment_variables_are_unset() {
    let settings = load_with(&NODE, "", &[("K8S_NODE", "n"), ("KUBECONFIG", "")], None).expect("valid");
    assert_eq!((settings.identity.as_str(), settings.kube), ("n", KubeAccess::InCluster));
}

#[test]
fn the_last_line_of_a_key_wins_within_a_file() {
    let file = file("[default]\nmtu=1300\nmtu=1200\n");
    let settings = load_with(&NODE, "--init-node n", &[], Some(file.path())).expect("valid");
    assert_eq!(settings.effective().find(|(n, ..)| *n == "mtu").map(|(_, v, _)| v), Some("1200"));
}

#[test]
fn an_unknown_key_stops_the_start_with_file_line_and_key_unless_allowed() {
    let file = file("[default]\nmtu=1400\n\n[gateway]\nnodprot=true\n");
    let line = format!("--init-node n --config-file {}", file.path().display());
    let error = load(&NODE, &line).expect_err("the key is unknown").to_string();
    let place = format!("{}:5", file.path().display());
    assert_eq!(error, format!("{place}: nobody knows the key nodprot in section [gateway]"));
    let settings = load(&NODE, &format!("{line} --allow-unknown-keys")).expect("allowed");
    assert_eq!(
        settings.warnings,
        [format!("{place}: nobody knows the key nodprot in section [gateway]; it is ignored")]
    );
}

#[test]
fn an_unreadable_file_stops_the_start_and_an_absent_default_file_does_not() {
    let error = load(&NODE, "--init-node n --config-file /nowhere/x.conf").expect_err("no such file");
    assert_eq!(error.to_string(), "cannot read the settings file /nowhere/x.conf");
    assert!(load_with(&NODE, "--init-node n", &[], Some(Path::new("/nowhere/x.conf"))).is_ok());
    let bad = file("[default]\nmtu=\"1\n");
    let error = load_with(&NODE, "--init-node n", &[], Some(bad.path())).expect_err("the quote is open");
    assert_eq!(error.to_string(), format!("{}:2: a quoted value is not closed", bad.path().display()));
}

#[test]
fn a_missing_feature_stops_the_start_by_name_and_is_a_warning_if_allowed() {
    let error = refused(&NODE, "--init-node n --enable-persistent-ips");
    assert_eq!(
        error,
        "--enable-persistent-ips asks for persistent IPs, which this version does not have \
         (--allow-unimplemented starts without it)"
    );
    let settings = node("--enable-persistent-ips --allow-unimplemented");
    assert_eq!(
        settings.warnings,
        ["--enable-persistent-ips asks for persistent IPs, which this version does not have; it is ignored"]
    );
    assert!(node("--enable-persistent-ips=false").warnings.is_empty(), "off asks for nothing");
}

#[test]
fn features_that_need_others_are_named_with_what_they_need() {
    for (line, want) in [
        (
            "--init-node n --enable-uplink --enable-multi-network",
            "the Uplink feature cannot be enabled without also enabling Network Segmentation",
        ),
        (
            "--init-node n --enable-uplink --enable-network-segmentation",
            "the Uplink feature cannot be enabled without also enabling Multi Network: give --enable-multi-network",
        ),
        (
            "--init-node n --enable-dynamic-udn-allocation --enable-multi-network",
            "dynamic UDN allocation cannot be enabled without also enabling Network Segmentation",
        ),
        (
            "--init-node n --enable-evpn --allow-unimplemented",
            "EVPN cannot be enabled without also enabling RouteAdvertisements",
        ),
    ] {
        assert_eq!(refused(&NODE, line), want, "{line}");
    }
}

#[test]
fn wrong_values_and_combinations_are_named() {
    for (line, want) in [
        ("--init-node n --mtu x", "--mtu must be a whole number, not \"x\""),
        ("--init-node n --nodeport=maybe", "--nodeport must be true or false, not \"maybe\""),
        ("--init-node n --gateway-vlanid 4096", "--gateway-vlanid must be between 0 and 4095, not 4096"),
        ("--init-node n --gateway-mode best", "--gateway-mode must be one of shared, local, not \"best\""),
        (
            "--init-node n --cluster-subnets 10.0.0.0/33",
            "--cluster-subnets must be a subnet in CIDR notation, not \"10.0.0.0/33\"",
        ),
        (
            "--init-node n --k8s-service-cidrs 10.96.0.0",
            "--k8s-service-cidrs must be a subnet in CIDR notation, not \"10.96.0.0\"",
        ),
        (
            "--init-node n --gateway-v4-join-subnet fd98::/64",
            "--gateway-v4-join-subnet must be an IPv4 subnet, not \"fd98::/64\"",
        ),
        (
            "--init-node n --metrics-bind-address here",
            "--metrics-bind-address must be IP:port or :port, not \"here\"",
        ),
        (
            "--init-node n --resync-period 10",
            "--resync-period must be a time such as 90s or 1m30s, not \"10\"",
        ),
        (
            "--init-node n --ovsdb-address /run/db.sock",
            "--ovsdb-address must be unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, not \"/run/db.sock\"",
        ),
        ("--init-node n --mtu 575", "--mtu must be between 576 and 65536, not 575"),
        (
            "--init-node n --ovnkube-node-mode card",
            "unexpected ovnkube-node-mode: card. supported modes: [full dpu dpu-host]",
        ),
        ("--init-node n --ovnkube-node-mode dpu", "node-agent runs in node mode full only, not dpu"),
        (
            "--init-node n --init-ovnkube-controller m",
            "--init-node n and --init-ovnkube-controller m must name the same node",
        ),
        (
            "--init-node n --init-cluster-manager m",
            "node-agent works for one node: --init-cluster-manager does not fit",
        ),
        ("", "node-agent needs the name of its node: give --init-node NAME"),
        (
            "--init-node n --dpu-node-lease-renew-interval -1",
            "invalid dpu-node-lease-renew-interval '-1'. must be >= 0",
        ),
        ("--init-node n --dpu-node-lease-duration 0", "invalid dpu-node-lease-duration '0'. must be > 0"),
        (
            "--init-node n --dpu-node-lease-duration 10",
            "invalid dpu-node-lease-duration '10'. must be > dpu-node-lease-renew-interval '10'",
        ),
        (
            "--init-node n --ovnkube-node-routing-table-id-start 999",
            "invalid routing-table-id-start '999'. must be >= 1000",
        ),
        (
            "--init-node n --ovnkube-node-routing-table-id-start 2147483648",
            "invalid routing-table-id-start '2147483648'. must be <= 2147483647",
        ),
        (
            "--init-node n --k8s-service-cidrs 10.128.0.0/16",
            "service subnet \"10.128.0.0/16\" overlaps cluster subnet \"10.128.0.0/14\"",
        ),
        (
            "--init-node n --k8s-service-cidrs 10.96.0.0/16,10.97.0.0/16",
            "--k8s-service-cidrs must be one subnet, or one of each family",
        ),
        (
            "--init-node n --k8s-apiserver https://a",
            "the API server https://a needs credentials: give --k8s-token-file, --k8s-token or --k8s-kubeconfig",
        ),
        ("--init-node n --k8s-apiserver a:1", "--k8s-apiserver must be an http or https URL, not \"a:1\""),
        (
            "--init-node n --cluster-manager-ha-election-renew-deadline 200",
            "leader election needs lease-duration > renew-deadline > retry-period > 0, not 137, 200, 26",
        ),
    ] {
        assert_eq!(refused(&NODE, line), want, "{line}");
    }
    assert_eq!(
        refused(&MANAGER, "--init-node n"),
        "cluster-manager works for the cluster: --init-node and --init-ovnkube-controller do not fit"
    );
    assert_eq!(refused(&MANAGER, ""), "cluster-manager needs an identity: give --init-cluster-manager ID");
}

#[test]
fn all_problems_are_reported_at_once() {
    let error = refused(&NODE, "--init-node n --mtu x --encap-port y");
    assert_eq!(error.lines().count(), 2, "{error}");
}

#[test]
fn a_command_line_that_cannot_be_read_is_one_sentence() {
    let error = refused(&NODE, "--init-node n --enable-everything");
    assert_eq!(error, "unexpected argument '--enable-everything' found");
    assert!(matches!(load(&NODE, "--init-node n extra"), Err(SettingsError::Usage(_))));
    assert!(matches!(load(&NODE, "--mtu"), Err(SettingsError::Usage(_))));
    let Err(SettingsError::Shown(help)) = load(&NODE, "--help") else { panic!("help is shown") };
    assert!(help.contains("--enable-uplink") && help.contains("(not in this version)"));
}

#[test]
fn the_node_mode_of_a_split_agent_is_its_own_and_only_there_a_card_can_be_simulated() {
    let host = load(&HOST, "--init-node n --simulate-dpu").expect("valid");
    assert_eq!((host.node_mode, host.simulate_dpu), (NodeMode::DpuHost, true));
    let full = node("--simulate-dpu --ovnkube-node-mode full");
    assert_eq!((full.node_mode, full.simulate_dpu), (NodeMode::Full, false));
}

#[test]
fn the_way_to_the_api_server_with_the_higher_rank_wins() {
    let kube = |line: &str, env: &[(&str, &str)]| {
        load_with(&NODE, &format!("--init-node n {line}"), env, None).expect("valid").kube
    };
    let kubeconfig = |path: &str| KubeAccess::Kubeconfig(path.into());
    assert_eq!(kube("", &[("KUBECONFIG", "/k")]), kubeconfig("/k"));
    assert_eq!(kube("--k8s-kubeconfig /f", &[("KUBECONFIG", "/k")]), kubeconfig("/f"));
    assert_eq!(kube("--k8s-kubeconfig /f --k8s-apiserver http://a", &[]), kubeconfig("/f"));
    let plain = KubeAccess::Server { url: "http://a".to_owned(), token: None, ca: None };
    assert_eq!(kube("--k8s-apiserver http://a", &[("KUBECONFIG", "/k")]), plain);
    let KubeAccess::Server { token, .. } =
        kube("--k8s-apiserver https://a --k8s-token t --k8s-token-file /t", &[])
    else {
        panic!("a server");
    };
    assert_eq!(token, Some(TokenSource::File("/t".into())));
}

#[test]
fn networks_without_multi_network_start_off_with_a_warning() {
    let settings = node("--enable-network-segmentation");
    assert!(!settings.features.user_defined_networks());
    assert_eq!(settings.warnings, ["User-defined networks stay off: they need --enable-multi-network too"]);
}

#[test]
fn secrets_are_never_shown() {
    let settings = node("--k8s-apiserver https://a --k8s-token geheim");
    let shown = format!("{settings:?} {:?}", settings.effective().collect::<Vec<_>>());
    assert!(!shown.contains("geheim"), "{shown}");
    assert!(shown.contains("(hidden)"));
}

#[test]
fn the_database_socket_follows_the_run_folder_of_open_vswitch() {
    assert_eq!(node("--ovs-run-dir /x/").ovsdb_address, "unix:/x/db.sock");
    assert_eq!(node("--ovs-run-dir /x --ovsdb-address tcp:[::1]:6640").ovsdb_address, "tcp:[::1]:6640");
}

#[test]
fn the_kubelets_cgroup_is_cleaned_checked_in_every_mode_and_the_flag_wins_over_the_file() {
    let path = |settings: Settings| settings.kubelet_cgroup_path.map(|path| path.to_string());
    assert_eq!(path(node("")), None);
    assert_eq!(path(node("--kubelet-cgroup-path=")), None);
    assert_eq!(
        path(node("--kubelet-cgroup-path //podruntime//kubelet/")).as_deref(),
        Some("podruntime/kubelet")
    );
    let file = file("[OVNKubeNode]\nkubelet-cgroup-path = /podruntime/kubelet\n");
    let of = |line: &str| path(load_with(&NODE, line, &[], Some(file.path())).expect("valid"));
    assert_eq!(of("--init-node n").as_deref(), Some("podruntime/kubelet"));
    assert_eq!(of("--init-node n --kubelet-cgroup-path a").as_deref(), Some("a"));
    // Segmentation is off in both.
    assert_eq!(
        refused(&NODE, "--init-node n --kubelet-cgroup-path ../../etc"),
        "kubelet cgroup path \"../../etc\" must not contain \"..\" elements"
    );
    assert_eq!(
        refused(&MANAGER, "--init-cluster-manager m --kubelet-cgroup-path /"),
        "kubelet cgroup path \"/\" must not be the cgroup root"
    );
}
