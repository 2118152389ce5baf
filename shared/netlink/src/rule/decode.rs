//! From `RTM_NEWRULE` and `RTM_DELRULE` to [`Rule`]. Source: linux/fib_rules.h.

use std::net::IpAddr;

use super::model::{PortRange, Rule, RuleAction, UidRange};
use crate::name::InterfaceName;
use crate::prefix::{Family, Prefix};
use crate::wire::{AF_INET, AF_INET6, Attribute, Malformed, after_header, attributes, u8_at, u16_at, u32_at};

pub(crate) const RTM_NEWRULE: u16 = 32;
pub(crate) const RTM_DELRULE: u16 = 33;
pub(crate) const RTM_GETRULE: u16 = 34;

/// Length of `struct fib_rule_hdr`.
const HEADER_LEN: usize = 12;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
/// Length of the suppressed interface group list; -1 when unused.
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_PAD: u16 = 18;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;

const FIB_RULE_INVERT: u32 = 2;
const UNUSED: u32 = u32::MAX;

/// The rule in a message, or `None` for other families.
pub(crate) fn decode(payload: &[u8]) -> Result<Option<Rule>, Malformed> {
    let body = after_header(payload, HEADER_LEN)?;
    let byte = |offset| u8_at(payload, offset).ok_or(Malformed("short fixed header"));
    let family = match byte(0)? {
        AF_INET => Family::V4,
        AF_INET6 => Family::V6,
        _ => return Ok(None),
    };
    let flags = u32_at(payload, 8).ok_or(Malformed("short fixed header"))?;
    let mut fields = Fields { table: u32::from(byte(4)?), ..Fields::default() };
    for attribute in attributes(body) {
        fields.take(&attribute?)?;
    }
    let action = match byte(7)? {
        1 if fields.vrf => RuleAction::VrfTable,
        1 => RuleAction::Table(fields.table),
        2 => RuleAction::Goto(fields.goto),
        3 => RuleAction::Nothing,
        6 => RuleAction::Blackhole,
        7 => RuleAction::Unreachable,
        8 => RuleAction::Prohibit,
        other => RuleAction::Other(other),
    };
    Ok(Some(Rule {
        family,
        priority: fields.priority,
        action,
        source: selector(family, fields.source, byte(2)?)?,
        destination: selector(family, fields.destination, byte(1)?)?,
        input: fields.input,
        output: fields.output,
        mark: fields.mark,
        mark_mask: fields.mark_mask,
        inverted: flags & FIB_RULE_INVERT != 0,
        protocol: fields.protocol,
        tos: byte(3)?,
        suppress_prefix_length: fields.suppress_prefix_length,
        ip_protocol: fields.ip_protocol,
        source_ports: fields.source_ports,
        destination_ports: fields.destination_ports,
        users: fields.users,
        unknown: (!fields.unknown.is_empty()).then(|| fields.unknown.into()),
    }))
}

fn selector(family: Family, address: Option<IpAddr>, length: u8) -> Result<Option<Prefix>, Malformed> {
    if length == 0 {
        return Ok(None);
    }
    let address = address.unwrap_or(family.unspecified());
    if Family::of(address) != family {
        return Err(Malformed("selector of another family than its rule"));
    }
    Prefix::new(address, length).map(Some).map_err(|_| Malformed("impossible prefix length"))
}

#[derive(Default)]
struct Fields {
    table: u32,
    goto: u32,
    vrf: bool,
    priority: u32,
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    input: Option<InterfaceName>,
    output: Option<InterfaceName>,
    mark: u32,
    mark_mask: u32,
    protocol: u8,
    suppress_prefix_length: Option<u32>,
    ip_protocol: Option<u8>,
    source_ports: Option<PortRange>,
    destination_ports: Option<PortRange>,
    users: Option<UidRange>,
    unknown: Vec<u8>,
}

impl Fields {
    fn take(&mut self, attribute: &Attribute<'_>) -> Result<(), Malformed> {
        match attribute.kind {
            FRA_DST => self.destination = Some(attribute.ip()?),
            FRA_SRC => self.source = Some(attribute.ip()?),
            FRA_IIFNAME => self.input = name(attribute)?,
            FRA_OIFNAME => self.output = name(attribute)?,
            FRA_GOTO => self.goto = attribute.u32()?,
            FRA_PRIORITY => self.priority = attribute.u32()?,
            FRA_FWMARK => self.mark = attribute.u32()?,
            FRA_FWMASK => self.mark_mask = attribute.u32()?,
            FRA_TABLE => self.table = attribute.u32()?,
            FRA_L3MDEV => self.vrf = attribute.u8()? != 0,
            FRA_PROTOCOL => self.protocol = attribute.u8()?,
            FRA_SUPPRESS_PREFIXLEN => {
                self.suppress_prefix_length = Some(attribute.u32()?).filter(|length| *length != UNUSED);
            }
            FRA_IP_PROTO => self.ip_protocol = Some(attribute.u8()?),
            FRA_SPORT_RANGE => self.source_ports = Some(ports(attribute)?),
            FRA_DPORT_RANGE => self.destination_ports = Some(ports(attribute)?),
            FRA_UID_RANGE => self.users = Some(users(attribute)?),
            FRA_PAD => {}
            FRA_SUPPRESS_IFGROUP if attribute.u32()? == UNUSED => {}
            other => {
                self.unknown.extend(other.to_ne_bytes());
                self.unknown.extend(attribute.value);
            }
        }
        Ok(())
    }
}

fn name(attribute: &Attribute<'_>) -> Result<Option<InterfaceName>, Malformed> {
    let name = InterfaceName::from_kernel(attribute.value);
    name.map(Some).map_err(|_| Malformed("impossible interface name"))
}

fn ports(attribute: &Attribute<'_>) -> Result<PortRange, Malformed> {
    match (u16_at(attribute.value, 0), u16_at(attribute.value, 2)) {
        (Some(first), Some(last)) => Ok(PortRange { first, last }),
        _ => Err(Malformed("short port range")),
    }
}

fn users(attribute: &Attribute<'_>) -> Result<UidRange, Malformed> {
    match (u32_at(attribute.value, 0), u32_at(attribute.value, 4)) {
        (Some(first), Some(last)) => Ok(UidRange { first, last }),
        _ => Err(Malformed("short user range")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::build::{attribute, text};

    fn message(family: u8, source: u8, action: u8, flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![family, 0, source, 0, 0, 0, 0, action];
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(attributes.concat());
        bytes
    }

    fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_ne_bytes())
    }

    #[test]
    fn a_rule_of_a_network_matches_its_mark_and_names_its_table() {
        let bytes = message(
            AF_INET,
            0,
            1,
            0,
            &[
                number(FRA_PRIORITY, 2000),
                number(FRA_FWMARK, 0x1003),
                number(FRA_FWMASK, u32::MAX),
                number(FRA_TABLE, 1007),
                number(FRA_SUPPRESS_PREFIXLEN, UNUSED),
                number(FRA_SUPPRESS_IFGROUP, UNUSED),
                attribute(FRA_PROTOCOL, &[4]),
            ],
        );
        let rule = decode(&bytes).unwrap().unwrap();
        assert_eq!((rule.priority, rule.action), (2000, RuleAction::Table(1007)));
        assert_eq!((rule.mark, rule.mark_mask, rule.protocol), (0x1003, u32::MAX, 4));
        assert_eq!((rule.source, rule.suppress_prefix_length, rule.unknown), (None, None, None));
    }

    #[test]
    fn the_rule_of_all_vrfs_is_no_table_rule() {
        let bytes = message(AF_INET6, 0, 1, 0, &[number(FRA_PRIORITY, 1000), attribute(FRA_L3MDEV, &[1])]);
        assert_eq!(decode(&bytes).unwrap().unwrap().action, RuleAction::VrfTable);
    }

    #[test]
    fn selectors_and_inversion_are_kept() {
        let bytes = message(
            AF_INET,
            24,
            7,
            FIB_RULE_INVERT,
            &[
                attribute(FRA_SRC, &[192, 0, 2, 0]),
                text(FRA_IIFNAME, "lo"),
                attribute(FRA_DPORT_RANGE, &[80_u16.to_ne_bytes(), 90_u16.to_ne_bytes()].concat()),
            ],
        );
        let rule = decode(&bytes).unwrap().unwrap();
        assert_eq!(rule.source.unwrap().to_string(), "192.0.2.0/24");
        assert_eq!(rule.input.unwrap().as_str(), "lo");
        assert_eq!(rule.destination_ports, Some(PortRange { first: 80, last: 90 }));
        assert!(rule.inverted);
        assert_eq!(rule.action, RuleAction::Unreachable);
    }

    #[test]
    fn rules_that_differ_in_an_unknown_attribute_are_two_rules() {
        let rule = |value| decode(&message(AF_INET, 0, 1, 0, &[attribute(25, &[value])])).unwrap().unwrap();
        assert_ne!(rule(1), rule(2));
        assert_eq!(rule(1), rule(1));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            if let Ok(Some(rule)) = decode(&bytes) {
                prop_assert!(rule.source.is_none_or(|source| source.length() > 0));
            }
        }
    }
}
