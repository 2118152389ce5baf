//! The annotation by which the owner of a pod opens ports of its default network address.
//!
//! Source: OVN-Kubernetes, `go-controller/pkg/util/pod_annotation.go`, `UnmarshalUDNOpenPortsAnnotation`, whose error texts
//! these are. Differs from upstream: an empty entry of the list is refused (upstream follows a null pointer), and so are a
//! port that is not an integer, a key that stands twice and a second document.

use causeway_nft::Protocol;
use serde_yaml_ng::{Mapping, Value};

/// Key of the annotation: a list of `protocol` and `port`, as YAML or JSON.
pub const OPEN_DEFAULT_PORTS: &str = "k8s.ovn.org/open-default-ports";

/// What an entry opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenPort {
    /// ICMP, of both families.
    Icmp,
    /// A port of TCP, UDP or SCTP.
    Port(Protocol, u16),
}

/// Why an annotation opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    /// It is not a list of entries.
    #[error("failed to unmarshal UDN open ports annotation {text}: {cause}")]
    Malformed {
        /// The annotation.
        text: String,
        /// What is wrong.
        cause: String,
    },
    /// A protocol that is none of the four.
    #[error("invalid protocol {0}")]
    Protocol(String),
    /// ICMP has no ports.
    #[error("invalid port {0} for icmp protocol, should be empty")]
    IcmpPort(i64),
    /// The other protocols have.
    #[error("port is required for {0} protocol")]
    NoPort(String),
    /// A port that there is not.
    #[error("invalid port {0}")]
    Port(i64),
}

/// Reads the annotation: each thing that is open once, in order. One wrong entry makes all of it invalid.
///
/// # Errors
/// What is wrong with the first wrong entry.
pub fn parse(text: &str) -> Result<Vec<OpenPort>, PortsError> {
    let malformed = |cause: String| PortsError::Malformed { text: text.to_owned(), cause };
    let entries = match serde_yaml_ng::from_str(text).map_err(|error| malformed(error.to_string()))? {
        Value::Null => Vec::new(),
        Value::Sequence(entries) => entries,
        other => return Err(malformed(format!("a list is expected, not {}", kind(&other)))),
    };
    let mut ports = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let Value::Mapping(entry) = entry else {
            let cause = format!("entry {} should have protocol and port, it is {}", at + 1, kind(entry));
            return Err(malformed(cause));
        };
        let number = number(entry).map_err(|cause| malformed(format!("entry {}: {cause}", at + 1)))?;
        let protocol = protocol(entry).map_err(|cause| malformed(format!("entry {}: {cause}", at + 1)))?;
        ports.push(open(protocol, number)?);
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

fn open(protocol: String, port: Option<i64>) -> Result<OpenPort, PortsError> {
    let number = match protocol.as_str() {
        "tcp" => Protocol::TCP,
        "udp" => Protocol::UDP,
        "sctp" => Protocol::SCTP,
        "icmp" => return port.map_or(Ok(OpenPort::Icmp), |port| Err(PortsError::IcmpPort(port))),
        _ => return Err(PortsError::Protocol(protocol)),
    };
    let Some(port) = port else { return Err(PortsError::NoPort(protocol)) };
    u16::try_from(port).map(|port| OpenPort::Port(number, port)).map_err(|_| PortsError::Port(port))
}

/// The protocol; empty, if there is none. A number or boolean counts as its text, as Go's decoder has it.
fn protocol(entry: &Mapping) -> Result<String, String> {
    match entry.get("protocol") {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(truth)) => Ok(truth.to_string()),
        Some(other) => Err(format!("protocol should be text, it is {}", kind(other))),
    }
}

fn number(entry: &Mapping) -> Result<Option<i64>, String> {
    match entry.get("port") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => {
            number.as_i64().map(Some).ok_or_else(|| format!("port should be an integer, it is {number}"))
        }
        Some(other) => Err(format!("port should be an integer, it is {}", kind(other))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
        Value::Tagged(_) => "a tagged value",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ports_are_read_from_yaml_and_json_each_once() {
        let web = [OpenPort::Port(Protocol::TCP, 80)];
        let all = [
            OpenPort::Icmp,
            OpenPort::Port(Protocol::TCP, 80),
            OpenPort::Port(Protocol::UDP, 53),
            OpenPort::Port(Protocol::SCTP, 65535),
        ];
        let cases: [(&str, &[OpenPort]); 12] = [
            ("", &[]),
            ("# nothing\n", &[]),
            ("null", &[]),
            ("[]", &[]),
            ("- protocol: tcp\n  port: 80", &web),
            ("- {protocol: tcp, port: 80}\n- {port: 80, protocol: tcp}", &web),
            ("- protocol: tcp\n  port: 80\n  name: web", &web),
            (r#"[{"protocol":"tcp","port":80}]"#, &web),
            ("- protocol: tcp\n  port: 0x50", &web),
            ("- protocol: icmp\n  port: null", &[OpenPort::Icmp]),
            ("- protocol: udp\n  port: 0", &[OpenPort::Port(Protocol::UDP, 0)]),
            (
                "- protocol: icmp\n- protocol: tcp\n  port: 80\n- protocol: udp\n  port: 53\n- protocol: sctp\n  port: \
                 65535\n",
                &all,
            ),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).as_deref(), Ok(want), "{text:?}");
        }
    }

    #[test]
    fn bad_values_are_refused_in_upstreams_words() {
        let cases = [
            ("- protocol: ppp\n  port: 80", "invalid protocol ppp"),
            ("- protocol: TCP\n  port: 80", "invalid protocol TCP"),
            ("- port: 80", "invalid protocol "),
            ("- protocol: 6\n  port: 80", "invalid protocol 6"),
            ("- protocol: icmp\n  port: 8", "invalid port 8 for icmp protocol, should be empty"),
            ("- protocol: tcp", "port is required for tcp protocol"),
            ("- protocol: sctp\n  port:", "port is required for sctp protocol"),
            ("- protocol: tcp\n  port: -1", "invalid port -1"),
            ("- protocol: tcp\n  port: 65536", "invalid port 65536"),
            ("- protocol: tcp\n  port: 80\n- protocol: udp\n  port: 70000", "invalid port 70000"),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), want, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_list_of_entries_is_refused_together_with_the_annotation() {
        let cases = [
            ("- ", "entry 1 should have protocol and port, it is empty"),
            ("- protocol: tcp\n  port: 80\n- null", "entry 2 should have protocol and port, it is empty"),
            ("[null]", "entry 1 should have protocol and port, it is empty"),
            ("- 80", "entry 1 should have protocol and port, it is a number"),
            ("protocol: tcp", "a list is expected, not a mapping"),
            ("tcp/80", "a list is expected, not text"),
            ("- protocol: tcp\n  port: \"80\"", "entry 1: port should be an integer, it is text"),
            ("- protocol: tcp\n  port: 80.5", "entry 1: port should be an integer, it is 80.5"),
            (
                "- protocol: tcp\n  port: 18446744073709551615",
                "entry 1: port should be an integer, it is 18446744073709551615",
            ),
            ("- protocol: [tcp]\n  port: 80", "entry 1: protocol should be text, it is a list"),
            ("- !secret {protocol: tcp}", "entry 1 should have protocol and port, it is a tagged value"),
            ("[{", ""),
            ("- protocol: tcp\n  protocol: udp\n  port: 80", ""),
            ("[]\n---\n[]", ""),
        ];
        for (text, want) in cases {
            let found = parse(text).unwrap_err().to_string();
            let beginning = format!("failed to unmarshal UDN open ports annotation {text}: ");
            assert!(found.starts_with(&beginning) && found.contains(want), "{text:?}: {found}");
        }
    }

    proptest! {
        /// Any text is read or refused.
        #[test]
        fn any_text_is_read_or_refused(text in prop_oneof![".*", "[-{}\\[\\]\":, a-z0-9&*!\\n]*"]) {
            if let Err(error) = parse(&text) {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        /// What the list says is what is open.
        #[test]
        fn what_is_written_is_what_is_open(ports in proptest::collection::btree_set((0_usize..3, any::<u16>()), 0..20)) {
            let names = [("tcp", Protocol::TCP), ("udp", Protocol::UDP), ("sctp", Protocol::SCTP)];
            let text: Vec<_> = ports
                .iter()
                .map(|(at, port)| serde_json::json!({"protocol": names[*at].0, "port": port}))
                .collect();
            let want: std::collections::BTreeSet<OpenPort> =
                ports.iter().map(|(at, port)| OpenPort::Port(names[*at].1, *port)).collect();
            let found = parse(&serde_json::to_string(&text).unwrap()).unwrap();
            prop_assert_eq!(found, want.into_iter().collect::<Vec<_>>());
        }
    }
}
