//! What is known of one rule.

use crate::name::InterfaceName;
use crate::prefix::{Family, Prefix};

/// One policy routing rule. Ordered by priority first, as the kernel evaluates them.
///
/// Left out: whether the interfaces or the goto target exist right now; the kernel changes that without an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Family it applies to.
    pub family: Family,
    /// Position: the lowest is evaluated first.
    pub priority: u32,
    /// What happens to a packet that matches.
    pub action: RuleAction,
    /// Source it matches; absent = any.
    pub source: Option<Prefix>,
    /// Destination it matches; absent = any.
    pub destination: Option<Prefix>,
    /// Interface the packet came in by; `lo` for packets of this host.
    pub input: Option<InterfaceName>,
    /// Interface that a socket is bound to.
    pub output: Option<InterfaceName>,
    /// Firewall mark it matches under `mark_mask`; zero with mask zero = any.
    pub mark: u32,
    /// Bits of the mark that count.
    pub mark_mask: u32,
    /// Matches everything but what it says.
    pub inverted: bool,
    /// Who made it; the numbers are those of routes.
    pub protocol: u8,
    /// Type of service it matches.
    pub tos: u8,
    /// Ignore routes with a prefix of at most this length.
    pub suppress_prefix_length: Option<u32>,
    /// IP protocol it matches.
    pub ip_protocol: Option<u8>,
    /// Source ports it matches.
    pub source_ports: Option<PortRange>,
    /// Destination ports it matches.
    pub destination_ports: Option<PortRange>,
    /// Users it matches.
    pub users: Option<UidRange>,
    /// Attributes that this version does not know, as they came: two rules that differ only there are two rules.
    pub(crate) unknown: Option<Box<[u8]>>,
}

/// What a rule does. Source: linux/fib_rules.h, `FR_ACT_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleAction {
    /// Look up this table.
    Table(u32),
    /// Look up the table of the VRF that the packet's interface belongs to.
    VrfTable,
    /// Go on at the rule with this priority.
    Goto(u32),
    /// Go on.
    Nothing,
    /// Drop.
    Blackhole,
    /// Answer "unreachable".
    Unreachable,
    /// Answer "prohibited".
    Prohibit,
    /// Any other.
    Other(u8),
}

/// Ports from first to last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port.
    pub last: u16,
}

/// User ids from first to last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UidRange {
    /// First user.
    pub first: u32,
    /// Last user.
    pub last: u32,
}
