//! How to reach the API server, as far as settings say.

use std::fmt;
use std::path::PathBuf;

use super::layers::{Rank, Values};

/// A way to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubeAccess {
    /// A kubeconfig file and its current context.
    Kubeconfig(PathBuf),
    /// A server and how to authenticate.
    Server {
        /// URL.
        url: String,
        /// Credentials; none for a plain `http` server.
        token: Option<TokenSource>,
        /// PEM file with the certificates to trust; the system's if not given.
        ca: Option<PathBuf>,
    },
    /// The service account of the pod this runs in.
    InCluster,
}

/// Where a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// Given directly.
    Inline(Secret),
    /// A file that is read again when the token expires.
    File(PathBuf),
}

/// Text that no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret itself; for the place that uses it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Chooses the way: what was given with the higher rank (flag, environment, file) wins, a kubeconfig wins a tie, and
/// without either the pod's service account is used.
pub(super) fn kube(values: &Values, problems: &mut Vec<String>) -> KubeAccess {
    let kubeconfig = values.text("k8s-kubeconfig").map(|path| (values.rank("k8s-kubeconfig"), path));
    let server = values.text("k8s-apiserver").map(|url| (values.rank("k8s-apiserver"), url));
    match (kubeconfig, server) {
        (Some((rank, path)), server) if server.is_none_or(|(other, _): (Rank, _)| rank >= other) => {
            KubeAccess::Kubeconfig(path.into())
        }
        (_, Some((_, url))) => {
            let token =
                values.text("k8s-token-file").map(|path| TokenSource::File(path.into())).or_else(|| {
                    values.text("k8s-token").map(|token| TokenSource::Inline(Secret(token.to_owned())))
                });
            if url.starts_with("https://") && token.is_none() {
                problems.push(format!(
                    "the API server {url} needs credentials: give --k8s-token-file, --k8s-token or --k8s-kubeconfig"
                ));
            } else if !url.starts_with("https://") && !url.starts_with("http://") {
                problems.push(format!("--k8s-apiserver must be an http or https URL, not {url:?}"));
            }
            let ca = values.text("k8s-cacert").map(PathBuf::from);
            KubeAccess::Server { url: url.to_owned(), token, ca }
        }
        _ => KubeAccess::InCluster,
    }
}
