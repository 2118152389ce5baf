//! Links: what comes, goes and differs.

use std::process::Stdio;

use causeway_netlink::{Batch, Change, HardwareAddress, Link, LinkKind, Snapshot};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::namespace::{Case, Namespace, in_namespace, ip, ip_batch};

pub(crate) fn all() -> Vec<Case> {
    vec![
        ("links come and go", links_come_and_go),
        ("a renamed link keeps its number and frees its name", renamed),
        ("mtu, mac, alias and alternative name of an up link follow", properties),
        ("a port that leaves its bridge stays a link", bridge_port),
        ("a link moved to another namespace is gone and comes back", moved),
        ("a tun device has no hardware address", tun),
        ("nothing is said when nothing changed", quiet),
    ]
}

fn link(snapshot: &Snapshot, name: &str) -> Option<Link> {
    snapshot.links.by_any_name(name).map(|link| Link::clone(link))
}

fn links_come_and_go() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        assert_eq!(ns.snapshot().links.len(), 1, "loopback");
        ip("link add va type veth peer name vb").await;
        let a = ns.until("a and b exist", |s| link(s, "va").zip(link(s, "vb"))).await;
        assert_eq!((&a.0.kind, &a.1.kind), (&LinkKind::Veth, &LinkKind::Veth));
        assert_eq!(a.0.parent.map(|parent| parent.index), Some(a.1.index));
        ip("link add br0 type bridge").await;
        ip("link add mv link va type macvlan").await;
        let kinds = ns.until("br0 and mv exist", |s| link(s, "br0").zip(link(s, "mv"))).await;
        assert_eq!((&kinds.0.kind, &kinds.1.kind), (&LinkKind::Bridge, &LinkKind::Macvlan));
        ip("link delete va").await;
        ns.until("the pair and what stood on it are gone", |s| (s.links.len() == 2).then_some(())).await;
        ns.converges().await;
    });
}

fn renamed() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        ip("link add va type veth peer name vb").await;
        let before = ns.until("a exists", |s| link(s, "va")).await;
        ip_batch("link set va name vc\nlink set vb name va\n").await;
        let after = ns.until("both have their names", |s| link(s, "vc").zip(link(s, "va"))).await;
        assert_eq!(after.0.index, before.index);
        assert!(link(&ns.snapshot(), "vb").is_none());
        ns.converges().await;
    });
}

fn properties() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        ip_batch("link add va type veth peer name vb\nlink set va up\nlink set vb up\n").await;
        ns.until("a has a carrier", |s| link(s, "va").filter(|a| a.flags.is_lower_up())).await;
        ip_batch(
            "link set va mtu 1400\nlink set va address 52:54:00:d9:20:10\nlink set va alias rep0-16\n\
             link property add dev va altname a-long-alternative-name\n",
        )
        .await;
        let a = ns.until("the alternative name", |s| link(s, "a-long-alternative-name")).await;
        assert_eq!((a.name.as_str(), a.mtu, a.alias()), ("va", 1400, Some("rep0-16")));
        assert_eq!(a.address.usable_mac().map(|mac| mac.to_string()).as_deref(), Some("52:54:00:d9:20:10"));
        ip("link set vb down").await;
        ns.until("a lost its carrier", |s| link(s, "va").filter(|a| a.carrier == Some(false))).await;
        ns.converges().await;
    });
}

fn bridge_port() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        ip_batch("link add va type veth peer name vb\nlink add br0 type bridge\nlink set va master br0\n")
            .await;
        let bridge = ns.until("br0 exists", |s| link(s, "br0")).await;
        let members = |s: &Snapshot| s.links.members(bridge.index).count();
        ns.until("a is a port", |s| (members(s) == 1).then_some(())).await;
        assert_eq!(link(&ns.snapshot(), "va").and_then(|a| a.master), Some(bridge.index));
        ip("link set va nomaster").await;
        ns.until("a is no port", |s| (members(s) == 0).then_some(())).await;
        assert!(link(&ns.snapshot(), "va").is_some());
        ns.converges().await;
    });
}

fn moved() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        let mut other = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec sleep 1000"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("unshare runs");
        let mut lines = BufReader::new(other.stdout.take().expect("its output")).lines();
        assert_eq!(lines.next_line().await.expect("a line").as_deref(), Some("ready"));
        let pid = other.id().expect("it runs");
        ip_batch(
            "link add va type veth peer name vb\nlink set va up\naddress add 192.0.2.1/24 dev va\n\
             route add 198.51.100.0/24 via 192.0.2.2\n",
        )
        .await;
        let a = ns.until("a exists", |s| link(s, "va")).await;
        ns.until("its route exists", |s| s.routes.through(a.index).nth(1).map(|_| ())).await;
        ip(&format!("link set va netns {pid}")).await;
        ns.until("a is gone", |s| link(s, "va").is_none().then_some(())).await;
        let gone = ns.snapshot();
        assert_eq!(gone.routes.through(a.index).count(), 0);
        assert!(gone.addresses.of(a.index).is_empty());
        let b = ns.until("b's peer is elsewhere", |s| link(s, "vb")?.parent?.netns).await;
        assert!(b.0 >= 0);
        ns.converges().await;
        other.kill().await.expect("it ends"); // and takes the pair along
        ns.until("b is gone", |s| link(s, "vb").is_none().then_some(())).await;
        ns.converges().await;
    });
}

fn tun() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        ip("tuntap add tun0 mode tun").await;
        let tun = ns.until("tun0 exists", |s| link(s, "tun0")).await;
        assert_eq!((tun.kind, tun.address), (LinkKind::Tun, HardwareAddress::Absent));
        ns.converges().await;
    });
}

fn quiet() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        ip_batch("link add va type veth peer name vb\nlink set va up\nlink set vb up\n").await;
        ns.until("a has a carrier", |s| link(s, "va").filter(|a| a.carrier == Some(true))).await;
        ns.converges().await;
        // Each of these makes the kernel report the link; none changes what is kept of it.
        ip_batch("link set va promisc on\nlink set va promisc off\nlink set va txqueuelen 77\n").await;
        ip("link set va mtu 1300").await;
        // The store may still have told of IPv6 settling down; from a link it tells the MTU and nothing before it.
        loop {
            let Batch::Changes(changes) = ns.batch().await else { panic!("a resync") };
            let mut links = changes.iter().filter_map(|change| match change {
                Change::Link { old: Some(old), new: Some(new) } => Some((old, new)),
                _ => None,
            });
            if let Some((old, new)) = links.next() {
                assert_eq!((old.mtu, new.mtu), (1500, 1300));
                assert_eq!(Link { mtu: 1300, ..Link::clone(old) }, **new);
                assert_eq!(links.count(), 0);
                return;
            }
        }
    });
}
