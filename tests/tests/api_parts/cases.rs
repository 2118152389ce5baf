//! One manifest and the answer to it: recorded of upstream's definitions, or a row of a table of ours.

use anyhow::{Context, ensure};
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use causeway_tests::rest::{Answer, OBJECT, send, warning_text};

/// A request and the answer that it must get.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Case {
    pub(crate) name: String,
    /// What is sent: created, or written over `previous` where there is one.
    pub(crate) manifest: Value,
    #[serde(default)]
    pub(crate) previous: Option<Value>,
    #[serde(default)]
    pub(crate) subresource: Option<String>,
    /// What becomes of fields that the definition does not have.
    #[serde(default = "strict")]
    pub(crate) field_validation: String,
    pub(crate) code: u16,
    /// Compared where there are no causes.
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) causes: Option<Vec<Cause>>,
    #[serde(default)]
    pub(crate) stored: Option<Stored>,
    #[serde(default)]
    pub(crate) generation: Option<i64>,
    /// The `Warning` header, compared where one was recorded: admission policies add more.
    #[serde(default)]
    pub(crate) warning: Option<String>,
}

/// The API server's default is to drop such fields; refusing them shows more.
pub(crate) fn strict() -> String {
    "Strict".to_owned()
}

/// One reason of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Cause {
    #[serde(default)]
    pub(crate) field: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// What the API server keeps.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Stored {
    /// Null where there is none.
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default)]
    pub(crate) status: Option<Value>,
}

/// The recorded cases of the kinds Uplink and UplinkState.
///
/// # Errors
/// The file is not as it should be.
pub(crate) fn recorded() -> anyhow::Result<Vec<Case>> {
    read(include_str!("../../conformance/crd/uplink.jsonl"), 43)
}

/// The cases of a file, one a line, and as many as there must be.
///
/// # Errors
/// The file is not as it should be.
pub(crate) fn read(lines: &str, count: usize) -> anyhow::Result<Vec<Case>> {
    let cases: Vec<Case> = lines
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect::<Result<_, _>>()?;
    ensure!(cases.len() == count, "{} recorded cases", cases.len());
    Ok(cases)
}

/// Puts each case to the API server.
///
/// # Errors
/// All that differ, by name.
pub(crate) async fn check(client: &Client, cases: &[Case]) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for case in cases {
        if let Err(error) = case.check(client).await {
            wrong.push(format!("{}: {error:#}", case.name));
        }
    }
    ensure!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    Ok(())
}

impl Case {
    async fn check(&self, client: &Client) -> anyhow::Result<()> {
        let outcome = self.answer(client).await.and_then(|answer| self.compare(&answer));
        // Whatever came of it, the next case finds nothing there.
        let gone = send(client, Method::DELETE, &object(&self.manifest)?, OBJECT, None).await?;
        ensure!(gone.is_accepted() || gone.code == 404, "deleting it: {gone:?}");
        outcome
    }

    /// Sends it; leaves what was accepted.
    ///
    /// # Errors
    /// The API server does not answer, or refuses what was there before.
    pub(crate) async fn answer(&self, client: &Client) -> anyhow::Result<Answer> {
        let first = self.previous.as_ref().unwrap_or(&self.manifest);
        let validation = &self.field_validation;
        let create = format!("{}?fieldValidation={validation}", collection(first)?);
        let created = send(client, Method::POST, &create, OBJECT, Some(first)).await?;
        if self.previous.is_none() {
            return Ok(created);
        }
        ensure!(created.is_accepted(), "what was there before is refused: {}", created.message());
        let version = created.body.pointer("/metadata/resourceVersion").context("a version")?;
        let mut manifest = self.manifest.clone();
        let metadata = manifest.get_mut("metadata").and_then(Value::as_object_mut).context("metadata")?;
        metadata.insert("resourceVersion".to_owned(), version.clone());
        let subresource = self.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let update = format!("{}{subresource}?fieldValidation={validation}", object(&manifest)?);
        send(client, Method::PUT, &update, OBJECT, Some(&manifest)).await
    }

    fn compare(&self, answer: &Answer) -> anyhow::Result<()> {
        let said = answer.message();
        ensure!(answer.code == self.code, "code {} instead of {}: {said}", answer.code, self.code);
        let mut want = self.causes.clone().unwrap_or_default();
        want.sort();
        let mut causes: Vec<Cause> = match answer.body.pointer("/details/causes") {
            Some(causes) => Vec::deserialize(causes).context("reading the causes")?,
            None => Vec::new(),
        };
        causes.sort();
        ensure!(causes == want, "causes {causes:#?} instead of {want:#?}");
        if want.is_empty() && !self.message.is_empty() {
            ensure!(said == self.message, "message {said:?} instead of {:?}", self.message);
        }
        if let Some(want) = &self.warning {
            ensure!(
                answer.warnings == [warning_text(want)],
                "warnings {:?} instead of {want}",
                answer.warnings
            );
        }
        if let Some(want) = &self.stored {
            let stored = Stored::deserialize(&answer.body).context("reading the stored object")?;
            ensure!(stored == *want, "stored {stored:?} instead of {want:?}");
        }
        if let Some(want) = self.generation {
            let generation = answer.body.pointer("/metadata/generation").and_then(Value::as_i64);
            ensure!(generation == Some(want), "generation {generation:?} instead of {want}");
        }
        Ok(())
    }
}

/// The path of the collection that a manifest belongs to.
///
/// # Errors
/// The manifest has no type.
pub(crate) fn collection(manifest: &Value) -> anyhow::Result<String> {
    let word = |key: &str| manifest.get(key).and_then(Value::as_str).with_context(|| key.to_owned());
    let (version, kind) = (word("apiVersion")?, word("kind")?);
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
    let namespace = namespace.map(|name| format!("namespaces/{name}/")).unwrap_or_default();
    let plural = kind.to_lowercase();
    // The only kind of these tests that is a plural already, and has no other.
    let plural = if plural.ends_with('s') { plural } else { plural + "s" };
    Ok(format!("{root}/{version}/{namespace}{plural}"))
}

/// The path of the object that a manifest describes.
///
/// # Errors
/// The manifest has no type or no name.
pub(crate) fn object(manifest: &Value) -> anyhow::Result<String> {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).context("a name")?;
    Ok(format!("{}/{name}", collection(manifest)?))
}
