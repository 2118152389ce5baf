//! Transports of networks on a real API server: what they rest on comes, changes and goes, and the condition follows.

use std::time::Duration;

use anyhow::ensure;
use causeway_rig::{Rig, RigOptions};
use causeway_tests::{access, manifests};
use serde_json::Value;

use crate::Manager;

/// How long a busy machine may take for what usually takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);

const NAMESPACE: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: "", team: blue}}
"#;

const NO_OVERLAY: &str = r"
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: blue, labels: {tenant: blue}}
spec:
  namespaceSelector: {matchLabels: {team: blue}}
  network:
    topology: Layer3
    layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16, hostSubnet: 24}]}
    transport: NoOverlay
    noOverlay: {outboundSNAT: Enabled, routing: Unmanaged}
";

const ADVERTISEMENTS: &str = r"
apiVersion: k8s.ovn.org/v1
kind: RouteAdvertisements
metadata: {name: blue}
spec:
  networkSelectors:
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector: {networkSelector: {matchLabels: {tenant: blue}}}
  nodeSelector: {}
  frrConfigurationSelector: {}
  advertisements: [PodNetwork]
";

const EVPN: &str = r"
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: red}
spec:
  namespaceSelector: {matchLabels: {team: blue}}
  network:
    topology: Layer3
    layer3: {role: Primary, subnets: [{cidr: 10.30.0.0/16, hostSubnet: 24}]}
    transport: EVPN
    evpn: {vtep: evpn-vtep, ipVRF: {vni: 200}}
";

const VTEP: &str = r"
apiVersion: k8s.ovn.org/v1
kind: VTEP
metadata: {name: evpn-vtep}
spec: {cidrs: [100.70.0.0/24], mode: Unmanaged}
";

struct World {
    rig: Rig,
    manager: Manager,
}

impl World {
    async fn start(flags: &[&str]) -> anyhow::Result<Self> {
        let rig = Rig::start(RigOptions::bare()).await?;
        rig.apply(&manifests::folder("crds")?).await?;
        access::install(&rig).await?;
        let networks =
            ["--init-cluster-manager", "cm0", "--enable-multi-network", "--enable-network-segmentation"];
        let flags: Vec<String> = networks.iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        let manager = Manager::start(&rig, &flags).await?;
        rig.apply(NAMESPACE).await?;
        Ok(Self { rig, manager })
    }

    /// Waits until a condition of a ClusterUserDefinedNetwork has a status, a reason and a message.
    async fn says(&self, cudn: &str, type_: &str, want: &str) -> anyhow::Result<()> {
        self.condition("cudn", cudn, type_, want).await
    }

    async fn condition(&self, kind: &str, name: &str, type_: &str, want: &str) -> anyhow::Result<()> {
        let found = || async {
            let args = ["get", kind, name, "-o", "json"];
            let text = self.rig.kubectl(args).await.map_err(|error| format!("{error:#}"))?;
            let object: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            let condition = conditions.into_iter().flatten().find(|found| found["type"] == type_);
            let condition = condition.ok_or_else(|| format!("no condition {type_}"))?;
            let part = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
            let found = format!("{}/{}: {}", part("status"), part("reason"), part("message"));
            if found == want { Ok(()) } else { Err(found) }
        };
        self.rig.wait_for(&format!("{kind} {name} to say {want:?}"), DEADLINE, found).await
    }

    async fn accept(&self, kind: &str, name: &str, status: &str) -> anyhow::Result<()> {
        let patch = serde_json::json!({"status": {"conditions": [{"type": "Accepted", "status": status,
            "reason": "Tested", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let args = ["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch.to_string()];
        self.rig.kubectl(args).await?;
        Ok(())
    }
}

/// A RouteAdvertisements comes, is accepted, no longer names the network, names it again and goes.
pub(crate) async fn advertisements() -> anyhow::Result<()> {
    let world = World::start(&["--gateway-mode", "shared", "--enable-route-advertisements"]).await?;
    let missing = "False/NoOverlayRouteAdvertisementsIsMissing: No RouteAdvertisements CR is advertising the pod networks.";
    let accepted = "True/NoOverlayTransportAccepted: Transport has been configured as 'no-overlay'.";
    let says = async |want: &str| world.says("blue", "TransportAccepted", want).await;
    world.rig.apply(NO_OVERLAY).await?;
    says(missing).await?;
    world.rig.apply(ADVERTISEMENTS).await?;
    says("False/NoOverlayRouteAdvertisementsNotAccepted: RouteAdvertisements CR blue advertises the pod subnets, but its status is not accepted.").await?;
    world.accept("routeadvertisements", "blue", "True").await?;
    says(accepted).await?;
    world.rig.kubectl(["label", "cudn", "blue", "tenant=other", "--overwrite"]).await?;
    says(missing).await?;
    world.rig.kubectl(["label", "cudn", "blue", "tenant=blue", "--overwrite"]).await?;
    says(accepted).await?;
    let selector = r#"{"spec":{"networkSelectors":[{"networkSelectionType":"DefaultNetwork"}]}}"#;
    world.rig.kubectl(["patch", "routeadvertisements", "blue", "--type=merge", "-p", selector]).await?;
    says(missing).await?;
    world.rig.apply(ADVERTISEMENTS).await?;
    says(accepted).await?;
    world.rig.kubectl(["delete", "routeadvertisements", "blue"]).await?;
    says(missing).await?;

    for (series, value) in [
        (r#"cluster_user_defined_networks{role="Primary",topology="Layer3",transport="NoOverlay"}"#, 1),
        (
            r#"cluster_user_defined_network_condition{name="blue",condition="TransportAccepted",status="false"}"#,
            1,
        ),
        (r#"num_v4_host_subnets{network_name="cluster_udn_blue"}"#, 256),
    ] {
        let series = format!("ovnkube_clustermanager_{series}");
        world.manager.serves(&world.rig, &series, |found| found == value).await?;
    }
    Ok(())
}

/// A VTEP comes, is accepted once the node has its address, loses that again, and goes with the last network.
pub(crate) async fn vteps() -> anyhow::Result<()> {
    let flags = ["--gateway-mode", "local", "--enable-route-advertisements", "--enable-evpn"];
    let world = World::start(&flags).await?;
    world.rig.apply("{apiVersion: v1, kind: Node, metadata: {name: n1}}").await?;
    world.rig.apply(EVPN).await?;
    let not_found = "False/VTEPNotFound: Cannot create network: VTEP 'evpn-vtep' does not exist. Create the VTEP CR first or update the CUDN to reference an existing VTEP.";
    world.says("red", "NetworkCreated", not_found).await?;
    world.rig.apply(VTEP).await?;
    let not_accepted = "False/VTEPNotAccepted: Cannot create network: VTEP 'evpn-vtep' exists but is not accepted. The VTEP must be in Accepted status before the network can be created.";
    world.says("red", "NetworkCreated", not_accepted).await?;
    let lacking = "False/AllocationFailed: node n1 is missing the k8s.ovn.org/vteps annotation";
    world.condition("vtep", "evpn-vtep", "Accepted", lacking).await?;
    let address = r#"k8s.ovn.org/vteps={"evpn-vtep":{"ips":["100.70.0.1"]}}"#;
    world.rig.kubectl(["annotate", "node", "n1", address]).await?;
    let created = "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in following namespaces: [blue]";
    world.says("red", "NetworkCreated", created).await?;
    let missing =
        "False/EVPNRouteAdvertisementsIsMissing: No RouteAdvertisements CR is advertising the pod networks.";
    world.says("red", "TransportAccepted", missing).await?;
    let config = ["get", "net-attach-def", "-n", "blue", "red", "-o", "jsonpath={.spec.config}"];
    let config = world.rig.kubectl(config).await?;
    let evpn = r#""evpn":{"vtep":"evpn-vtep","ipVRF":{"vni":200,"vid":2}}"#;
    ensure!(config.contains(evpn), "{config}");
    world.rig.kubectl(["annotate", "node", "n1", "k8s.ovn.org/vteps-"]).await?;
    let lost = r#"False/VTEPNotAccepted: VTEP "evpn-vtep" exists but is not accepted."#;
    world.says("red", "TransportAccepted", lost).await?;
    world.says("red", "NetworkCreated", created).await?;

    world.rig.kubectl(["delete", "vtep", "evpn-vtep", "--wait=false"]).await?;
    let left =
        world.rig.kubectl(["get", "vtep", "evpn-vtep", "-o", "jsonpath={.metadata.finalizers}"]).await?;
    ensure!(left.contains("k8s.ovn.org/vtep-protection"), "a network rests on it: {left}");
    world.rig.kubectl(["delete", "cudn", "red"]).await?;
    let gone = || async {
        let vteps = world.rig.kubectl(["get", "vtep", "-o", "name"]).await;
        let vteps = vteps.map_err(|error| format!("{error:#}"))?;
        if vteps.trim().is_empty() { Ok(()) } else { Err(vteps) }
    };
    world.rig.wait_for("the VTEP to go", DEADLINE, gone).await
}
