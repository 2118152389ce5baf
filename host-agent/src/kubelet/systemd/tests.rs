use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::super::simulated::{Peer, signal};
use super::*;

/// Long enough for any machine; only a failure waits for it.
const GIVE_UP: Duration = Duration::from_secs(20);

const QUICK: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));

/// A follower of `kubelet.service` on a socket that a test may play systemd on.
struct Followed {
    _folder: TempDir,
    socket: PathBuf,
    unit: watch::Sender<Option<String>>,
    words: Words,
    link: watch::Receiver<Option<Result<(), String>>>,
    task: JoinHandle<()>,
}

impl Followed {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("private");
        let unit = watch::Sender::new(Some("kubelet.service".to_owned()));
        let words = Words::default();
        let link = words.link.subscribe();
        let task = tokio::spawn(follow(socket.clone(), unit.subscribe(), words.clone(), QUICK));
        Self { _folder: folder, socket, unit, words, link, task }
    }

    async fn connected(&mut self) {
        let good = self.link.wait_for(|link| matches!(link, Some(Ok(()))));
        timeout(GIVE_UP, good).await.expect("systemd is subscribed to").unwrap();
    }

    async fn fails(&mut self) -> String {
        let bad = self.link.wait_for(|link| matches!(link, Some(Err(_))));
        let link = timeout(GIVE_UP, bad).await.expect("a failure is told").unwrap().clone();
        link.unwrap().unwrap_err()
    }

    async fn told(&self) {
        timeout(GIVE_UP, self.words.active.notified()).await.expect("a restart is told");
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn a_unit_that_becomes_active_is_told_over_the_private_socket() {
    let mut followed = Followed::start();
    let peer = Peer::bind(&followed.socket);
    let systemd = peer.accept().await;
    followed.connected().await;
    assert_eq!(
        systemd.calls(),
        ["org.freedesktop.DBus.AddMatch", "org.freedesktop.systemd1.Manager.Subscribe"]
    );
    systemd.send(&signal("crio_2eservice", "active")).await;
    systemd.send(&signal("kubelet_2eservice", "activating")).await;
    systemd.send(&signal("kubelet_2eservice", "active")).await;
    followed.told().await;
}

#[tokio::test]
async fn more_signals_than_the_queue_holds_do_not_keep_the_answer_away() {
    let mut followed = Followed::start();
    let peer = Peer::bind(&followed.socket).chatty(500);
    let systemd = peer.accept().await;
    followed.connected().await;
    systemd.send(&signal("kubelet_2eservice", "active")).await;
    followed.told().await;
}

#[tokio::test]
async fn a_peer_that_goes_away_is_found_again() {
    let mut followed = Followed::start();
    let peer = Peer::bind(&followed.socket);
    for _ in 0..3 {
        let systemd = peer.accept().await;
        followed.connected().await;
        systemd.close().await;
        assert!(followed.fails().await.contains("connection to systemd was"));
    }
    let systemd = peer.accept().await;
    followed.connected().await;
    systemd.send(&signal("kubelet_2eservice", "active")).await;
    followed.told().await;
}

#[tokio::test]
async fn a_socket_that_appears_later_is_found() {
    let mut followed = Followed::start();
    assert_eq!(
        followed.fails().await,
        "failed to connect to systemd: No such file or directory (os error 2)"
    );
    let peer = Peer::bind(&followed.socket);
    let _systemd = peer.accept().await;
    followed.connected().await;
}

#[tokio::test]
async fn nonsense_on_the_socket_is_an_error_and_not_the_end() {
    for (when, at_once, after) in [
        ("instead of a greeting", true, b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice()),
        ("a refusal", true, b"REJECTED ANONYMOUS\r\n"),
        ("as a message", false, b"\xff\xfe\xfd nonsense nonsense nonsense nonsense nonsense nonsense"),
        ("a message too long", false, b"l\x04\x01\x01\xff\xff\xff\xff\x01\x00\x00\x00\xff\xff\xff\xff"),
    ] {
        let mut followed = Followed::start();
        let peer = Peer::bind(&followed.socket);
        if at_once {
            peer.accept_and_write(after).await;
        } else {
            peer.authenticate_and_write(after).await;
        }
        let error = followed.fails().await;
        assert!(!error.is_empty(), "{when}");
        let systemd = peer.accept().await;
        followed.connected().await;
        systemd.send(&signal("kubelet_2eservice", "active")).await;
        followed.told().await;
    }
}

#[tokio::test]
async fn a_peer_that_refuses_the_subscription_is_told_as_such() {
    let mut followed = Followed::start();
    let peer = Peer::bind(&followed.socket).refusing();
    let _systemd = peer.accept().await;
    let error = followed.fails().await;
    assert!(error.starts_with("failed to subscribe to systemd: "), "{error}");
}

#[tokio::test]
async fn without_a_unit_nobody_is_asked() {
    let mut followed = Followed::start();
    let peer = Peer::bind(&followed.socket);
    let _systemd = peer.accept().await;
    followed.connected().await;
    followed.unit.send_replace(None);
    let unasked = followed.link.wait_for(Option::is_none);
    timeout(GIVE_UP, unasked).await.expect("the connection is given up").unwrap();
    followed.unit.send_replace(Some("kubelet.service".to_owned()));
    let _systemd = peer.accept().await;
    followed.connected().await;
}
