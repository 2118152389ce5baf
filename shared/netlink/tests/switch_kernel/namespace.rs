//! A network namespace for one test, a store in it, and waiting for what the store should see.

use std::future::Future;
use std::process::Stdio;
use std::time::Duration;

use causeway_netlink::{Batch, Changes, NetlinkStore, Options, Snapshot};
use nix::sched::{CloneFlags, unshare};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long something may take that takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(10);

/// A test's name and what it does.
pub(crate) type Case = (&'static str, fn());

/// Runs a test on a thread of its own in a namespace of its own; both end with it.
pub(crate) fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace");
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(test());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A running store of the test's namespace.
pub(crate) struct Namespace {
    pub(crate) store: NetlinkStore,
    changes: Changes,
    _stop: DropGuard,
}

impl Namespace {
    pub(crate) async fn new() -> Self {
        Self::with(&Options::default()).await
    }

    pub(crate) async fn with(options: &Options) -> Self {
        let stop = CancellationToken::new();
        let (store, task) = NetlinkStore::open_with(options).expect("a store");
        tokio::spawn(task.run(stop.clone()));
        let changes = store.subscribe();
        timeout(DEADLINE, store.ready()).await.expect("ready in time").expect("a running store");
        Self { store, changes, _stop: stop.drop_guard() }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// The next batch.
    pub(crate) async fn batch(&mut self) -> Batch {
        timeout(DEADLINE, self.changes.next()).await.expect("a change in time").expect("a running store")
    }

    /// Waits, change by change, until `what` holds, and gives what it found.
    pub(crate) async fn until<T>(&mut self, what: &str, look: impl Fn(&Snapshot) -> Option<T>) -> T {
        loop {
            let snapshot = self.snapshot();
            if let Some(found) = look(&snapshot) {
                return found;
            }
            let next = timeout(DEADLINE, self.changes.next()).await;
            assert!(
                next.is_ok(),
                "{what} did not come true; last seen:\n{}",
                rows(&self.snapshot()).join("\n")
            );
        }
    }

    /// Waits until the store has what a store that was opened just now reads.
    pub(crate) async fn converges(&mut self) {
        loop {
            let fresh = Self::new().await.snapshot();
            let have = self.snapshot();
            if have == fresh {
                return;
            }
            // Not yet: events are under way (duplicate address detection, for one) or the store is wrong.
            if timeout(Duration::from_secs(3), self.changes.next()).await.is_err() {
                let (have, fresh) = (rows(&self.snapshot()), rows(&fresh));
                let only = |rows: &[String], others: &[String]| {
                    rows.iter().filter(|row| !others.contains(row)).cloned().collect::<Vec<_>>().join("\n")
                };
                assert_eq!(only(&have, &fresh), only(&fresh, &have), "only followed / only read afresh");
                assert_eq!(have, fresh, "the order differs");
            }
        }
    }
}

/// The rows of a snapshot, one line each.
fn rows(snapshot: &Snapshot) -> Vec<String> {
    let links = snapshot.links.iter().map(|row| format!("{row:?}"));
    let addresses = snapshot.addresses.iter().map(|row| format!("{row:?}"));
    let routes = snapshot.routes.iter().map(|row| format!("{row:?}"));
    let rules = snapshot.rules.iter().map(|row| format!("{row:?}"));
    links.chain(addresses).chain(routes).chain(rules).collect()
}

/// Runs `ip` with these arguments in the test's namespace.
pub(crate) async fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().await.expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs many `ip` commands in one process.
pub(crate) async fn ip_batch(lines: &str) {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ip runs");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(lines.as_bytes()).await.expect("ip reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("ip ends");
    assert!(output.status.success(), "ip -batch: {}", String::from_utf8_lossy(&output.stderr));
}

/// A pair `a`/`b`, both up, `a` with 192.0.2.1/24 and 2001:db8::1/64.
pub(crate) async fn addressed_pair() {
    ip_batch(
        "link add va type veth peer name vb\nlink set va up\nlink set vb up\n\
         address add 192.0.2.1/24 dev va\naddress add 2001:db8::1/64 dev va nodad\n",
    )
    .await;
}
