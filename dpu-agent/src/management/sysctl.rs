//! Settings of the kernel, as files below `/proc/sys`.

use std::io;
use std::path::PathBuf;

/// Reads and writes settings of this network namespace.
#[derive(Clone, Debug)]
pub(super) struct Sysctls(PathBuf);

impl Sysctls {
    pub(super) fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// A setting's value; none if the kernel does not have it.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(path)).ok().map(|text| text.trim().to_owned())
    }

    pub(super) fn write(&self, path: &str, value: &str) -> io::Result<()> {
        std::fs::write(self.0.join(path), value)
    }
}
