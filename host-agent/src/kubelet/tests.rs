use std::fs;
use std::path::Path;

use causeway_runtime::events::{Happening, Recorder};
use prometheus_client::encoding::text::encode;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::simulated::{Peer, signal, write_program};
use super::*;

/// Long enough for any machine; only a failure waits for it.
const GIVE_UP: Duration = Duration::from_secs(20);

const SERVICE: &str = "kubelet.slice/kubelet.service";

/// What plays `nft`, on kernels with and without the match.
const TAKES: &str = "#!/bin/sh\ncat >/dev/null\n";
const REFUSES: &str = "#!/bin/sh\ncase $(cat) in *\"cgroupv2 level\"*) echo 'Error: Could not process rule: No such file or directory' >&2; exit 1;; esac\n";

/// A machine of plain files, and what follows the kubelet on it. Nothing is looked at because time passes.
struct World {
    folder: TempDir,
    kubelet: watch::Receiver<Kubelet>,
    account: watch::Receiver<Account>,
    happenings: mpsc::Receiver<Happening>,
    registry: Registry,
    task: JoinHandle<()>,
}

impl World {
    fn start(cgroups: &[&str], configured: Option<&str>, nft: &str) -> Self {
        Self::start_with(cgroups, nft, |options| {
            options.configured = configured.map(|path| path.parse().unwrap());
        })
    }

    fn start_with(cgroups: &[&str], nft: &str, change: impl FnOnce(&mut Options)) -> Self {
        Self::start_paced(cgroups, nft, Duration::from_secs(1_000_000), change)
    }

    fn start_paced(cgroups: &[&str], nft: &str, pause: Duration, change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for cgroup in cgroups.iter().chain(&[""]) {
            fs::create_dir_all(at("cgroup").join(cgroup)).unwrap();
        }
        write_program(&at("nft"), nft);
        let places = Places { cgroups: at("cgroup"), processes: at("proc"), unified: |_| Ok(true) };
        let mut options = Options { places, configured: None, nft: at("nft"), systemd: at("private") };
        change(&mut options);
        let mut registry = Registry::default();
        let (recorder, happenings) = Recorder::new(EventMetrics::register(&mut Registry::default()));
        let voice = Voice::new("node-a", recorder);
        let mut follower = Follower::new(options, voice, Metrics::register(&mut registry));
        follower.pace = Pace { searching: pause, resync: pause };
        follower.pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));
        let (kubelet, account) = (follower.kubelet(), follower.account.subscribe());
        let task = tokio::spawn(follower.run(CancellationToken::new()));
        Self { folder, kubelet, account, happenings, registry, task }
    }

    fn cgroup(&self, path: &str) -> PathBuf {
        self.folder.path().join("cgroup").join(path)
    }

    async fn is(&mut self, what: &str, wanted: impl FnMut(&Kubelet) -> bool) -> Kubelet {
        let found = timeout(GIVE_UP, self.kubelet.wait_for(wanted)).await;
        found.unwrap_or_else(|_| panic!("never: {what}")).unwrap().clone()
    }

    async fn generation(&mut self, path: &str, at_least: u64) -> u64 {
        let what = format!("{path}, generation {at_least}");
        let found = self.is(&what, |kubelet| {
            matches!(kubelet, Kubelet::Cgroup { path: found, generation } if found == path && *generation >= at_least)
        });
        match found.await {
            Kubelet::Cgroup { generation, .. } => generation,
            other => panic!("{other:?}"),
        }
    }

    async fn is_closed(&mut self) -> String {
        match self.is("closed", |kubelet| matches!(kubelet, Kubelet::Unsupported { .. })).await {
            Kubelet::Unsupported { reason } => {
                reason.replace(&self.folder.path().display().to_string(), "/sys/fs")
            }
            other => panic!("{other:?}"),
        }
    }

    async fn told(&mut self) -> (String, String) {
        let happening = timeout(GIVE_UP, self.happenings.recv()).await.expect("an Event").unwrap();
        let note = happening.note.replace(&self.folder.path().display().to_string(), "/sys/fs");
        (happening.reason, note)
    }

    fn metric(&self, line: &str) -> bool {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text.lines().any(|found| found == line)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Puts a new directory in the place of one: at no moment is there none, and its number is another.
fn replace(path: &Path) {
    let new = path.with_extension("new");
    fs::create_dir(&new).unwrap();
    fs::rename(&new, path).unwrap();
}

#[tokio::test]
async fn a_kubelet_that_is_there_is_found_and_nobody_is_told() {
    let mut world = World::start(&[SERVICE], None, TAKES);
    assert_eq!(world.generation(SERVICE, 1).await, 1);
    assert!(world.metric("isolation_mode{mode=\"kubelet\"} 1"));
    assert!(world.metric("isolation_mode{mode=\"closed\"} 0"));
    assert!(world.happenings.try_recv().is_err());
}

#[tokio::test]
async fn a_cgroup_that_appears_after_the_start_is_found_by_its_directory() {
    for (cgroups, configured, path) in [
        (&[][..], None, SERVICE),
        (&["kubelet.slice"], None, SERVICE),
        (&["kubepods.slice/pod1"], None, "system.slice/kubelet.service"),
        (&[], Some("podruntime/kubelet"), "podruntime/kubelet"),
        (&["podruntime"], Some("podruntime/kubelet"), "podruntime/kubelet"),
    ] {
        let mut world = World::start(cgroups, configured, TAKES);
        world.is_closed().await;
        fs::create_dir_all(world.cgroup(path)).unwrap();
        assert_eq!(world.generation(path, 1).await, 1, "{path}");
    }
}

#[tokio::test]
async fn a_cgroup_that_is_removed_and_made_again_is_noticed_on_every_init_system() {
    for configured in [None, Some(SERVICE)] {
        let mut world = World::start(&[SERVICE, "other.slice"], configured, TAKES);
        let path = world.cgroup(SERVICE);
        let first = world.generation(SERVICE, 1).await;
        fs::remove_dir(&path).unwrap();
        world.is("looking", |kubelet| *kubelet == Kubelet::Unknown).await;
        fs::create_dir(&path).unwrap();
        let second = world.generation(SERVICE, first + 1).await;
        replace(&path);
        let third = world.generation(SERVICE, second + 1).await;
        // With its slice.
        fs::remove_dir_all(world.cgroup("kubelet.slice")).unwrap();
        world.is("looking", |kubelet| *kubelet == Kubelet::Unknown).await;
        fs::create_dir_all(&path).unwrap();
        world.generation(SERVICE, third + 1).await;
        assert!(world.happenings.try_recv().is_err(), "a kubelet that starts again is nothing to tell");
    }
}

#[tokio::test]
async fn a_cgroup_that_vanishes_while_the_agent_runs_is_told_after_a_while_and_found_when_it_is_back() {
    for (configured, reason) in [
        (None, "no \"kubelet.service\" directory found under /sys/fs/cgroup"),
        (
            Some(SERVICE),
            "configured kubelet cgroup path \"kubelet.slice/kubelet.service\" is not present under /sys/fs/cgroup: No such file or directory (os error 2)",
        ),
    ] {
        let mut world = World::start_paced(&[SERVICE], TAKES, Duration::from_millis(5), |options| {
            options.configured = configured.map(|path| path.parse().unwrap());
        });
        let generation = world.generation(SERVICE, 1).await;
        fs::remove_dir(world.cgroup(SERVICE)).unwrap();
        assert_eq!(world.is_closed().await, reason);
        let (event, note) = world.told().await;
        assert_eq!(event, "UDNKubeletProbesNotSupported");
        assert!(note.contains(&format!("on node node-a: {reason}. Use the ")), "{note}");
        fs::create_dir(world.cgroup(SERVICE)).unwrap();
        world.generation(SERVICE, generation + 1).await;
        assert!(world.happenings.try_recv().is_err(), "it was told once");
    }
}

#[tokio::test]
async fn a_configured_path_that_is_missing_is_told_once_and_the_agent_goes_on() {
    let mut world = World::start(&[SERVICE], Some("podruntime/kubelet"), TAKES);
    let reason = "configured kubelet cgroup path \"podruntime/kubelet\" is not present under /sys/fs/cgroup: No such file or directory (os error 2)";
    assert_eq!(world.is_closed().await, reason);
    let (event, note) = world.told().await;
    assert_eq!(event, "UDNKubeletProbesNotSupported");
    assert!(note.contains(&format!("on node node-a: {reason}. Use the ")), "{note}");
    assert!(world.metric("isolation_mode{mode=\"closed\"} 1"));
    fs::create_dir_all(world.cgroup("podruntime/kubelet")).unwrap();
    world.generation("podruntime/kubelet", 1).await;
    assert!(world.happenings.try_recv().is_err());
}

#[tokio::test]
async fn a_kernel_without_the_match_is_blamed_for_it_and_the_agent_goes_on() {
    let mut world = World::start(&[SERVICE], None, REFUSES);
    let reason = "the kernel does not support the nftables socket cgroupv2 match: Could not process rule: No such file or directory";
    assert_eq!(world.is_closed().await, reason);
    let (event, note) = world.told().await;
    assert_eq!(event, "UDNKubeletProbesNotSupported");
    assert!(note.contains(reason), "{note}");
    // Another look finds the same and tells nothing new.
    replace(&world.cgroup(SERVICE));
    fs::create_dir_all(world.cgroup("a.slice/kubelet.service")).unwrap();
    assert_eq!(world.is_closed().await, reason);
    assert!(world.happenings.try_recv().is_err());
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let mut world = World::start_with(&[SERVICE], TAKES, |options| options.nft = "/nowhere/nft".into());
    let want = "the program /nowhere/nft cannot be run: No such file or directory (os error 2)";
    assert_eq!(world.is_closed().await, want);
    assert!(world.told().await.1.contains(want));
}

#[tokio::test]
async fn a_node_with_version_1_is_told_and_closed() {
    let mut world = World::start_with(&[SERVICE], TAKES, |options| options.places.unified = |_| Ok(false));
    assert_eq!(world.is_closed().await, "the node uses cgroup v1");
    assert_eq!(
        world.told().await.1,
        "Kubelet probes to primary UDN pods are not supported on node node-a: the node uses cgroup v1. Use the k8s.ovn.org/open-default-ports pod annotation to allow the probe ports from the host."
    );
}

#[tokio::test]
async fn a_restart_told_by_systemd_loads_the_rules_again_also_after_systemd_was_away() {
    let mut world = World::start(&[SERVICE], None, TAKES);
    let peer = Peer::bind(&world.folder.path().join("private"));
    let mut generation = world.generation(SERVICE, 1).await;
    for _ in 0..2 {
        let systemd = peer.accept().await;
        let subscribed = world.account.wait_for(|account| account.systemd == Some(Ok(())));
        timeout(GIVE_UP, subscribed).await.expect("systemd tells").unwrap();
        systemd.send(&signal("kubelet_2eservice", "active")).await;
        generation = world.generation(SERVICE, generation + 1).await;
        systemd.close().await;
        let lost = world.account.wait_for(|account| matches!(account.systemd, Some(Err(_))));
        timeout(GIVE_UP, lost).await.expect("the loss is known").unwrap();
    }
    // The directory still tells, so nothing is lost and nobody is told.
    replace(&world.cgroup(SERVICE));
    world.generation(SERVICE, generation + 1).await;
    assert!(world.happenings.try_recv().is_err());
}

#[tokio::test]
async fn a_cgroup_that_is_no_unit_is_tracked_by_its_directory_alone() {
    let mut world = World::start(&["podruntime/kubelet"], Some("podruntime/kubelet"), TAKES);
    let first = world.generation("podruntime/kubelet", 1).await;
    let known = world.account.wait_for(|account| account.systemd.is_some());
    let account = timeout(GIVE_UP, known).await.expect("it is known").unwrap().clone();
    assert_eq!(
        account.systemd,
        Some(Err("no systemd unit corresponds to cgroup \"podruntime/kubelet\"".to_owned()))
    );
    assert_eq!(account.directories, Ok(()));
    replace(&world.cgroup("podruntime/kubelet"));
    world.generation("podruntime/kubelet", first + 1).await;
    assert!(world.happenings.try_recv().is_err());
}
