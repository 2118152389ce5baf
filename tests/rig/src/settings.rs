//! Where the rig finds its parts and keeps its folders. The only reader of the environment in this crate.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::require::Level;

/// What the environment says; see the crate's README for the variables.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of the built parts (`CAUSEWAY_CACHE`).
    pub cache: PathBuf,
    /// Folder that holds one folder per rig (`CAUSEWAY_RIG_DIR`). Lies on a real disk: containerd cannot put an
    /// overlay on an overlay.
    pub base: PathBuf,
    /// Levels whose missing requirements fail instead of being ignored (`CAUSEWAY_REQUIRE`, comma separated).
    pub required: Vec<Level>,
    /// File to which each test binary appends its counts per level (`CAUSEWAY_TALLY`).
    pub tally: Option<PathBuf>,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// Without `CAUSEWAY_CACHE` and `HOME`, and for an unknown level in `CAUSEWAY_REQUIRE`.
    pub fn from_env() -> anyhow::Result<Self> {
        let cache = match (variable("CAUSEWAY_CACHE"), variable("XDG_CACHE_HOME"), variable("HOME")) {
            (Some(cache), _, _) => PathBuf::from(cache),
            (None, Some(xdg), _) => Path::new(&xdg).join("causeway"),
            (None, None, Some(home)) => Path::new(&home).join(".cache/causeway"),
            (None, None, None) => bail!("neither CAUSEWAY_CACHE nor HOME is set: the parts cannot be found"),
        };
        let cache = std::path::absolute(cache).context("the folder of the parts")?;
        let base = variable("CAUSEWAY_RIG_DIR").unwrap_or_else(|| "/var/lib/causeway-rig".to_owned());
        let base = std::path::absolute(base).context("the folder of the rigs")?;
        let required = variable("CAUSEWAY_REQUIRE")
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .context("CAUSEWAY_REQUIRE")?;
        Ok(Self { cache, base, required, tally: variable("CAUSEWAY_TALLY").map(PathBuf::from) })
    }

    /// Root file system of the nodes: a Debian tree with OVS, OVN, etcd, containerd and nftables.
    #[must_use]
    pub fn rootfs(&self) -> PathBuf {
        self.cache.join("rootfs")
    }

    /// Folder of the Kubernetes programs.
    #[must_use]
    pub fn kube(&self) -> PathBuf {
        self.cache.join("kube/bin")
    }

    /// Folder of small programs made for the rig.
    #[must_use]
    pub fn tools(&self) -> PathBuf {
        self.cache.join("bin")
    }

    /// Folder of the container image archives.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.cache.join("images")
    }

    /// The User Mode Linux kernel.
    #[must_use]
    pub fn uml(&self) -> PathBuf {
        self.cache.join("uml/linux")
    }
}

/// Folder of the programs built by cargo beside the running one: `target/<profile>`.
///
/// # Errors
/// If the running program's own path cannot be read.
pub fn built_programs() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("the path of the running program")?;
    let folder = program.parent().context("the folder of the running program")?;
    // Test programs and benches lie one folder deeper.
    let deeper = matches!(folder.file_name().and_then(|name| name.to_str()), Some("deps" | "examples"));
    Ok(if deeper { folder.parent().unwrap_or(folder) } else { folder }.to_owned())
}

#[allow(clippy::disallowed_methods, reason = "this module is the reader of the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
