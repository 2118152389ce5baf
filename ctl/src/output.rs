//! Text for people, JSON for programs, a picture of what can be drawn.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use crate::error::CtlError;

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines for people. Their form may change.
    #[default]
    Text,
    /// One JSON document. Fields are only added.
    Json,
    /// A picture (SVG); for what can be drawn.
    Svg,
}

/// Something that text and JSON can show.
pub trait Shown: Serialize {
    /// Lines for people; ages are told as of `now`.
    fn text(&self, now: Timestamp) -> String;

    /// A picture, of what can be drawn.
    fn svg(&self) -> Option<String> {
        None
    }
}

/// Writes a result to standard output.
///
/// # Errors
/// [`CtlError::Write`]; a reader that has enough (a closed pipe) is none. [`CtlError::NoPicture`].
pub fn print(shown: &impl Shown, format: Format, now: Timestamp) -> Result<(), CtlError> {
    let text = match format {
        Format::Text => shown.text(now),
        Format::Json => json(shown)?,
        Format::Svg => shown.svg().ok_or(CtlError::NoPicture)?,
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A document with a final line break.
///
/// # Errors
/// [`CtlError::Write`] if a value has no JSON form.
pub fn json(value: &impl Serialize) -> Result<String, CtlError> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| failed(error.into()))?;
    text.push('\n');
    Ok(text)
}

fn failed(source: io::Error) -> CtlError {
    CtlError::Write { path: Path::new("standard output").to_owned(), source }
}

/// An age in its two largest units, as `3m12s`.
#[must_use]
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let mut left = seconds;
    let mut text = String::new();
    let mut parts = 0;
    for (length, unit) in units {
        let count = left / length;
        left %= length;
        if count > 0 && parts < 2 {
            // Writing to a String cannot fail.
            write!(text, "{count}{unit}").ok();
            parts += 1;
        } else if parts > 0 {
            break;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_their_two_largest_units() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let cases = [
            (0, "0s"),
            (59, "59s"),
            (192, "3m12s"),
            (3_600, "1h"),
            (3_605, "1h"),
            (90_061, "1d1h"),
            (-5, "0s"),
        ];
        for (seconds, want) in cases {
            assert_eq!(age(at(1_000_000), at(1_000_000 + seconds)), want, "{seconds}");
        }
    }
}
