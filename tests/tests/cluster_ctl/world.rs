//! The scenario that the tests share, and how they call the program.

use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use causeway_rig::{Node, Rig, Side};
use causeway_tests::access;
use causeway_tests::blue::{self, BlueWorld};
use causeway_tests::states::uplink_says;
use serde_json::Value;
use tokio::sync::Mutex;

/// The program as cargo built it.
const PROGRAM: &str = "causewayctl";

/// The kubeconfig of whoever looks for a fault, in every place.
pub(crate) const SUPPORTER: &str = "/root/supporter";

/// Rights of that person: what docs/causewayctl.md says the program reads, and no more.
const RIGHTS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: support}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: supporter, namespace: support}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: causeway-supporter}
rules:
- {apiGroups: [k8s.ovn.org], resources: [uplinks, uplinkstates], verbs: [list]}
- {apiGroups: [''], resources: [nodes, pods, events], verbs: [list]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: causeway-supporter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: causeway-supporter}
subjects:
- {kind: ServiceAccount, name: supporter, namespace: support}
";

/// The scenario; a test that fails ends it, and the next one gets a new one.
#[derive(Clone, Default)]
pub(crate) struct SharedWorld(Arc<Mutex<Option<Box<BlueWorld>>>>);

impl SharedWorld {
    /// Runs a test in the scenario and checks that it left nothing broken.
    pub(crate) async fn run(
        &self,
        test: impl AsyncFnOnce(&mut BlueWorld) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut slot = self.0.lock().await;
        let mut world = match slot.take() {
            Some(world) => world,
            None => Box::new(Box::pin(start()).await.context("starting the scenario")?),
        };
        let outcome = async {
            test(&mut world).await?;
            uplink_says(&world.client(), blue::UPLINK, "True/Ready").await.context("left broken")
        };
        if let Err(error) = outcome.await {
            return Err(anyhow!("{error:#}\n{}", world.rig.log_tails()));
        }
        *slot = Some(world);
        Ok(())
    }
}

async fn start() -> anyhow::Result<BlueWorld> {
    let mut world = BlueWorld::start().await?;
    world.start_causeway().await?;
    world.rig.apply(blue::UPLINK_YAML).await?;
    uplink_says(&world.client(), blue::UPLINK, "True/Ready").await?;
    let places = [&world.control, &world.pair.host, &world.pair.card, &world.node_b];
    let token = enrol(&world.rig, &places).await?;
    access::wait_roles(&world.rig, &token).await?;
    Ok(world)
}

/// Gives the supporter an account and its kubeconfig to places; returns the account's token.
pub(crate) async fn enrol(rig: &Rig, places: &[&Node]) -> anyhow::Result<String> {
    rig.apply(RIGHTS).await?;
    let token = rig.service_account_token("support", "supporter").await?;
    for place in places {
        place.write(SUPPORTER, rig.kubeconfig_of(&token, Side::Inside)?)?;
    }
    Ok(token)
}

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The JSON document that it printed.
    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("{self:?}"))
    }

    /// Fails unless it ended with this code.
    pub(crate) fn ended(self, code: i32) -> anyhow::Result<Self> {
        ensure!(self.code == code, "want exit code {code}: {self:?}");
        Ok(self)
    }
}

/// Runs the program in a node, as the supporter unless the arguments name another kubeconfig.
pub(crate) async fn ctl(node: &Node, arguments: &[&str]) -> anyhow::Result<Run> {
    let program = format!("{}/{PROGRAM}", causeway_rig::PROGRAMS);
    ensure!(node.path(&program).exists(), "{PROGRAM} is not there: build it first (cargo build)");
    let as_supporter: &[&str] =
        if arguments.contains(&"--kubeconfig") { &[] } else { &["--kubeconfig", SUPPORTER] };
    let output = node.output([program.as_str()].iter().chain(as_supporter).chain(arguments)).await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Run {
        code: output.status.code().context("ended by a signal")?,
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    })
}
