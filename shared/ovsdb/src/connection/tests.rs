use std::path::Path;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::*;

/// Far longer than any of these takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server end under the test's control, and the client end.
async fn connected(options: &Options) -> (TempDir, UnixStream, Connection, Arc<Counters>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let counters = Arc::new(Counters::default());
    let remote = Remote::Unix(path);
    let connection = Connection::open(&remote, options, counters.clone()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (directory, server, connection, counters)
}

fn patient() -> Options {
    Options { probe_interval: Duration::ZERO, ..Options::default() }
}

async fn within<R>(work: impl Future<Output = R>) -> R {
    tokio::time::timeout(PATIENCE, work).await.unwrap()
}

/// Reads one message on the server's end.
async fn receive(server: &mut UnixStream, decoder: &mut Decoder) -> Value {
    within(async {
        loop {
            if let Some(frame) = decoder.next_frame().unwrap() {
                return frame;
            }
            assert_ne!(server.read_buf(decoder.buffer()).await.unwrap(), 0, "client closed the connection");
        }
    })
    .await
}

#[tokio::test]
async fn a_reply_is_matched_to_its_request_and_the_rest_is_kept() {
    let (_directory, mut server, mut connection, _) = connected(&patient()).await;
    let answer = tokio::spawn(async move {
        let request = receive(&mut server, &mut Decoder::new(1 << 20)).await;
        assert_eq!((&request["method"], &request["params"]), (&json!("list_dbs"), &json!([])));
        let early = json!({"id": null, "method": "update2", "params": ["m", {}]}).to_string();
        let reply = json!({"id": request["id"], "result": ["db"], "error": null}).to_string();
        for byte in (early + &reply).bytes() {
            server.write_all(&[byte]).await.unwrap();
        }
        server
    });
    let reply = connection.call("list_dbs", json!([]), PATIENCE).await.unwrap();
    assert_eq!(reply, json!(["db"]));
    let Incoming::Notification { method, .. } = within(connection.next()).await.unwrap() else {
        panic!("the notification before the reply is lost");
    };
    assert_eq!(method, "update2");
    answer.await.unwrap();
}

#[tokio::test]
async fn the_servers_echo_is_answered_while_waiting_for_something_else() {
    let (_directory, mut server, mut connection, counters) = connected(&patient()).await;
    let answer = tokio::spawn(async move {
        let mut decoder = Decoder::new(1 << 20);
        let request = receive(&mut server, &mut decoder).await;
        server
            .write_all(json!({"id": "e", "method": "echo", "params": [7]}).to_string().as_bytes())
            .await
            .unwrap();
        let echo = receive(&mut server, &mut decoder).await;
        assert_eq!(echo, json!({"id": "e", "result": [7], "error": null}));
        server.write_all(json!({"id": request["id"], "result": {}}).to_string().as_bytes()).await.unwrap();
        server
    });
    connection.call("anything", json!([]), PATIENCE).await.unwrap();
    answer.await.unwrap();
    assert_eq!(counters.read().echoes_answered, 1);
}

#[tokio::test]
async fn a_refused_request_says_why() {
    let (_directory, mut server, mut connection, _) = connected(&patient()).await;
    server.write_all(json!({"id": 1, "error": "unknown method"}).to_string().as_bytes()).await.unwrap();
    let error = connection.call("nonsense", json!([]), PATIENCE).await.unwrap_err();
    assert!(error.is_unknown_method(), "{error}");
}

#[tokio::test]
async fn a_request_without_reply_ends_at_its_deadline_and_the_late_reply_disturbs_nothing() {
    let (_directory, mut server, mut connection, _) = connected(&patient()).await;
    let deadline = Duration::from_millis(20);
    let error = connection.call("slow", json!([]), deadline).await.unwrap_err();
    assert!(matches!(error, CallError::Deadline { method: "slow", after } if after == deadline), "{error}");
    for id in [1, 2] {
        server.write_all(json!({"id": id, "result": id}).to_string().as_bytes()).await.unwrap();
    }
    assert_eq!(connection.call("quick", json!([]), PATIENCE).await.unwrap(), json!(2));
}

#[tokio::test]
async fn a_silent_server_is_probed_and_kept_while_it_answers() {
    let options = Options { probe_interval: Duration::from_millis(20), ..Options::default() };
    let (_directory, mut server, mut connection, counters) = connected(&options).await;
    let answer = tokio::spawn(async move {
        let mut decoder = Decoder::new(1 << 20);
        for _ in 0..3 {
            let probe = receive(&mut server, &mut decoder).await;
            assert_eq!((&probe["method"], &probe["id"]), (&json!("echo"), &json!(PROBE_ID)));
            let reply = json!({"id": probe["id"], "result": probe["params"], "error": null});
            server.write_all(reply.to_string().as_bytes()).await.unwrap();
        }
    });
    let end = within(connection.next()).await;
    answer.await.unwrap();
    assert!(matches!(end, Err(ConnectionError::Closed { mid_frame: false })), "{end:?}");
    assert!(counters.read().probes >= 3);
}

#[tokio::test]
async fn a_server_that_stalls_in_the_middle_of_a_message_is_given_up() {
    let options = Options { probe_interval: Duration::from_millis(20), ..Options::default() };
    let (_directory, mut server, mut connection, _) = connected(&options).await;
    server.write_all(br#"{"id":1,"res"#).await.unwrap();
    let end = within(connection.next()).await;
    assert!(matches!(end, Err(ConnectionError::Unanswered { .. })), "{end:?}");
}

#[tokio::test]
async fn the_end_of_the_stream_tells_whether_a_message_was_cut() {
    for (bytes, cut) in [(&b""[..], false), (b"{\"id\":", true), (b"{\"id\":1,\"result\":0} ", false)] {
        let (_directory, mut server, mut connection, _) = connected(&patient()).await;
        server.write_all(bytes).await.unwrap();
        drop(server);
        let end = within(async {
            loop {
                if let Err(error) = connection.next().await {
                    return error;
                }
            }
        })
        .await;
        assert!(matches!(end, ConnectionError::Closed { mid_frame } if mid_frame == cut), "{end}");
    }
}

#[tokio::test]
async fn garbage_ends_the_connection_with_a_typed_error() {
    let (_directory, mut server, mut connection, _) = connected(&patient()).await;
    server.write_all(b"220 mail.example ESMTP\r\n").await.unwrap();
    let end = within(connection.next()).await;
    assert!(matches!(end, Err(ConnectionError::Garbage(_))), "{end:?}");

    let (_directory, mut server, mut connection, _) = connected(&patient()).await;
    server.write_all(br#"{"hello":"world"}"#).await.unwrap();
    let end = within(connection.next()).await;
    assert!(matches!(end, Err(ConnectionError::NotJsonRpc { .. })), "{end:?}");
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let (_directory, mut server, mut connection, _) = connected(&patient()).await;
    let text = json!({"id": null, "method": "m", "params": ["é"]}).to_string();
    for byte in text.bytes() {
        server.write_all(&[byte]).await.unwrap();
        // Polled once and dropped, after every byte.
        if let Ok(incoming) = tokio::time::timeout(Duration::ZERO, connection.next()).await {
            assert!(matches!(incoming.unwrap(), Incoming::Notification { .. }));
            return;
        }
    }
    assert!(matches!(within(connection.next()).await.unwrap(), Incoming::Notification { .. }));
}

#[tokio::test]
async fn both_sides_may_send_a_lot_at_once() {
    let (_directory, mut server, mut connection, _) = connected(&patient()).await;
    let big = "x".repeat(4 << 20);
    connection.request("big", json!([big]));
    let echo = json!({"id": null, "method": "big", "params": [big]}).to_string();
    let (mut reader, mut writer) = server.split();
    let mut decoder = Decoder::new(8 << 20);
    let serve = async {
        // Writes everything before it reads anything.
        writer.write_all(echo.as_bytes()).await.unwrap();
        while decoder.next_frame().unwrap().is_none() {
            reader.read_buf(decoder.buffer()).await.unwrap();
        }
    };
    let receive = async {
        connection.next().await.unwrap();
        connection.next().await
    };
    within(async {
        tokio::select! {
            () = serve => {}
            incoming = receive => panic!("nothing more was sent, but {incoming:?} came"),
        }
    })
    .await;
}

#[tokio::test]
async fn failures_to_connect_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |path: &Path| {
        let remote = Remote::Unix(path.to_owned());
        Connection::open(&remote, &Options::default(), Arc::default()).await.err().unwrap()
    };
    let missing = directory.path().join("missing");
    assert!(matches!(open(&missing).await, ConnectionError::NoSocket { path } if path == missing));
    let stale = directory.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(matches!(open(&stale).await, ConnectionError::ConnectionRefused { .. }));
    let remote: Remote = "ssl:127.0.0.1:1".parse().unwrap();
    let error = Connection::open(&remote, &Options::default(), Arc::default()).await.err().unwrap();
    assert!(matches!(error, ConnectionError::Tls { .. }), "{error}");
}
