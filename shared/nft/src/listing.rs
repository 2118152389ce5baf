//! Listings of nft, read.
//!
//! A listing of a table has everything in it, of which most may belong to others: what is not ours is skipped by its
//! name, and nothing in it can make the listing unreadable. Source: libnftables-json(5).

use nftables::expr::{Expression, NamedExpression, Payload};
use nftables::schema;
use nftables::stmt::{self, Operator, Statement};
use nftables::types::{NfChainPolicy, NfChainType, NfHook};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::{Cgroup, Element, Family, Match, Owned, Protocol, Rule, Set, SetKind, Verdict};
use crate::observed::{Observed, ObservedChain, ObservedSet};

#[derive(Deserialize)]
struct Listing<'a> {
    #[serde(borrow)]
    nftables: Vec<&'a RawValue>,
}

/// Just enough of an object to know whether it is ours.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Peek {
    Table(Named),
    Chain(Named),
    Set(Named),
    Rule(InChain),
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct InChain {
    chain: String,
}

#[derive(Deserialize)]
struct ChainObject<'a> {
    #[serde(borrow)]
    chain: schema::Chain<'a>,
}

/// The comment of a chain, which the crate's type does not have.
#[derive(Deserialize)]
struct ChainComment {
    chain: Comment,
}

#[derive(Deserialize)]
struct Comment {
    #[serde(default)]
    comment: Option<String>,
}

#[derive(Deserialize)]
struct SetObject<'a> {
    #[serde(borrow)]
    set: schema::Set<'a>,
}

#[derive(Deserialize)]
struct RuleObject {
    rule: RuleBody,
}

#[derive(Deserialize)]
struct RuleBody {
    expr: Vec<Value>,
}

/// A listing of the table of `owned`: our part of it. Levels of cgroups are zero, see [`fill_levels`].
pub(crate) fn read(text: &str, owned: &Owned) -> Result<Observed, serde_json::Error> {
    let listing: Listing<'_> = serde_json::from_str(text)?;
    let mut observed = Observed::default();
    for object in listing.nftables {
        let text = object.get();
        let Ok(peek) = serde_json::from_str(text) else { continue };
        match peek {
            Peek::Table(table) => observed.table |= table.name == owned.table,
            Peek::Chain(chain) if owned.has_chain(&chain.name) => {
                let rules = observed.chains.remove(&chain.name).unwrap_or_default().rules;
                observed.chains.insert(chain.name, ObservedChain { rules, ..read_chain(text) });
            }
            Peek::Set(set) if owned.has_set(&set.name) => {
                observed.sets.insert(set.name, read_set(text));
            }
            Peek::Rule(rule) if owned.has_chain(&rule.chain) => {
                observed.chains.entry(rule.chain).or_default().rules.push(read_rule(text));
            }
            Peek::Chain(_) | Peek::Set(_) | Peek::Rule(_) => {}
        }
    }
    Ok(observed)
}

/// Whether a rule matches a cgroup, so that [`fill_levels`] has something to do.
pub(crate) fn has_cgroups(chain: &ObservedChain) -> bool {
    chain.rules.iter().flatten().any(Rule::has_cgroup)
}

/// Takes the levels of cgroups, which JSON does not have, from the listing of the chain as text. Where the two differ
/// (the chain changed in between) levels stay zero, which no rule has.
pub(crate) fn fill_levels(chain: &mut ObservedChain, text: &str) {
    let levels: Vec<u32> = text.lines().filter_map(level).collect();
    let matches = chain.rules.iter_mut().flatten().flat_map(|rule| &mut rule.matches);
    let mut cgroups: Vec<&mut Cgroup> = matches
        .filter_map(|condition| match condition {
            Match::Cgroup(cgroup) => Some(cgroup),
            _ => None,
        })
        .collect();
    if cgroups.len() == levels.len() {
        for (cgroup, level) in cgroups.iter_mut().zip(levels) {
            cgroup.level = level;
        }
    }
}

/// The level in a line with `socket cgroupv2 level N`.
fn level(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("socket cgroupv2 level ")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn read_chain(text: &str) -> ObservedChain {
    let chain = serde_json::from_str::<ChainObject<'_>>(text).ok().map(|object| object.chain);
    let is_filter = |chain: &schema::Chain<'_>| {
        chain._type == Some(NfChainType::Filter)
            && chain.hook == Some(NfHook::Output)
            && chain.policy == Some(NfChainPolicy::Accept)
            && chain.dev.is_none()
    };
    let priority = chain.filter(is_filter).and_then(|chain| chain.prio);
    let comment = serde_json::from_str::<ChainComment>(text).ok().and_then(|object| object.chain.comment);
    ObservedChain { priority, comment, rules: Vec::new() }
}

fn read_set(text: &str) -> ObservedSet {
    let Ok(SetObject { set }) = serde_json::from_str(text) else {
        return ObservedSet { foreign: true, ..ObservedSet::default() };
    };
    let listed = set.elem.as_deref().unwrap_or_default();
    let elements: Vec<Option<Element>> = listed.iter().map(read_element).collect();
    let plain = set.flags.as_ref().is_none_or(std::collections::HashSet::is_empty)
        && (set.timeout, set.size, set.policy) == (None, None, None);
    let definition = read_kind(&set.set_type).filter(|_| plain).map(|kind| Set {
        name: set.name.to_string(),
        kind,
        comment: set.comment.as_deref().unwrap_or_default().to_owned(),
    });
    ObservedSet {
        definition,
        foreign: elements.iter().any(Option::is_none),
        elements: elements.into_iter().flatten().collect(),
    }
}

fn read_kind(value: &schema::SetTypeValue<'_>) -> Option<SetKind> {
    use nftables::schema::{SetType, SetTypeValue};
    let family = |kind: SetType| match kind {
        SetType::Ipv4Addr => Some(Family::V4),
        SetType::Ipv6Addr => Some(Family::V6),
        _ => None,
    };
    match value {
        SetTypeValue::Single(kind) => Some(SetKind::Address(family(*kind)?)),
        SetTypeValue::Concatenated(kinds) => match **kinds {
            [address, SetType::InetProto, SetType::InetService] => Some(SetKind::Endpoint(family(address)?)),
            _ => None,
        },
    }
}

fn read_element(value: &Expression<'_>) -> Option<Element> {
    match value {
        Expression::String(address) => Some(Element::Address(address.parse().ok()?)),
        Expression::Named(NamedExpression::Concat(parts)) => match parts.as_slice() {
            [Expression::String(address), protocol, Expression::Number(port)] => Some(Element::Endpoint(
                address.parse().ok()?,
                read_protocol(protocol)?,
                u16::try_from(*port).ok()?,
            )),
            _ => None,
        },
        _ => None,
    }
}

fn read_protocol(value: &Expression<'_>) -> Option<Protocol> {
    match value {
        Expression::String(name) => Protocol::parse(name),
        Expression::Number(number) => Some(Protocol(u8::try_from(*number).ok()?)),
        _ => None,
    }
}

fn read_rule(text: &str) -> Option<Rule> {
    let RuleObject { rule } = serde_json::from_str(text).ok()?;
    let (last, conditions) = rule.expr.split_last()?;
    let verdict = match Statement::deserialize(last).ok()? {
        Statement::Accept(_) => Verdict::Accept,
        Statement::Drop(_) => Verdict::Drop,
        _ => return None,
    };
    let matches = conditions.iter().map(read_match).collect::<Option<_>>()?;
    Some(Rule { matches, verdict })
}

fn read_match(value: &Value) -> Option<Match> {
    if let Some(cgroup) = read_cgroup(value) {
        return Some(cgroup);
    }
    let Ok(Statement::Match(stmt::Match { left, right, op: Operator::EQ })) = Statement::deserialize(value)
    else {
        return None;
    };
    match left {
        Expression::Named(NamedExpression::Concat(parts)) => match parts.as_slice() {
            [address, protocol, port] if is_l4proto(protocol) && field(port) == Some(("th", "dport")) => {
                Some(Match::Endpoint(destination(address)?, set_name(&right)?))
            }
            _ => None,
        },
        left if is_l4proto(&left) => Some(Match::Protocol(read_protocol(&right)?)),
        left => Some(Match::Destination(destination(&left)?, set_name(&right)?)),
    }
}

/// A match of a cgroup, which the crate's types do not have.
fn read_cgroup(value: &Value) -> Option<Match> {
    let condition = value.get("match")?;
    let is_cgroup = condition.pointer("/left/socket/key")? == "cgroupv2" && condition.get("op")? == "==";
    let path = match condition.get("right")? {
        Value::String(path) => path.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    is_cgroup.then_some(Match::Cgroup(Cgroup { level: 0, path, number: None }))
}

fn is_l4proto(value: &Expression<'_>) -> bool {
    use nftables::expr::{Meta, MetaKey};
    matches!(value, Expression::Named(NamedExpression::Meta(Meta { key: MetaKey::L4proto })))
}

fn field<'e>(value: &'e Expression<'_>) -> Option<(&'e str, &'e str)> {
    match value {
        Expression::Named(NamedExpression::Payload(Payload::PayloadField(field))) => {
            Some((field.protocol.as_ref(), field.field.as_ref()))
        }
        _ => None,
    }
}

fn destination(value: &Expression<'_>) -> Option<Family> {
    match field(value)? {
        ("ip", "daddr") => Some(Family::V4),
        ("ip6", "daddr") => Some(Family::V6),
        _ => None,
    }
}

fn set_name(value: &Expression<'_>) -> Option<String> {
    match value {
        Expression::String(text) => text.strip_prefix('@').map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
