//! Takes out what looks like a credential. Pure.
//!
//! Leans to taking out too much: a supporter can ask again, a leaked token cannot be taken back.

use serde_json::Value;

/// Stands for what was taken out.
pub const REMOVED: &str = "(removed: looks like a credential)";

/// Parts of names whose values are taken out whatever they hold.
const NAMES: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "credential",
    "kubeconfig",
    "private-key",
    "privatekey",
    "private_key",
    "apikey",
    "api-key",
    "api_key",
    "client-key",
    "client-certificate-data",
    "authorization",
    "bearer",
];

/// A copy of a whole object as its author wrote it: never needed, and out of reach of the rules by name.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Parts of texts that only credentials have.
const MARKS: &[&str] = &["-----BEGIN ", "client-key-data", "client-certificate-data", "Bearer ", "bearer "];

/// Takes credentials out of a document and returns how many texts that were.
pub fn document(value: &mut Value) -> usize {
    match value {
        Value::Object(members) => {
            let mut removed = usize::from(members.remove(LAST_APPLIED).is_some());
            for (name, member) in members.iter_mut() {
                removed += if member.is_string() && is_secret_name(name) {
                    *member = Value::from(REMOVED);
                    1
                } else {
                    document(member)
                };
            }
            removed
        }
        Value::Array(items) => items.iter_mut().map(document).sum(),
        Value::String(text) if is_secret_text(text) => {
            REMOVED.clone_into(text);
            1
        }
        _ => 0,
    }
}

/// Takes lines that hold credentials out of a text.
#[must_use]
pub fn lines(text: &str) -> (String, usize) {
    let mut removed = 0;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        if is_secret_text(line) {
            removed += 1;
            kept.push_str(REMOVED);
        } else {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    (kept, removed)
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}

fn is_secret_text(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark)) || has_json_web_token(text)
}

/// Three parts of base64url with dots between them, the first beginning as `{"` does (RFC 7515, compact form).
fn has_json_web_token(text: &str) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    words.filter_map(|word| word.find("eyJ").and_then(|start| word.get(start..))).any(|word| {
        let parts: Vec<&str> = word.split('.').collect();
        parts.len() >= 3
            && parts.iter().take(2).all(|part| part.len() >= 8 && part.bytes().all(|b| is_part(&b)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Made up; the shape is what counts.
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl";

    #[test]
    fn credentials_are_taken_out_by_name_and_by_shape() {
        let cases = [
            json!({"metadata": {"annotations": {"example.com/api-token": "abc"}}}),
            json!({"metadata": {"annotations": {"example.com/DB_PASSWORD": "abc"}}}),
            json!({"metadata": {"annotations": {LAST_APPLIED: "{}"}}}),
            json!({"message": format!("login with {TOKEN} failed")}),
            json!({"list": ["a", "-----BEGIN RSA PRIVATE KEY-----\nabc"]}),
            json!({"text": "apiVersion: v1\nclient-key-data: abc"}),
            json!({"header": "Authorization: Bearer abc"}),
        ];
        for mut case in cases {
            let before = case.to_string();
            assert_eq!(document(&mut case), 1, "{before}");
            let after = case.to_string();
            assert!(
                !after.contains("abc") && !after.contains(TOKEN) && !after.contains(LAST_APPLIED),
                "{after}"
            );
        }
    }

    #[test]
    fn what_causeway_writes_stays() {
        let state = json!({
            "metadata": {"name": "tenant-blue.node-a", "uid": "5b0d9f0e-0000-4000-8000-000000000000", "annotations": {
                "k8s.ovn.org/l3-gateway-config": "{\"default\":{\"mode\":\"shared\"}}",
                "causeway.internal/dpu-identity": "system:serviceaccount:ovn-kubernetes:dpu-node-a",
            }},
            "status": {"macAddress": "52:54:00:d9:20:10", "conditions": [{"message": "eyJ is not a token. Nor is this."}]},
        });
        let mut redacted = state.clone();
        assert_eq!(document(&mut redacted), 0);
        assert_eq!(redacted, state);
    }

    #[test]
    fn a_text_loses_only_the_line_with_the_credential() {
        let (kept, removed) = lines(&format!("one\ntoken={TOKEN}\nthree\n"));
        assert_eq!((kept, removed), (format!("one\n{REMOVED}\nthree\n"), 1));
    }
}
