//! Identities: kubeconfigs of service accounts, for programs that shall have no more rights than in production.

use anyhow::Context;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;

use crate::control_plane::inside_url;
use crate::rig::Rig;

/// From where a kubeconfig is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// By programs in nodes.
    Inside,
    /// By programs on the machine.
    Outside,
}

impl Rig {
    /// Text of a kubeconfig for whoever `token` belongs to.
    ///
    /// # Errors
    /// If the authority's certificate cannot be read.
    pub fn kubeconfig_of(&self, token: &str, side: Side) -> anyhow::Result<String> {
        let url = match side {
            Side::Inside => inside_url(),
            Side::Outside => self.url(),
        };
        self.shared.control.kubeconfig(&url, token)
    }

    /// A token of a service account that exists, valid for an hour.
    ///
    /// # Errors
    /// If the API server refuses, as for an account that is not there.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let answer =
            answer.with_context(|| format!("asking for a token of service account {namespace}/{name}"))?;
        let token = answer.status.and_then(|status| status.token);
        token.context("the API server answered without a token")
    }
}
