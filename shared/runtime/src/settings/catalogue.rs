//! Every option Causeway knows, upstream's and its own: one flat table.
//!
//! Names, sections, keys and defaults of upstream options are upstream's, so that a command line or file written
//! for it is understood. Source: `go-controller/pkg/config/config.go` @ 8871cd9c and 005afd15.
//! Options whose status is [`Status::Accepted`] are read and checked, and have no behaviour in this version.

use super::value::Kind;

/// One option, from which command-line arguments, file keys, environment variables and documentation are made.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// The command-line name without dashes.
    pub name: &'static str,
    /// Older names that mean the same.
    pub aliases: &'static [&'static str],
    /// Where it stands in a file: sections and keys, all meaning the same. Both are case-insensitive.
    pub keys: &'static [(&'static str, &'static str)],
    /// An environment variable beside `CAUSEWAY_<NAME>`, which every option has.
    pub env: Option<&'static str>,
    /// What values it takes.
    pub kind: Kind,
    /// The value without any setting; empty means unset.
    pub default: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// How far this version goes with it.
    pub status: Status,
}

/// How far this version goes with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It does what it says.
    Implemented,
    /// It is checked, and nothing here depends on it yet.
    Accepted,
    /// It asks for this feature, which this version does not have: setting it stops the start.
    Unimplemented(&'static str),
}

impl OptionSpec {
    const fn at(mut self, keys: &'static [(&'static str, &'static str)]) -> Self {
        self.keys = keys;
        self
    }

    const fn default(mut self, value: &'static str) -> Self {
        self.default = value;
        self
    }

    const fn env(mut self, name: &'static str) -> Self {
        self.env = Some(name);
        self
    }

    const fn alias(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    const fn accepted(mut self) -> Self {
        self.status = Status::Accepted;
        self
    }

    const fn lacking(mut self, feature: &'static str) -> Self {
        self.status = Status::Unimplemented(feature);
        self
    }

    /// The environment variable that every option has.
    #[must_use]
    pub fn own_env(&self) -> String {
        format!("CAUSEWAY_{}", self.name.replace('-', "_").to_uppercase())
    }
}

const fn option(name: &'static str, kind: Kind, help: &'static str) -> OptionSpec {
    let status = Status::Implemented;
    OptionSpec { name, aliases: &[], keys: &[], env: None, kind, default: "", help, status }
}

/// All options, grouped as upstream's file sections are.
pub const CATALOGUE: &[OptionSpec] = &[
    // Identity and files
    option("init-cluster-manager", Kind::Text, "run as cluster manager with this identity"),
    option("init-node", Kind::Text, "run for the node of this name")
        .at(&[("causeway", "node")])
        .env("K8S_NODE"),
    option("init-ovnkube-controller", Kind::Text, "run the OVN side for the node of this name"),
    option("cleanup-node", Kind::Text, "remove what a node agent left on the node of this name")
        .lacking("node cleanup"),
    option(
        "config-file",
        Kind::Text,
        "file to read settings from (default: /etc/openvswitch/ovn_k8s.conf, if present)",
    ),
    option("pidfile", Kind::Text, "file to hold the process id").accepted(),
    // [default]
    option("mtu", Kind::Number, "MTU of overlay networks").at(&[("default", "mtu")]).default("1400"),
    option("routable-mtu", Kind::Number, "largest MTU that nodes can route, during an MTU migration")
        .at(&[("default", "routable-mtu")])
        .accepted(),
    option("conntrack-zone", Kind::Number, "first conntrack zone of the gateway flows")
        .at(&[("default", "conntrack-zone")])
        .default("64000")
        .accepted(),
    option("encap-type", Kind::Text, "tunnel protocol between nodes")
        .at(&[("default", "encap-type")])
        .default("geneve"),
    option("encap-ip", Kind::Text, "tunnel addresses of the node, comma separated")
        .at(&[("default", "encap-ip")]),
    option("encap-port", Kind::Number, "UDP port of tunnels")
        .at(&[("default", "encap-port")])
        .default("6081"),
    option("inactivity-probe", Kind::Number, "idle time in ms before ovn-controller probes its connection")
        .at(&[("default", "inactivity-probe")]),
    option("openflow-probe", Kind::Number, "idle time in s before ovn-controller probes OpenFlow")
        .at(&[("default", "openflow-probe")]),
    option("ofctrl-wait-before-clear", Kind::Number, "time in ms ovn-controller keeps old flows at start")
        .at(&[("default", "ofctrl-wait-before-clear")]),
    option("monitor-all", Kind::Flag, "let ovn-controller monitor the whole Southbound database")
        .at(&[("default", "monitor-all")])
        .default("true"),
    option("db-txn-timeout", Kind::Duration, "deadline of database transactions")
        .at(&[("default", "db-txn-timeout")])
        .accepted(),
    option("enable-lflow-cache", Kind::Flag, "logical flow cache of ovn-controller")
        .at(&[("default", "enable-lflow-cache")])
        .default("true"),
    option("lflow-cache-limit", Kind::Number, "entries of that cache")
        .at(&[("default", "lflow-cache-limit")]),
    option("lflow-cache-limit-kb", Kind::Number, "size of that cache in KB")
        .at(&[("default", "lflow-cache-limit-kb")]),
    option(
        "cluster-subnets",
        Kind::ClusterSubnets,
        "pod subnets of the cluster, as CIDR/host-prefix-length, comma separated",
    )
    .at(&[("default", "cluster-subnets")])
    .alias(&["cluster-subnet"])
    .default("10.128.0.0/14/23"),
    option("enable-udp-aggregation", Kind::Flag, "aggregate UDP packets of pods")
        .at(&[("default", "enable-udp-aggregation")])
        .accepted(),
    option("zone", Kind::Text, "OVN zone of this node")
        .at(&[("default", "zone")])
        .default("global")
        .accepted(),
    option(
        "udn-allowed-default-services",
        Kind::Text,
        "Services of the default network that primary user-defined networks reach",
    )
    .at(&[("default", "udn-allowed-default-services")])
    .default("default/kubernetes,kube-system/kube-dns"),
    option("transport", Kind::Text, "transport of the default network")
        .at(&[("default", "transport")])
        .lacking("transports other than Geneve for the default network"),
    option("cluster-default-nad", Kind::Text, "NetworkAttachmentDefinition of the default network")
        .at(&[("default", "cluster-default-nad")])
        .lacking("a NetworkAttachmentDefinition for the default network"),
    option("unprivileged-mode", Kind::Flag, "leave interface set-up to the CNI plugin")
        .lacking("unprivileged mode"),
    option("enable-multicast", Kind::Flag, "multicast between pods of a namespace").lacking("multicast"),
    // [logging]
    option("loglevel", Kind::Number, "log verbosity: up to 4 is info, from 5 debug, from 8 trace")
        .at(&[("logging", "loglevel")])
        .default("4"),
    option("log-format", Kind::Choice(&["text", "json"]), "form of log lines")
        .at(&[("causeway", "log-format")])
        .default("text"),
    option("log-filter", Kind::Text, "log levels by module, as in info,kube=warn; wins over loglevel")
        .at(&[("causeway", "log-filter")])
        .env("RUST_LOG"),
    option("logfile", Kind::Text, "file to log to")
        .at(&[("logging", "logfile")])
        .lacking("log files (logs go to stderr)"),
    option("cnilogfile", Kind::Text, "log file of the CNI plugin")
        .at(&[("logging", "cnilogfile")])
        .accepted(),
    option("libovsdblogfile", Kind::Text, "log file of the OVSDB client")
        .at(&[("logging", "libovsdblogfile")])
        .accepted(),
    option("logfile-maxsize", Kind::Number, "size of a log file in MB")
        .at(&[("logging", "logfile-maxsize")])
        .accepted(),
    option("logfile-maxbackups", Kind::Number, "log files to keep")
        .at(&[("logging", "logfile-maxbackups")])
        .accepted(),
    option("logfile-maxage", Kind::Number, "days to keep log files")
        .at(&[("logging", "logfile-maxage")])
        .accepted(),
    option("acl-logging-rate-limit", Kind::Number, "ACL log messages per second")
        .at(&[("logging", "acl-logging-rate-limit")])
        .default("20"),
    // [monitoring], [ipfix], [cni]
    option("netflow-targets", Kind::Text, "NetFlow collectors")
        .at(&[("monitoring", "netflow-targets")])
        .lacking("NetFlow"),
    option("sflow-targets", Kind::Text, "sFlow collectors")
        .at(&[("monitoring", "sflow-targets")])
        .lacking("sFlow"),
    option("ipfix-targets", Kind::Text, "IPFIX collectors")
        .at(&[("monitoring", "ipfix-targets")])
        .lacking("IPFIX"),
    option("ipfix-sampling", Kind::Number, "one packet of this many is sampled")
        .at(&[("ipfix", "sampling")])
        .accepted(),
    option("ipfix-cache-max-flows", Kind::Number, "flow records cached")
        .at(&[("ipfix", "cache-max-flows")])
        .accepted(),
    option("ipfix-cache-active-timeout", Kind::Number, "seconds a flow record is cached")
        .at(&[("ipfix", "cache-active-timeout")])
        .accepted(),
    option("cni-conf-dir", Kind::Text, "folder of CNI configuration")
        .at(&[("cni", "conf-dir")])
        .default("/etc/cni/net.d")
        .accepted(),
    option("cni-plugin", Kind::Text, "name of the CNI plugin")
        .at(&[("cni", "plugin")])
        .default("ovn-k8s-cni-overlay")
        .accepted(),
    // [kubernetes]
    option("k8s-kubeconfig", Kind::Text, "kubeconfig of the API server")
        .at(&[("kubernetes", "kubeconfig")])
        .env("KUBECONFIG"),
    option("k8s-apiserver", Kind::Text, "URL of the API server")
        .at(&[("kubernetes", "apiserver")])
        .env("K8S_APISERVER"),
    option("k8s-token", Kind::Secret, "token for the API server")
        .at(&[("kubernetes", "token")])
        .env("K8S_TOKEN"),
    option(
        "k8s-token-file",
        Kind::Text,
        "file with the token, read again when it changes; wins over k8s-token",
    )
    .at(&[("kubernetes", "tokenfile")])
    .env("K8S_TOKEN_FILE"),
    option("k8s-cacert", Kind::Text, "file with the CA certificate of the API server")
        .at(&[("kubernetes", "cacert")])
        .env("K8S_CACERT"),
    option("bootstrap-kubeconfig", Kind::Text, "kubeconfig to request node certificates with")
        .at(&[("kubernetes", "bootstrap-kubeconfig")])
        .lacking("node certificates requested at start"),
    option("cert-dir", Kind::Text, "folder of node certificates")
        .at(&[("kubernetes", "cert-dir")])
        .lacking("node certificates requested at start"),
    option("cert-duration", Kind::Duration, "lifetime of requested certificates")
        .at(&[("kubernetes", "cert-duration")])
        .accepted(),
    option("k8s-service-cidrs", Kind::Cidrs, "subnets of cluster Services, comma separated")
        .at(&[("kubernetes", "service-cidrs"), ("kubernetes", "service-cidr")])
        .alias(&["k8s-service-cidr", "service-cluster-ip-range"])
        .default("172.16.1.0/24"),
    option("ovn-config-namespace", Kind::Text, "namespace of the network stack")
        .at(&[("kubernetes", "ovn-config-namespace")])
        .default("ovn-kubernetes"),
    option("ovn-empty-lb-events", Kind::Flag, "wake idled Services")
        .at(&[("kubernetes", "ovn-empty-lb-events")])
        .lacking("wake-up of idled Services"),
    option("no-hostsubnet-nodes", Kind::Text, "label selector of nodes without a subnet of their own")
        .at(&[("kubernetes", "no-hostsubnet-nodes")]),
    option("host-network-namespace", Kind::Text, "namespace that stands for host-network traffic")
        .at(&[("kubernetes", "host-network-namespace")])
        .env("OVN_HOST_NETWORK_NAMESPACE")
        .accepted(),
    option("disable-requestedchassis", Kind::Flag, "do not bind ports to chassis")
        .at(&[("kubernetes", "disable-requestedchassis")])
        .accepted(),
    option("platform-type", Kind::Text, "cloud the cluster runs on")
        .at(&[("kubernetes", "platform-type")])
        .accepted(),
    option("healthz-bind-address", Kind::SocketAddress, "address of the node proxy health server")
        .at(&[("kubernetes", "healthz-bind-address")])
        .lacking("the node proxy health server"),
    option("dns-service-namespace", Kind::Text, "namespace of the DNS Service")
        .at(&[("kubernetes", "dns-service-namespace")])
        .default("kube-system")
        .accepted(),
    option("dns-service-name", Kind::Text, "name of the DNS Service")
        .at(&[("kubernetes", "dns-service-name")])
        .default("kube-dns")
        .accepted(),
    option("pod-ip", Kind::Text, "unused").accepted(),
    // [metrics]
    option(
        "metrics-bind-address",
        Kind::SocketAddress,
        "address of /metrics, /healthz and /readyz (default: not served)",
    )
    .at(&[("metrics", "bind-address"), ("kubernetes", "metrics-bind-address")]),
    option("ovn-metrics-bind-address", Kind::SocketAddress, "address of OVN's metrics")
        .at(&[("metrics", "ovn-metrics-bind-address"), ("kubernetes", "ovn-metrics-bind-address")])
        .accepted(),
    option("export-ovs-metrics", Kind::Flag, "serve Open vSwitch metrics too")
        .at(&[("metrics", "export-ovs-metrics")])
        .accepted(),
    option("metrics-enable-pprof", Kind::Flag, "serve profiles on the metrics address")
        .at(&[("metrics", "enable-pprof"), ("kubernetes", "metrics-enable-pprof")])
        .accepted(),
    option("node-server-privkey", Kind::Text, "key of the metrics server")
        .at(&[("metrics", "node-server-privkey")])
        .lacking("metrics over TLS"),
    option("node-server-cert", Kind::Text, "certificate of the metrics server")
        .at(&[("metrics", "node-server-cert")])
        .lacking("metrics over TLS"),
    option("metrics-enable-config-duration", Kind::Flag, "measure how long configuration takes")
        .at(&[("metrics", "enable-config-duration")])
        .accepted(),
    option("metrics-enable-scale", Kind::Flag, "metrics about scale")
        .at(&[("metrics", "enable-scale-metrics")]),
    // [ovnkubernetesfeature]
    option("enable-multi-network", Kind::Flag, "networks beside the default one")
        .at(&[("ovnkubernetesfeature", "enable-multi-network")]),
    option("enable-network-segmentation", Kind::Flag, "user-defined networks")
        .at(&[("ovnkubernetesfeature", "enable-network-segmentation")]),
    option("enable-uplink", Kind::Flag, "Uplinks: ways out of a node beside the default gateway")
        .at(&[("ovnkubernetesfeature", "enable-uplink")]),
    option("enable-interconnect", Kind::Flag, "one OVN zone per node (always so in Causeway)")
        .at(&[("ovnkubernetesfeature", "enable-interconnect")])
        .accepted(),
    option("enable-preconfigured-udn-addresses", Kind::Flag, "workloads that bring their addresses")
        .at(&[("ovnkubernetesfeature", "enable-preconfigured-udn-addresses")])
        .lacking("preconfigured addresses in user-defined networks"),
    option("enable-persistent-ips", Kind::Flag, "addresses that outlive pods")
        .at(&[("ovnkubernetesfeature", "enable-persistent-ips")])
        .lacking("persistent IPs"),
    option("enable-multi-networkpolicy", Kind::Flag, "MultiNetworkPolicy objects")
        .at(&[("ovnkubernetesfeature", "enable-multi-networkpolicy")])
        .lacking("MultiNetworkPolicy"),
    option("enable-network-connect", Kind::Flag, "connections between networks")
        .at(&[("ovnkubernetesfeature", "enable-network-connect")])
        .lacking("connections between networks"),
    option("enable-route-advertisements", Kind::Flag, "RouteAdvertisements objects")
        .at(&[("ovnkubernetesfeature", "enable-route-advertisements")])
        .lacking("RouteAdvertisements"),
    option("enable-evpn", Kind::Flag, "EVPN transport")
        .at(&[("ovnkubernetesfeature", "enable-evpn")])
        .lacking("EVPN"),
    option(
        "advertised-udn-isolation-mode",
        Kind::Choice(&["strict", "loose"]),
        "isolation between advertised networks",
    )
    .at(&[("ovnkubernetesfeature", "advertised-udn-isolation-mode")])
    .default("strict")
    .accepted(),
    option("enable-dynamic-udn-allocation", Kind::Flag, "networks only on nodes that use them")
        .at(&[("ovnkubernetesfeature", "enable-dynamic-udn-allocation")]),
    option("udn-deletion-grace-period", Kind::Duration, "how long an unused network stays on a node")
        .at(&[("ovnkubernetesfeature", "udn-deletion-grace-period")])
        .default("120s"),
    option("enable-admin-network-policy", Kind::Flag, "AdminNetworkPolicy objects")
        .at(&[("ovnkubernetesfeature", "enable-admin-network-policy")])
        .lacking("AdminNetworkPolicy"),
    option("enable-egress-ip", Kind::Flag, "EgressIP objects")
        .at(&[("ovnkubernetesfeature", "enable-egress-ip")])
        .lacking("EgressIP"),
    option(
        "egressip-reachability-total-timeout",
        Kind::Number,
        "seconds until an egress node counts as unreachable",
    )
    .at(&[("ovnkubernetesfeature", "egressip-reachability-total-timeout")])
    .default("1")
    .accepted(),
    option("egressip-node-healthcheck-port", Kind::Number, "port of the egress node health check")
        .at(&[("ovnkubernetesfeature", "egressip-node-healthcheck-port")])
        .accepted(),
    option("enable-egress-firewall", Kind::Flag, "EgressFirewall objects")
        .at(&[("ovnkubernetesfeature", "enable-egress-firewall")])
        .lacking("EgressFirewall"),
    option("enable-egress-qos", Kind::Flag, "EgressQoS objects")
        .at(&[("ovnkubernetesfeature", "enable-egress-qos")])
        .lacking("EgressQoS"),
    option("enable-egress-service", Kind::Flag, "EgressService objects")
        .at(&[("ovnkubernetesfeature", "enable-egress-service")])
        .lacking("EgressService"),
    option("enable-stateless-netpol", Kind::Flag, "stateless network policies")
        .at(&[("ovnkubernetesfeature", "enable-stateless-netpol")])
        .lacking("stateless network policies"),
    option("enable-multi-external-gateway", Kind::Flag, "AdminPolicyBasedExternalRoute objects")
        .at(&[("ovnkubernetesfeature", "enable-multi-external-gateway")])
        .lacking("AdminPolicyBasedExternalRoute"),
    option("enable-dns-name-resolver", Kind::Flag, "DNSNameResolver objects")
        .at(&[("ovnkubernetesfeature", "enable-dns-name-resolver")])
        .lacking("DNSNameResolver"),
    option("enable-svc-template-support", Kind::Flag, "load balancer templates")
        .at(&[("ovnkubernetesfeature", "enable-svc-template-support")])
        .lacking("load balancer templates"),
    option("enable-observability", Kind::Flag, "OVN sampling")
        .at(&[("ovnkubernetesfeature", "enable-observability")])
        .lacking("OVN sampling"),
    option("enable-network-qos", Kind::Flag, "NetworkQoS objects")
        .at(&[("ovnkubernetesfeature", "enable-network-qos")])
        .lacking("NetworkQoS"),
    // [gateway]
    option(
        "gateway-mode",
        Kind::Choice(&["", "shared", "local"]),
        "how nodes reach the outside; empty: not at all",
    )
    .at(&[("gateway", "mode")]),
    option("gateway-interface", Kind::Text, "interface or bridge of the default gateway")
        .at(&[("gateway", "interface")]),
    option("gateway-accelerated-interface", Kind::Text, "VF or SF that carries gateway traffic")
        .at(&[("gateway", "gateway-accelerated-interface")]),
    option(
        "dpu-host-gateway-representor-interface",
        Kind::Text,
        "representor of the host's gateway interface",
    )
    .at(&[("gateway", "dpu-host-gateway-representor-interface")]),
    option("exgw-interface", Kind::Text, "interface for external gateway pods")
        .at(&[("gateway", "egw-interface")]),
    option("gateway-nexthop", Kind::Text, "next hop of the default gateway").at(&[("gateway", "next-hop")]),
    option("gateway-vlanid", Kind::Number, "VLAN of the default gateway").at(&[("gateway", "vlan-id")]),
    option("nodeport", Kind::Flag, "node ports of Services").at(&[("gateway", "nodeport")]),
    option("disable-snat-multiple-gws", Kind::Flag, "no SNAT with external gateway pods")
        .at(&[("gateway", "disable-snat-multiple-gws")])
        .accepted(),
    option("disable-forwarding", Kind::Flag, "no IP forwarding on managed interfaces")
        .at(&[("gateway", "disable-forwarding")])
        .accepted(),
    option("gateway-v4-join-subnet", Kind::Cidr4, "IPv4 join subnet")
        .at(&[("gateway", "v4-join-subnet")])
        .default("100.64.0.0/16"),
    option("gateway-v6-join-subnet", Kind::Cidr6, "IPv6 join subnet")
        .at(&[("gateway", "v6-join-subnet")])
        .default("fd98::/64"),
    option("gateway-v4-masquerade-subnet", Kind::Cidr4, "IPv4 masquerade subnet")
        .at(&[("gateway", "v4-masquerade-subnet")])
        .default("169.254.169.0/29"),
    option("gateway-v6-masquerade-subnet", Kind::Cidr6, "IPv6 masquerade subnet")
        .at(&[("gateway", "v6-masquerade-subnet")])
        .default("fd69::/125"),
    option("disable-pkt-mtu-check", Kind::Flag, "no flows that answer packets larger than the pod MTU")
        .at(&[("gateway", "disable-pkt-mtu-check")]),
    option("gateway-router-subnet", Kind::Cidr, "subnet of the gateway router's outer port, on DPUs")
        .at(&[("gateway", "router-subnet")]),
    option("single-node", Kind::Flag, "the cluster has one node")
        .at(&[("gateway", "single-node")])
        .accepted(),
    option("allow-no-uplink", Kind::Flag, "a gateway bridge without physical port")
        .at(&[("gateway", "allow-no-uplink")]),
    option("ephemeral-port-range", Kind::Text, "source ports of SNAT to node addresses")
        .at(&[("gateway", "ephemeral-port-range")]),
    // [ovnkubenode]
    option(
        "ovnkube-node-mode",
        Kind::Text,
        "part of a node's work: full, dpu or dpu-host (default: the program's own)",
    )
    .at(&[("ovnkubenode", "mode")])
    .env("OVNKUBE_NODE_MODE"),
    option("simulate-dpu", Kind::Flag, "the card is simulated by veth pairs")
        .at(&[("ovnkubenode", "simulate-dpu")]),
    option("ovnkube-node-mgmt-port-netdev", Kind::Text, "interface to use as management port")
        .at(&[("ovnkubenode", "mgmt-port-netdev")])
        .accepted(),
    option(
        "ovnkube-node-mgmt-port-dp-resource-name",
        Kind::Text,
        "device plugin resource to take management ports from",
    )
    .at(&[("ovnkubenode", "mgmt-port-dp-resource-name")])
    .accepted(),
    option(
        "ovnkube-node-routing-table-id-start",
        Kind::Number,
        "first routing table of user-defined networks",
    )
    .at(&[("ovnkubenode", "routing-table-id-start")])
    .default("1000"),
    option("dpu-node-lease-renew-interval", Kind::Number, "seconds between renewals of the card's lease")
        .at(&[("ovnkubenode", "dpu-node-lease-renew-interval")])
        .default("10"),
    option("dpu-node-lease-duration", Kind::Number, "seconds after which the card counts as gone")
        .at(&[("ovnkubenode", "dpu-node-lease-duration")])
        .default("40"),
    option(
        "kubelet-cgroup-path",
        Kind::Text,
        "cgroup of the kubelet, below the cgroup root (default: it is looked for)",
    )
    .at(&[("ovnkubenode", "kubelet-cgroup-path")]),
    option("disable-ovn-iface-id-ver", Kind::Flag, "unused").accepted(),
    // [clustermanager], [clustermgrha], [masterha]
    option("cluster-manager-v4-transit-subnet", Kind::Cidr4, "IPv4 transit subnet")
        .at(&[("clustermanager", "v4-transit-subnet")])
        .default("100.88.0.0/16"),
    option("cluster-manager-v6-transit-subnet", Kind::Cidr6, "IPv6 transit subnet")
        .at(&[("clustermanager", "v6-transit-subnet")])
        .default("fd97::/64"),
    option("cluster-manager-ha-election-lease-duration", Kind::Number, "seconds a leader's lease lasts")
        .at(&[("clustermgrha", "election-lease-duration")])
        .default("137"),
    option(
        "cluster-manager-ha-election-renew-deadline",
        Kind::Number,
        "seconds a leader tries to renew its lease",
    )
    .at(&[("clustermgrha", "election-renew-deadline")])
    .default("107"),
    option("cluster-manager-ha-election-retry-period", Kind::Number, "seconds between attempts to lead")
        .at(&[("clustermgrha", "election-retry-period")])
        .default("26"),
    // Spelled as Kubernetes' own components spell it; upstream always elects.
    option(
        "leader-elect",
        Kind::Flag,
        "write only while holding the lease that one of all replicas can hold",
    )
    .default("true"),
    option("ha-election-lease-duration", Kind::Number, "lease duration of older versions")
        .at(&[("masterha", "election-lease-duration")])
        .accepted(),
    option("ha-election-renew-deadline", Kind::Number, "renew deadline of older versions")
        .at(&[("masterha", "election-renew-deadline")])
        .accepted(),
    option("ha-election-retry-period", Kind::Number, "retry period of older versions")
        .at(&[("masterha", "election-retry-period")])
        .accepted(),
    // [no-overlay], [bgp-managed], [hybridoverlay]
    option("no-overlay-outbound-snat", Kind::Text, "SNAT of a network without overlay")
        .at(&[("no-overlay", "outbound-snat")])
        .lacking("networks without overlay"),
    option("no-overlay-routing", Kind::Text, "routing of a network without overlay")
        .at(&[("no-overlay", "routing")])
        .lacking("networks without overlay"),
    option("bgp-managed-as-number", Kind::Number, "AS number of managed BGP")
        .at(&[("bgp-managed", "as-number")])
        .default("64512")
        .accepted(),
    option("bgp-managed-topology", Kind::Text, "topology of managed BGP")
        .at(&[("bgp-managed", "topology")])
        .default("full-mesh")
        .accepted(),
    option("bgp-managed-frr-namespace", Kind::Text, "namespace of FRR")
        .at(&[("bgp-managed", "frr-namespace")])
        .accepted(),
    option("enable-hybrid-overlay", Kind::Flag, "hybrid overlay")
        .at(&[("hybridoverlay", "enabled")])
        .lacking("hybrid overlay"),
    option("hybrid-overlay-cluster-subnets", Kind::ClusterSubnets, "subnets of the hybrid overlay")
        .at(&[("hybridoverlay", "cluster-subnets")])
        .accepted(),
    option("hybrid-overlay-vxlan-port", Kind::Number, "VXLAN port of the hybrid overlay")
        .at(&[("hybridoverlay", "hybrid-overlay-vxlan-port")])
        .accepted(),
    // [ovnnorth], [ovnsouth], [ovspaths]
    option("nb-address", Kind::Text, "address of OVN Northbound").at(&[("ovnnorth", "address")]),
    option("nb-client-privkey", Kind::Text, "key for Northbound").at(&[("ovnnorth", "client-privkey")]),
    option("nb-client-cert", Kind::Text, "certificate for Northbound").at(&[("ovnnorth", "client-cert")]),
    option("nb-client-cacert", Kind::Text, "CA of Northbound").at(&[("ovnnorth", "client-cacert")]),
    option("nb-cert-common-name", Kind::Text, "name in Northbound's certificate")
        .at(&[("ovnnorth", "cert-common-name")])
        .accepted(),
    option("nb-raft-election-timer", Kind::Number, "election timer of Northbound")
        .at(&[("ovnnorth", "election-timer")])
        .accepted(),
    option("nb-run-dir", Kind::Text, "run folder of Northbound")
        .at(&[("ovnnorth", "run-dir")])
        .default("/var/run/ovn/"),
    option("nb-db-location", Kind::Text, "file of Northbound").at(&[("ovnnorth", "db-location")]).accepted(),
    option("sb-address", Kind::Text, "address of OVN Southbound").at(&[("ovnsouth", "address")]),
    option("sb-client-privkey", Kind::Text, "key for Southbound").at(&[("ovnsouth", "client-privkey")]),
    option("sb-client-cert", Kind::Text, "certificate for Southbound").at(&[("ovnsouth", "client-cert")]),
    option("sb-client-cacert", Kind::Text, "CA of Southbound").at(&[("ovnsouth", "client-cacert")]),
    option("sb-cert-common-name", Kind::Text, "name in Southbound's certificate")
        .at(&[("ovnsouth", "cert-common-name")])
        .accepted(),
    option("sb-raft-election-timer", Kind::Number, "election timer of Southbound")
        .at(&[("ovnsouth", "election-timer")])
        .accepted(),
    option("sb-run-dir", Kind::Text, "run folder of Southbound")
        .at(&[("ovnsouth", "run-dir")])
        .default("/var/run/ovn/"),
    option("sb-db-location", Kind::Text, "file of Southbound").at(&[("ovnsouth", "db-location")]).accepted(),
    option("ovs-run-dir", Kind::Text, "run folder of Open vSwitch; the database socket is db.sock in it")
        .at(&[("ovspaths", "run-dir")])
        .default("/run/openvswitch/"),
    // Causeway's own
    option(
        "ovsdb-address",
        Kind::Text,
        "Open vSwitch database: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT (default: from ovs-run-dir)",
    )
    .at(&[("causeway", "ovsdb-address")]),
    option(
        "introspect-socket",
        Kind::Text,
        "unix socket on which an agent tells causewayctl what it sees; empty for none",
    )
    .at(&[("causeway", "introspect-socket")])
    .default("/run/causeway/introspect.sock"),
    option("resync-period", Kind::Duration, "period of the slow look at everything; 0s for never")
        .at(&[("causeway", "resync-period")])
        .default("10m"),
    option(
        "allow-unimplemented",
        Kind::Flag,
        "start although a setting asks for a feature this version lacks",
    )
    .at(&[("causeway", "allow-unimplemented")]),
    option("allow-unknown-keys", Kind::Flag, "start although the file has keys that nobody knows"),
];

/// The option of a command-line name, alias included.
pub(super) fn by_flag(name: &str) -> Option<&'static OptionSpec> {
    CATALOGUE.iter().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

/// The option of a file key; section and key are compared without regard to case.
pub(super) fn by_key(section: &str, key: &str) -> Option<&'static OptionSpec> {
    let same =
        |known: &&(&str, &str)| known.0.eq_ignore_ascii_case(section) && known.1.eq_ignore_ascii_case(key);
    CATALOGUE.iter().find(|spec| spec.keys.iter().any(|known| same(&known)))
}
