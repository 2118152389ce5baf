//! Servers behind TLS, with certificates as OVS deployments have them: a private CA, no host names.

use std::path::PathBuf;
use std::sync::Arc;

use ovsdb::{Options, Remote, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::rows::Root;
use crate::server::{DEADLINE, Kind, Server, Tree, free_port, lost, open_with, options, path_text};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn parameters(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

fn authority() -> Authority {
    let mut parameters = parameters("switch CA");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// Writes key and certificate of one end, and the CA that the other end must come from.
fn write(server: &Server, end: &str, own: &Authority, trusted: &Authority) -> TlsFiles {
    let key = KeyPair::generate().unwrap();
    let certificate = parameters(end).signed_by(&key, own).unwrap();
    let file = |name: &str, contents: &str| -> PathBuf {
        let path = server.path(&format!("{end}-{name}.pem"));
        std::fs::write(&path, contents).unwrap();
        path
    };
    TlsFiles {
        private_key: file("key", &key.serialize_pem()),
        certificate: file("cert", &certificate.pem()),
        ca_certificate: file("ca", &trusted.pem()),
    }
}

/// A server that listens with TLS and trusts clients of `authority`; also its remote.
fn serve(tree: Arc<Tree>, authority: &Authority) -> (Server, Remote) {
    let mut server = Server::create(tree, Kind::Standalone);
    let files = write(&server, "server", authority, authority);
    let port = free_port();
    server.argument(format!("--private-key={}", path_text(&files.private_key)));
    server.argument(format!("--certificate={}", path_text(&files.certificate)));
    server.argument(format!("--ca-cert={}", path_text(&files.ca_certificate)));
    server.argument(format!("--remote=pssl:{port}:127.0.0.1"));
    server.start("db.sock");
    let remote = format!("ssl:127.0.0.1:{port}").parse().unwrap();
    (server, remote)
}

pub(crate) async fn a_server_is_followed_over_tls(tree: Arc<Tree>) {
    let authority = authority();
    let (server, remote) = serve(tree, &authority);
    let tls = Some(write(&server, "client", &authority, &authority));
    let (store, _guard) = open_with(remote, Options { tls, ..options() });
    store.synced(DEADLINE).await.unwrap();
    let mut root = ovsdb::Transaction::default();
    root.push(ovsdb::Operation::Insert { table: "Open_vSwitch".into(), row: [].into(), name: None });
    store.transact(&root).await.unwrap();
    assert_eq!(store.current().unwrap().len::<Root>(), 1);
}

pub(crate) async fn a_server_with_a_certificate_of_another_ca_is_refused(tree: Arc<Tree>) {
    let (ours, theirs) = (authority(), authority());
    let (server, remote) = serve(tree, &theirs);
    // Wait on the socket, so that the refusal below is one of TLS and not of a port where nobody listens yet.
    let (local, _local_guard) = crate::server::open(server.remote());
    local.synced(DEADLINE).await.unwrap();
    let tls = Some(write(&server, "client", &theirs, &ours));
    let (store, _guard) = open_with(remote.clone(), Options { tls, ..options() });
    let why = lost(&store).await;
    assert!(why.contains("TLS handshake") && why.contains("certificate"), "{why}");

    let (unconfigured, _guard) = open_with(remote, options());
    let why = lost(&unconfigured).await;
    assert!(why.contains("needs a private key"), "{why}");
}
