//! Generated files and the folder they belong in.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

/// A generated file.
#[derive(Debug)]
pub(crate) struct File {
    /// Its name.
    pub(crate) name: String,
    /// What it is for, for readers; without comment signs.
    pub(crate) about: String,
    /// Its documents.
    pub(crate) objects: Vec<Value>,
}

impl File {
    pub(crate) fn new(
        name: impl Into<String>,
        about: impl Into<String>,
        objects: impl IntoIterator<Item = Value>,
    ) -> Self {
        Self { name: name.into(), about: about.into(), objects: objects.into_iter().collect() }
    }

    /// Its text, under `header`.
    ///
    /// # Errors
    /// An object that is not YAML: a bug here.
    pub(crate) fn text(&self, header: &str) -> anyhow::Result<String> {
        let mut text = header.to_owned();
        for line in self.about.lines() {
            text.push_str(if line.is_empty() { "#" } else { "# " });
            text.push_str(line);
            text.push('\n');
        }
        for (number, object) in self.objects.iter().enumerate() {
            if number > 0 {
                text.push_str("---\n");
            }
            text += &serde_yaml_ng::to_string(object).with_context(|| format!("rendering {}", self.name))?;
        }
        Ok(text)
    }
}

/// What a folder may hold beside the generated files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nothing.
    Nothing,
    /// Files that do not begin with this, which generated ones do.
    HandWritten(&'static str),
}

/// Makes `folder` hold exactly the files `wanted` (name and text) and what may be `beside` them, or with `check` changes
/// nothing. Returns what is missing, stale or no longer generated; empty unless `check`.
///
/// # Errors
/// The folder or a file cannot be read or written.
pub(crate) fn sync(
    folder: &Path,
    wanted: &[(String, String)],
    beside: Beside,
    check: bool,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    for (name, text) in wanted {
        let path = folder.join(name);
        let current = std::fs::read_to_string(&path).unwrap_or_default();
        if current == *text {
            continue;
        }
        if check {
            stale.push(path);
        } else {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            eprintln!("wrote {}", path.display());
        }
    }
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| wanted.iter().any(|file| file.0 == name)) {
            continue;
        }
        if let Beside::HandWritten(header) = beside
            && !std::fs::read_to_string(&path).unwrap_or_default().starts_with(header)
        {
            continue;
        }
        if check {
            stale.push(path);
        } else {
            std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            eprintln!("removed {}", path.display());
        }
    }
    Ok(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_brought_to_exactly_the_wanted_files_and_a_check_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("old.yaml"), "old").unwrap();
        std::fs::write(folder.path().join("changed.yaml"), "before").unwrap();
        let wanted =
            [("changed.yaml".to_owned(), "after".to_owned()), ("new.yaml".to_owned(), "new".to_owned())];

        let stale = sync(folder.path(), &wanted, Beside::Nothing, true).unwrap();
        assert_eq!(stale, ["changed.yaml", "new.yaml", "old.yaml"].map(|name| folder.path().join(name)));
        assert_eq!(std::fs::read_to_string(folder.path().join("changed.yaml")).unwrap(), "before");

        assert!(sync(folder.path(), &wanted, Beside::Nothing, false).unwrap().is_empty());
        assert_eq!(std::fs::read_to_string(folder.path().join("changed.yaml")).unwrap(), "after");
        assert!(!folder.path().join("old.yaml").exists());
        assert!(sync(folder.path(), &wanted, Beside::Nothing, true).unwrap().is_empty());
    }

    #[test]
    fn files_written_by_hand_stay_where_they_may_and_generated_ones_that_are_no_more_go() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("hand.yaml"), "# By hand.\n").unwrap();
        std::fs::write(folder.path().join("old.yaml"), "# Generated.\nold").unwrap();
        let beside = Beside::HandWritten("# Generated.");

        assert_eq!(sync(folder.path(), &[], beside, true).unwrap(), [folder.path().join("old.yaml")]);
        assert!(sync(folder.path(), &[], beside, false).unwrap().is_empty());
        assert!(folder.path().join("hand.yaml").exists() && !folder.path().join("old.yaml").exists());
    }

    #[test]
    fn documents_are_separated_and_the_purpose_is_a_comment() {
        let file = File::new(
            "a.yaml",
            "First line.\nSecond.",
            [serde_json::json!({"a": 1}), serde_json::json!({"b": 2})],
        );
        assert_eq!(
            file.text("# Generated.\n").unwrap(),
            "# Generated.\n# First line.\n# Second.\na: 1\n---\nb: 2\n"
        );
    }
}
