//! What happened, for whoever has to find out why it ended badly.

use std::collections::VecDeque;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::ensure;

use super::act::Outcome;

/// Lines that are kept.
const KEPT: usize = 80;
/// Fewer things than this say nothing about how many were refused.
const FEW: usize = 20;

/// The last things that happened, and how many did. Clones share it.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<Lines>>);

struct Lines {
    start: Instant,
    last: VecDeque<String>,
    done: usize,
    refused: usize,
}

impl Default for Journal {
    fn default() -> Self {
        let lines = Lines { start: Instant::now(), last: VecDeque::new(), done: 0, refused: 0 };
        Self(Arc::new(Mutex::new(lines)))
    }
}

impl Journal {
    /// Something that happened.
    pub fn note(&self, what: impl Display) {
        let mut lines = self.lock();
        let line = format!("{:8.3} {what}", lines.start.elapsed().as_secs_f64());
        if lines.last.len() == KEPT {
            lines.last.pop_front();
        }
        lines.last.push_back(line);
    }

    /// An act and what became of it.
    pub fn act(&self, act: &impl Display, outcome: &Outcome) {
        match outcome {
            Outcome::Done => {
                self.lock().done += 1;
                self.note(act);
            }
            Outcome::Refused(why) => {
                self.lock().refused += 1;
                self.note(format!("{act}\n         refused: {why}"));
            }
        }
    }

    /// How much happened, and the last of it.
    #[must_use]
    pub fn summary(&self) -> String {
        let lines = self.lock();
        let (done, refused, acts) = (lines.done, lines.refused, lines.done + lines.refused);
        let last = lines.last.iter().rev().find(|line| line.contains("at rest")).cloned().unwrap_or_default();
        format!("{acts} acts, {refused} refused, {done} done; {}", last.trim_start())
    }

    /// The kept lines.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.lock();
        let mut text = format!("{} acts, and {} that were refused; the last:\n", lines.done, lines.refused);
        for line in &lines.last {
            writeln!(text, "{line}").ok();
        }
        text
    }

    /// Checks that most of what was tried did happen: otherwise the acts are wrong, not the cluster.
    ///
    /// # Errors
    /// Most of it was refused.
    pub fn is_mostly_done(&self) -> anyhow::Result<()> {
        let (done, refused) = {
            let lines = self.lock();
            (lines.done, lines.refused)
        };
        ensure!(done >= FEW, "only {done} acts");
        ensure!(done > 2 * refused, "{refused} of {} acts were refused", done + refused);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
