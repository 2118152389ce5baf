//! Logs, error texts and the metrics registry.

use std::error::Error;
use std::fmt;
use std::io;

use prometheus_client::registry::Registry;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use crate::settings::{LogFormat, LogSettings};

/// Libraries whose debug lines say nothing about Causeway; they follow only from trace verbosity on.
const QUIET: [&str; 6] = ["h2", "hyper", "hyper_util", "rustls", "tower", "kube_client"];

/// Reports each failed connection as an error of its own, while the watch, the writer or the elector that needed the
/// connection already says what failed and that it is retried. Source: kube-client 5.0.0, `src/client/builder.rs`.
const REPEATS: &str = "kube_client::client::builder";

/// klog verbosity from which debug lines appear. Source: help of upstream's `--loglevel` @ 005afd15.
const DEBUG_FROM: i64 = 5;

/// klog verbosity from which trace lines appear.
const TRACE_FROM: i64 = 8;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error("--log-filter must be LEVEL or MODULE=LEVEL, comma separated, not {filter:?}")]
    Filter {
        /// The filter.
        filter: String,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// Logging is already set up in this process.
    #[error("logging is already set up")]
    Taken(#[source] SetGlobalDefaultError),
}

/// Sends the logs of this process to stderr.
pub fn init(settings: &LogSettings) -> Result<(), LogError> {
    let subscriber = subscriber(settings, io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(LogError::Taken)
}

fn subscriber<W>(
    settings: &LogSettings,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filtered = tracing_subscriber::registry().with(filter(settings)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match settings.format {
        LogFormat::Text => Box::new(filtered.with(lines.with_ansi(false))),
        LogFormat::Json => Box::new(filtered.with(lines.json().flatten_event(true))),
    })
}

fn filter(settings: &LogSettings) -> Result<Targets, LogError> {
    if let Some(filter) = &settings.filter {
        return filter.parse().map_err(|source| LogError::Filter { filter: filter.clone(), source });
    }
    let level = match settings.verbosity {
        ..DEBUG_FROM => LevelFilter::INFO,
        DEBUG_FROM..TRACE_FROM => LevelFilter::DEBUG,
        TRACE_FROM.. => return Ok(Targets::new().with_default(LevelFilter::TRACE)),
    };
    let quiet = Targets::new().with_default(level).with_targets(QUIET.map(|target| (target, Level::INFO)));
    Ok(quiet.with_target(REPEATS, LevelFilter::OFF))
}

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

/// A registry whose metrics begin with `ovnkube_`: those that dashboards made for OVN-Kubernetes read.
#[must_use]
pub fn upstream_registry() -> Registry {
    Registry::with_prefix("ovnkube")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{debug, error, info};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn stack(texts: &[&'static str]) -> Option<Box<Layer>> {
        let (text, rest) = texts.split_first()?;
        Some(Box::new(Layer { text, source: stack(rest) }))
    }

    #[test]
    fn a_cause_that_was_already_said_is_dropped() {
        for (texts, want) in [
            (&["reading the list", "connection refused"][..], "reading the list: connection refused"),
            (&["list failed: refused", "refused", "os error 111"], "list failed: refused: os error 111"),
            (&["alone"], "alone"),
        ] {
            let error = stack(texts).expect("one layer at least");
            assert_eq!(chain(error.as_ref()).to_string(), want);
        }
    }

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(verbosity: i64, filter: Option<&str>, format: LogFormat) -> Vec<String> {
        let sink = Sink::default();
        let settings = LogSettings { verbosity, filter: filter.map(str::to_owned), format };
        let writer = {
            let sink = sink.clone();
            move || sink.clone()
        };
        let subscriber = subscriber(&settings, writer).expect("valid settings");
        tracing::subscriber::with_default(subscriber, || {
            info!(node = "n", "Said");
            debug!("Detail");
            debug!(target: "hyper", "Noise");
            error!(target: "kube_client::client::builder", "Repeat");
        });
        let bytes = sink.0.lock().expect("no writer panics").clone();
        String::from_utf8(bytes).expect("logs are UTF-8").lines().map(str::to_owned).collect()
    }

    #[test]
    fn klog_verbosities_choose_the_level_and_a_filter_wins() {
        for (verbosity, filter, want) in [
            (0, None, 1),
            (4, None, 1),
            (5, None, 2),
            (8, None, 4),
            (9, Some("warn"), 1),
            (0, Some("hyper=debug"), 1),
        ] {
            assert_eq!(lines(verbosity, filter, LogFormat::Text).len(), want, "{verbosity} {filter:?}");
        }
    }

    #[test]
    fn json_lines_hold_message_and_fields() {
        let lines = lines(4, None, LogFormat::Json);
        let line: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert_eq!(
            (&line["message"], &line["node"], &line["level"]),
            (&"Said".into(), &"n".into(), &"INFO".into())
        );
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        let settings =
            LogSettings { verbosity: 4, filter: Some("a=loud".to_owned()), format: LogFormat::Text };
        let error = filter(&settings).expect_err("there is no such level").to_string();
        assert_eq!(error, "--log-filter must be LEVEL or MODULE=LEVEL, comma separated, not \"a=loud\"");
    }
}
