//! A process of the host that tries all the time to reach what it must not.
//!
//! It sends datagrams to a port of each address in turn. The kernel refuses those that the chain drops at once
//! (`EPERM`), so a datagram that is taken is a hole. What else goes out is counted by a table of the test's own, after
//! the chain.

use anyhow::{Context, ensure};
use causeway_rig::{Process, Program};
use serde_json::Value;

use super::{DEADLINE, World};

/// The port that nobody opens.
pub const PORT: u16 = 9;

/// Prints a number of rounds now and then, and every hole. `sys.argv[1]` is the port, the rest addresses.
const SCRIPT: &str = r#"
import errno, socket, sys
port = int(sys.argv[1])
targets = [(socket.AF_INET6 if ":" in a else socket.AF_INET, a) for a in sys.argv[2:]]
sockets = {f: socket.socket(f, socket.SOCK_DGRAM) for f, _ in targets}
rounds = 0
while True:
    for family, address in targets:
        try:
            sockets[family].sendto(b"x", (address, port))
            print("hole", address, flush=True)
        except PermissionError:
            pass
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                print("odd", address, error, flush=True)
    rounds += 1
    if rounds & (rounds - 1) == 0 or rounds % 10000 == 0:
        print("rounds", rounds, flush=True)
"#;

/// The table that counts what gets through, after the chain of isolation.
const WITNESS: &str = "table inet witness {\n set targets { type ipv4_addr; }\n set targets6 { type ipv6_addr; }\n\
    counter through { }\n chain after { type filter hook output priority 100; policy accept;\n\
    ip daddr @targets udp dport 9 counter name through\n ip6 daddr @targets6 udp dport 9 counter name through\n }\n }\n";

/// A running prober.
pub struct Prober {
    process: Process,
}

impl World {
    /// A road to pods: without one nothing is sent at all.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn road_to_pods(&self) -> anyhow::Result<()> {
        self.node
            .ip_batch(
                "link add pods0 type veth peer name pods1\nlink set pods0 up\nlink set pods1 up\n\
                 addr add 10.128.255.1/14 dev pods0\naddr add fd00:10:128:ffff::1/48 dev pods0 nodad\n",
            )
            .await
    }

    /// Starts to probe these addresses.
    ///
    /// # Errors
    /// It does not start.
    pub async fn probe(&self, addresses: &[String]) -> anyhow::Result<Prober> {
        let of = |six: bool| {
            addresses.iter().filter(move |a| a.contains(':') == six).cloned().collect::<Vec<_>>().join(", ")
        };
        let mut witness = WITNESS.to_owned();
        for (set, elements) in [("targets", of(false)), ("targets6", of(true))] {
            if !elements.is_empty() {
                witness = format!("{witness}add element inet witness {set} {{ {elements} }}\n");
            }
        }
        self.nft_run(&witness).await?;
        let program =
            Program::new("python3").named("prober").args(["-c", SCRIPT, &PORT.to_string()]).args(addresses);
        let process = self.node.spawn(program).await?;
        process.says(0, "rounds 1\n", DEADLINE).await?;
        Ok(Prober { process })
    }

    /// How many probes got through, as the kernel counted them.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn got_through(&self) -> anyhow::Result<u64> {
        let listing: Value =
            serde_json::from_str(&self.nft(&["-j", "list", "counter", "inet", "witness", "through"]).await?)?;
        let objects = listing.get("nftables").and_then(Value::as_array).context("a listing")?;
        objects.iter().find_map(|object| object.pointer("/counter/packets")?.as_u64()).context("a counter")
    }
}

impl Prober {
    /// How many rounds it has told of, and every line about anything else.
    ///
    /// # Errors
    /// Its log cannot be read.
    pub fn told(&self) -> anyhow::Result<(u64, Vec<String>)> {
        let log = self.process.log_text()?;
        let rounds =
            log.lines().filter_map(|line| line.strip_prefix("rounds ")?.parse().ok()).max().unwrap_or(0);
        let others =
            log.lines().filter(|line| !line.starts_with("rounds ")).take(20).map(str::to_owned).collect();
        Ok((rounds, others))
    }

    /// It probed all the time, and nothing got through.
    ///
    /// # Errors
    /// Something did, or it did not probe.
    pub async fn found_no_hole(&self, world: &World) -> anyhow::Result<u64> {
        ensure!(self.process.is_running(), "the prober has ended: {}", self.process.log_text()?);
        let (rounds, others) = self.told()?;
        ensure!(others.is_empty(), "{others:?}");
        let through = world.got_through().await?;
        ensure!(through == 0, "{through} packets got through");
        ensure!(rounds > 0, "nothing was probed");
        Ok(rounds)
    }
}
