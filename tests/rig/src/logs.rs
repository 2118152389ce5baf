//! Which log files the parts of a rig write.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::process::lock;
use crate::wait::tail;

/// The log files of one rig, in the order in which the parts were started.
#[derive(Debug, Default)]
pub(crate) struct Logs(Mutex<Vec<(String, PathBuf)>>);

impl Logs {
    pub(crate) fn add(&self, part: String, path: PathBuf) {
        let mut logs = lock(&self.0);
        if !logs.iter().any(|(_, known)| *known == path) {
            logs.push((part, path));
        }
    }

    /// The end of each log, for the message of a wait that ran out.
    pub(crate) fn tails(&self) -> String {
        let mut text = String::new();
        for (part, path) in lock(&self.0).iter() {
            let end = tail(path);
            if !end.is_empty() {
                writeln!(text, "--- {part} ({})\n{end}", path.display()).ok();
            }
        }
        text
    }
}
