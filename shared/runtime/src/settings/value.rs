//! The kinds of option values and their parsers.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// Text that no log may show.
    Secret,
    /// A switch: `true` or `false`, alone on a command line `true`.
    Flag,
    /// A whole number, not negative unless the option says so.
    Number,
    /// A time such as `90s`, `1m30s` or `500ms`.
    Duration,
    /// One of these.
    Choice(&'static [&'static str]),
    /// `IP:port` or `:port`.
    SocketAddress,
    /// One subnet.
    Cidr,
    /// One IPv4 subnet.
    Cidr4,
    /// One IPv6 subnet.
    Cidr6,
    /// Subnets, comma separated.
    Cidrs,
    /// Subnets with the prefix length of a node's part, comma separated.
    ClusterSubnets,
}

/// Why a value does not fit its kind; completes the sentence "option X ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not a switch.
    #[error("must be true or false, not {0:?}")]
    Flag(String),
    /// Not a number.
    #[error("must be a whole number, not {0:?}")]
    Number(String),
    /// Not a time.
    #[error("must be a time such as 90s or 1m30s, not {0:?}")]
    Duration(String),
    /// Not one of the choices.
    #[error("must be one of {choices}, not {value:?}")]
    Choice {
        /// The value.
        value: String,
        /// The choices, comma separated.
        choices: String,
    },
    /// Not an address.
    #[error("must be IP:port or :port, not {0:?}")]
    SocketAddress(String),
    /// Not a subnet.
    #[error("must be a subnet in CIDR notation, not {0:?}")]
    Cidr(String),
    /// A subnet of the other family.
    #[error("must be an {family} subnet, not {value:?}")]
    Family {
        /// The wanted family.
        family: &'static str,
        /// The value.
        value: String,
    },
    /// A prefix length for nodes that does not fit the subnet.
    #[error("must split subnet {subnet} into parts of a longer prefix, not /{host_prefix}")]
    HostPrefix {
        /// The subnet.
        subnet: IpNet,
        /// The prefix length of a node's part.
        host_prefix: u8,
    },
}

/// A pod subnet of the cluster and how large a node's part of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSubnet {
    /// The subnet.
    pub subnet: IpNet,
    /// Prefix length of a node's part.
    pub host_prefix: u8,
}

/// The prefix length of a node's part of an IPv4 subnet that names none.
const HOST_PREFIX_V4: u8 = 24;

/// The only prefix length of a node's part of an IPv6 subnet.
const HOST_PREFIX_V6: u8 = 64;

impl Kind {
    /// Checks `value`; an empty value is "unset" for every kind but a switch.
    pub(super) fn check(self, value: &str) -> Result<(), ValueError> {
        if value.is_empty() && self != Self::Flag {
            return Ok(());
        }
        match self {
            Self::Text | Self::Secret => Ok(()),
            Self::Flag => flag(value).map(drop),
            Self::Number => number(value).map(drop),
            Self::Duration => duration(value).map(drop),
            Self::Choice(choices) if choices.contains(&value) => Ok(()),
            Self::Choice(choices) => {
                let choices: Vec<&str> =
                    choices.iter().copied().filter(|choice| !choice.is_empty()).collect();
                Err(ValueError::Choice { value: value.to_owned(), choices: choices.join(", ") })
            }
            Self::SocketAddress => socket_address(value).map(drop),
            Self::Cidr => cidr(value).map(drop),
            Self::Cidr4 => cidr4(value).map(drop),
            Self::Cidr6 => cidr6(value).map(drop),
            Self::Cidrs => cidrs(value).map(drop),
            Self::ClusterSubnets => cluster_subnets(value).map(drop),
        }
    }

    /// How help names the value; empty for a switch.
    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Secret => "SECRET",
            Self::Flag => "",
            Self::Number => "NUMBER",
            Self::Duration => "TIME",
            Self::Choice(_) => "CHOICE",
            Self::SocketAddress => "IP:PORT",
            Self::Cidr | Self::Cidr4 | Self::Cidr6 => "CIDR",
            Self::Cidrs | Self::ClusterSubnets => "CIDR,...",
        }
    }
}

/// The spellings that Go's `strconv.ParseBool` takes.
pub(super) fn flag(value: &str) -> Result<bool, ValueError> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ValueError::Flag(value.to_owned())),
    }
}

pub(super) fn number(value: &str) -> Result<i64, ValueError> {
    value.parse().map_err(|_| ValueError::Number(value.to_owned()))
}

/// A duration in Go's notation: numbers, also fractions, each with one of `ns us ms s m h`.
pub(super) fn duration(value: &str) -> Result<Duration, ValueError> {
    let refuse = || ValueError::Duration(value.to_owned());
    let mut rest = value;
    let mut total = Duration::ZERO;
    if rest == "0" {
        return Ok(total);
    }
    while !rest.is_empty() || value.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
        let (amount, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let nanos = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return Err(refuse()),
        };
        let amount: f64 = amount.parse().map_err(|_| refuse())?;
        let part = Duration::try_from_secs_f64(amount * nanos / 1e9).map_err(|_| refuse())?;
        total = total.checked_add(part).ok_or_else(refuse)?;
        rest = tail;
    }
    Ok(total)
}

/// `:port` is every address of both families, as in Go.
pub(super) fn socket_address(value: &str) -> Result<SocketAddr, ValueError> {
    let full = if value.starts_with(':') { format!("[::]{value}") } else { value.to_owned() };
    full.parse().map_err(|_| ValueError::SocketAddress(value.to_owned()))
}

pub(super) fn cidr(value: &str) -> Result<IpNet, ValueError> {
    value.trim().parse::<IpNet>().map(|net| net.trunc()).map_err(|_| ValueError::Cidr(value.to_owned()))
}

pub(super) fn cidr4(value: &str) -> Result<Ipv4Net, ValueError> {
    match cidr(value)? {
        IpNet::V4(net) => Ok(net),
        IpNet::V6(_) => Err(ValueError::Family { family: "IPv4", value: value.to_owned() }),
    }
}

pub(super) fn cidr6(value: &str) -> Result<Ipv6Net, ValueError> {
    match cidr(value)? {
        IpNet::V6(net) => Ok(net),
        IpNet::V4(_) => Err(ValueError::Family { family: "IPv6", value: value.to_owned() }),
    }
}

pub(super) fn cidrs(value: &str) -> Result<Vec<IpNet>, ValueError> {
    value.split(',').map(cidr).collect()
}

pub(super) fn cluster_subnets(value: &str) -> Result<Vec<ClusterSubnet>, ValueError> {
    value.split(',').map(|entry| cluster_subnet(entry.trim())).collect()
}

/// `CIDR` or `CIDR/host-prefix`. Source: help of `--cluster-subnets` @ 005afd15.
fn cluster_subnet(entry: &str) -> Result<ClusterSubnet, ValueError> {
    let refuse = || ValueError::Cidr(entry.to_owned());
    let (subnet, host_prefix) = match entry.match_indices('/').nth(1) {
        Some((at, _)) => {
            let (subnet, host_prefix) = entry.split_at(at);
            let host_prefix = host_prefix.trim_start_matches('/').parse::<u8>().map_err(|_| refuse())?;
            (subnet, Some(host_prefix))
        }
        None => (entry, None),
    };
    let subnet = cidr(subnet).map_err(|_| refuse())?;
    let (default, longest) = match subnet {
        IpNet::V4(_) => (HOST_PREFIX_V4, 32),
        IpNet::V6(_) => (HOST_PREFIX_V6, HOST_PREFIX_V6),
    };
    let host_prefix = host_prefix.unwrap_or(default);
    let wrong_v6 = matches!(subnet, IpNet::V6(_)) && host_prefix != HOST_PREFIX_V6;
    if wrong_v6 || host_prefix <= subnet.prefix_len() || host_prefix > longest {
        return Err(ValueError::HostPrefix { subnet, host_prefix });
    }
    Ok(ClusterSubnet { subnet, host_prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_follow_gos_notation() {
        for (text, want) in [("6s", 6_000), ("1m30s", 90_000), ("500ms", 500), ("1.5h", 5_400_000), ("0", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(want)), "{text}");
        }
        for text in ["", "6", "s", "6 s", "-6s", "6x", "1e400s", "6s5"] {
            assert_eq!(duration(text), Err(ValueError::Duration(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn cluster_subnets_have_a_host_prefix_or_their_familys_default() {
        let prefixes = |text| {
            cluster_subnets(text).map(|subnets| {
                subnets
                    .iter()
                    .map(|s| format!("{}+{}", s.subnet, s.host_prefix))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        assert_eq!(
            prefixes("10.128.0.0/14/23, fd00:10:128::/48").as_deref(),
            Ok("10.128.0.0/14+23 fd00:10:128::/48+64")
        );
        assert_eq!(prefixes("10.128.1.0/14").as_deref(), Ok("10.128.0.0/14+24"), "host bits are masked");
        for wrong in [
            "10.128.0.0",
            "10.128.0.0/33/24",
            "10.128.0.0/14/14",
            "10.0.0.0/8/33",
            "fd00::/48/72",
            "",
            "x/1/2",
        ] {
            assert!(prefixes(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_port_alone_means_every_address() {
        assert_eq!(socket_address(":9410").map(|a| a.to_string()), Ok("[::]:9410".to_owned()));
        assert_eq!(
            socket_address("127.0.0.1:29411").map(|a| a.to_string()),
            Ok("127.0.0.1:29411".to_owned())
        );
        assert!(socket_address("localhost:1").is_err());
    }
}
