//! Writes the generated manifests of `deploy/`, or with `--check` says whether they are current.
//!
//! In: the types of `causeway-api`. Out: `deploy/crds/*.yaml`. Never edits a file that it does not generate.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

/// Writes the generated manifests, or checks that they are current.
#[derive(Parser)]
struct Args {
    /// Change nothing; exit with 1 when a file is missing, stale or no longer generated.
    #[arg(long)]
    check: bool,
    /// The folder `deploy/`.
    #[arg(long, default_value_os_t = Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))]
    deploy: PathBuf,
}

/// Stands at the top of every generated file.
const HEADER: &str = "# Generated from the types in shared/api by `make generate`. Do not edit.\n";

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut stale = Vec::new();
    let folder = args.deploy.join("crds");
    let wanted = crds()?;
    for (name, text) in &wanted {
        let path = folder.join(name);
        let current = std::fs::read_to_string(&path).unwrap_or_default();
        if current == *text {
            continue;
        }
        if args.check {
            stale.push(path);
        } else {
            std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            eprintln!("wrote {}", path.display());
        }
    }
    for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let known = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| wanted.iter().any(|w| w.0 == name));
        if known {
            continue;
        }
        if args.check {
            stale.push(path);
        } else {
            std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            eprintln!("removed {}", path.display());
        }
    }
    for path in &stale {
        eprintln!("{} is not what the types say; run `make generate` and commit the result", path.display());
    }
    Ok(if stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// File name and text of every CRD.
fn crds() -> anyhow::Result<Vec<(String, String)>> {
    causeway_api::crd::all()
        .into_iter()
        .map(|crd| {
            let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
            let text = serde_yaml_ng::to_string(&crd).with_context(|| format!("rendering {name}"))?;
            Ok((name, format!("{HEADER}{text}")))
        })
        .collect()
}
