//! `dump`: everything that a supporter needs, without secrets, as a folder or a tar file.
//!
//! [`observe`] gathers documents, [`redact`] takes out what looks like a credential, [`write`] makes the target. A part
//! that cannot be gathered is listed in the manifest and does not stop the rest.

pub mod observe;
pub mod redact;
pub mod write;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::agent::render::line;
use crate::output::Shown;

/// What was gathered, before anything is written.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Documents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Parts that could not be gathered, and why.
    pub missing: BTreeMap<String, String>,
    /// Texts that were taken out.
    pub removed: usize,
}

/// The manifest: what is in a dump and what is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Version of the program that made it.
    pub version: String,
    /// When.
    pub made: Timestamp,
    /// Files with their size in bytes and SHA-256.
    pub files: BTreeMap<String, FileEntry>,
    /// Parts that could not be gathered, and why.
    pub missing: BTreeMap<String, String>,
    /// How many texts were taken out because they looked like credentials.
    pub removed: usize,
    /// What is never in a dump.
    pub never: &'static [&'static str],
}

/// One file of a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileEntry {
    /// Size in bytes.
    pub bytes: usize,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// What a dump made by this program never has in it.
const NEVER: &[&str] = &["Secrets", "ConfigMaps", "kubeconfigs", "tokens", "pods' environment", "logs"];

impl Gathered {
    /// The manifest of it.
    #[must_use]
    pub fn manifest(&self, made: Timestamp) -> Manifest {
        let entry = |bytes: &[u8]| {
            let digest: [u8; 32] = Sha256::digest(bytes).into();
            let sha256 = digest.iter().fold(String::new(), |mut text, byte| {
                // Writing to a String cannot fail.
                write!(text, "{byte:02x}").ok();
                text
            });
            FileEntry { bytes: bytes.len(), sha256 }
        };
        Manifest {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made,
            files: self.files.iter().map(|(path, bytes)| (path.clone(), entry(bytes))).collect(),
            missing: self.missing.clone(),
            removed: self.removed,
            never: NEVER,
        }
    }
}

impl Shown for Manifest {
    fn text(&self, _now: Timestamp) -> String {
        let mut text = String::new();
        for (path, file) in &self.files {
            line(&mut text, format_args!("{:>8}  {path}", file.bytes));
        }
        for (part, why) in &self.missing {
            line(&mut text, format_args!("MISSING   {part}: {why}"));
        }
        line(
            &mut text,
            format_args!("{} text(s) that looked like credentials were taken out.", self.removed),
        );
        line(&mut text, format_args!("Please look through it before you pass it on."));
        text
    }
}
