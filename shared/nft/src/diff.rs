//! The transaction that makes what is observed what is desired. Pure.
//!
//! What is right already is not touched. A chain with a wrong rule gets all its rules anew, a chain or set with a wrong
//! definition is made anew, a set with wrong elements loses or gets those.

use std::collections::BTreeSet;

use crate::model::{Chain, Command, Contents, Desired, Element, Owned, Set, Transaction};
use crate::observed::{Observed, ObservedChain, ObservedSet};

/// What is wrong with a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Absent,
    Rules,
    Definition,
}

/// The commands that make `have` what `want` says, in an order that the kernel accepts. Sets that `contents` does not
/// name keep their elements. With `reload`, every chain gets its rules anew even if they look right: the kernel looks up
/// numbers of cgroups when a rule is loaded.
#[must_use]
pub fn diff(want: &Desired, contents: &Contents, have: &Observed, reload: bool) -> Transaction {
    let empty = Observed::default();
    let have = if have.table { have } else { &empty };
    let (mut sets, mut elements) = (Vec::new(), Vec::new());
    let mut deleted = Vec::new();
    for set in &want.sets {
        let seen = have.sets.get(&set.name);
        let wanted = contents.get(&set.name);
        match seen {
            Some(seen) if is_usable(set, seen) => {
                if let Some(wanted) = wanted {
                    elements.extend(change(set, wanted, &seen.elements));
                }
            }
            _ => {
                if seen.is_some() {
                    deleted.push(Command::DeleteSet(set.name.clone()));
                }
                sets.push(Command::AddSet(set.clone()));
                // What is not known yet stays closed: a set that is made anew keeps the elements it can.
                let kept =
                    || seen.map(|seen| seen.elements.iter().filter(|e| set.kind.takes(e)).copied().collect());
                let wanted: BTreeSet<Element> = wanted.cloned().or_else(kept).unwrap_or_default();
                elements.extend(change(set, &wanted, &BTreeSet::new()));
            }
        }
    }
    // A set that goes must not be in use.
    let reload = reload || !deleted.is_empty();
    let faults: Vec<(&Chain, Fault)> =
        want.chains.iter().map(|chain| (chain, fault(chain, have.chains.get(&chain.name), reload))).collect();

    let mut transaction = Transaction::new(&want.table);
    let commands = &mut transaction.commands;
    if !have.table {
        commands.push(Command::AddTable);
    }
    for (chain, fault) in &faults {
        if matches!(fault, Fault::Rules | Fault::Definition) {
            commands.push(Command::FlushChain(chain.name.clone()));
        }
        if *fault == Fault::Definition {
            commands.push(Command::DeleteChain(chain.name.clone()));
        }
    }
    commands.extend(deleted);
    commands.extend(sets);
    commands.extend(elements);
    for (chain, fault) in faults {
        if matches!(fault, Fault::Absent | Fault::Definition) {
            commands.push(Command::AddChain(Chain { rules: Vec::new(), ..chain.clone() }));
        }
        if fault != Fault::None {
            commands
                .extend(chain.rules.iter().map(|rule| Command::AddRule(chain.name.clone(), rule.clone())));
        }
    }
    transaction
}

/// The commands that bring `touched` elements of one set in line with `want`; the others are not looked at. Work is by
/// what was touched, whatever the set holds.
pub fn diff_elements(
    set: &str,
    touched: &BTreeSet<Element>,
    want: impl Fn(&Element) -> bool,
    have: &Observed,
) -> Vec<Command> {
    let Some(seen) = have.sets.get(set) else { return Vec::new() };
    let (wanted, unwanted): (Vec<Element>, Vec<Element>) = touched.iter().copied().partition(want);
    let absent = wanted.into_iter().filter(|element| !seen.elements.contains(element)).collect();
    let present = unwanted.into_iter().filter(|element| seen.elements.contains(element)).collect();
    commands(set, present, absent)
}

/// The commands that remove what there is of `owned`: the table stays, as others may use it.
#[must_use]
pub fn clean_up(owned: &Owned, have: &Observed) -> Transaction {
    let mut transaction = Transaction::new(owned.table);
    let commands = &mut transaction.commands;
    for name in owned.chains.iter().filter(|name| have.chains.contains_key(**name)) {
        commands.push(Command::FlushChain((*name).to_owned()));
        commands.push(Command::DeleteChain((*name).to_owned()));
    }
    let sets = owned.sets.iter().filter(|name| have.sets.contains_key(**name));
    commands.extend(sets.map(|name| Command::DeleteSet((*name).to_owned())));
    transaction
}

fn is_usable(want: &Set, have: &ObservedSet) -> bool {
    have.definition.as_ref() == Some(want) && !have.foreign
}

fn fault(want: &Chain, have: Option<&ObservedChain>, reload: bool) -> Fault {
    let Some(have) = have else { return Fault::Absent };
    let other_comment = have.comment.as_ref().is_some_and(|comment| *comment != want.comment);
    if have.priority != Some(want.priority) || other_comment {
        return Fault::Definition;
    }
    let same = want.rules.len() == have.rules.len()
        && want
            .rules
            .iter()
            .zip(&have.rules)
            .all(|(want, have)| have.as_ref().is_some_and(|have| want.is_listed_as(have)));
    if same && !reload { Fault::None } else { Fault::Rules }
}

fn change(set: &Set, want: &BTreeSet<Element>, have: &BTreeSet<Element>) -> Vec<Command> {
    let gone = have.difference(want).copied().collect();
    let new = want.difference(have).copied().collect();
    commands(&set.name, gone, new)
}

fn commands(set: &str, gone: Vec<Element>, new: Vec<Element>) -> Vec<Command> {
    let mut commands = Vec::new();
    if !gone.is_empty() {
        commands.push(Command::DeleteElements(set.to_owned(), gone));
    }
    if !new.is_empty() {
        commands.push(Command::AddElements(set.to_owned(), new));
    }
    commands
}

#[cfg(test)]
mod tests;
