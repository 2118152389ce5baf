//! Networks that are connected with others, where networks are only on nodes that need them.

use anyhow::ensure;
use causeway_rig::{Level, Suite};
use causeway_tests::control::path_of;
use serde_json::{Value, json};

use crate::objects::{cudn, layer3, node, pod, tenant};
use crate::world::{DYNAMIC, World};

pub(crate) fn add(suite: Suite) -> Suite {
    suite.test(
        Level::Api,
        "a_connected_network_is_where_the_other_is_needed_and_follows_what_connects_them",
        follows,
    )
}

/// The definition, as far as a ClusterNetworkConnect is looked at here.
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusternetworkconnects.k8s.ovn.org}
spec:
  group: k8s.ovn.org
  scope: Cluster
  names: {kind: ClusterNetworkConnect, listKind: ClusterNetworkConnectList, plural: clusternetworkconnects}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// A network of one team, with a label that connections select.
fn network(name: &str, team: &str, circle: &str) -> Value {
    let mut network = cudn(name, ("team", team), &layer3("Primary", "10.20.0.0/16", 24));
    if let Some(metadata) = network.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), json!({"circle": circle}));
    }
    network
}

fn connect(circle: &str) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": circle}, "spec": {
        "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}], "connectivity": ["PodNetwork"],
        "networkSelectors": [{
            "networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"circle": circle}}},
        }],
    }})
}

async fn follows() -> anyhow::Result<()> {
    let grace = "--udn-deletion-grace-period=0s";
    let mut world = World::prepare(&[DYNAMIC, "--enable-network-connect", grace]).await?;
    world.rig.apply(DEFINITION).await?;
    world.manage().await?;
    let (one, two, three) =
        (network("one", "a", "wide"), network("two", "b", "wide"), network("three", "c", "alone"));
    world
        .create_all(&[
            node("n1", &[]),
            node("n2", &[]),
            tenant("a", &[("team", "a")]),
            tenant("b", &[("team", "b")]),
            tenant("c", &[("team", "c")]),
            one.clone(),
            two.clone(),
            three.clone(),
            pod("a", "p", "n1", &[]),
        ])
        .await?;
    world.share(&["n1"], "cluster_udn_one", &["10.20.0.0/24"]).await?;
    world.rest().await?;
    ensure!(world.subnet("n1", "cluster_udn_two").await?.is_empty(), "nobody needs it");

    let wide = connect("wide");
    world.create(&wide).await?;
    world.share(&["n1"], "cluster_udn_two", &["10.20.0.0/24"]).await?;
    world.says(&two, "NodesSelected", "True/DynamicAllocation: 1 node(s) rendered with network").await?;
    world.restart_writes_nothing().await?;
    for (elsewhere, network) in [("n2", "cluster_udn_two"), ("n1", "cluster_udn_three")] {
        ensure!(world.subnet(elsewhere, network).await?.is_empty(), "{network} is on {elsewhere}");
    }

    let gone = async |network: &str| {
        let look = || async {
            match world.subnet("n1", network).await {
                Ok(subnet) if subnet.is_empty() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        };
        world.until(&format!("{network} to leave n1"), look).await
    };
    // What is selected changes, then what selects.
    world.merge(&path_of(&two)?, &json!({"metadata": {"labels": {"circle": "alone"}}})).await?;
    gone("cluster_udn_two").await?;
    world.merge(&path_of(&three)?, &json!({"metadata": {"labels": {"circle": "wide"}}})).await?;
    world.share(&["n1"], "cluster_udn_three", &["10.20.0.0/24"]).await?;
    world.merge(&path_of(&wide)?, &json!({"spec": connect("alone").get("spec")})).await?;
    gone("cluster_udn_three").await?;
    world.merge(&path_of(&wide)?, &json!({"spec": wide.get("spec")})).await?;
    world.share(&["n1"], "cluster_udn_three", &["10.20.0.0/24"]).await?;
    // The pod that made the other one needed goes, and so do both.
    world.delete("/api/v1/namespaces/a/pods/p").await?;
    gone("cluster_udn_one").await?;
    gone("cluster_udn_three").await?;
    world.create(&pod("a", "p", "n1", &[])).await?;
    world.share(&["n1"], "cluster_udn_three", &["10.20.0.0/24"]).await?;
    world.delete(&path_of(&wide)?).await?;
    gone("cluster_udn_three").await?;
    ensure!(!world.subnet("n1", "cluster_udn_one").await?.is_empty(), "its own pod needs it");
    world.restart_writes_nothing().await
}
