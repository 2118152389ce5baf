//! What the command line asks about.

use std::str::FromStr;

/// What a process wants to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// By ICMP.
    Icmp,
    /// A port of this protocol.
    Of(&'static str, u16),
}

/// A process of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessName {
    /// By its number on this machine.
    Pid(u32),
    /// Any in this cgroup, relative to the cgroup root.
    Cgroup(String),
}

/// A word of the command line that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No port.
    #[error("a port is tcp/NUMBER, udp/NUMBER, sctp/NUMBER or icmp")]
    Port,
    /// No process.
    #[error("a process is its number, or the path of its cgroup")]
    Process,
}

impl FromStr for Port {
    type Err = AskError;

    fn from_str(text: &str) -> Result<Self, AskError> {
        if text == "icmp" {
            return Ok(Self::Icmp);
        }
        let (protocol, port) = text.split_once('/').ok_or(AskError::Port)?;
        let protocol = ["tcp", "udp", "sctp"].into_iter().find(|known| *known == protocol);
        let port = port.parse().map_err(|_| AskError::Port)?;
        Ok(Self::Of(protocol.ok_or(AskError::Port)?, port))
    }
}

impl FromStr for ProcessName {
    type Err = AskError;

    fn from_str(text: &str) -> Result<Self, AskError> {
        if let Ok(pid) = text.parse() {
            return Ok(Self::Pid(pid));
        }
        let path = text.trim_matches('/');
        if path.is_empty() { Err(AskError::Process) } else { Ok(Self::Cgroup(path.to_owned())) }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Icmp => f.write_str("icmp"),
            Self::Of(protocol, port) => write!(f, "{protocol}/{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_line_are_taken_or_refused() {
        assert_eq!("tcp/80".parse(), Ok(Port::Of("tcp", 80)));
        assert_eq!("sctp/65535".parse(), Ok(Port::Of("sctp", 65_535)));
        assert_eq!("icmp".parse(), Ok(Port::Icmp));
        for text in ["80", "TCP/80", "tcp/65536", "tcp/", "icmp/1", ""] {
            assert_eq!(text.parse::<Port>(), Err(AskError::Port), "{text}");
        }
        assert_eq!("12".parse(), Ok(ProcessName::Pid(12)));
        assert_eq!("/a.slice/b.service/".parse(), Ok(ProcessName::Cgroup("a.slice/b.service".into())));
        assert_eq!("/".parse::<ProcessName>(), Err(AskError::Process));
    }
}
