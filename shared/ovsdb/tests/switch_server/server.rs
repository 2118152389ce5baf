//! Starts ovsdb-server out of the test tree.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ovsdb::{Client, Operation, Options, Remote, Store, Transaction};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::rows::{Bridge, Interface, Port, Root};

/// Longer than anything here takes on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The name of the switch database.
pub(crate) const DATABASE: &str = "Open_vSwitch";

/// The Debian tree that the servers come from. Its programs run with its own loader and libraries.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Finds the tree; the error says what is missing.
    #[expect(clippy::disallowed_methods, reason = "a test's requirements come from the environment")]
    pub(crate) fn find() -> Result<Self, String> {
        let cache = std::env::var("CAUSEWAY_CACHE")
            .map(PathBuf::from)
            .or_else(|_| std::env::var("HOME").map(|home| PathBuf::from(home).join(".cache/causeway")));
        let root = cache.map_err(|_| "neither CAUSEWAY_CACHE nor HOME is set".to_owned())?.join("rootfs");
        let server = root.join("usr/sbin/ovsdb-server");
        if server.is_file() { Ok(Self { root }) } else { Err(format!("{} is missing", server.display())) }
    }

    pub(crate) fn schema(&self) -> PathBuf {
        self.root.join("usr/share/openvswitch/vswitch.ovsschema")
    }

    /// A program of the tree. It ends when the thread that starts it ends, whatever happens to the test.
    pub(crate) fn command(&self, program: &str) -> Command {
        let (triple, loader) = match std::env::consts::ARCH {
            "aarch64" => ("aarch64-linux-gnu", "usr/lib/ld-linux-aarch64.so.1"),
            _ => ("x86_64-linux-gnu", "usr/lib64/ld-linux-x86-64.so.2"),
        };
        let libraries = self.root.join("usr/lib").join(triple);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(self.root.join(loader));
        command.arg("--library-path").arg(libraries).arg(self.root.join(program));
        command
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Where a server stores its data.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Standalone,
    Clustered,
}

/// A server with a database file of its own; killed when dropped.
pub(crate) struct Server {
    tree: Arc<Tree>,
    directory: TempDir,
    extra: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Makes the database; starts nothing yet.
    pub(crate) fn create(tree: Arc<Tree>, kind: Kind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("conf.db");
        let (database, schema) = (database.to_str().unwrap(), tree.schema());
        let schema = schema.to_str().unwrap();
        match kind {
            Kind::Standalone => tree.run("usr/bin/ovsdb-tool", &["create", database, schema]),
            Kind::Clustered => {
                let raft = format!("unix:{}", directory.path().join("raft").display());
                tree.run("usr/bin/ovsdb-tool", &["create-cluster", database, schema, &raft]);
            }
        }
        Self { tree, directory, extra: Vec::new(), child: None }
    }

    /// A running server.
    pub(crate) fn running(tree: Arc<Tree>) -> Self {
        let mut server = Self::create(tree, Kind::Standalone);
        server.start("db.sock");
        server
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds an argument for the next start.
    pub(crate) fn argument(&mut self, argument: String) {
        self.extra.push(argument);
    }

    pub(crate) fn remote_at(&self, socket: &str) -> Remote {
        Remote::Unix(self.path(socket))
    }

    pub(crate) fn remote(&self) -> Remote {
        self.remote_at("db.sock")
    }

    /// Starts the server on a socket of this name. Returns before the server listens.
    pub(crate) fn start(&mut self, socket: &str) {
        let unix = |name: &str| self.path(name).display().to_string();
        let mut command = self.tree.command("usr/sbin/ovsdb-server");
        command
            .env("OVS_RUNDIR", self.directory.path())
            .env("OVS_LOGDIR", self.directory.path())
            .arg(format!("--remote=punix:{}", unix(socket)))
            .arg(format!("--unixctl={}", unix("control")))
            .arg(format!("--log-file={}", unix("server.log")))
            .args(["--no-chdir", "-vconsole:off"])
            .args(&self.extra)
            .arg(unix("conf.db"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    /// Kills the server, so that nothing is said to its clients.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops the server with its connections open, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().unwrap().id();
        kill(Pid::from_raw(id.try_into().unwrap()), signal).unwrap();
    }

    /// Changes the database while the store of the test cannot see it, through another socket.
    pub(crate) async fn change_unseen(&mut self, transaction: &Transaction) {
        self.start("other.sock");
        let (store, _guard) = open(self.remote_at("other.sock"));
        store.synced(DEADLINE).await.unwrap();
        store.transact(transaction).await.unwrap();
        self.kill();
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("server.log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("log of {}:\n{}", self.directory.path().display(), self.log());
        }
    }
}

/// Options that make a test quick.
pub(crate) fn options() -> Options {
    Options {
        backoff_min: Duration::from_millis(10),
        backoff_max: Duration::from_millis(100),
        ..Options::default()
    }
}

/// A store of all test tables, and the guard that stops it.
pub(crate) fn open(remote: Remote) -> (Store, DropGuard) {
    open_with(remote, options())
}

pub(crate) fn open_with(remote: Remote, options: Options) -> (Store, DropGuard) {
    let builder = Store::builder(remote, DATABASE).options(options);
    spawn(builder.table::<Root>().table::<Bridge>().table::<Port>().table::<Interface>())
}

pub(crate) fn spawn(builder: ovsdb::StoreBuilder) -> (Store, DropGuard) {
    let (store, driver) = builder.build();
    let stop = CancellationToken::new();
    tokio::spawn(driver.run(stop.clone()));
    (store, stop.drop_guard())
}

/// A synced store with the one row that every switch database has.
pub(crate) async fn open_ready(server: &Server) -> (Store, DropGuard) {
    let (store, guard) = open(server.remote());
    let snapshot = store.synced(DEADLINE).await.unwrap();
    if snapshot.is_empty::<Root>() {
        let mut transaction = Transaction::default();
        transaction.push(Operation::Insert { table: "Open_vSwitch".into(), row: [].into(), name: None });
        store.transact(&transaction).await.unwrap();
    }
    (store, guard)
}

/// Waits for a lost status, and returns its text.
pub(crate) async fn lost(store: &Store) -> String {
    let mut status = store.status();
    let lost = status.wait_for(|status| matches!(status, ovsdb::Status::Lost { .. }));
    tokio::time::timeout(DEADLINE, lost).await.unwrap().unwrap().to_string()
}

/// A client of a server that is known to listen.
pub(crate) async fn client(remote: &Remote) -> Client {
    Client::connect(remote, Options::default()).await.unwrap()
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn path_text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
