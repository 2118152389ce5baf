//! The Node object of a node without a kubelet, and the annotations that others would have written.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::node::Node;

/// Field manager of what the rig writes.
pub(crate) const MANAGER: &str = "causeway-rig";
/// Annotation with the addresses of the default gateway. Source: reference, Uplinks on the node, 12.3.
const GATEWAY_CONFIG: &str = "k8s.ovn.org/l3-gateway-config";
/// Annotation with the OVN chassis of the node. Source: as [`GATEWAY_CONFIG`].
const CHASSIS_ID: &str = "k8s.ovn.org/node-chassis-id";

/// What the default network would have written about a node. The defaults are those of the reference's fixture.
#[derive(Debug, Clone)]
pub struct UplinkAnnotations {
    /// Name of the default gateway bridge.
    pub bridge: String,
    /// OVN chassis of the node.
    pub chassis: String,
    /// MAC address of the default gateway bridge.
    pub mac: String,
    /// Addresses of the default gateway bridge, with prefix lengths.
    pub addresses: Vec<String>,
    /// Next hops of the default gateway bridge.
    pub next_hops: Vec<String>,
}

impl Default for UplinkAnnotations {
    fn default() -> Self {
        Self {
            bridge: "breth0".to_owned(),
            chassis: "chassis-id".to_owned(),
            mac: "02:42:ac:12:00:01".to_owned(),
            addresses: vec!["192.0.2.2/24".to_owned()],
            next_hops: vec!["192.0.2.1".to_owned()],
        }
    }
}

impl UplinkAnnotations {
    /// The annotations for node `name`.
    #[must_use]
    pub fn render(&self, name: &str) -> BTreeMap<String, String> {
        let gateway = json!({"default": {
            "mode": "shared",
            "bridge-id": self.bridge,
            "interface-id": format!("{}_{name}", self.bridge),
            "mac-address": self.mac,
            "ip-addresses": self.addresses,
            "next-hops": self.next_hops,
            "node-port-enable": "true",
        }});
        let pairs = [(GATEWAY_CONFIG, gateway.to_string()), (CHASSIS_ID, self.chassis.clone())];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl Node {
    /// Makes the Node object and reports it Ready once, as nobody else will.
    pub(super) async fn register(
        &self,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        let api = self.objects();
        let object = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name(), "labels": with_hostname(labels, self.name()), "annotations": annotations},
        });
        let object: NodeObject = serde_json::from_value(object).context("the Node object")?;
        api.create(&PostParams::default(), &object).await.context("creating the Node object")?;
        let addresses = [
            ("InternalIP", self.v4().to_string()),
            ("InternalIP", self.v6().to_string()),
            ("Hostname", self.name().to_owned()),
        ];
        let addresses = addresses.map(|(kind, address)| json!({"type": kind, "address": address}));
        let now = k8s_openapi::jiff::Timestamp::now().to_string();
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "RigReady", "message": "the rig runs no kubelet here",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        let status = json!({"status": {"addresses": addresses, "conditions": [ready]}});
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        api.patch_status(self.name(), &parameters, &Patch::Strategic(status))
            .await
            .context("writing the status of the Node object")?;
        Ok(())
    }

    /// Adds labels and annotations to the Node object, whoever made it.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn describe(
        &self,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
        self.patch_object(patch).await
    }

    /// Sets a label of the Node object, or removes it.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_label(&self, key: &str, value: Option<&str>) -> anyhow::Result<()> {
        self.patch_object(json!({"metadata": {"labels": {key: value}}})).await
    }

    /// Sets an annotation of the Node object, or removes it.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_annotation(&self, key: &str, value: Option<&str>) -> anyhow::Result<()> {
        self.patch_object(json!({"metadata": {"annotations": {key: value}}})).await
    }

    async fn patch_object(&self, patch: serde_json::Value) -> anyhow::Result<()> {
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched = self.objects().patch(self.name(), &parameters, &Patch::Merge(patch)).await;
        patched.map(drop).with_context(|| format!("changing the Node object of {}", self.name()))
    }

    pub(super) fn objects(&self) -> Api<NodeObject> {
        Api::all(self.shared.client.0.clone())
    }
}

fn with_hostname(mut labels: BTreeMap<String, String>, name: &str) -> BTreeMap<String, String> {
    labels.entry("kubernetes.io/hostname".to_owned()).or_insert_with(|| name.to_owned());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotations_equal_the_fixture_of_the_reference() {
        let rendered = UplinkAnnotations::default().render("node-a");
        assert_eq!(rendered.get(CHASSIS_ID).map(String::as_str), Some("chassis-id"));
        let gateway: serde_json::Value = serde_json::from_str(&rendered[GATEWAY_CONFIG]).unwrap();
        let want = json!({"default": {
            "mode": "shared", "bridge-id": "breth0", "interface-id": "breth0_node-a",
            "mac-address": "02:42:ac:12:00:01", "ip-addresses": ["192.0.2.2/24"], "next-hops": ["192.0.2.1"],
            "node-port-enable": "true",
        }});
        assert_eq!(gateway, want);
    }
}
