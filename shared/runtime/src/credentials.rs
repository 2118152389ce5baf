//! Until when the API server believes who this process is.
//!
//! In: how the process logs in. Out: the gauge `causeway_credentials_expiry_timestamp_seconds`, log lines and, for the
//! agents of nodes, an Event on the Node when the end comes near. Readiness is not touched: until the end all is well, and
//! after it the watches say so.
//!
//! The client reads a token file again within a minute (kube-client 5.0.0, `client/auth/mod.rs`, `TokenFile`), so whoever
//! replaces the file renews the credentials. A certificate is read once: a process with one has to be restarted.
//!
//! Never does: renew anything, send a token anywhere, verify a signature (the API server does).
//!
//! First to read: [`standing`].

mod certificate;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::config::{AuthInfo, Kubeconfig};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use secrecy::ExposeSecret;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::client;
use crate::events::{EventMetrics, Happening, Publisher, Recorder, Reporter, Severity};
use crate::settings::{KubeAccess, TokenSource};
use crate::shutdown::Tasks;
use crate::telemetry::chain;

/// Where a pod finds its token. Source: kubernetes.io, "Accessing the Kubernetes API from a Pod".
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The last part of a lifetime in which people are told: one of this many. A kubelet renews a token after four fifths.
const LAST_PART: i32 = 10;

/// How often, in that part, it is said again.
const REMINDERS: i32 = 4;

/// Longest time without a look: nobody tells when the clock is set.
const LONGEST: Duration = Duration::from_hours(1);

/// Time between looks at a file that cannot be used, or that was not renewed in time. The client looks as often.
const SHORTEST: Duration = Duration::from_mins(1);

/// From when until when something is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not before.
    pub from: Timestamp,
    /// Not after.
    pub until: Timestamp,
}

/// What this process logs in with, as far as its end can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A token in a file, which is read again.
    TokenFile(PathBuf),
    /// A token given directly.
    Token(Option<Validity>),
    /// A client certificate.
    Certificate(Option<Validity>),
    /// Anything else, as the output of another program, or nothing.
    Other,
}

/// Why nothing is known about a token file.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("cannot read the token file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The client sends what is in the file as it is, and a request with a line break in a header cannot be sent.
    #[error(
        "the token file {} has a line break or a space at an end; write the token alone (as by: tr -d '\\n')",
        .0.display()
    )]
    Padded(PathBuf),
}

impl Credentials {
    /// What `access` says. A kubeconfig that cannot be used is [`Credentials::Other`]: [`client::connect`] says why.
    #[must_use]
    pub fn of(access: &KubeAccess) -> Self {
        match access {
            KubeAccess::InCluster => Self::TokenFile(POD_TOKEN.into()),
            KubeAccess::Server { token: Some(TokenSource::File(path)), .. } => Self::TokenFile(path.clone()),
            KubeAccess::Server { token: Some(TokenSource::Inline(token)), .. } => {
                Self::Token(token::validity(token.expose()))
            }
            KubeAccess::Server { token: None, .. } => Self::Other,
            KubeAccess::Kubeconfig(path) => Kubeconfig::read_from(path)
                .ok()
                .and_then(current_user)
                .map_or(Self::Other, |user| Self::of_user(&user)),
        }
    }

    /// In the order in which the client chooses. Source: kube-client 5.0.0, `Auth::try_from`.
    fn of_user(user: &AuthInfo) -> Self {
        if let Some(token) = &user.token {
            return Self::Token(token::validity(token.expose_secret()));
        }
        if let Some(path) = &user.token_file {
            return Self::TokenFile(path.into());
        }
        let pem = match (&user.client_certificate_data, &user.client_certificate) {
            (Some(data), _) => {
                serde_json::from_value::<ByteString>(data.clone().into()).ok().map(|data| data.0)
            }
            (None, Some(path)) => std::fs::read(path).ok(),
            (None, None) => return Self::Other,
        };
        Self::Certificate(pem.and_then(|pem| certificate::validity(&pem)))
    }

    /// From when until when they are believed; `None` if that cannot be told. Reads the file of a token.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn validity(&self) -> Result<Option<Validity>, TokenFileError> {
        match self {
            Self::TokenFile(path) => read(path).map(|token| token::validity(&token)),
            Self::Token(validity) | Self::Certificate(validity) => Ok(*validity),
            Self::Other => Ok(None),
        }
    }

    /// The `kind` label.
    fn label(&self) -> &'static str {
        match self {
            Self::TokenFile(_) => "token_file",
            Self::Token(_) => "token",
            Self::Certificate(_) => "certificate",
            Self::Other => "other",
        }
    }
}

/// Says what people have to do.
impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenFile(path) => write!(f, "renew the token in {}", path.display()),
            Self::Token(_) => f.write_str("give another token and restart"),
            Self::Certificate(_) | Self::Other => f.write_str("give another certificate and restart"),
        }
    }
}

fn current_user(kubeconfig: Kubeconfig) -> Option<AuthInfo> {
    let current = kubeconfig.current_context?;
    let context = kubeconfig.contexts.into_iter().find(|context| context.name == current)?.context?;
    let user = context.user?;
    kubeconfig.auth_infos.into_iter().find(|known| known.name == user)?.auth_info
}

fn read(path: &Path) -> Result<String, TokenFileError> {
    let token = std::fs::read_to_string(path)
        .map_err(|source| TokenFileError::Unreadable { path: path.to_owned(), source })?;
    if token.trim() == token { Ok(token) } else { Err(TokenFileError::Padded(path.to_owned())) }
}

/// What credentials are at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Good for a while.
    Good,
    /// They end soon, and nobody has renewed them.
    Ending,
    /// They have ended.
    Ended,
}

/// What credentials are `now`, and when to look again. Pure.
#[must_use]
pub fn standing(validity: Validity, now: Timestamp) -> (Standing, Duration) {
    let left = validity.until.duration_since(now);
    let last_part = validity.until.duration_since(validity.from) / LAST_PART;
    let (standing, pause) = if left <= SignedDuration::ZERO {
        (Standing::Ended, SignedDuration::ZERO)
    } else if left <= last_part {
        (Standing::Ending, left.min(last_part / REMINDERS))
    } else {
        (Standing::Good, left - last_part)
    };
    (standing, Duration::try_from(pause).unwrap_or_default().clamp(SHORTEST, LONGEST))
}

/// Reads the end at each scrape: whoever renews a token file tells nobody.
#[derive(Debug)]
struct Expiry(Credentials);

impl Collector for Expiry {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Ok(Some(validity)) = self.0.validity() else { return Ok(()) };
        let gauge = ConstGauge::new(validity.until.as_second());
        let help = "When the credentials for the API server end; absent if they do not say";
        let (unit, kind) = (Unit::Seconds, gauge.metric_type());
        let mut metric =
            encoder.encode_descriptor("credentials_expiry_timestamp", help, Some(&unit), kind)?;
        gauge.encode(metric.encode_family(&[("kind", self.0.label())])?)
    }
}

/// Adds the end of `credentials` to `registry`.
pub fn register(credentials: &Credentials, registry: &mut Registry) {
    registry.register_collector(Box::new(Expiry(credentials.clone())));
}

/// Who tells people about the credentials of a node's agent.
#[derive(Clone)]
pub struct Teller {
    /// How the Event is written.
    pub access: KubeAccess,
    /// Name of the Node.
    pub node: String,
    /// The program.
    pub program: &'static str,
    /// Where the task that writes it runs.
    pub tasks: Tasks,
}

/// Looks at `credentials` until `stop` is cancelled, and says when they come to their end.
pub async fn watch(credentials: Credentials, teller: Option<Teller>, stop: CancellationToken) {
    let mut last = Standing::Good;
    let mut recorder = None;
    loop {
        let pause = match credentials.validity() {
            Ok(None) if !matches!(credentials, Credentials::TokenFile(_)) => return stop.cancelled().await,
            // Another token may be one that says when it ends.
            Ok(None) => LONGEST,
            Err(error) => {
                warn!(error = %chain(&error), "Token file cannot be used");
                SHORTEST
            }
            Ok(Some(validity)) => {
                let (now, pause) = standing(validity, Timestamp::now());
                tell(&credentials, validity, now, last);
                if now == Standing::Ending
                    && let Some(teller) = &teller
                {
                    if recorder.is_none() {
                        recorder = teller.recorder().await;
                    }
                    if let Some(recorder) = &recorder {
                        recorder.record(teller.happening(&credentials, validity));
                    }
                }
                last = now;
                pause
            }
        };
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            return;
        }
    }
}

fn tell(credentials: &Credentials, validity: Validity, now: Standing, last: Standing) {
    let until = validity.until;
    match now {
        Standing::Good if last == Standing::Good => {}
        Standing::Good => info!(%until, "Credentials renewed"),
        Standing::Ending => warn!(%until, todo = %credentials, "Credentials for the API server end soon"),
        Standing::Ended => error!(%until, todo = %credentials, "Credentials for the API server have ended"),
    }
}

impl Teller {
    /// Opens a connection only now: most processes never need one for this.
    async fn recorder(&self) -> Option<Recorder> {
        let client = match client::connect(&self.access).await {
            Ok(client) => client,
            Err(error) => {
                warn!(error = %chain(&error), "Nobody is told by an Event");
                return None;
            }
        };
        let reporter = Reporter { program: self.program, instance: self.node.clone() };
        // One Event in a lifetime: not worth numbers of its own beside those of the rooms.
        let metrics = EventMetrics::register(&mut Registry::default());
        let (recorder, publisher) = Publisher::new(client, reporter, metrics);
        self.tasks.spawn("events about credentials", publisher.run(self.tasks.stop()));
        Some(recorder)
    }

    fn happening(&self, credentials: &Credentials, validity: Validity) -> Happening {
        Happening {
            regarding: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(self.node.clone()),
                // As kubelets do: an agent of this version reads no uid of its Node, and `kubectl describe` looks for both.
                uid: Some(self.node.clone()),
                ..ObjectReference::default()
            },
            related: None,
            severity: Severity::Warning,
            reason: "CredentialsExpiring".to_owned(),
            action: "Authenticate",
            note: format!(
                "the credentials of {} for the API server end at {}: {credentials}",
                self.program, validity.until
            ),
        }
    }
}
