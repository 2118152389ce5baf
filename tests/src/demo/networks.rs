//! The demo's act about tenant networks: two tenants with the same subnet, and a network on the Uplink.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::time::Instant;

use anyhow::{Context, ensure};
use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::udn::UserDefinedNetwork;
use kube::ResourceExt;

use super::telling::Telling;
use crate::blue::BlueWorld;
use crate::observer::Observer;
use crate::states::{message, verdict};

/// What two tenants apply.
const TENANTS: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: v1
kind: Namespace
metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: red}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16, hostSubnet: 24}]}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: green}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16, hostSubnet: 24}]}}
"#;

/// What an administrator applies.
const PROD: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {stage: prod, k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: prod}
spec:
  namespaceSelector: {matchLabels: {stage: prod}}
  uplinks: [tenant-blue]
  network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.30.0.0/16, hostSubnet: 24}]}}
"#;

/// Tells the act.
///
/// # Errors
/// Something in it is not true.
pub async fn tell(telling: &mut Telling, world: &BlueWorld) -> anyhow::Result<()> {
    telling.chapter("Two tenants make networks, with the same addresses");
    telling.block(TENANTS);
    let client = world.client();
    let mut udns = Observer::<UserDefinedNetwork>::start(&client).await?;
    apply(telling, world, "tenant", "tenants.yaml", TENANTS).await?;
    // When the API server had each network, by namespace; taken out when it is there.
    let mut begun: BTreeMap<String, Instant> = BTreeMap::new();
    let mut there: BTreeSet<String> = BTreeSet::new();
    while there.len() < 2 {
        let seen = udns.until("both networks", |seen| !seen.deleted).await?;
        let namespace = seen.object.namespace().unwrap_or_default();
        let since = *begun.entry(namespace.clone()).or_insert(seen.at);
        let conditions = seen.object.conditions();
        let holds = |type_| verdict(conditions, type_).starts_with("True");
        if holds("NetworkCreated") && holds("NetworkAllocationSucceeded") && there.insert(namespace.clone()) {
            let created = message(conditions, "NetworkCreated");
            let what = format!("UserDefinedNetwork {namespace}/net is there");
            telling.outcome(true, &what, created, seen.at - since);
        }
    }
    telling.line("");
    show(telling, world, &["get", "udn", "-A", "-o", "wide"]).await?;
    let subnets = "jsonpath={.metadata.annotations.k8s\\.ovn\\.org/node-subnets}";
    let given = show(telling, world, &["get", "node", "node-b", "-o", subnets]).await?;
    ensure!(given.contains("red_net") && given.contains("green_net"), "node-b has {given}");
    telling.line("They do not meet: each has an id and subnets of its own.");

    telling.chapter("A network of many namespaces, on the Uplink");
    telling.block(PROD);
    let mut cudns = Observer::<ClusterUserDefinedNetwork>::start(&client).await?;
    apply(telling, world, "admin", "prod.yaml", PROD).await?;
    let start = cudns.until("the network", |seen| seen.is("prod")).await?.at;
    let seen = cudns
        .until("its NetworkAttachmentDefinition", |seen| {
            verdict(seen.object.conditions(), "NetworkCreated").starts_with("True")
                && message(seen.object.conditions(), "NetworkCreated").contains("shop")
        })
        .await?;
    let created = message(seen.object.conditions(), "NetworkCreated");
    telling.outcome(true, "ClusterUserDefinedNetwork prod is there", created, seen.at - start);
    let told = |conditions: &[_]| verdict(conditions, "UplinksReady").starts_with("False");
    let object = if told(seen.object.conditions()) {
        seen.object
    } else {
        cudns.until("what it says of its Uplink", |seen| told(seen.object.conditions())).await?.object
    };
    telling.line(
        "Its Uplink is found on both nodes, and no gateway is made on them yet: the condition says so.",
    );
    telling.line(&format!("UplinksReady {}", verdict(object.conditions(), "UplinksReady")));
    telling.line(message(object.conditions(), "UplinksReady"));
    telling.line("");
    show(telling, world, &["get", "cudn", "-o", "wide"]).await?;
    show(telling, world, &["get", "net-attach-def", "-n", "shop", "-o", "jsonpath={.items[*].spec.config}"])
        .await?;
    Ok(())
}

async fn apply(
    telling: &Telling,
    world: &BlueWorld,
    who: &str,
    name: &str,
    yaml: &str,
) -> anyhow::Result<()> {
    let file = world.rig.folder().join(name);
    std::fs::write(&file, yaml).with_context(|| format!("writing {}", file.display()))?;
    telling.deed(who, &format!("kubectl apply -f {name}"));
    world.rig.kubectl([OsStr::new("apply"), OsStr::new("-f"), file.as_os_str()]).await?;
    Ok(())
}

async fn show(telling: &Telling, world: &BlueWorld, command: &[&str]) -> anyhow::Result<String> {
    telling.deed("admin", &format!("kubectl {}", command.join(" ")));
    let answer = world.rig.kubectl(command).await?;
    telling.block(&answer);
    Ok(answer)
}
