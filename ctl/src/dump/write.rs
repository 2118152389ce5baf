//! Writes a dump to a folder or a tar file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use jiff::Timestamp;

use super::{Gathered, Manifest};
use crate::error::CtlError;
use crate::output::json;

/// Only the one who made a dump may read it.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Writes what was gathered to `target`: a tar file if its name ends with `.tar`, a new folder otherwise. Nothing that is
/// there is overwritten.
///
/// # Errors
/// [`CtlError::Write`].
pub fn write(gathered: &Gathered, target: &Path, now: Timestamp) -> Result<Manifest, CtlError> {
    let manifest = gathered.manifest(now);
    let mut files = gathered.files.clone();
    files.insert("manifest.json".to_owned(), json(&manifest)?.into_bytes());
    let entries = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
    let written = if target.extension().is_some_and(|extension| extension == "tar") {
        tar_file(target, entries, now)
    } else {
        folder(target, entries)
    };
    written.map_err(|source| CtlError::Write { path: target.to_owned(), source })?;
    Ok(manifest)
}

fn folder<'f>(target: &Path, files: impl Iterator<Item = (&'f str, &'f [u8])>) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(FOLDER_MODE).create(target)?;
    builder.recursive(true);
    for (path, bytes) in files {
        let path = target.join(path);
        if let Some(parent) = path.parent() {
            builder.create(parent)?;
        }
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&path)?.write_all(bytes)?;
    }
    Ok(())
}

fn tar_file<'f>(
    target: &Path,
    files: impl Iterator<Item = (&'f str, &'f [u8])>,
    now: Timestamp,
) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(target)?;
    let mut archive = tar::Builder::new(io::BufWriter::new(file));
    let root = target.file_stem().map_or_else(|| "dump".into(), |stem| stem.to_string_lossy());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(bytes.len()).map_err(io::Error::other)?);
        header.set_mode(FILE_MODE);
        header.set_mtime(u64::try_from(now.as_second()).unwrap_or_default());
        archive.append_data(&mut header, Path::new(root.as_ref()).join(path), bytes)?;
    }
    archive.into_inner()?.flush()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn gathered() -> Gathered {
        let mut gathered = Gathered::default();
        gathered.files.insert("uplinks/blue.json".into(), b"{}".to_vec());
        gathered.missing.insert("events".into(), "forbidden".into());
        gathered
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    #[test]
    fn a_folder_gets_every_file_and_the_manifest_for_its_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("dump");
        let manifest = write(&gathered(), &target, now()).unwrap();
        assert_eq!(manifest.files["uplinks/blue.json"].bytes, 2);
        assert_eq!(
            manifest.files["uplinks/blue.json"].sha256,
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        for (path, mode) in
            [("", 0o700), ("uplinks", 0o700), ("uplinks/blue.json", 0o600), ("manifest.json", 0o600)]
        {
            let found = fs::metadata(target.join(path)).unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{path}");
        }
        let text = fs::read_to_string(target.join("manifest.json")).unwrap();
        assert!(text.contains(r#""events": "forbidden""#), "{text}");
    }

    #[test]
    fn a_tar_file_has_everything_below_one_folder() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("case-7.tar");
        write(&gathered(), &target, now()).unwrap();
        let mut archive = tar::Archive::new(fs::File::open(&target).unwrap());
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push((entry.path().unwrap().display().to_string(), text.len()));
        }
        assert_eq!(found[1], ("case-7/uplinks/blue.json".to_owned(), 2));
        assert_eq!(found[0].0, "case-7/manifest.json");
    }

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let tar = place.path().join("dump.tar");
        fs::write(&tar, "precious").unwrap();
        assert!(write(&gathered(), &tar, now()).is_err());
        assert!(write(&gathered(), place.path(), now()).is_err());
        assert_eq!(fs::read_to_string(&tar).unwrap(), "precious");
    }
}
