use std::fs;
use std::os::unix::fs::PermissionsExt;

use causeway_runtime::events::Recorder;
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use super::super::pod::DefaultNetwork;
use super::*;

const FAMILIES: Families = Families { ipv4: true, ipv6: false };

/// A room with an `nft` that lists no table and notes what it takes; `refuses` is a pattern in what it does not take.
struct World {
    room: IsolationRoom,
    kubelet: watch::Sender<Kubelet>,
    folder: TempDir,
}

impl World {
    fn new(kubelet: Kubelet, refuses: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nft");
        let script = format!(
            "#!/bin/sh\ncd '{}'\nif [ \"$1\" = -j ]; then echo 'Error: No such file or directory' >&2; exit 1; fi\n\
             cat >input\nif grep -q '{refuses}' input; then echo 'Error: Could not process rule: No such file or directory' >&2; exit 1; fi\n\
             cat input >>taken\necho end >>taken\n",
            folder.path().display()
        );
        // Written by a process of its own: were the file open here while another test forks, it could not be run.
        let staged = folder.path().join("staged");
        fs::write(&staged, script).unwrap();
        fs::set_permissions(&staged, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(std::process::Command::new("cp").arg(&staged).arg(&path).status().unwrap().success());
        let metrics = Metrics::register(&mut Registry::default());
        let pod = NamespacedName { namespace: "blue".into(), name: "web".into() };
        let network = DefaultNetwork::Locked {
            addresses: Box::from(["192.0.2.1".parse().unwrap()]),
            ports: Ok(Box::default()),
        };
        let facts = PodFacts { uid: "1".into(), here: true, network };
        let news = News::new(KeyQueue::default());
        news.pod(&pod);
        let (sender, kubelet) = watch::channel(kubelet);
        let room = IsolationRoom {
            families: FAMILIES,
            resync: None,
            cgroups: folder.path().to_owned(),
            nft: Nft::new(&path),
            pods: Store::fixed("Pod", [(pod, facts)]),
            kubelet,
            news,
            progress: Arc::new(Mutex::new(Err("new".to_owned()))),
            voice: Voice::new(Recorder::new(metrics.events.clone()).0),
            metrics,
            memory: tokio::sync::Mutex::default(),
        };
        Self { room, kubelet: sender, folder }
    }

    /// The transactions that nft took.
    fn taken(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("taken")).unwrap_or_default();
        text.split("end\n").filter(|transaction| !transaction.is_empty()).map(str::to_owned).collect()
    }

    fn progress(&self) -> Result<(), String> {
        self.room.progress.lock().unwrap().clone()
    }
}

fn cgroup(generation: u64) -> Kubelet {
    Kubelet::Cgroup { path: "kubelet.slice/kubelet.service".into(), generation }
}

#[tokio::test]
async fn where_the_kernel_cannot_match_a_cgroup_the_other_rules_are_loaded_and_the_cause_is_told() {
    let world = World::new(cgroup(1), "socket cgroupv2");
    let error = world.room.reconcile(&Table).await.unwrap_err();
    assert!(matches!(error, IsolationError::SetUp(_)), "{error:?}");
    let taken = world.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(taken[0].contains("ip daddr @udn-pod-default-ips-v4 drop") && !taken[0].contains("cgroup"));
    assert!(taken[0].contains("add element inet ovn-kubernetes udn-pod-default-ips-v4 { 192.0.2.1 }"));
    let told = world.progress().unwrap_err();
    let begin =
        "failed to setup UDN host isolation: could not setup nftables rules for UDN from host isolation: ";
    assert!(told.starts_with(begin) && told.contains("No such file or directory"), "{told}");
}

#[tokio::test]
async fn rules_are_loaded_anew_when_the_cgroup_is_another_and_only_then() {
    let world = World::new(cgroup(1), "nothing is refused");
    for _ in 0..3 {
        world.room.reconcile(&Table).await.unwrap();
    }
    assert_eq!(world.taken().len(), 1);
    assert_eq!(world.progress(), Ok(()));
    world.kubelet.send_replace(cgroup(2));
    world.room.reconcile(&Table).await.unwrap();
    let taken = world.taken();
    let rules: Vec<&str> = taken[1].lines().collect();
    assert_eq!(rules.first(), Some(&"flush chain inet ovn-kubernetes udn-isolation"));
    assert!(rules[1..].iter().all(|line| line.starts_with("add rule")) && rules.len() == 5, "{rules:?}");
    world.room.reconcile(&Table).await.unwrap();
    assert_eq!(world.taken().len(), 2);
}

#[tokio::test]
async fn a_kubelet_whose_probes_cannot_be_told_apart_has_no_rule() {
    for kubelet in [Kubelet::Unknown, Kubelet::Unsupported { reason: "the node uses cgroup v1".into() }] {
        let world = World::new(kubelet, "socket");
        world.room.reconcile(&Table).await.unwrap();
        assert_eq!(world.taken().len(), 1);
    }
    let bad = Kubelet::Cgroup { path: "../etc".into(), generation: 1 };
    let world = World::new(bad, "socket");
    world.room.reconcile(&Table).await.unwrap();
    assert_eq!(world.taken().len(), 1);
}

#[tokio::test]
async fn a_failure_changes_nothing_and_is_made_up_for() {
    let world = World::new(Kubelet::Unknown, "udn-isolation");
    world.room.reconcile(&Table).await.unwrap_err();
    assert!(world.taken().is_empty() && world.progress().is_err());
    let script = world.folder.path().join("nft");
    let healed =
        std::process::Command::new("sed").arg("-i").arg("s/udn-isolation/nothing/").arg(&script).status();
    assert!(healed.unwrap().success());
    world.room.reconcile(&Table).await.unwrap();
    assert_eq!((world.taken().len(), world.progress()), (1, Ok(())));
}
