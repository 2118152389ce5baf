//! A scripted API server for answers that a real one does not give on demand.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

/// One answer.
pub(crate) enum Reply {
    /// A status and a body.
    Json(u16, Value),
    /// A watch: one event per line, until the sender is dropped.
    Watch(mpsc::Receiver<Value>),
    /// No answer at all.
    Silence,
}

/// One request as it came in.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Media types of the body and of the answer: `content-type` and `accept`.
    pub(crate) media: [String; 2],
    pub(crate) body: Value,
}

/// Answers each request with the next reply of the script, and waits for one if the script is at its end.
pub(crate) struct FakeApi {
    pub(crate) address: SocketAddr,
    pub(crate) replies: mpsc::Sender<Reply>,
    pub(crate) asked: mpsc::Receiver<Asked>,
    server: JoinHandle<()>,
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeApi {
    pub(crate) async fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let address = listener.local_addr().expect("bound");
        let (replies, script) = mpsc::channel(100);
        let (log, asked) = mpsc::channel(100);
        let script = Arc::new(Mutex::new(script));
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, log) = (script.clone(), log.clone());
                let service = service_fn(move |request| answer(request, script.clone(), log.clone()));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, replies, asked, server }
    }

    pub(crate) fn client(&self) -> Client {
        client_of(self.address)
    }

    pub(crate) async fn reply(&self, reply: Reply) {
        self.replies.send(reply).await.expect("the server runs");
    }

    /// Answers the next request with a list of these objects.
    pub(crate) async fn list(&self, items: impl IntoIterator<Item = Value>) {
        let items: Vec<Value> = items.into_iter().collect();
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "10" }, "items": items,
        });
        self.reply(Reply::Json(200, body)).await;
    }

    /// Answers the next request with a watch whose events the test sends.
    pub(crate) async fn watch(&self) -> mpsc::Sender<Value> {
        let (sender, events) = mpsc::channel(100);
        self.reply(Reply::Watch(events)).await;
        sender
    }

    pub(crate) async fn next_request(&mut self) -> Asked {
        self.asked.recv().await.expect("the server runs")
    }
}

/// A client of whatever listens at `address`.
pub(crate) fn client_of(address: SocketAddr) -> Client {
    let url = format!("http://{address}").parse().expect("an address makes a URL");
    let mut config = kube::Config::new(url);
    config.default_retry = false;
    Client::try_from(config).expect("plain HTTP needs nothing")
}

/// A failure as the API server reports it.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Reply {
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    Reply::Json(code, body)
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn answer(
    request: Request<Incoming>,
    script: Arc<Mutex<mpsc::Receiver<Reply>>>,
    log: mpsc::Sender<Asked>,
) -> Result<Response<Body>, Infallible> {
    let method = request.method().to_string();
    let target = request.uri().to_string();
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = [CONTENT_TYPE, ACCEPT].map(|name| header(name).to_owned());
    let body = request.into_body().collect().await.expect("the client sends its body").to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    log.send(Asked { method, target, media, body }).await.expect("the test runs");
    let reply = script.lock().await.recv().await;
    Ok(match reply {
        Some(Reply::Json(code, body)) => {
            let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
            let mut response = Response::new(body);
            *response.status_mut() = code.try_into().expect("an HTTP status");
            response
        }
        Some(Reply::Watch(events)) => Response::new(StreamBody::new(lines(events)).boxed_unsync()),
        Some(Reply::Silence) | None => std::future::pending().await,
    })
}

fn lines(events: mpsc::Receiver<Value>) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let events =
        stream::unfold(events, |mut events| async { events.recv().await.map(|event| (event, events)) });
    events.map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))))
}
