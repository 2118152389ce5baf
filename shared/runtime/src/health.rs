//! `/metrics`, `/healthz` and `/readyz` over one port.
//!
//! In: metrics registries and named readiness checks. Out: plain text over HTTP/1. `/healthz` says that the process
//! answers at all; `/readyz` answers 503 and lists what is not ready and why. Never does: anything else.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Connections served at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 16;

/// How long a client may take to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Pause after the kernel could not hand out a connection (out of descriptors, usually).
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Content type of OpenMetrics text. Source: OpenMetrics 1.0.0, "Overall Structure".
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;
type Remark = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The named conditions under which this process is ready. Cheap to clone; without checks it is ready.
#[derive(Clone, Default)]
pub struct Readiness(Arc<RwLock<Parts>>);

#[derive(Clone, Default)]
struct Parts {
    checks: Vec<(String, Check)>,
    remarks: Vec<(String, Remark)>,
}

impl Readiness {
    /// Adds a check that is asked at each request: `Ok` if ready, else a sentence that says why not.
    pub fn add(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let entry = (name.into(), Arc::new(check) as Check);
        self.0.write().unwrap_or_else(PoisonError::into_inner).checks.push(entry);
    }

    /// Adds a sentence, where there is one, to the answer of a process that is ready.
    pub fn remark(
        &self,
        name: impl Into<String>,
        remark: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        let entry = (name.into(), Arc::new(remark) as Remark);
        self.0.write().unwrap_or_else(PoisonError::into_inner).remarks.push(entry);
    }

    /// What is not ready, and why.
    #[must_use]
    pub fn missing(&self) -> Vec<(String, String)> {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner).checks.clone();
        checks.into_iter().filter_map(|(name, check)| Some((name, check().err()?))).collect()
    }

    /// The remarks that there are now.
    fn remarks(&self) -> Vec<(String, String)> {
        let remarks = self.0.read().unwrap_or_else(PoisonError::into_inner).remarks.clone();
        remarks.into_iter().filter_map(|(name, remark)| Some((name, remark()?))).collect()
    }
}

/// The address cannot be served on.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics and health on {address}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// A bound port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds `address`.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let listener = TcpListener::bind(address).await.map_err(|source| BindError { address, source })?;
        Ok(Self { listener })
    }

    /// The bound address; tells the port where port 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is cancelled; open connections are then dropped.
    pub async fn run(self, registries: Vec<Registry>, readiness: Readiness, stop: CancellationToken) {
        let registries: Arc<[Registry]> = registries.into();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(_ended) = connections.join_next() => {}
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, _peer)) => {
                        connections.spawn(serve(stream, Arc::clone(&registries), readiness.clone()));
                    }
                    Err(error) => {
                        warn!(%error, "Connection to the health port lost");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }
}

async fn serve(stream: TcpStream, registries: Arc<[Registry]>, readiness: Readiness) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let response = respond(request.method(), request.uri().path(), &registries, &readiness);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        debug!(%error, "Health request broken off");
    }
}

fn respond(
    method: &Method,
    path: &str,
    registries: &[Registry],
    readiness: &Readiness,
) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => {
            let missing = readiness.missing();
            if missing.is_empty() {
                return text(StatusCode::OK, told("ok", &readiness.remarks()));
            }
            text(StatusCode::SERVICE_UNAVAILABLE, told("not ready", &missing))
        }
        "/metrics" => {
            let mut body = String::new();
            let written = registries.iter().try_for_each(|registry| encode_registry(&mut body, registry));
            if written.and_then(|()| encode_eof(&mut body)).is_err() {
                return text(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written\n".to_owned());
            }
            let mut response = text(StatusCode::OK, body);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
            response
        }
        _ => text(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
    }
}

/// A verdict, then a line per name.
fn told(verdict: &str, lines: &[(String, String)]) -> String {
    let lines = lines.iter().map(|(name, what)| format!("{name}: {what}\n"));
    std::iter::once(format!("{verdict}\n")).chain(lines).collect()
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Bench {
        address: SocketAddr,
        stop: CancellationToken,
        server: tokio::task::JoinHandle<()>,
        readiness: Readiness,
    }

    async fn bench() -> Bench {
        let mut registry = crate::telemetry::registry();
        let counter: Counter = Counter::default();
        counter.inc();
        registry.register("tests", "Tests", counter);
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await.expect("a free port");
        let address = server.local_addr().expect("bound");
        let (stop, readiness) = (CancellationToken::new(), Readiness::default());
        let mut upstream = crate::telemetry::upstream_registry();
        upstream.register("tests", "Tests", Gauge::<i64>::default());
        let server = tokio::spawn(server.run(vec![registry, upstream], readiness.clone(), stop.clone()));
        Bench { address, stop, server, readiness }
    }

    impl Bench {
        /// Status line, headers and body as sent.
        async fn ask(&self, request: &str) -> String {
            let mut stream = TcpStream::connect(self.address).await.expect("the port is open");
            let request = format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("answered");
            answer
        }
    }

    #[tokio::test]
    async fn metrics_are_openmetrics_text() {
        let answer = bench().await.ask("GET /metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(&format!("content-type: {OPENMETRICS}\r\n")), "{answer}");
        assert!(answer.contains("\ncauseway_tests_total 1\n"), "{answer}");
        assert!(answer.contains("\novnkube_tests 0\n"), "{answer}");
        assert!(answer.ends_with("# EOF\n") && answer.matches("# EOF").count() == 1, "{answer}");
    }

    #[tokio::test]
    async fn readiness_lists_what_is_missing_and_follows_the_checks() {
        let bench = bench().await;
        assert!(bench.ask("GET /readyz").await.starts_with("HTTP/1.1 200 "));
        let ready = Arc::new(AtomicBool::new(false));
        let seen = ready.clone();
        bench.readiness.add("uplinks", move || {
            if seen.load(Ordering::SeqCst) {
                Ok(())
            } else {
                Err("the first list has not arrived".to_owned())
            }
        });
        bench.readiness.add("database", || Ok(()));
        let answer = bench.ask("GET /readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nnot ready\nuplinks: the first list has not arrived\n"), "{answer}");
        assert!(bench.ask("GET /healthz").await.starts_with("HTTP/1.1 200 "), "not ready is still alive");
        ready.store(true, Ordering::SeqCst);
        assert!(bench.ask("GET /readyz").await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn a_ready_process_may_remark_something_and_is_ready_all_the_same() {
        let bench = bench().await;
        let (standby, remarks) = (Arc::new(AtomicBool::new(true)), bench.readiness.clone());
        let says = Arc::clone(&standby);
        remarks.remark("leader", move || says.load(Ordering::SeqCst).then(|| "standby".to_owned()));
        let answer = bench.ask("GET /readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\nleader: standby\n"),
            "{answer}"
        );
        standby.store(false, Ordering::SeqCst);
        assert!(bench.ask("GET /readyz").await.ends_with("\r\n\r\nok\n"));
    }

    #[tokio::test]
    async fn other_paths_and_methods_are_refused() {
        let bench = bench().await;
        assert!(bench.ask("GET /").await.starts_with("HTTP/1.1 404 "));
        let answer = bench.ask("POST /metrics").await;
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD\r\n"), "{answer}");
        assert!(bench.ask("nonsense").await.starts_with("HTTP/1.1 400 "));
    }

    #[tokio::test]
    async fn silent_clients_do_not_keep_others_out() {
        let bench = bench().await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS - 1 {
            silent.push(TcpStream::connect(bench.address).await.expect("the port is open"));
        }
        assert!(bench.ask("GET /healthz").await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn a_taken_port_is_named_and_stopping_frees_it() {
        let bench = bench().await;
        let error = Server::bind(bench.address).await.expect_err("the port is taken").to_string();
        assert_eq!(error, format!("cannot serve metrics and health on {}", bench.address));
        bench.stop.cancel();
        bench.server.await.expect("the server ends");
        assert!(Server::bind(bench.address).await.is_ok());
    }
}
