//! Transactions as nft's text. Source: nft(8).

use std::fmt::{self, Display, Formatter};

use crate::model::{Chain, Command, Element, Family, Hook, Match, Rule, Set, SetKind, Transaction, Verdict};

impl Display for Transaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let table = &self.table;
        for command in &self.commands {
            match command {
                Command::AddTable => writeln!(f, "add table inet {table}"),
                Command::AddSet(Set { name, kind, comment }) => {
                    writeln!(f, "add set inet {table} {name} {{ type {kind}; comment {}; }}", Quoted(comment))
                }
                Command::DeleteSet(name) => writeln!(f, "delete set inet {table} {name}"),
                Command::AddChain(chain) => {
                    writeln!(f, "add chain inet {table} {} {}", chain.name, Head(chain))
                }
                Command::FlushChain(name) => writeln!(f, "flush chain inet {table} {name}"),
                Command::DeleteChain(name) => writeln!(f, "delete chain inet {table} {name}"),
                Command::AddRule(chain, rule) => writeln!(f, "add rule inet {table} {chain} {rule}"),
                Command::AddElements(set, elements) => {
                    writeln!(f, "add element inet {table} {set} {}", List(elements))
                }
                Command::DeleteElements(set, elements) => {
                    writeln!(f, "delete element inet {table} {set} {}", List(elements))
                }
            }?;
        }
        Ok(())
    }
}

/// What stands in the braces of a chain.
struct Head<'a>(&'a Chain);

impl Display for Head<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Chain { hook, priority, comment, .. } = self.0;
        let hook = match hook {
            Hook::Output => "output",
        };
        write!(
            f,
            "{{ type filter hook {hook} priority {priority}; policy accept; comment {}; }}",
            Quoted(comment)
        )
    }
}

struct List<'a>(&'a [Element]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("{ ")?;
        for (at, element) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{element}")?;
        }
        f.write_str(" }")
    }
}

impl Display for SetKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (Self::Address(family) | Self::Endpoint(family)) = self;
        f.write_str(match family {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        })?;
        match self {
            Self::Address(_) => Ok(()),
            Self::Endpoint(_) => f.write_str(" . inet_proto . inet_service"),
        }
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for condition in &self.matches {
            write!(f, "{condition} ")?;
        }
        f.write_str(match self.verdict {
            Verdict::Accept => "accept",
            Verdict::Drop => "drop",
        })
    }
}

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destination(family, set) => write!(f, "{} daddr @{set}", family.word()),
            Self::Endpoint(family, set) => {
                write!(f, "{} daddr . meta l4proto . th dport @{set}", family.word())
            }
            Self::Protocol(protocol) => write!(f, "meta l4proto {protocol}"),
            // Quoted: an `@`, as in the names of units made from templates, would begin the name of a set.
            Self::Cgroup(cgroup) => {
                write!(f, "socket cgroupv2 level {} {}", cgroup.level, Quoted(&cgroup.path))
            }
        }
    }
}

impl Family {
    /// The keyword of its header.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }
}

/// A string between quotes, without those in it: nft cannot write them.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', ""))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::model::{Cgroup, CgroupPath, Protocol};

    #[test]
    fn every_command_is_a_line_of_text() {
        let set = |name: &str, kind| Set { name: name.into(), kind, comment: "a \"set\"".into() };
        let cgroup = CgroupPath::parse("a\\x2db.slice/getty@tty1.service").unwrap();
        let rule = Rule {
            matches: vec![
                Match::Cgroup(Cgroup::new(&cgroup, Some(7))),
                Match::Destination(Family::V6, "six".into()),
                Match::Protocol(Protocol::ICMPV6),
            ],
            verdict: Verdict::Accept,
        };
        let ports =
            Rule { matches: vec![Match::Endpoint(Family::V4, "four".into())], verdict: Verdict::Drop };
        let chain = Chain {
            name: "filter".into(),
            hook: Hook::Output,
            priority: -5,
            comment: "a chain".into(),
            rules: vec![],
        };
        let (four, six) = ("192.0.2.1".parse().unwrap(), "fd00::1".parse().unwrap());
        let transaction = Transaction {
            table: "t".into(),
            commands: vec![
                Command::AddTable,
                Command::FlushChain("filter".into()),
                Command::DeleteChain("filter".into()),
                Command::DeleteSet("four".into()),
                Command::AddSet(set("four", SetKind::Endpoint(Family::V4))),
                Command::AddSet(set("six", SetKind::Address(Family::V6))),
                Command::AddChain(chain),
                Command::AddRule("filter".into(), rule),
                Command::AddRule("filter".into(), ports),
                Command::AddElements(
                    "four".into(),
                    vec![
                        Element::Endpoint(four, Protocol::SCTP, 0),
                        Element::Endpoint(four, Protocol(47), 65535),
                    ],
                ),
                Command::DeleteElements("six".into(), vec![Element::Address(six)]),
            ],
        };
        expect![[r#"
            add table inet t
            flush chain inet t filter
            delete chain inet t filter
            delete set inet t four
            add set inet t four { type ipv4_addr . inet_proto . inet_service; comment "a set"; }
            add set inet t six { type ipv6_addr; comment "a set"; }
            add chain inet t filter { type filter hook output priority -5; policy accept; comment "a chain"; }
            add rule inet t filter socket cgroupv2 level 2 "a\x2db.slice/getty@tty1.service" ip6 daddr @six meta l4proto icmpv6 accept
            add rule inet t filter ip daddr . meta l4proto . th dport @four drop
            add element inet t four { 192.0.2.1 . sctp . 0, 192.0.2.1 . 47 . 65535 }
            delete element inet t six { fd00::1 }
        "#]]
        .assert_eq(&transaction.to_string());
    }
}
