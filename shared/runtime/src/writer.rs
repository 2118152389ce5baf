//! Writes to the API server: server-side apply, create and delete, each with a deadline.
//!
//! In: partial objects and preconditions. Out: the server's object, or a [`WriteError`] whose class says what to
//! do. Never does: decide whether a write is needed, read, or retry (the engine does).

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Debug;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::HeaderValue;
use http::header::ACCEPT;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Request, Status};
use kube::{Api, Resource};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::engine::{Retry, Retryable};
use crate::leader::Leadership;

/// How long one request may take unless a writer says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);

/// What a throttling server that names no time means.
const THROTTLE_PAUSE: Duration = Duration::from_secs(1);

/// HTTP status of a resource of another version or state. Source: RFC 9110.
const CONFLICT: u16 = 409;

/// What patches of a status are called in metrics.
const MERGE_STATUS: &str = "merge_status";

/// Media types of a short answer. Source: kubernetes.io, API concepts, "Receiving resources as Tables".
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A field manager's hand. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Writer {
    manager: &'static str,
    deadline: Duration,
    metrics: WriteMetrics,
    leadership: Option<Leadership>,
}

/// Counts of writes by kind, verb and result.
#[derive(Debug, Clone)]
pub struct WriteMetrics {
    writes: Family<[(&'static str, String); 3], Counter>,
}

/// Which object a delete means; what is `None` is not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

/// Why a write did not happen, or why it is unknown whether it did ([`WriteError::Transport`],
/// [`WriteError::Deadline`]): every write can be repeated.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server could not be reached, or the connection broke.
    #[error("the API server cannot be reached")]
    Transport(#[source] Box<kube::Error>),
    /// No answer in time.
    #[error("the API server did not answer within {0:?}")]
    Deadline(Duration),
    /// This process does not lead, or its lease ended before the server answered: others may be writing by now.
    #[error("this process does not hold the lease")]
    NotLeading,
    /// The object changed meanwhile, or is not the expected one; the next pass sees the newer state.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Something of this name exists already.
    #[error("already exists: {0}")]
    Exists(String),
    /// The object, or its kind, does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// The credentials are not accepted or not allowed to do this.
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// The server refuses the content.
    #[error("refused by the API server: {0}")]
    Invalid(String),
    /// The server asks to slow down.
    #[error("the API server asks to wait {0:?}")]
    Throttled(Duration),
    /// The server failed.
    #[error("the API server failed with {code}: {message}")]
    Server {
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// The object could not be put into a request, or the answer not be read: a bug here.
    #[error("request or answer cannot be converted")]
    Conversion(#[source] Box<kube::Error>),
}

impl Retryable for WriteError {
    fn retry(&self) -> Retry {
        match self {
            Self::Transport(_)
            | Self::Deadline(_)
            | Self::Conflict(_)
            | Self::Exists(_)
            | Self::NotFound(_)
            | Self::Forbidden(_)
            | Self::Server { .. }
            | Self::Conversion(_)
            // A lease that was about to run out may have been renewed since. Then the term goes on, and nobody else looks at
            // this key again; after a term that is over nobody tries, and the next one looks at everything.
            | Self::NotLeading => Retry::Backoff,
            Self::Invalid(_) => Retry::Never,
            Self::Throttled(pause) => Retry::After(*pause),
        }
    }
}

impl WriteError {
    /// The `result` label.
    fn label(&self) -> &'static str {
        match self {
            Self::Transport(_) => "transport",
            Self::Deadline(_) => "deadline",
            Self::NotLeading => "not_leading",
            Self::Conflict(_) => "conflict",
            Self::Exists(_) => "exists",
            Self::NotFound(_) => "not_found",
            Self::Forbidden(_) => "forbidden",
            Self::Invalid(_) => "invalid",
            Self::Throttled(_) => "throttled",
            Self::Server { .. } => "server",
            Self::Conversion(_) => "conversion",
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from(*status),
            error
            @ (kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) | kube::Error::FromUtf8(_)) => {
                Self::Conversion(Box::new(error))
            }
            error => Self::Transport(Box::new(error)),
        }
    }
}

impl From<Status> for WriteError {
    fn from(status: Status) -> Self {
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        match status.code {
            422 if means_other_object(&status) => Self::Conflict(status.message),
            400 | 406 | 415 | 422 => Self::Invalid(status.message),
            401 | 403 => Self::Forbidden(status.message),
            404 | 410 => Self::NotFound(status.message),
            CONFLICT if status.reason == "AlreadyExists" => Self::Exists(status.message),
            CONFLICT => Self::Conflict(status.message),
            429 if seconds == 0 => Self::Throttled(THROTTLE_PAUSE),
            429 => Self::Throttled(Duration::from_secs(u64::from(seconds))),
            code => Self::Server { code, message: status.message },
        }
    }
}

/// Whether an apply was refused because of its `metadata.uid`. Where nothing of the name exists the API server says 409,
/// where another object does it calls the uid an immutable field. Source: tests/tests/api_crds.rs, on a real server.
fn means_other_object(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

impl WriteMetrics {
    /// Adds the counts of writes to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        Self::register_as(
            "api_writes",
            "Requests that change the API server, leases and events aside",
            registry,
        )
    }

    /// Adds counts of writes that are kept apart from the others.
    pub(crate) fn register_as(name: &str, help: &str, registry: &mut Registry) -> Self {
        let metrics = Self { writes: Family::default() };
        registry.register(name, help, metrics.writes.clone());
        metrics
    }
}

/// Bounds of written types, written once.
pub trait Writable: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync {}

impl<K> Writable for K where K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync {}

impl Writer {
    /// A writer that owns the fields it applies as `manager`.
    #[must_use]
    pub fn new(manager: &'static str, metrics: WriteMetrics) -> Self {
        Self { manager, deadline: DEADLINE, metrics, leadership: None }
    }

    /// The same for a process that writes only while it leads: no request is sent after the lease's end, and none is
    /// waited for beyond it. A request that is on its way when the lease ends may still be carried out later: give
    /// it a precondition (`metadata.resourceVersion`, a uid) that such a late one fails.
    #[must_use]
    pub fn fenced(self, leadership: Leadership) -> Self {
        Self { leadership: Some(leadership), ..self }
    }

    /// The same with another deadline per request.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Makes `partial` (apiVersion, kind, metadata.name and the fields of this manager) what this manager owns of
    /// the object `name`, created if it does not exist. Fields it owned before and leaves out are removed; a field
    /// of another manager is taken over. With `metadata.uid` in `partial`, another object of that name is a
    /// [`WriteError::Conflict`] instead of a target.
    ///
    /// # Cancellation
    /// The write may have happened; repeating it is harmless.
    pub async fn apply<K: Writable>(
        &self,
        api: &Api<K>,
        name: &str,
        partial: &(impl Serialize + Debug + Sync),
    ) -> Result<K, WriteError> {
        let params = PatchParams::apply(self.manager).force();
        self.write(K::kind(&()), "apply", api.patch(name, &params, &Patch::Apply(partial)).boxed()).await
    }

    /// [`Writer::apply`] on the status subresource, for kinds that have one. There the API server does not look at
    /// `metadata.uid`: put `metadata.resourceVersion` into `partial` where another object of that name matters.
    pub async fn apply_status<K: Writable>(
        &self,
        api: &Api<K>,
        name: &str,
        partial: &(impl Serialize + Debug + Sync),
    ) -> Result<K, WriteError> {
        let params = PatchParams::apply(self.manager).force();
        let patch = Patch::Apply(partial);
        let request = api.patch_status(name, &params, &patch).boxed();
        self.write(K::kind(&()), "apply_status", request).await
    }

    /// Changes `name` by a JSON merge patch: for fields without owner semantics, such as one annotation or the
    /// finalizer list (put `metadata.resourceVersion` into `patch` where the old value matters).
    pub async fn merge<K: Writable>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &(impl Serialize + Debug + Sync),
    ) -> Result<K, WriteError> {
        let params = self.params();
        self.write(K::kind(&()), "merge", api.patch(name, &params, &Patch::Merge(patch)).boxed()).await
    }

    /// [`Writer::merge`] on the status subresource.
    pub async fn merge_status<K: Writable>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &(impl Serialize + Debug + Sync),
    ) -> Result<K, WriteError> {
        self.patch_status(api, name, &Patch::Merge(patch)).await
    }

    /// Changes the Node `name` by a strategic merge patch on its status subresource, where the API server takes changed metadata
    /// too, from those who may not change its spec.
    ///
    /// A JSON merge patch would change the same, and costs the API server more: for that it writes the whole Node as text and
    /// reads it again, 40 kB where there are a thousand networks. Only its own kinds can be merged without.
    /// Source: `apiserver/pkg/endpoints/handlers/patch.go`.
    pub async fn merge_node_status<K: Writable>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &(impl Serialize + Debug + Sync),
    ) -> Result<K, WriteError> {
        self.patch_status(api, name, &Patch::Strategic(patch)).await
    }

    /// [`Writer::merge_node_status`] with a short answer: of `K` there is nothing but `metadata.resourceVersion`.
    ///
    /// The Node is asked for as a table without objects, so that what is written is not sent back. An API server that answers
    /// with the Node all the same is understood too. Source: kubernetes.io, API concepts, "Receiving resources as Tables".
    pub async fn merge_node_status_briefly<K: Writable>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &(impl Serialize + Debug + Sync),
    ) -> Result<K, WriteError> {
        let request = async {
            let resource = Request::new(api.resource_url());
            let request =
                resource.patch_subresource("status", name, &self.params(), &Patch::Strategic(patch));
            let request = as_table(request.map_err(kube::Error::BuildRequest)?);
            api.clone().into_client().request(request.map_err(kube::Error::HttpError)?).await
        };
        self.write(K::kind(&()), MERGE_STATUS, request.boxed()).await
    }

    async fn patch_status<K: Writable, P: Serialize + Debug + Sync>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &Patch<P>,
    ) -> Result<K, WriteError> {
        let params = self.params();
        let request = api.patch_status(name, &params, patch).boxed();
        self.write(K::kind(&()), MERGE_STATUS, request).await
    }

    /// Of patches that own nothing.
    fn params(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() }
    }

    /// Creates `object`; [`WriteError::Exists`] if there is one of its name. The answer is read as `K`, which may be less than
    /// what was sent.
    pub async fn create<K: Writable>(
        &self,
        api: &Api<K>,
        object: &(impl Serialize + Sync),
    ) -> Result<K, WriteError> {
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let request = async {
            let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
            let request = Request::new(api.resource_url()).create(&params, body);
            api.clone().into_client().request(request.map_err(kube::Error::BuildRequest)?).await
        };
        self.write(K::kind(&()), "create", request.boxed()).await
    }

    /// Deletes `name` if it is the `expected` object, else [`WriteError::Conflict`]; that it is gone already is
    /// success.
    pub async fn delete<K: Writable>(
        &self,
        api: &Api<K>,
        name: &str,
        expected: Expected,
    ) -> Result<(), WriteError> {
        let Expected { uid, resource_version } = expected;
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version }),
            ..DeleteParams::default()
        };
        match self.write(K::kind(&()), "delete", api.delete(name, &params).boxed()).await {
            Ok(_) | Err(WriteError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The request is on the heap: it is large, and handed on a few times.
    async fn write<T>(
        &self,
        kind: Cow<'_, str>,
        verb: &'static str,
        request: BoxFuture<'_, kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let result = match &self.leadership {
            None => in_time(self.deadline, request).await,
            Some(leadership) => match leadership.allowance(self.deadline) {
                None => return Err(WriteError::NotLeading),
                Some(allowed) => in_time(allowed, request).await.map_err(|error| match error {
                    WriteError::Deadline(_) if allowed < self.deadline => WriteError::NotLeading,
                    error => error,
                }),
            },
        };
        let label = result.as_ref().map_or_else(WriteError::label, |_| "ok");
        let labels = [("kind", kind.into_owned()), ("verb", verb.to_owned()), ("result", label.to_owned())];
        self.metrics.writes.get_or_create(&labels).inc();
        result
    }
}

/// The same request, that is answered with a table without objects.
fn as_table(request: http::Request<Vec<u8>>) -> Result<http::Request<Vec<u8>>, http::Error> {
    let (mut parts, body) = request.into_parts();
    parts.uri = format!("{}&includeObject=None", parts.uri).parse()?;
    parts.headers.insert(ACCEPT, HeaderValue::from_static(TABLE));
    Ok(http::Request::from_parts(parts, body))
}

async fn in_time<T>(deadline: Duration, request: BoxFuture<'_, kube::Result<T>>) -> Result<T, WriteError> {
    match timeout(deadline, request).await {
        Ok(result) => result.map_err(WriteError::from),
        Err(_elapsed) => Err(WriteError::Deadline(deadline)),
    }
}
