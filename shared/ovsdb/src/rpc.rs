//! JSON-RPC 1.0 messages (RFC 7047 section 4).

use serde_json::{Value, json};

use crate::value::shorten;

/// What a peer can send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: Value, result: Result<Value, RpcError> },
}

/// An error that the server answered to a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}{}{}", if .details.is_empty() { "" } else { ": " }, .details)]
pub struct RpcError {
    /// The error code, such as `unknown database`.
    pub error: String,
    /// The server's explanation; may be empty.
    pub details: String,
}

impl RpcError {
    /// Whether the server does not know the method.
    #[must_use]
    pub fn is_unknown_method(&self) -> bool {
        self.error == "unknown method"
    }

    fn from_json(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match error {
            Value::String(error) => Self { error: error.clone(), details: String::new() },
            Value::Object(_) => Self { error: text("error"), details: text("details") },
            other => Self { error: shorten(other), details: String::new() },
        }
    }
}

impl Message {
    /// Sorts a frame; `None` if it is no JSON-RPC message.
    pub(crate) fn parse(frame: Value) -> Option<Self> {
        let Value::Object(mut fields) = frame else { return None };
        let id = fields.remove("id").unwrap_or_default();
        match fields.remove("method") {
            Some(Value::String(method)) => {
                let params = fields.remove("params")?;
                Some(if id.is_null() {
                    Self::Notification { method, params }
                } else {
                    Self::Request { id, method, params }
                })
            }
            Some(_) => None,
            None if id.is_null() => None,
            // The server leaves out `result` where there is an error, and some peers send both with one null.
            None => match fields.remove("error") {
                Some(error) if !error.is_null() => {
                    Some(Self::Response { id, result: Err(RpcError::from_json(&error)) })
                }
                _ => Some(Self::Response { id, result: Ok(fields.remove("result")?) }),
            },
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Request { id, method, params } => json!({"id": id, "method": method, "params": params}),
            Self::Notification { method, params } => json!({"id": null, "method": method, "params": params}),
            Self::Response { id, result: Ok(result) } => json!({"id": id, "result": result, "error": null}),
            Self::Response { id, result: Err(error) } => {
                json!({"id": id, "result": null, "error": {"error": error.error, "details": error.details}})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let error = RpcError { error: "unknown database".into(), details: "x".into() };
        for message in [
            Message::Request { id: json!(1), method: "echo".into(), params: json!([]) },
            Message::Notification { method: "update".into(), params: json!(["m", {}]) },
            Message::Response { id: json!("a"), result: Ok(json!({})) },
            Message::Response { id: json!(2), result: Err(error) },
        ] {
            assert_eq!(Message::parse(message.to_json()), Some(message));
        }
    }

    #[test]
    fn errors_may_be_bare_texts() {
        let Some(Message::Response { result: Err(error), .. }) =
            Message::parse(json!({"id": 3, "error": "unknown method"}))
        else {
            panic!("not an error response");
        };
        assert!(error.is_unknown_method());
        assert_eq!(error.to_string(), "unknown method");
    }

    #[test]
    fn objects_that_are_no_messages_are_refused() {
        for frame in [json!({}), json!({"id": 1}), json!({"method": 5, "params": []}), json!({"method": "x"})]
        {
            assert_eq!(Message::parse(frame.clone()), None, "{frame}");
        }
    }
}
