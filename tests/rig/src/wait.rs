//! Waiting for a value with a deadline.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;

/// Time between two looks where there is no event to wait for.
const PAUSE: Duration = Duration::from_millis(20);
/// Lines of a log that a message carries.
const TAIL_LINES: usize = 15;
/// Bytes of a line that a message carries.
const TAIL_WIDTH: usize = 400;

/// Looks again and again until `probe` gives a value. `Err` of the probe is not a failure but what it saw instead.
///
/// # Errors
/// After `deadline`, with the last thing seen.
pub async fn wait_for<T, E: Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    deadline: Duration,
    mut probe: impl FnMut() -> F,
) -> anyhow::Result<T> {
    let start = Instant::now();
    let mut last = "nothing, the first look took too long".to_owned();
    loop {
        let left = deadline.saturating_sub(start.elapsed());
        match tokio::time::timeout(left, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => last = seen.to_string(),
            Err(_) => {}
        }
        if start.elapsed() >= deadline {
            bail!("waited {deadline:?} for {what}; last seen: {last}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The last lines of a file, empty if it cannot be read.
pub(crate) fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(TAIL_LINES);
    let shown = lines.iter().skip(start).map(|line| line.chars().take(TAIL_WIDTH).collect::<String>());
    shown.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_value_is_returned_as_soon_as_it_is_there() {
        let mut looks = 0;
        let value = wait_for("three looks", Duration::from_secs(5), || {
            looks += 1;
            std::future::ready(if looks == 3 { Ok(looks) } else { Err(format!("{looks} looks")) })
        });
        assert_eq!(value.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn the_last_value_seen_is_in_the_error() {
        let never = wait_for("the moon", Duration::from_millis(30), || async { Err::<(), _>("a star") });
        let text = never.await.unwrap_err().to_string();
        assert!(text.contains("the moon") && text.contains("a star"), "{text}");
    }

    #[tokio::test]
    async fn a_probe_that_hangs_ends_at_the_deadline() {
        let hung = wait_for("an answer", Duration::from_millis(30), std::future::pending::<Result<(), &str>>);
        assert!(hung.await.unwrap_err().to_string().contains("took too long"));
    }
}
