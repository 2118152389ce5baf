//! The project's own manifests, as an administrator would apply them.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The namespace of Causeway's own objects, where the lease of the cluster manager's replicas is.
pub const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: ovn-kubernetes}}\n";

/// The project's `deploy/`.
#[must_use]
pub fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// The definition of NetworkAttachmentDefinitions. It belongs to the Network Plumbing Working Group, and clusters have it
/// from there, with Multus.
const ATTACHMENTS: &str = include_str!("../conformance/crd/network-attachment-definition.yaml");

/// YAML of an Uplink with these entries: a nodeSelector in YAML, and the interface on the nodes that it selects.
#[must_use]
pub fn uplink(name: &str, entries: &[(&str, &str)]) -> String {
    let head = "apiVersion: k8s.ovn.org/v1alpha1\nkind: Uplink\nmetadata:\n  name: ";
    let mut yaml = format!("{head}{name}\nspec:\n  nodeConfigs:\n");
    for (selector, interface) in entries {
        yaml.push_str("  - type: OVSBridge\n    nodeSelector: ");
        yaml.push_str(selector);
        yaml.push_str("\n    hostInterfaceName: ");
        yaml.push_str(interface);
        yaml.push('\n');
    }
    yaml
}

/// Every YAML file of a folder of `deploy/`, joined, in name order; for the definitions, with the one that clusters have
/// from elsewhere.
///
/// # Errors
/// The folder cannot be read, or holds none.
pub fn folder(name: &str) -> anyhow::Result<String> {
    let folder = deploy().join(name);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<_> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    anyhow::ensure!(!paths.is_empty(), "{} holds no YAML", folder.display());
    let mut all = String::new();
    for path in paths {
        all.push_str("---\n");
        all.push_str(&std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?);
    }
    if name == "crds" {
        all.push_str("---\n");
        all.push_str(ATTACHMENTS);
    }
    Ok(all)
}
