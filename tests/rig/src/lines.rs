//! Files of lines that somebody else is still writing: places in them, and what was written since.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;

/// Bytes that are read at a time on the way back to the end of a line: more than most lines have.
const BLOCK: u64 = 16 * 1024;

/// A place in a file where a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// The beginning.
    pub const START: Self = Self(0);

    /// The end of the last whole line of a file. A line that is still being written comes after it: the length of the file would
    /// be a place within that line.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        let mark = File::open(path).context("opening it").and_then(|mut file| end_of_lines(&mut file, BLOCK));
        mark.map(Self).with_context(|| format!("the end of {}", path.display()))
    }

    /// What a file holds after this place. Its last line may still be being written: [`whole_lines`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(self, path: &Path) -> anyhow::Result<String> {
        let rest = || {
            let (mut file, mut bytes) = (File::open(path)?, Vec::new());
            file.seek(SeekFrom::Start(self.0))?;
            file.read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = rest().with_context(|| format!("reading {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The lines of a text that have an end.
pub fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

/// Where the last line that has an end ends, read backwards in blocks.
fn end_of_lines(file: &mut (impl Read + Seek), block: u64) -> anyhow::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut bytes = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(block);
        bytes.clear();
        file.seek(SeekFrom::Start(begin))?;
        file.by_ref().take(end - begin).read_to_end(&mut bytes)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + u64::try_from(last)? + 1);
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    #[test]
    fn a_mark_is_the_end_of_the_last_whole_line_however_long_lines_are_and_wherever_blocks_end() {
        let long = "x".repeat(41);
        let rows = [
            (String::new(), 0),
            ("unfinished".to_owned(), 0),
            (long.clone(), 0),
            ("a\n".to_owned(), 2),
            ("\n".to_owned(), 1),
            ("a\nb\n".to_owned(), 4),
            ("a\nb".to_owned(), 2),
            (format!("a\n{long}"), 2),
            (format!("a\n{long}\n"), 44),
            (format!("{long}\n{long}"), 42),
            (format!("\n{long}"), 1),
        ];
        for (text, want) in rows {
            for block in 1..=50 {
                let found = end_of_lines(&mut Cursor::new(text.as_bytes()), block).unwrap();
                assert_eq!(found, want, "{text:?} in blocks of {block}");
            }
        }
    }

    #[test]
    fn what_comes_after_a_mark_begins_with_a_whole_line_even_of_one_that_was_half_there() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let half = "y".repeat(usize::try_from(3 * BLOCK).unwrap());
        write!(file, "one\nt\u{e9}\n{half}").unwrap();
        let mark = Mark::of(file.path()).unwrap();
        writeln!(file, "{half}").unwrap();
        // The first of the two bytes of a letter.
        file.write_all(&[0xc3]).unwrap();
        let text = mark.read(file.path()).unwrap();
        assert_eq!(whole_lines(&text).collect::<Vec<_>>(), [half.repeat(2)]);
        let after = Mark::of(file.path()).unwrap();
        file.write_all(b"\xa9\n").unwrap();
        assert_eq!(after.read(file.path()).unwrap(), "\u{e9}\n");
        assert!(Mark::START.read(file.path()).unwrap().starts_with("one\nt\u{e9}\n"));
    }

    #[test]
    fn a_line_without_an_end_is_not_whole() {
        let rows: [(&str, &[&str]); 4] =
            [("", &[]), ("a", &[]), ("a\n\nb\nc", &["a", "", "b"]), ("a\r\n", &["a\r"])];
        for (text, want) in rows {
            assert_eq!(whole_lines(text).collect::<Vec<_>>(), want, "{text:?}");
        }
    }
}
