//! Where a server listens, in OVS's own syntax (ovsdb(7), "Active connection methods").

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One address of an OVSDB server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Remote {
    /// `unix:<path>`
    Unix(PathBuf),
    /// `tcp:<host>:<port>`, IPv6 addresses in brackets.
    Tcp(HostPort),
    /// `ssl:<host>:<port>`, IPv6 addresses in brackets.
    Ssl(HostPort),
}

/// A host name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Name or address, without brackets.
    pub host: String,
    /// Port; never zero.
    pub port: u16,
}

/// Port that OVS takes where a remote names none (ovsdb(7); registered with IANA for OVSDB).
const DEFAULT_PORT: u16 = 6640;

/// A text that names no remote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The text starts with none of the known methods.
    #[error("remote {text:?} does not start with unix:, tcp: or ssl:")]
    UnknownMethod {
        /// The text.
        text: String,
    },
    /// `unix:` without a path.
    #[error("remote {text:?} has no path")]
    NoPath {
        /// The text.
        text: String,
    },
    /// No host, or an IPv6 address without brackets.
    #[error("remote {text:?} has no usable host (IPv6 addresses need brackets)")]
    BadHost {
        /// The text.
        text: String,
    },
    /// A port that is not in 1..=65535.
    #[error("remote {text:?} has no usable port")]
    BadPort {
        /// The text.
        text: String,
    },
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let owned = || text.to_owned();
        match text.split_once(':') {
            Some(("unix", "")) => Err(RemoteError::NoPath { text: owned() }),
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", rest)) => HostPort::parse(rest, text).map(Self::Tcp),
            Some(("ssl", rest)) => HostPort::parse(rest, text).map(Self::Ssl),
            _ => Err(RemoteError::UnknownMethod { text: owned() }),
        }
    }
}

impl HostPort {
    fn parse(rest: &str, text: &str) -> Result<Self, RemoteError> {
        let bad_host = || RemoteError::BadHost { text: text.to_owned() };
        let (host, port) = match rest.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or_else(bad_host)?;
                match after.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if after.is_empty() => (host, None),
                    None => return Err(bad_host()),
                }
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        if host.is_empty() || port.is_some_and(|port| port.contains(':')) {
            return Err(bad_host());
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| RemoteError::BadPort { text: text.to_owned() })?,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Ssl(address) => write!(f, "ssl:{address}"),
        }
    }
}

/// The addresses of one database: a comma-separated list, as for the members of a cluster. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Remotes {
    first: Remote,
    rest: Vec<Remote>,
}

impl Remotes {
    /// The remote for a connection attempt: attempts go round the list.
    #[must_use]
    pub fn for_attempt(&self, attempt: usize) -> &Remote {
        let position = attempt % (self.rest.len() + 1);
        position.checked_sub(1).and_then(|position| self.rest.get(position)).unwrap_or(&self.first)
    }
}

impl From<Remote> for Remotes {
    fn from(first: Remote) -> Self {
        Self { first, rest: Vec::new() }
    }
}

impl FromStr for Remotes {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut remotes = text.split(',').map(|part| part.trim().parse());
        let first = remotes.next().unwrap_or_else(|| text.parse())?;
        Ok(Self { first, rest: remotes.collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.rest.iter().try_for_each(|remote| write!(f, ",{remote}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_written_as_ovs_writes_them() {
        for text in [
            "unix:/run/openvswitch/db.sock",
            "tcp:1.2.3.4:6640",
            "tcp:[::1]:6641",
            "ssl:nb.example:6641",
            "ssl:[fd00::1]:1,ssl:[fd00::2]:1,tcp:h:2",
        ] {
            assert_eq!(text.parse::<Remotes>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_port_defaults_to_6640() {
        assert_eq!("tcp:[::1]".parse::<Remote>().unwrap().to_string(), "tcp:[::1]:6640");
        assert_eq!("ssl:db".parse::<Remote>().unwrap().to_string(), "ssl:db:6640");
    }

    #[test]
    fn a_text_that_is_no_remote_is_refused_with_the_reason() {
        let owned = |text: &str| text.to_owned();
        for text in ["", "ptcp:6640", "/run/db.sock", "http://x"] {
            assert_eq!(text.parse::<Remote>(), Err(RemoteError::UnknownMethod { text: owned(text) }));
        }
        assert_eq!("unix:".parse::<Remote>(), Err(RemoteError::NoPath { text: owned("unix:") }));
        for text in ["tcp:", "tcp::6640", "tcp:::1:6640", "tcp:[::1", "tcp:[::1]x", "tcp:[]:1"] {
            assert_eq!(text.parse::<Remote>(), Err(RemoteError::BadHost { text: owned(text) }), "{text}");
        }
        for text in ["tcp:h:0", "tcp:h:65536", "tcp:h:x", "tcp:h:"] {
            assert_eq!(text.parse::<Remote>(), Err(RemoteError::BadPort { text: owned(text) }), "{text}");
        }
    }

    #[test]
    fn attempts_go_round_the_list() {
        let remotes: Remotes = "tcp:a:1,tcp:b:1,tcp:c:1".parse().unwrap();
        let tried: Vec<String> = (0..4).map(|attempt| remotes.for_attempt(attempt).to_string()).collect();
        assert_eq!(tried, ["tcp:a:1", "tcp:b:1", "tcp:c:1", "tcp:a:1"]);
    }
}
