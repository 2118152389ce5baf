//! The store itself: floods, lost events, namespaces, silence of the kernel.

use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use causeway_netlink::{Batch, NetlinkStore, Options, Readiness, Snapshot};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::namespace::{Case, Namespace, addressed_pair, in_namespace, ip, ip_batch};

pub(crate) fn all() -> Vec<Case> {
    vec![
        ("lost events are made good by reading again", lost_events),
        ("ten thousand route events are few batches and every change", flood),
        ("changes during a flood of losses end in the kernel's state", churn),
        ("a kernel without devlink has no ports and is ready", no_devlink),
        ("a resync finds what the kernel did not announce", resync),
        ("a store stays with the namespace it was opened in", foreign_runtime),
        ("a stopped store ends its subscriptions", stopped),
    ]
}

fn routes(verb: &str, count: u32) -> String {
    (0..count).fold(String::new(), |mut lines, number| {
        let (high, low) = (number / 256, number % 256);
        writeln!(lines, "route {verb} 10.{high}.{low}.0/24 via 192.0.2.2").expect("text grows");
        lines
    })
}

/// How many of those routes there are. The kernel makes others when it pleases.
fn flooded(snapshot: &Snapshot) -> usize {
    let gateway = "192.0.2.2".parse().ok();
    snapshot
        .routes
        .iter()
        .filter(|route| route.hops.as_slice().iter().any(|hop| hop.gateway == gateway))
        .count()
}

/// A receive buffer that holds about two messages.
fn tiny() -> Options {
    Options { receive_buffer: 1, ..Options::default() }
}

/// Runs `ip -batch` while nothing else runs on this thread, the store included.
fn blocking_batch(lines: &str) {
    let mut child = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("ip runs");
    child.stdin.take().expect("its input").write_all(lines.as_bytes()).expect("ip reads");
    assert!(child.wait().expect("ip ends").success());
}

fn lost_events() {
    in_namespace(|| async {
        let mut ns = Namespace::with(&tiny()).await;
        addressed_pair().await;
        ns.converges().await;
        // The store cannot read meanwhile, and its buffer holds a few of these: the rest is lost.
        blocking_batch(&routes("add", 3_000));
        ns.until("all routes", |s| (flooded(s) == 3_000).then_some(())).await;
        ns.converges().await;
        blocking_batch(&(routes("del", 3_000) + "link set vb down\n"));
        ns.until("no route", |s| (flooded(s) == 0).then_some(())).await;
        ns.converges().await;
    });
}

fn flood() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ns.converges().await;
        let lines = routes("add", 10_000);
        let flood = tokio::spawn(async move { ip_batch(&lines).await });
        let (mut batches, mut changes) = (0, 0);
        while flooded(&ns.snapshot()) < 10_000 {
            let Batch::Changes(batch) = ns.batch().await else { panic!("a resync") };
            batches += 1;
            changes += batch.len();
        }
        flood.await.expect("the flood ends");
        assert!(changes >= 10_000, "{changes} changes");
        assert!(batches <= 1_000, "{batches} batches for {changes} changes");
        ns.converges().await;
    });
}

fn churn() {
    in_namespace(|| async {
        let mut ns = Namespace::with(&tiny()).await;
        addressed_pair().await;
        let mut lines = String::new();
        for round in 0..200 {
            write!(
                lines,
                "link add x{round} type veth peer name y{round}\nlink set x{round} up\n\
                 address add 198.18.{round}.1/24 dev x{round}\nroute add 172.16.{round}.0/24 via 198.18.{round}.2\n\
                 rule add fwmark {} lookup 1007 priority {}\n",
                round + 1,
                3_000 + round
            )
            .expect("text grows");
            if round % 2 == 0 {
                writeln!(lines, "link set x{round} down").expect("text grows");
            }
            if round % 3 == 0 {
                writeln!(lines, "link delete x{round}").expect("text grows");
            }
        }
        ip_batch(&lines).await;
        let left = (0..200).filter(|round| round % 3 != 0).count();
        // Loopback, the pair, and what was not deleted.
        ns.until("the links that stay", |s| (s.links.len() == 3 + 2 * left).then_some(())).await;
        ns.converges().await;
    });
}

fn no_devlink() {
    in_namespace(|| async {
        let ns = Namespace::new().await;
        assert!(matches!(*ns.store.readiness().borrow(), Readiness::Ready));
        assert!(ns.snapshot().devlink_ports.is_empty());
    });
}

fn resync() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        ip("link add va type veth peer name vb").await;
        ns.until("a exists", |s| s.links.by_any_name("va").map(|_| ())).await;
        // The kernel announces an alias only of a link that is up.
        ip("link set va alias quiet").await;
        ns.store.resync();
        ns.until("the alias", |s| {
            s.links.by_any_name("va").filter(|a| a.alias() == Some("quiet")).map(|_| ())
        })
        .await;
    });
}

fn foreign_runtime() {
    // Its threads are in the machine's namespace.
    let elsewhere = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let elsewhere = elsewhere.expect("a runtime");
    let handle: Handle = elsewhere.handle().clone();
    in_namespace(move || async move {
        let (store, task) = {
            let _guard = handle.enter();
            NetlinkStore::open().expect("a store")
        };
        let stop = CancellationToken::new();
        let _running = stop.clone().drop_guard();
        handle.spawn(task.run(stop));
        ip("link add only-here type bridge").await;
        let mut changes = store.subscribe();
        let found = async {
            while store.snapshot().links.by_any_name("only-here").is_none() {
                changes.next().await.expect("a running store");
            }
        };
        tokio::time::timeout(Duration::from_secs(10), found).await.expect("the link of this namespace");
        assert_eq!(store.snapshot().links.len(), 2);
    });
}

fn stopped() {
    in_namespace(|| async {
        let stop = CancellationToken::new();
        let (store, task) = NetlinkStore::open().expect("a store");
        let running = tokio::spawn(task.run(stop.clone()));
        let mut changes = store.subscribe();
        let before = store.ready().await.expect("a running store");
        assert_eq!(changes.next().await, Some(Batch::Resync));
        stop.cancel();
        running.await.expect("it ends");
        assert_eq!(changes.next().await, None);
        assert_eq!(store.subscribe().next().await, None);
        // What was known last stays.
        assert_eq!(store.snapshot(), before);
        let mut readiness = store.readiness();
        assert!(matches!(*readiness.borrow_and_update(), Readiness::Ready));
        assert!(readiness.changed().await.is_err());
    });
}
