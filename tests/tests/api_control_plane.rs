//! The control plane of a rig: answers, stands beside others, leaves nothing.

use std::process::ExitCode;

use anyhow::ensure;
use causeway_rig::{Level, RigOptions, SharedRig, Suite};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::default());
    Suite::new()
        .test_in(&shared, Level::Api, "a_client_and_kubectl_see_the_same_api_server", |rig| async move {
            let namespaces = Api::<Namespace>::all(rig.client()).list(&ListParams::default()).await?;
            ensure!(namespaces.items.iter().any(|one| one.metadata.name.as_deref() == Some("kube-system")));
            let printed = rig.kubectl(["get", "namespaces", "-o", "name"]).await?;
            ensure!(printed.contains("namespace/kube-system"), "kubectl printed: {printed}");
            Ok(())
        })
        .run()
}
