//! Asks a program for its numbers and its readiness, inside the network namespace of its node and without another
//! program in between.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use causeway_rig::{Node, Process};
use nix::sched::{CloneFlags, setns};
use tokio::time::{Instant, sleep, timeout};

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// Time between two questions: what a measure of readiness is exact to.
const PAUSE: Duration = Duration::from_millis(1);

/// Where one program answers. Cheap to clone.
#[derive(Clone)]
pub struct Probe {
    namespace: Arc<File>,
    address: SocketAddr,
}

impl Probe {
    /// Of a program that serves its numbers at `address` in a node.
    ///
    /// # Errors
    /// The node is gone, or this is no address.
    pub fn new(node: &Node, address: &str) -> anyhow::Result<Self> {
        let path = format!("/proc/{}/ns/net", node.init());
        let namespace = File::open(&path).with_context(|| format!("opening {path}"))?;
        Ok(Self { namespace: Arc::new(namespace), address: address.parse().context("an address")? })
    }

    /// What it answers at a path: HTTP status and body.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn ask(&self, path: &'static str) -> anyhow::Result<(u16, String)> {
        let (this, (answer, answered)) = (self.clone(), tokio::sync::oneshot::channel());
        // A socket belongs to the namespace of the thread that makes it: a thread of its own, which then ends.
        std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || answer.send(this.ask_blocking(path)).ok())
            .context("a thread")?;
        answered.await.map_err(|_| anyhow!("the thread of a probe died"))?
    }

    fn ask_blocking(&self, path: &str) -> anyhow::Result<(u16, String)> {
        setns(&*self.namespace, CloneFlags::CLONE_NEWNET).context("entering the node's network namespace")?;
        get(self.address, path)
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what it said last; at once if it ends.
    pub async fn ready(&self, process: &Process) -> anyhow::Result<()> {
        let mut last = String::new();
        let asking = async {
            loop {
                match self.ask("/readyz").await {
                    Ok((200, _)) => return Ok(()),
                    Ok((_, text)) => last = text,
                    Err(error) => last = format!("{error:#}"),
                }
                if !process.is_running() {
                    bail!("{} has ended:\n{}", process.name(), process.log_text()?);
                }
                sleep(PAUSE).await;
            }
        };
        match timeout(PATIENCE, asking).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("{} is not ready after {PATIENCE:?}: {last}", process.name()),
        }
    }

    /// Its numbers now.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn numbers(&self) -> anyhow::Result<Numbers> {
        let (status, text) = self.ask("/metrics").await?;
        anyhow::ensure!(status == 200, "status {status}: {text}");
        Ok(Numbers(text))
    }

    /// Waits until it is ready, has made so many passes and has none to make, and its numbers are good for `accept`.
    ///
    /// # Errors
    /// After [`PATIENCE`].
    pub async fn rests(&self, process: &Process, passes: f64) -> anyhow::Result<Numbers> {
        self.ready(process).await?;
        let begun = Instant::now();
        loop {
            let numbers = self.numbers().await?;
            let made = numbers.sum("causeway_reconcile_passes_total")?;
            let due = numbers.sum("causeway_reconcile_unfinished")?;
            if made >= passes && due == 0.0 {
                return Ok(numbers);
            }
            if begun.elapsed() > PATIENCE {
                bail!("{} has made {made} passes of {passes} and has {due} to make", process.name());
            }
            sleep(PAUSE).await;
        }
    }
}

/// Asks for a path from this thread's namespace: status and body.
///
/// # Errors
/// Nobody answers, or not in HTTP.
pub fn get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    parse(&text).with_context(|| format!("an answer that begins with {:?}", text.lines().next()))
}

fn parse(text: &str) -> anyhow::Result<(u16, String)> {
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the head")?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).context("no status")?;
    Ok((status, body.to_owned()))
}

/// Numbers of a program in the text form of Prometheus.
#[derive(Clone, Debug)]
pub struct Numbers(pub String);

impl Numbers {
    /// Sum of a metric over its labels; 0 if there is none yet.
    ///
    /// # Errors
    /// A line that is not of this form.
    pub fn sum(&self, metric: &str) -> anyhow::Result<f64> {
        self.sum_if(metric, |_| true)
    }

    /// Sum of a metric over those of its labels that are good for `accept`.
    ///
    /// # Errors
    /// A line that is not of this form.
    pub fn sum_if(&self, metric: &str, accept: impl Fn(&str) -> bool) -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for line in self.0.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').with_context(|| format!("metric line {line:?}"))?;
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            if name == metric && accept(labels) {
                sum += value.parse::<f64>().with_context(|| format!("metric line {line:?}"))?;
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp, reason = "whole numbers are exact")]
    fn a_metric_is_summed_over_its_labels_and_no_other_is() {
        let numbers = Numbers(
            "# TYPE depth gauge\ndepth{room=\"a\"} 2\ndepth{room=\"b\"} 3\ndepth_max 9\ntook_sum 0.25\n"
                .to_owned(),
        );
        assert_eq!(numbers.sum("depth").unwrap(), 5.0);
        assert_eq!(numbers.sum_if("depth", |labels| labels.contains("\"b\"")).unwrap(), 3.0);
        assert_eq!(numbers.sum("absent").unwrap(), 0.0);
        assert_eq!(numbers.sum("took_sum").unwrap(), 0.25);
        assert!(Numbers("depth x\n".to_owned()).sum("depth").is_err());
    }

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        assert_eq!(parse("HTTP/1.1 503 No\r\nA: b\r\n\r\nwhy\n").unwrap(), (503, "why\n".to_owned()));
        assert!(parse("HTTP/1.1 200 OK\r\n").is_err());
        assert!(parse("garbage\r\n\r\n").is_err());
    }
}
