//! Requests as a plain client sends them, and all of the answer: code, warnings, body.

use anyhow::Context;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// Content type of a merge patch. Source: RFC 7396.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Content type of a whole object.
pub const OBJECT: &str = "application/json";

/// What the API server answered, accepted or not.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub code: u16,
    /// The texts of the `Warning` headers.
    pub warnings: Vec<String>,
    /// An object; for a refusal its `Status`, or its text as `message`.
    pub body: Value,
}

impl Answer {
    /// Whether it did what was asked for.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Text of the refusal.
    #[must_use]
    pub fn message(&self) -> &str {
        self.body.pointer("/message").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Sends a request; a refusal is an answer too.
///
/// # Errors
/// There was no answer.
pub async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Option<&Value>,
) -> anyhow::Result<Answer> {
    let what = format!("{method} {path}");
    let bytes = body.map(serde_json::to_vec).transpose().context("writing the body")?;
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Body::from(bytes.unwrap_or_default())).context("a request")?;
    let response = client.send(request).await.with_context(|| what.clone())?;
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|header| warning_text(&String::from_utf8_lossy(header.as_bytes()))).collect();
    let bytes = response.into_body().collect_bytes().await.with_context(|| what.clone())?;
    let body = serde_json::from_slice(&bytes)
        .or_else(|error| if bytes.first() == Some(&b'{') { Err(error) } else { Ok(text(&bytes)) })
        .with_context(|| what.clone())?;
    Ok(Answer { code, warnings, body })
}

/// Some refusals are plain text.
fn text(bytes: &[u8]) -> Value {
    serde_json::json!({ "message": String::from_utf8_lossy(bytes) })
}

/// The quoted text of a header such as `299 - "text"`. Source: RFC 7234, section 5.5.
#[must_use]
pub fn warning_text(header: &str) -> String {
    let quoted = header.split_once('"').map_or(header, |(_, rest)| rest.strip_suffix('"').unwrap_or(rest));
    let mut text = String::new();
    let mut escaped = false;
    for letter in quoted.chars() {
        if letter == '\\' && !escaped {
            escaped = true;
        } else {
            text.push(letter);
            escaped = false;
        }
    }
    text
}
