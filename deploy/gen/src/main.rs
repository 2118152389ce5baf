//! Writes the generated manifests of `deploy/`, or with `--check` says whether they are current.
//!
//! In: the types of `causeway-api`, and the descriptions in [`rbac`], [`admission`] and [`manifests`]. Out: `deploy/crds`,
//! `deploy/rbac` and `deploy/manifests`, which hold nothing else, and files of `deploy/admission` beside those written by
//! hand; or with `--render` the workloads with other options in any folder.

#![forbid(unsafe_code)]

mod admission;
mod manifests;
mod names;
mod output;
mod rbac;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::output::{Beside, File, sync};

/// Writes the generated manifests, or checks that they are current.
#[derive(Parser)]
struct Args {
    /// Change nothing; exit with 1 when a file is missing, stale or no longer generated.
    #[arg(long, conflicts_with = "render")]
    check: bool,
    /// The folder `deploy/`.
    #[arg(long, default_value_os_t = Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))]
    deploy: PathBuf,
    /// Write only the workloads, into this folder, with the options below.
    #[arg(long)]
    render: Option<PathBuf>,
    #[command(flatten)]
    options: manifests::Options,
}

/// Stands at the top of the definitions.
const OF_TYPES: &str = "# Generated from the types in shared/api by `make generate`. Do not edit.\n";
/// Stands at the top of the other files.
const OF_GEN: &str = "# Generated from deploy/gen by `make generate`. Do not edit.\n#\n";

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let manifests = texts(&manifests::files(&args.options))?;
    if let Some(folder) = args.render {
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        for (name, text) in manifests {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut stale = Vec::new();
    for (folder, wanted, beside) in [
        ("crds", crds()?, Beside::Nothing),
        ("rbac", texts(&rbac::files())?, Beside::Nothing),
        ("admission", texts(&admission::files())?, Beside::HandWritten(OF_GEN)),
        ("manifests", manifests, Beside::Nothing),
    ] {
        stale.extend(sync(&args.deploy.join(folder), &wanted, beside, args.check)?);
    }
    for path in &stale {
        eprintln!(
            "{} is not what it is generated from; run `make generate` and commit the result",
            path.display()
        );
    }
    Ok(if stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// File name and text of every file of ours.
fn texts(files: &[File]) -> anyhow::Result<Vec<(String, String)>> {
    files.iter().map(|file| Ok((file.name.clone(), file.text(OF_GEN)?))).collect()
}

/// File name and text of every CRD.
fn crds() -> anyhow::Result<Vec<(String, String)>> {
    causeway_api::crd::all()
        .into_iter()
        .map(|crd| {
            let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
            let text = serde_yaml_ng::to_string(&crd).with_context(|| format!("rendering {name}"))?;
            Ok((name, format!("{OF_TYPES}{text}")))
        })
        .collect()
}
