//! Runs of the `nft` program.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tracing::debug;

use crate::error::NftError;
use crate::listing;
use crate::model::{Owned, Transaction};
use crate::monitor::OwnWrites;
use crate::observed::Observed;

/// How long one run may take. The slowest thing that is asked for, a whole table with a hundred thousand elements, takes
/// about a second.
const DEADLINE: Duration = Duration::from_secs(30);

/// How much of what nft complains about is kept, in characters.
const SAID: usize = 500;

/// The `nft` program: a new process for each listing and each transaction, with the namespaces of this one.
#[derive(Debug, Clone)]
pub struct Nft {
    program: OsString,
    own: OwnWrites,
}

impl Default for Nft {
    /// The `nft` of the search path.
    fn default() -> Self {
        Self::new("nft")
    }
}

impl Nft {
    /// The program at this path, or of this name.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), own: OwnWrites::default() }
    }

    /// Which changes are this value's, for a [`crate::Watcher`].
    #[must_use]
    pub fn own_writes(&self) -> OwnWrites {
        self.own.clone()
    }

    /// What there is of `owned`; nothing, if there is no such table.
    ///
    /// # Errors
    /// The program is missing, fails, or lists what cannot be read.
    pub async fn list(&self, owned: &Owned) -> Result<Observed, NftError> {
        let doing = "listing the table";
        let text = match self.run(&["-j", "list", "table", "inet", owned.table], "", doing).await {
            Err(error) if error.is_absent() => return Ok(Observed::default()),
            text => text?,
        };
        let mut observed = listing::read(&text, owned)?;
        for (name, chain) in &mut observed.chains {
            if listing::has_cgroups(chain) {
                match self.run(&["list", "chain", "inet", owned.table, name.as_str()], "", doing).await {
                    Ok(text) => listing::fill_levels(chain, &text),
                    // Gone since: whoever did that is heard of, and the rules without levels are nobody's meanwhile.
                    Err(error) if error.is_absent() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(observed)
    }

    /// Makes the kernel take `transaction`; all of it, or nothing of it on an error.
    ///
    /// # Errors
    /// The program is missing or fails, or the kernel refuses.
    ///
    /// # Cancellation
    /// nft is killed; the kernel has taken the transaction or not.
    pub async fn apply(&self, transaction: &Transaction) -> Result<(), NftError> {
        let text = transaction.to_string();
        self.run(&["-f", "-"], &text, "changing the table").await.map(drop)
    }

    /// Checks whether the kernel would take `transaction`, without changing anything.
    ///
    /// # Errors
    /// As [`Nft::apply`].
    pub async fn check(&self, transaction: &Transaction) -> Result<(), NftError> {
        let text = transaction.to_string();
        self.run(&["-c", "-f", "-"], &text, "checking a change").await.map(drop)
    }

    async fn run(&self, arguments: &[&str], input: &str, doing: &'static str) -> Result<String, NftError> {
        let mut child = self.spawn(arguments)?;
        // Before nft can have written anything: word of a change may come before the program has ended.
        let process = child.id().filter(|_| !input.is_empty());
        process.inspect(|process| self.own.begin(*process));
        let talk = async {
            if let Some(mut stdin) = child.stdin.take() {
                // A program that ends without reading says why on stderr.
                if let Err(error) = stdin.write_all(input.as_bytes()).await {
                    debug!(%error, "nft stopped reading");
                }
            }
            child.wait_with_output().await
        };
        let ended = timeout(DEADLINE, talk).await;
        let result = match ended {
            Err(_elapsed) => Err(NftError::Deadline { doing, after: DEADLINE }),
            Ok(Err(error)) => Err(self.cannot_start(error)),
            Ok(Ok(output)) if output.status.success() => {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Ok(Ok(output)) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let said =
                    if stderr.trim().is_empty() { output.status.to_string() } else { shorten(&stderr) };
                Err(NftError::Refused { doing, said })
            }
        };
        process.inspect(|process| self.own.failed(*process));
        result
    }

    fn spawn(&self, arguments: &[&str]) -> Result<Child, NftError> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("LC_ALL", "C").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| self.cannot_start(error))
    }

    fn cannot_start(&self, source: io::Error) -> NftError {
        let program = self.program.to_string_lossy().into_owned();
        if source.kind() == io::ErrorKind::NotFound {
            return NftError::Missing { program };
        }
        NftError::Start { program, source }
    }
}

/// The lines that say something, on one line: nft repeats the input under each complaint, and points at a place in it.
fn shorten(stderr: &str) -> String {
    let complaints: Vec<&str> =
        stderr.lines().filter(|line| line.contains("Error:")).map(str::trim).collect();
    let text = if complaints.is_empty() {
        stderr.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        complaints.join("; ")
    };
    text.chars().take(SAID).collect()
}

#[cfg(test)]
mod tests;
