//! Changes of the kernel, seen by a store.

use causeway_netlink::{
    IfIndex, KernelError, KernelWriter, Neighbour, Prefix, RouteProtocol, Scope, Snapshot, TABLE_MAIN, Via,
};

use crate::namespace::{Case, Namespace, in_namespace, ip_batch};

pub(crate) fn all() -> Vec<Case> {
    vec![
        ("a link, its addresses and routes are as written, and writing again changes nothing", written),
        ("permanent neighbours of one link are written and read, and no others", neighbours),
        ("what the kernel refuses is told with what was tried", refused),
    ]
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

fn index(snapshot: &Snapshot, name: &str) -> IfIndex {
    snapshot.links.by_any_name(name).expect("the link").index
}

fn addresses(snapshot: &Snapshot, link: IfIndex) -> Vec<String> {
    let global = snapshot.addresses.of(link).iter().filter(|address| address.scope != Scope::LINK);
    global.map(|address| address.prefix.to_string()).collect()
}

fn written() {
    in_namespace(|| async {
        ip_batch("link add va type veth peer name vb\nlink set vb up\n").await;
        let mut ns = Namespace::new().await;
        let writer = KernelWriter::open().expect("a writer");
        let link = index(&ns.snapshot(), "va");
        let via = |destination: &str, gateway: &str| Via {
            destination: prefix(destination),
            gateway: gateway.parse().expect("an address"),
            link,
            protocol: RouteProtocol::BOOT,
        };
        for _ in 0..2 {
            writer.set_up(link).await.expect("up");
            writer.add_address(link, prefix("10.128.0.2/24")).await.expect("an address");
            writer.add_address(link, prefix("fd01::2/64")).await.expect("an IPv6 address");
            writer.replace_route(&via("10.128.0.0/14", "10.128.0.1")).await.expect("a route");
            writer.replace_route(&via("fd01::/48", "fd01::1")).await.expect("an IPv6 route");
        }
        // Another router in place of the first.
        writer.replace_route(&via("10.128.0.0/14", "10.128.0.9")).await.expect("another route");
        ns.until("all of it", |s| {
            let gateways: Vec<String> = s
                .routes
                .through(link)
                .filter(|route| route.key.table == TABLE_MAIN)
                .filter_map(|route| route.hops.as_slice().first()?.gateway)
                .map(|gateway| gateway.to_string())
                .collect();
            let up = s.links.get(link)?.flags.is_up();
            let have = addresses(s, link) == ["10.128.0.2/24", "fd01::2/64"];
            (up && have && gateways == ["10.128.0.9", "fd01::1"]).then_some(())
        })
        .await;
        ns.converges().await;
        for _ in 0..2 {
            writer.delete_address(link, prefix("10.128.0.2/24")).await.expect("gone");
        }
        ns.until("one address", |s| (addresses(s, link) == ["fd01::2/64"]).then_some(())).await;
    });
}

fn neighbours() {
    in_namespace(|| async {
        ip_batch(
            "link add va type veth peer name vb\nlink set va up\nlink set vb up\n\
             address add 192.0.2.1/24 dev va\naddress add 192.0.2.2/24 dev vb\n\
             neigh add 192.0.2.8 lladdr 02:00:00:00:00:08 dev vb nud permanent\n\
             neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev va nud stale\n",
        )
        .await;
        let ns = Namespace::new().await;
        let writer = KernelWriter::open().expect("a writer");
        let link = index(&ns.snapshot(), "va");
        let one = |address: &str, mac: &str| Neighbour {
            address: address.parse().expect("an address"),
            mac: mac.parse().expect("a MAC address"),
        };
        assert_eq!(writer.neighbours(link).await.expect("an answer"), []);
        let four = one("192.0.2.7", "0a:58:0a:80:00:01");
        let six = one("fd01::1", "0a:58:0a:80:00:01");
        for neighbour in [one("192.0.2.7", "02:00:00:00:00:99"), four, four, six] {
            writer.set_neighbour(link, neighbour).await.expect("a neighbour");
        }
        let mut found = writer.neighbours(link).await.expect("an answer");
        found.sort_by_key(|neighbour| neighbour.address);
        assert_eq!(found, [four, six]);
        for _ in 0..2 {
            writer.delete_neighbour(link, four.address).await.expect("gone");
        }
        assert_eq!(writer.neighbours(link).await.expect("an answer"), [six]);
    });
}

fn refused() {
    in_namespace(|| async {
        let writer = KernelWriter::open().expect("a writer");
        let nobody = IfIndex::new(4711).expect("an index");
        let error = writer.set_up(nobody).await.expect_err("no such link");
        assert_eq!(
            (error.kernel(), error.to_string()),
            (Some(KernelError::Absent), "setting link 4711 up".into())
        );
        let lo = IfIndex::new(1).expect("an index");
        let (destination, gateway) = (prefix("10.128.0.0/14"), "192.0.2.1".parse().expect("an address"));
        let via = Via { destination, gateway, link: lo, protocol: RouteProtocol::BOOT };
        let error = writer.replace_route(&via).await.expect_err("no way there");
        assert!(error.to_string().starts_with("adding route 10.128.0.0/14 via 192.0.2.1"), "{error}");
    });
}
