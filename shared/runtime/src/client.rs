//! The Kubernetes client, made from settings.

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use kube::config::{
    AuthInfo, Cluster, Config, Context, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError,
    NamedAuthInfo, NamedCluster, NamedContext,
};

use crate::credentials::{Credentials, TokenFileError};
use crate::settings::{KubeAccess, TokenSource};

/// How long one attempt to open a connection may take: an API server that swallows packets is noticed this fast.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Name of the only entry of the kubeconfig made from `--k8s-apiserver` and its like.
const ENTRY: &str = "causeway";

/// Why there is no client. The API server itself is not asked: being away is not an error here.
#[derive(Debug, thiserror::Error)]
pub enum KubeConnectError {
    /// The kubeconfig is missing, unreadable or incomplete.
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The given server, token or CA cannot be used.
    #[error("cannot use the API server {url}")]
    Server {
        /// Its URL.
        url: String,
        /// Why.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The service account of the pod cannot be used, or this is no pod.
    #[error("cannot use the pod's service account (outside a pod give --k8s-kubeconfig or --k8s-apiserver)")]
    InCluster(#[source] Box<InClusterError>),
    /// The token file cannot be used.
    #[error(transparent)]
    TokenFile(#[from] TokenFileError),
    /// Certificates or credentials were read and do not work.
    #[error("cannot set up the connection to the API server")]
    Setup(#[source] Box<kube::Error>),
}

/// The client for `access`, with rustls on ring. Reads files, opens no connection.
///
/// Requests are not retried inside the client: the engine, the watches and the writer know better when to.
pub async fn connect(access: &KubeAccess) -> Result<Client, KubeConnectError> {
    // Fails only if a provider was chosen before, and then that one serves.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut config = config(access).await?;
    // The client would take it and then fail with every request.
    Credentials::of(access).validity()?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = false;
    Client::try_from(config).map_err(|source| KubeConnectError::Setup(Box::new(source)))
}

async fn config(access: &KubeAccess) -> Result<Config, KubeConnectError> {
    let options = KubeConfigOptions::default();
    match access {
        KubeAccess::Kubeconfig(path) => {
            let fail = |source| KubeConnectError::Kubeconfig { path: path.clone(), source: Box::new(source) };
            let file = Kubeconfig::read_from(path).map_err(fail)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(fail)
        }
        KubeAccess::Server { url, token, ca } => {
            let ca = ca.as_ref().map(|path| path.to_string_lossy().into_owned());
            let cluster =
                Cluster { server: Some(url.clone()), certificate_authority: ca, ..Cluster::default() };
            let user = match token {
                Some(TokenSource::Inline(token)) => {
                    AuthInfo { token: Some(token.expose().to_owned().into()), ..AuthInfo::default() }
                }
                Some(TokenSource::File(path)) => {
                    let path = path.to_string_lossy().into_owned();
                    AuthInfo { token_file: Some(path), ..AuthInfo::default() }
                }
                None => AuthInfo::default(),
            };
            Config::from_custom_kubeconfig(one_entry(cluster, user), &options)
                .await
                .map_err(|source| KubeConnectError::Server { url: url.clone(), source: Box::new(source) })
        }
        KubeAccess::InCluster => {
            Config::incluster().map_err(|source| KubeConnectError::InCluster(Box::new(source)))
        }
    }
}

fn one_entry(cluster: Cluster, user: AuthInfo) -> Kubeconfig {
    let name = || ENTRY.to_owned();
    let context = Context { cluster: name(), user: Some(name()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name: name(), context: Some(context), ..NamedContext::default() }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::telemetry::chain;

    async fn refused(access: KubeAccess) -> String {
        match connect(&access).await {
            Ok(_) => panic!("{access:?} was accepted"),
            Err(error) => chain(&error).to_string(),
        }
    }

    #[tokio::test]
    async fn an_unreadable_kubeconfig_is_named_with_its_cause() {
        let error = refused(KubeAccess::Kubeconfig("/nowhere/kubeconfig".into())).await;
        assert!(error.starts_with("cannot use the kubeconfig /nowhere/kubeconfig: "), "{error}");
        assert!(error.contains("No such file or directory"), "{error}");
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(b"current-context: gone\n").expect("the file is written");
        let error = refused(KubeAccess::Kubeconfig(file.path().into())).await;
        assert!(error.contains(&file.path().display().to_string()) && error.contains("gone"), "{error}");
    }

    #[tokio::test]
    async fn a_missing_ca_file_is_named() {
        let access = KubeAccess::Server {
            url: "https://127.0.0.1:1".to_owned(),
            token: Some(TokenSource::File("/nowhere/token".into())),
            ca: Some("/nowhere/ca.crt".into()),
        };
        let error = refused(access).await;
        assert!(error.starts_with("cannot use the API server https://127.0.0.1:1: "), "{error}");
        assert!(error.contains("/nowhere/ca.crt"), "{error}");
    }

    #[tokio::test]
    async fn a_token_file_with_a_line_break_is_refused_before_every_request_fails() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        let access = KubeAccess::Server {
            url: "https://127.0.0.1:1".to_owned(),
            token: Some(TokenSource::File(file.path().into())),
            ca: None,
        };
        file.write_all(b"secret").expect("the file is written");
        assert!(connect(&access).await.is_ok());
        file.write_all(b"\n").expect("the file is written");
        let error = refused(access).await;
        assert!(
            error.contains(&file.path().display().to_string()) && error.contains("line break"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn outside_a_pod_the_error_says_what_to_give() {
        let error = refused(KubeAccess::InCluster).await;
        assert!(error.contains("--k8s-kubeconfig"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_is_away_still_gives_a_client() {
        let access = KubeAccess::Server { url: "http://127.0.0.1:1".to_owned(), token: None, ca: None };
        assert!(connect(&access).await.is_ok());
    }
}
