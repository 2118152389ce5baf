//! Requests with the verdict that they must get. All are dry runs, which pass authorization and admission like others.

use anyhow::ensure;
use http::Method;
use kube::Client;
use serde_json::Value;

use causeway_tests::rest::{Answer, MERGE_PATCH, OBJECT, send};

/// Content type of a server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

/// Collects what came out otherwise.
#[derive(Default)]
pub(crate) struct Attempts {
    wrong: Vec<String>,
    number: usize,
}

/// One request.
pub(crate) struct Attempt<'a> {
    pub(crate) client: &'a Client,
    method: Method,
    content: &'static str,
    path: String,
    body: Option<Value>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn create(client: &'a Client, collection: &str, body: Value) -> Self {
        let path = format!("{collection}?dryRun=All");
        Self { client, method: Method::POST, content: OBJECT, path, body: Some(body) }
    }

    pub(crate) fn merge(client: &'a Client, object: &str, body: Value) -> Self {
        let path = format!("{object}?dryRun=All");
        Self { client, method: Method::PATCH, content: MERGE_PATCH, path, body: Some(body) }
    }

    pub(crate) fn apply(client: &'a Client, object: &str, body: Value) -> Self {
        let path = format!("{object}?dryRun=All&fieldManager=test&force=true");
        Self { client, method: Method::PATCH, content: APPLY, path, body: Some(body) }
    }

    pub(crate) fn delete(client: &'a Client, object: &str) -> Self {
        let path = format!("{object}?dryRun=All");
        Self { client, method: Method::DELETE, content: OBJECT, path, body: None }
    }

    pub(crate) fn read(client: &'a Client, path: &str) -> Self {
        Self { client, method: Method::GET, content: OBJECT, path: path.to_owned(), body: None }
    }

    /// Sends it.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn answer(&self) -> anyhow::Result<Answer> {
        send(self.client, self.method.clone(), &self.path, self.content, self.body.as_ref()).await
    }
}

impl Attempts {
    /// It must be accepted.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn allowed(&mut self, what: &str, attempt: Attempt<'_>) -> anyhow::Result<()> {
        let answer = attempt.answer().await?;
        self.number += 1;
        if !answer.is_accepted() {
            let (said, warnings) = (answer.message(), &answer.warnings);
            self.wrong.push(format!("refused: {what}: {} {said} {warnings:?}", answer.code));
        }
        Ok(())
    }

    /// It must be forbidden, with `because` in the text.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn forbidden(
        &mut self,
        what: &str,
        because: &str,
        attempt: Attempt<'_>,
    ) -> anyhow::Result<()> {
        self.forbidden_by_any(what, &[because], attempt).await
    }

    /// It must be forbidden, with one of the reasons in the text.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn forbidden_by_any(
        &mut self,
        what: &str,
        because: &[&str],
        attempt: Attempt<'_>,
    ) -> anyhow::Result<()> {
        let answer = attempt.answer().await?;
        self.number += 1;
        let message = answer.message();
        if answer.code != 403 || !because.iter().any(|because| message.contains(because)) {
            self.wrong
                .push(format!("not forbidden because of {because:?}: {what}: {} {message}", answer.code));
        }
        Ok(())
    }

    /// # Errors
    /// Everything that came out otherwise.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let (wrong, number) = (self.wrong, self.number);
        ensure!(wrong.is_empty(), "{} of {number} attempts differ:\n{}", wrong.len(), wrong.join("\n"));
        ensure!(number > 0, "nothing was attempted");
        Ok(())
    }
}
