//! A cluster of one's own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::control_plane::{API_PORT, ControlPlane};
use crate::forward::Forward;
use crate::ground::{API_V4, Ground};
use crate::node::NodeBuilder;
use crate::process::Process;
use crate::settings::Settings;
use crate::wait::wait_for;

/// How long the API server may take to be ready on a busy machine.
const API_DEADLINE: Duration = Duration::from_mins(1);

/// Which parts of a control plane a rig has, beside etcd and the API server.
#[derive(Debug, Clone)]
pub struct RigOptions {
    /// kube-controller-manager: service accounts, garbage collection, the end of namespaces. Costs about 0.5 s of CPU.
    pub controller_manager: bool,
    /// kube-scheduler, for pods without a node name.
    pub scheduler: bool,
    /// More flags of kube-apiserver, as `--feature-gates=…`.
    pub api_flags: Vec<String>,
}

impl Default for RigOptions {
    /// Level `api`: with the controller manager, without the scheduler.
    fn default() -> Self {
        Self { controller_manager: true, scheduler: false, api_flags: Vec::new() }
    }
}

impl RigOptions {
    /// Only etcd and the API server: the fastest start.
    #[must_use]
    pub fn bare() -> Self {
        Self { controller_manager: false, ..Self::default() }
    }

    /// Everything that pods need.
    #[must_use]
    pub fn cluster() -> Self {
        Self { scheduler: true, ..Self::default() }
    }
}

/// Everything of a rig that its nodes use too.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ground: Ground,
    pub(crate) control: ControlPlane,
    pub(crate) client: ShyClient,
    forward: Forward,
    numbers: AtomicU32,
}

/// A client without a `Debug` of its own.
pub(crate) struct ShyClient(pub(crate) kube::Client);

impl std::fmt::Debug for ShyClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("kube::Client")
    }
}

impl Shared {
    /// A number that nothing else in this rig has, from 1.
    pub(crate) fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A control plane in namespaces of its own, to which nodes can be added. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Rig {
    pub(crate) shared: Arc<Shared>,
    kubeconfig: PathBuf,
}

impl Rig {
    /// Starts a control plane and waits until it is ready, after removing what dead rigs left on the machine.
    ///
    /// # Errors
    /// If a part is missing or does not start.
    pub async fn start(options: RigOptions) -> anyhow::Result<Self> {
        Self::start_with(options, Settings::from_env()?).await
    }

    /// Like [`Self::start`] with other folders than the environment says.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(options: RigOptions, settings: Settings) -> anyhow::Result<Self> {
        let ground = Ground::lay(settings).await?;
        let control = ControlPlane::start(&ground, &options).await.context("starting the control plane")?;
        let target = SocketAddr::new(IpAddr::V4(API_V4), API_PORT);
        let forward = Forward::start(Arc::clone(&ground.namespaces), target).await?;
        let kubeconfig = ground.folder.path().join("kubeconfig");
        let url = format!("https://{}:{}", Ipv4Addr::LOCALHOST, forward.port());
        std::fs::write(&kubeconfig, control.admin_kubeconfig(&url)?).context("writing the kubeconfig")?;
        let client = ShyClient(client(&kubeconfig).await?);
        let shared = Shared { ground, control, client, forward, numbers: AtomicU32::new(0) };
        let rig = Self { shared: Arc::new(shared), kubeconfig };
        rig.wait_api().await?;
        Ok(rig)
    }

    /// Name of the rig on this machine.
    #[must_use]
    pub fn id(&self) -> &str {
        self.shared.ground.folder.id()
    }

    /// Folder of the rig on this machine. It goes with the rig.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.shared.ground.folder.path()
    }

    /// A client with all rights. Clones share its connections.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.shared.client.0.clone()
    }

    /// A kubeconfig with all rights, for programs on the machine outside the rig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where programs on the machine reach the API server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}:{}", Ipv4Addr::LOCALHOST, self.shared.forward.port())
    }

    /// Runs kubectl with all rights and returns what it printed.
    ///
    /// # Errors
    /// If it fails; what it printed is in the text.
    pub async fn kubectl<A: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<String> {
        let program = self.shared.ground.settings.kube().join("kubectl");
        let config = self.folder().join("control-plane/kubeconfig");
        let mut argv = vec![program.into_os_string(), "--kubeconfig".into(), config.into_os_string()];
        argv.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self.shared.ground.outer.exec(argv).await
    }

    /// A node to be: name it, describe it, then start it.
    #[must_use]
    pub fn node(&self, name: impl Into<String>) -> NodeBuilder {
        NodeBuilder::new(Arc::clone(&self.shared), name.into())
    }

    /// Kills the API server, as a crash. Its data stay in etcd.
    ///
    /// # Errors
    /// If it does not go.
    pub async fn stop_api(&self) -> anyhow::Result<()> {
        self.shared.control.api.kill().await
    }

    /// Starts the API server again and waits until it is ready.
    ///
    /// # Errors
    /// If it does not become ready.
    pub async fn start_api(&self) -> anyhow::Result<()> {
        self.shared.control.api.restart().await?;
        self.wait_api().await
    }

    /// Stops the API server in its tracks: connections stay open and nothing answers.
    ///
    /// # Errors
    /// If it is not running.
    pub async fn pause_api(&self) -> anyhow::Result<()> {
        self.shared.control.api.pause().await
    }

    /// Lets a paused API server go on.
    ///
    /// # Errors
    /// If it is not running.
    pub fn resume_api(&self) -> anyhow::Result<()> {
        self.shared.control.api.resume()
    }

    /// The API server's process.
    #[must_use]
    pub fn api_server(&self) -> &Process {
        &self.shared.control.api
    }

    /// etcd's process.
    #[must_use]
    pub fn etcd(&self) -> &Process {
        &self.shared.control.etcd
    }

    /// The controller manager's process, if this rig has one.
    #[must_use]
    pub fn controller_manager(&self) -> Option<&Process> {
        self.shared.control.controller_manager.as_ref()
    }

    /// The scheduler's process, if this rig has one.
    #[must_use]
    pub fn scheduler(&self) -> Option<&Process> {
        self.shared.control.scheduler.as_ref()
    }

    /// The ends of all logs of this rig's parts.
    #[must_use]
    pub fn log_tails(&self) -> String {
        self.shared.ground.logs.tails()
    }

    /// Looks again and again until `probe` gives a value; what it gives as `Err` is what it saw instead.
    ///
    /// # Errors
    /// After `deadline`, with the last thing seen and the ends of all logs of this rig.
    pub async fn wait_for<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        deadline: Duration,
        probe: impl FnMut() -> F,
    ) -> anyhow::Result<T> {
        let result = wait_for(what, deadline, probe).await;
        result.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.log_tails()))
    }

    async fn wait_api(&self) -> anyhow::Result<()> {
        let ready = || async {
            let request =
                http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
            self.shared.client.0.request_text(request).await.map(drop).map_err(|error| error.to_string())
        };
        self.wait_for("the API server to be ready", API_DEADLINE, ready).await
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Nodes may still hold the shared part; the processes end now.
        if let Err(error) = self.shared.ground.end() {
            tracing::warn!(rig = self.id(), error = format!("{error:#}"), "Rig left something behind");
        }
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let file = Kubeconfig::read_from(kubeconfig).context("reading the kubeconfig")?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.context("using the kubeconfig")?).context("making a client")
}
