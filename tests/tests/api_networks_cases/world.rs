//! An API server with a cluster manager that has its own account, and what people see there.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::Process;
use causeway_tests::control::{self, Control, SERVE_METRICS, path_of};
use serde_json::{Value, json};

/// How long a process may take to end when it is told to.
const ORDERLY: Duration = Duration::from_secs(10);
/// The flags of the recorded runs. No lease is needed, so that one that was stopped is followed at once.
const FLAGS: [&str; 10] = [
    "--init-cluster-manager=cm0",
    "--gateway-mode=shared",
    "--ovn-config-namespace=ovn-kubernetes",
    "--cluster-subnets=10.128.0.0/14/24",
    "--k8s-service-cidrs=10.96.0.0/16",
    "--enable-multi-network",
    "--enable-network-segmentation",
    "--enable-uplink",
    "--leader-elect=false",
    SERVE_METRICS,
];

/// Switches on that networks are only where pods need them.
pub(crate) const DYNAMIC: &str = "--enable-dynamic-udn-allocation";

pub(crate) struct World {
    control: Control,
    manager: Option<Process>,
    flags: Vec<String>,
}

/// What people do and see there.
impl Deref for World {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl World {
    /// One with a cluster manager.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same with more flags.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start_with(more: &[&str]) -> anyhow::Result<Self> {
        let mut world = Self::prepare(more).await?;
        world.manage().await?;
        Ok(world)
    }

    /// One whose cluster manager is not started yet.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn prepare(more: &[&str]) -> anyhow::Result<Self> {
        let control = Control::start(control::strict()).await?;
        let flags = FLAGS.iter().chain(more).map(ToString::to_string).collect();
        Ok(Self { control, manager: None, flags })
    }

    /// Starts the cluster manager.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) async fn manage(&mut self) -> anyhow::Result<()> {
        let flags: Vec<&str> =
            self.flags.iter().map(String::as_str).chain(["--allow-unimplemented"]).collect();
        self.manager = Some(self.control.manager("cluster-manager", &flags).await?);
        Ok(())
    }

    /// Ends the cluster manager, and starts one with other flags.
    ///
    /// # Errors
    /// It does not end, or does not start.
    pub(crate) async fn manage_without(&mut self, flag: &str) -> anyhow::Result<()> {
        self.stop().await?;
        self.flags.retain(|other| other != flag);
        self.manage().await?;
        self.rest().await
    }

    fn manager(&self) -> anyhow::Result<&Process> {
        self.manager.as_ref().context("the cluster manager was not started")
    }

    /// How many tasks the cluster manager has, without those that each have a connection.
    ///
    /// # Errors
    /// It does not say.
    pub(crate) async fn tasks(&self) -> anyhow::Result<i64> {
        let tasks = i64::try_from(self.sum("causeway_tasks").await?)?;
        ensure!(tasks > 0, "tasks are not counted");
        let folder = format!("/proc/{}/fd", self.manager()?.pid());
        let mut sockets = 0;
        for descriptor in std::fs::read_dir(&folder).with_context(|| folder.clone())? {
            // One that is closed meanwhile is none.
            let target = std::fs::read_link(descriptor?.path()).unwrap_or_default();
            sockets += i64::from(target.to_string_lossy().starts_with("socket:"));
        }
        Ok(tasks - sockets)
    }

    /// Tells the cluster manager to end.
    ///
    /// # Errors
    /// It does not, or not well.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let exit = self.manager()?.stop(ORDERLY).await?;
        ensure!(exit.code() == Some(0), "told to end, it ended with {exit}");
        Ok(())
    }

    /// Starts it again, and waits until it has looked at everything.
    ///
    /// # Errors
    /// It does not start, or does not come to rest.
    pub(crate) async fn go_on(&self) -> anyhow::Result<()> {
        self.manager()?.restart().await?;
        self.rest().await
    }

    /// Restarts the cluster manager and proves that it writes nothing.
    ///
    /// # Errors
    /// It writes.
    pub(crate) async fn restart_writes_nothing(&self) -> anyhow::Result<()> {
        // What it has not done yet it would do then.
        self.rest().await?;
        self.stop().await?;
        self.go_on().await?;
        let writes = self.lines("causeway_api_writes_total").await?;
        ensure!(writes.is_empty(), "it wrote after a restart: {writes:?}\n{}", self.rig.log_tails());
        Ok(())
    }

    /// Waits until each object was looked at and nothing is left to look at.
    ///
    /// # Errors
    /// That never comes.
    pub(crate) async fn rest(&self) -> anyhow::Result<()> {
        let mut counts = Vec::new();
        for (room, collections) in [
            (
                "network",
                &[
                    "/apis/k8s.ovn.org/v1/userdefinednetworks",
                    "/apis/k8s.ovn.org/v1/clusteruserdefinednetworks",
                ][..],
            ),
            ("nad", &["/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"]),
            ("node", &["/api/v1/nodes"]),
        ] {
            let mut count = 0;
            for collection in collections {
                count += self.list(collection).await?.len();
            }
            counts.push((room, count));
        }
        let counts = &counts;
        let look = || async move {
            for (room, keys) in counts {
                let passes = self.sum(&format!("causeway_reconcile_passes_total{{room=\"{room}\"")).await;
                let passes = passes.map_err(|error| format!("{error:#}"))?;
                if passes < *keys {
                    return Err(format!("{passes} passes over {keys} keys of {room}"));
                }
            }
            match self.sum("causeway_reconcile_unfinished").await {
                Ok(0) => Ok(()),
                depth => Err(format!("depth {depth:?}")),
            }
        };
        self.until("everything to be looked at", look).await
    }

    /// Changes something while all is quiet, and waits until a room has looked at it and all is quiet again.
    ///
    /// # Errors
    /// The change is refused, or nobody looks.
    pub(crate) async fn seen_to(
        &self,
        room: &str,
        change: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        self.rest().await?;
        let passes = format!("causeway_reconcile_passes_total{{room=\"{room}\"");
        let before = self.sum(&passes).await?;
        change.await?;
        let look = || async {
            match (self.sum(&passes).await, self.sum("causeway_reconcile_unfinished").await) {
                (Ok(after), Ok(0)) if after > before => Ok(()),
                seen => Err(format!("{seen:?}, before {before}")),
            }
        };
        self.until("a change to be looked at", look).await
    }

    /// Waits until an object is gone.
    ///
    /// # Errors
    /// It never is.
    pub(crate) async fn is_gone(&self, path: &str) -> anyhow::Result<()> {
        let look = || async {
            match self.get(path).await {
                Ok(None) => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        };
        self.until(&format!("{path} to go"), look).await
    }

    /// Waits until an object exists and has something at a place.
    ///
    /// # Errors
    /// It never has.
    pub(crate) async fn has(&self, path: &str, place: &str) -> anyhow::Result<String> {
        let look = || async {
            let object = self.get(path).await.map_err(|error| format!("{error:#}"))?;
            let text = object.as_ref().and_then(|object| object.pointer(place)?.as_str());
            text.map(str::to_owned).ok_or_else(|| format!("{object:?}"))
        };
        self.until(&format!("{place} of {path}"), look).await
    }

    /// Waits until a condition of an object begins like this: `True/Reason: message`.
    ///
    /// # Errors
    /// It never does.
    pub(crate) async fn says(&self, object: &Value, type_: &str, want: &str) -> anyhow::Result<()> {
        let path = path_of(object)?;
        let look = || async {
            let object = self.get(&path).await.map_err(|error| format!("{error:#}"))?;
            let text = object.as_ref().and_then(|object| condition(object, type_)).unwrap_or_default();
            if text.starts_with(want) { Ok(()) } else { Err(format!("{text:?}")) }
        };
        self.until(&format!("{type_} of {path} to say {want:?}"), look).await
    }

    /// Waits until the network of an object is made.
    ///
    /// # Errors
    /// It never is.
    pub(crate) async fn is_made(&self, object: &Value) -> anyhow::Result<()> {
        self.says(object, "NetworkCreated", "True/NetworkAttachmentDefinitionCreated").await
    }

    /// What Events say of an object: `Reason: note`.
    ///
    /// # Errors
    /// The API server does not say.
    pub(crate) async fn told_of(&self, kind: &str, name: &str) -> anyhow::Result<Vec<String>> {
        let events = self.list("/apis/events.k8s.io/v1/events").await?;
        let word = |event: &Value, place: &str| {
            event.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let regarding = events
            .iter()
            .filter(|event| word(event, "/regarding/kind") == kind && word(event, "/regarding/name") == name);
        Ok(regarding.map(|event| format!("{}: {}", word(event, "/reason"), word(event, "/note"))).collect())
    }

    /// Waits until an Event says this of an object.
    ///
    /// # Errors
    /// None ever does.
    pub(crate) async fn hears(&self, kind: &str, name: &str, want: &str) -> anyhow::Result<()> {
        let look = || async {
            let told = self.told_of(kind, name).await.map_err(|error| format!("{error:#}"))?;
            if told.iter().any(|told| told.starts_with(want)) { Ok(()) } else { Err(format!("{told:?}")) }
        };
        self.until(&format!("an Event on {kind} {name} that says {want:?}"), look).await
    }

    /// What a node is annotated with for a network; empty for nothing.
    ///
    /// # Errors
    /// The API server does not say.
    pub(crate) async fn subnet(&self, node: &str, network: &str) -> anyhow::Result<String> {
        let node = self.get(&format!("/api/v1/nodes/{node}")).await?;
        let text = node.as_ref().and_then(|node| node.pointer(SUBNETS)?.as_str()).unwrap_or("{}");
        let all: Value = serde_json::from_str(text).unwrap_or_default();
        let of_network = all.get(network).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = of_network.iter().filter_map(Value::as_str).collect();
        Ok(texts.join(" "))
    }

    /// Waits until these nodes, together, have exactly these subnets of a network.
    ///
    /// # Errors
    /// They never have.
    pub(crate) async fn share(&self, nodes: &[&str], network: &str, subnets: &[&str]) -> anyhow::Result<()> {
        let look = || async {
            let mut found = Vec::new();
            for node in nodes {
                found.push(self.subnet(node, network).await.map_err(|error| format!("{error:#}"))?);
            }
            let unique: BTreeSet<&str> = found.iter().map(String::as_str).collect();
            let wanted: BTreeSet<&str> = subnets.iter().copied().collect();
            if unique == wanted && found.len() == subnets.len() { Ok(()) } else { Err(format!("{found:?}")) }
        };
        self.until(&format!("{nodes:?} to share {subnets:?} of {network}"), look).await
    }

    /// Replaces one annotation of an object by hand; none removes it.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn annotate(&self, path: &str, key: &str, value: Option<&str>) -> anyhow::Result<()> {
        self.merge(path, &json!({"metadata": {"annotations": {key: value}}})).await
    }
}

/// Where the subnets of a Node stand.
const SUBNETS: &str = "/metadata/annotations/k8s.ovn.org~1node-subnets";

/// A condition as `Status/Reason: message`.
pub(crate) fn condition(object: &Value, type_: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found =
        conditions.iter().find(|condition| condition.get("type").is_some_and(|have| have == type_))?;
    let word = |field: &str| found.get(field).and_then(Value::as_str).unwrap_or_default();
    Some(format!("{}/{}: {}", word("status"), word("reason"), word("message")))
}
