//! Process 1 of a pid namespace, which lives exactly as long as the rig's owner wants it to.
//!
//! It is a shell that waits for its standard input to close. The other end of that pipe is held by the owner alone, so
//! the kernel closes it however the owner dies, the shell ends, and with process 1 ends everything in the namespace.
//! (A parent death signal would follow the thread that started it, not the process.)

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, bail};

use crate::ns::only_child;

/// Printed by the shell when its namespaces are ready.
pub(crate) const UP: &str = "up";

/// A started `unshare --fork`, its child, and the pipe that keeps them.
#[derive(Debug)]
pub(crate) struct Holder {
    child: Child,
    lifeline: Option<ChildStdin>,
    init: u32,
}

impl Holder {
    /// Starts `command` and waits until its shell reports that it is up. Blocks.
    ///
    /// # Errors
    /// If it ends instead; the text carries what it wrote to `log`, its error output.
    pub(crate) fn start(mut command: Command, mut log: File) -> anyhow::Result<Starting> {
        let errors = log.try_clone().context("sharing the log")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().context("starting the shell of a namespace")?;
        let lifeline = child.stdin.take();
        let Some(output) = child.stdout.take() else { bail!("the shell has no output") };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("waiting for the shell of a namespace")?;
        if line.trim_end() != UP {
            drop(lifeline);
            child.wait().context("waiting for the shell of a namespace")?;
            let mut text = String::new();
            log.rewind().and_then(|()| log.read_to_string(&mut text)).context("reading the log")?;
            bail!("the namespaces did not come up: {}", text.trim_end());
        }
        Ok(Starting { child, lifeline })
    }

    /// Process 1 of the namespace, in the numbering of the machine.
    pub(crate) fn init(&self) -> u32 {
        self.init
    }

    /// Lets go: the shell ends, and everything with it. Does not wait.
    pub(crate) fn release(&mut self) {
        self.lifeline = None;
    }

    /// Waits until all is gone. Its children outside, if any, have to be reaped by whoever started them.
    pub(crate) fn wait(&mut self) {
        self.release();
        // Fails only if it was waited for already.
        self.child.wait().ok();
    }
}

/// A shell that is up, seen from a thread whose `/proc` may be that of another namespace.
#[derive(Debug)]
pub(crate) struct Starting {
    child: Child,
    lifeline: Option<ChildStdin>,
}

impl Starting {
    /// Finds process 1. To be called from a thread that sees the machine's `/proc`.
    ///
    /// # Errors
    /// If it is gone.
    pub(crate) fn find_init(self) -> anyhow::Result<Holder> {
        let init = only_child(self.child.id()).context("the first process of a namespace")?;
        Ok(Holder { child: self.child, lifeline: self.lifeline, init })
    }
}
