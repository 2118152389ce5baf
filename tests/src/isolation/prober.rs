//! A process of the host that tries all the time to reach what it must not.
//!
//! It sends datagrams to a port of each address in turn. The kernel refuses those that the chain drops at once
//! (`EPERM`), so a datagram that is taken is a hole. What else goes out is counted by a table of the test's own, after
//! the chain. Addresses come and go while it runs: it says when it begins to probe one, and when it has stopped.

use anyhow::{Context, ensure};
use causeway_rig::{Mark, Process, Program, whole_lines};
use serde_json::Value;

use super::{DEADLINE, World};

/// The port that nobody opens.
pub const PORT: u16 = 9;

/// Where it is told, in the node, which addresses come and go.
const CONTROL: u16 = 9409;

/// Prints a number of rounds now and then, and every hole. `sys.argv[1]` is the port, `sys.argv[2]` that of [`CONTROL`], the
/// rest addresses. What it is told there, `probe` or `leave` and an address, is printed once it is done.
const SCRIPT: &str = r#"
import errno, socket, sys
port = int(sys.argv[1])
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
control.bind(("127.0.0.1", int(sys.argv[2])))
control.setblocking(False)
targets = dict.fromkeys(sys.argv[3:])
sockets = {f: socket.socket(f, socket.SOCK_DGRAM) for f in (socket.AF_INET, socket.AF_INET6)}
rounds = 0
def told():
    while True:
        try:
            word, address = control.recv(200).decode().split()
        except BlockingIOError:
            return
        if word == "probe":
            targets[address] = None
        else:
            targets.pop(address, None)
        print(word, address, flush=True)
while True:
    told()
    for address in targets:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
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
        self.nft_run(&format!("{WITNESS}{}", watched("add", addresses))).await?;
        let program = Program::new("python3")
            .named("prober")
            .args(["-c", SCRIPT, &PORT.to_string(), &CONTROL.to_string()])
            .args(addresses);
        let process = self.node.spawn(program).await?;
        process.says(Mark::START, "rounds 1\n", DEADLINE).await?;
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

/// What nft is told about addresses that the witness counts for, or no longer.
fn watched(verb: &str, addresses: &[String]) -> String {
    let lines = addresses.iter().map(|address| {
        let set = if address.contains(':') { "targets6" } else { "targets" };
        format!("{verb} element inet witness {set} {{ {address} }}\n")
    });
    lines.collect()
}

impl Prober {
    /// Probes these addresses as well, from when this returns at the latest.
    ///
    /// # Errors
    /// The prober or nft does not answer.
    pub async fn also(&self, world: &World, addresses: &[String]) -> anyhow::Result<()> {
        world.nft_run(&watched("add", addresses)).await?;
        self.tell(world, "probe", addresses).await
    }

    /// Probes these addresses no longer when this returns.
    ///
    /// # Errors
    /// The prober or nft does not answer.
    pub async fn no_longer(&self, world: &World, addresses: &[String]) -> anyhow::Result<()> {
        self.tell(world, "leave", addresses).await?;
        world.nft_run(&watched("delete", addresses)).await
    }

    async fn tell(&self, world: &World, verb: &str, addresses: &[String]) -> anyhow::Result<()> {
        let lines = addresses
            .iter()
            .map(|address| format!("echo '{verb} {address}' >/dev/udp/127.0.0.1/{CONTROL}\n"));
        world.node.exec(["bash", "-ec", &lines.collect::<String>()]).await?;
        for address in addresses {
            self.process.says(Mark::START, &format!("{verb} {address}\n"), DEADLINE).await?;
        }
        Ok(())
    }

    /// How many rounds it has told of, and every whole line about anything else.
    ///
    /// # Errors
    /// Its log cannot be read.
    pub fn told(&self) -> anyhow::Result<(u64, Vec<String>)> {
        let log = self.process.log_text()?;
        let rounds = whole_lines(&log)
            .filter_map(|line| line.strip_prefix("rounds ")?.parse().ok())
            .max()
            .unwrap_or(0);
        let is_usual = |line: &str| ["rounds ", "probe ", "leave "].iter().any(|word| line.starts_with(word));
        let others = whole_lines(&log).filter(|line| !is_usual(line)).take(20).map(str::to_owned).collect();
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
