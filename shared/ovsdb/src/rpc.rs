//! JSON-RPC 1.0 messages (RFC 7047 section 4).

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::members::Members;
use crate::value::shorten;

/// What a peer can send. `P` is the form of what a message is about: the contents of a database are large, and are not
/// taken apart before they are used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message<P = Value> {
    Request { id: Value, method: String, params: P },
    Notification { method: String, params: P },
    Response { id: Value, result: Result<P, RpcError> },
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

impl<'a> Message<&'a RawValue> {
    /// Sorts a frame; `None` if it is no JSON-RPC message.
    ///
    /// # Errors
    /// It is not JSON.
    pub(crate) fn read(frame: &'a [u8]) -> Result<Option<Self>, serde_json::Error> {
        let members: Members<'_> = match serde_json::from_slice(frame) {
            Err(error) if error.is_data() => return Ok(None),
            read => read?,
        };
        let value = |name| members.get(name).map_or(Ok(Value::Null), |json| serde_json::from_str(json.get()));
        let (id, error) = (value("id")?, value("error")?);
        let (params, result) = (members.get("params"), members.get("result"));
        Ok(match members.get("method") {
            Some(method) => match (serde_json::from_str(method.get())?, params) {
                (Value::String(method), Some(params)) if id.is_null() => {
                    Some(Self::Notification { method, params })
                }
                (Value::String(method), Some(params)) => Some(Self::Request { id, method, params }),
                _ => None,
            },
            None if id.is_null() => None,
            // The server leaves out `result` where there is an error, and some peers send both with one null.
            None if error.is_null() => result.map(|result| Self::Response { id, result: Ok(result) }),
            None => Some(Self::Response { id, result: Err(RpcError::from_json(&error)) }),
        })
    }
}

impl Message {
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
impl Message {
    /// As [`Message::read`] reads it from the wire, taken apart.
    pub(crate) fn parse(frame: &Value) -> Option<Self> {
        let text = frame.to_string();
        let value = |json: &RawValue| serde_json::from_str::<Value>(json.get()).unwrap();
        Some(match Message::read(text.as_bytes()).unwrap()? {
            Message::Request { id, method, params } => Self::Request { id, method, params: value(params) },
            Message::Notification { method, params } => Self::Notification { method, params: value(params) },
            Message::Response { id, result } => Self::Response { id, result: result.map(value) },
        })
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
            assert_eq!(Message::parse(&message.to_json()), Some(message));
        }
    }

    #[test]
    fn errors_may_be_bare_texts() {
        let Some(Message::Response { result: Err(error), .. }) =
            Message::parse(&json!({"id": 3, "error": "unknown method"}))
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
            assert_eq!(Message::parse(&frame), None, "{frame}");
        }
    }
}
