//! What a table is made of, as far as this crate can say it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// The part of a table that should exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// Name of the `inet` table.
    pub table: String,
    /// Its chains that are ours.
    pub chains: Vec<Chain>,
    /// Its sets that are ours.
    pub sets: Vec<Set>,
}

/// The elements that sets should have, by name of the set. A set that is not in it keeps what it has.
pub type Contents = BTreeMap<String, BTreeSet<Element>>;

/// Names of what is ours in a table, whether it exists or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// Name of the `inet` table.
    pub table: &'static str,
    /// Chains.
    pub chains: &'static [&'static str],
    /// Sets.
    pub sets: &'static [&'static str],
}

impl Owned {
    /// Whether the chain is ours.
    #[must_use]
    pub fn has_chain(&self, name: &str) -> bool {
        self.chains.contains(&name)
    }

    /// Whether the set is ours.
    #[must_use]
    pub fn has_set(&self, name: &str) -> bool {
        self.sets.contains(&name)
    }
}

/// A base chain that filters and accepts what no rule decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Name.
    pub name: String,
    /// Where packets meet it.
    pub hook: Hook,
    /// When, among the chains of the hook.
    pub priority: i32,
    /// For people.
    pub comment: String,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
}

/// Where packets meet a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Packets that this machine sends.
    Output,
}

/// A named set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Name.
    pub name: String,
    /// What its elements are.
    pub kind: SetKind,
    /// For people.
    pub comment: String,
}

/// Which elements a set takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetKind {
    /// `ipv4_addr` or `ipv6_addr`.
    Address(Family),
    /// An address, a protocol and a port: `ipv4_addr . inet_proto . inet_service`.
    Endpoint(Family),
}

impl SetKind {
    /// Whether a set of this kind can have the element.
    #[must_use]
    pub fn takes(self, element: &Element) -> bool {
        match (self, element) {
            (Self::Address(family), Element::Address(address))
            | (Self::Endpoint(family), Element::Endpoint(address, _, _)) => Family::of(*address) == family,
            _ => false,
        }
    }
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// One element of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// An address.
    Address(IpAddr),
    /// An address, a protocol and a port.
    Endpoint(IpAddr, Protocol, u16),
}

/// A protocol above IP, by its number at IANA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// SCTP.
    pub const SCTP: Self = Self(132);

    /// Names that nft gives to numbers: from `/etc/protocols`, or a table of its own where that file is missing.
    const NAMES: [(&'static str, Self); 6] = [
        ("icmp", Self::ICMP),
        ("tcp", Self::TCP),
        ("udp", Self::UDP),
        // The name in rules, which every nft takes; listings say `ipv6-icmp`.
        ("icmpv6", Self::ICMPV6),
        ("ipv6-icmp", Self::ICMPV6),
        ("sctp", Self::SCTP),
    ];

    /// The protocol of a name or number, as nft lists it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, protocol)| *protocol);
        named.or_else(|| text.parse().ok().map(Self))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, protocol)| protocol == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Endpoint(address, protocol, port) => write!(f, "{address} . {protocol} . {port}"),
        }
    }
}

/// A rule: what is done with packets that all conditions match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The conditions, in order.
    pub matches: Vec<Match>,
    /// What is done.
    pub verdict: Verdict,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Let the packet pass this chain.
    Accept,
    /// Lose the packet.
    Drop,
}

/// A condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// The destination is in the set.
    Destination(Family, String),
    /// Destination, protocol and destination port are in the set.
    Endpoint(Family, String),
    /// The protocol above IP.
    Protocol(Protocol),
    /// The socket that sends belongs to a process of this cgroup.
    Cgroup(Cgroup),
}

/// A cgroup in a rule.
///
/// The kernel keeps its number, which is the inode of its directory, from the moment the rule is loaded; a cgroup that
/// is removed and made again has another. Source: Linux, `net/netfilter/nft_socket.c`, `nft_sock_get_eval_cgroupv2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// How many components from the root down the comparison is made.
    pub level: u32,
    /// Its path below the root; in a listing the number, if no directory has it.
    pub path: String,
    /// Its number, as far as known; never in a listing.
    pub number: Option<u64>,
}

impl Cgroup {
    /// The cgroup at `path`, whose directory now has inode `number`.
    #[must_use]
    pub fn new(path: &CgroupPath, number: Option<u64>) -> Self {
        let level = u32::try_from(path.0.split('/').count()).unwrap_or(u32::MAX);
        Self { level, path: path.0.clone(), number }
    }

    /// Whether the listed cgroup is this one.
    fn is_listed_as(&self, listed: &Self) -> bool {
        let number = || self.number.is_some_and(|number| number.to_string() == listed.path);
        self.level == listed.level && (self.path == listed.path || number())
    }
}

/// A path below the root of the cgroup tree that can stand in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupPath(String);

/// Why a path cannot stand in a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cgroup path {0:?} cannot stand in a rule: it needs to be relative, without empty or \"..\" elements, quotes and control \
     characters"
)]
pub struct InvalidCgroupPath(pub String);

impl CgroupPath {
    /// Checks a path: what is not a plain relative path, or would end nft's string, is refused. nft has no way to write a
    /// quote in a string, and takes a backslash for what it is (nft 1.1.3, `src/scanner.l`, `quotedstring`).
    ///
    /// Differs from upstream: it doubles backslashes, and nft then finds no cgroup whose name has one.
    ///
    /// # Errors
    /// The path.
    pub fn parse(path: &str) -> Result<Self, InvalidCgroupPath> {
        let plain = |part: &str| !matches!(part, "" | "." | "..");
        if path.split('/').all(plain) && !path.contains(|c: char| c == '"' || c.is_control()) {
            return Ok(Self(path.to_owned()));
        }
        Err(InvalidCgroupPath(path.to_owned()))
    }
}

impl Rule {
    /// Whether a listed rule is this one.
    #[must_use]
    pub fn is_listed_as(&self, listed: &Self) -> bool {
        let same = |(ours, theirs): (&Match, &Match)| match (ours, theirs) {
            (Match::Cgroup(ours), Match::Cgroup(theirs)) => ours.is_listed_as(theirs),
            _ => ours == theirs,
        };
        self.verdict == listed.verdict
            && self.matches.len() == listed.matches.len()
            && self.matches.iter().zip(&listed.matches).all(same)
    }

    /// Whether a cgroup is among its conditions.
    #[must_use]
    pub fn has_cgroup(&self) -> bool {
        self.matches.iter().any(|condition| matches!(condition, Match::Cgroup(_)))
    }
}

/// Commands that the kernel takes together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Name of the `inet` table.
    pub table: String,
    /// What is done, in order.
    pub commands: Vec<Command>,
}

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The table exists from here on.
    AddTable,
    /// The set exists, empty.
    AddSet(Set),
    /// The set is gone.
    DeleteSet(String),
    /// The chain exists, without rules: those of the value are other commands.
    AddChain(Chain),
    /// The chain has no rules.
    FlushChain(String),
    /// The chain is gone.
    DeleteChain(String),
    /// One more rule at the end of the chain.
    AddRule(String, Rule),
    /// More elements in the set.
    AddElements(String, Vec<Element>),
    /// Elements of the set are gone.
    DeleteElements(String, Vec<Element>),
}

impl Transaction {
    /// One without commands.
    #[must_use]
    pub fn new(table: impl Into<String>) -> Self {
        Self { table: table.into(), commands: Vec::new() }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// How many elements are added, and how many deleted.
    #[must_use]
    pub fn elements(&self) -> (usize, usize) {
        self.commands.iter().fold((0, 0), |(added, deleted), command| match command {
            Command::AddElements(_, elements) => (added + elements.len(), deleted),
            Command::DeleteElements(_, elements) => (added, deleted + elements.len()),
            _ => (added, deleted),
        })
    }

    /// Whether chains, sets or rules change, and not elements alone.
    #[must_use]
    pub fn changes_structure(&self) -> bool {
        let of_elements =
            |command: &Command| matches!(command, Command::AddElements(..) | Command::DeleteElements(..));
        !self.commands.iter().all(of_elements)
    }
}
