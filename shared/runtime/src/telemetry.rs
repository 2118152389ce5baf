//! Logs, error texts and the metrics registry.

use std::error::Error;
use std::fmt;

use prometheus_client::registry::Registry;

/// Displays an error with its causes on one line, `outer: cause: cause`.
///
/// A cause whose text the text before it already contains is dropped: many foreign errors repeat their source.
pub fn chain<'a>(error: &'a (dyn Error + 'a)) -> impl fmt::Display + 'a {
    Chain(error)
}

struct Chain<'a>(&'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !shown.contains(&text) {
                write!(f, ": {text}")?;
                shown = text;
            }
            next = cause.source();
        }
        Ok(())
    }
}

/// A registry whose metric names begin with `causeway_`.
#[must_use]
pub fn registry() -> Registry {
    Registry::with_prefix("causeway")
}
