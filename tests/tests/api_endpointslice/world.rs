//! An API server with a cluster manager that has its own account.

use std::ops::Deref;

use causeway_rig::Process;
use causeway_tests::control::{self, Control, DEADLINE, SERVE_METRICS};

/// The flags of the recorded run, but for those of features that play no part in it.
const FLAGS: [&str; 8] = [
    "--init-cluster-manager=cm0",
    "--gateway-mode=shared",
    "--ovn-config-namespace=ovn-kubernetes",
    "--cluster-subnets=10.128.0.0/14/24,fd00:10:128::/48/64",
    "--k8s-service-cidrs=10.96.0.0/16,fd00:10:96::/112",
    "--enable-multi-network",
    SEGMENTATION,
    SERVE_METRICS,
];
const SEGMENTATION: &str = "--enable-network-segmentation";

pub(crate) struct World {
    control: Control,
    pub(crate) manager: Process,
}

/// What people do and see there.
impl Deref for World {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl World {
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(&FLAGS).await
    }

    /// One whose cluster manager needs no lease, so that one that was killed is followed at once.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start_without_election() -> anyhow::Result<Self> {
        let flags: Vec<&str> = FLAGS.into_iter().chain(["--leader-elect=false"]).collect();
        Self::start_with(&flags).await
    }

    /// One whose cluster manager does not look after networks.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start_without_networks() -> anyhow::Result<Self> {
        let flags: Vec<&str> = FLAGS.into_iter().filter(|flag| *flag != SEGMENTATION).collect();
        Self::start_with(&flags).await
    }

    async fn start_with(flags: &[&str]) -> anyhow::Result<Self> {
        let control = Control::start(control::strict()).await?;
        let manager = control.manager("cluster-manager", flags).await?;
        Ok(Self { control, manager })
    }

    /// Waits until the log holds a text.
    ///
    /// # Errors
    /// It never does.
    pub(crate) async fn says(&self, text: &str) -> anyhow::Result<()> {
        let look = || async {
            match self.manager.log_text() {
                Ok(log) if log.contains(text) => Ok(()),
                Ok(log) => Err(log),
                Err(error) => Err(format!("{error:#}")),
            }
        };
        self.rig.wait_for(&format!("the log to say {text:?}"), DEADLINE, look).await
    }

    /// Waits until there were so many passes and nothing is left to look at.
    ///
    /// # Errors
    /// That never comes.
    pub(crate) async fn quiet(&self, passes: usize) -> anyhow::Result<()> {
        let look = || async {
            let done = self.counted("causeway_reconcile_passes_total").await;
            let depth = self.counted("causeway_reconcile_unfinished").await;
            match (done, depth) {
                (Ok(done), Ok(0)) if done >= passes => Ok(()),
                seen => Err(format!("passes and depth {seen:?}")),
            }
        };
        self.rig.wait_for("the cluster manager to be quiet", DEADLINE, look).await
    }

    /// Sum over a metric's labels; 0 if there is none yet. Of passes and queues, the room's that mirrors.
    ///
    /// # Errors
    /// No metrics are served.
    pub(crate) async fn counted(&self, metric: &str) -> anyhow::Result<usize> {
        let lines = self.lines(metric).await?;
        let of_room = |line: &&(String, usize)| {
            let (name, labels) = line.0.split_once('{').unwrap_or((&line.0, ""));
            name == metric && (!labels.contains("room=") || labels.contains("room=\"endpointslice\""))
        };
        Ok(lines.iter().filter(of_room).map(|(_, value)| value).sum())
    }
}
