//! What the kernel holds of the chains and sets that are ours.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Command, Element, Rule, Set, Transaction};

/// Our part of a table, as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether the table exists.
    pub table: bool,
    /// Our chains that exist.
    pub chains: BTreeMap<String, ObservedChain>,
    /// Our sets that exist.
    pub sets: BTreeMap<String, ObservedSet>,
}

/// A chain, as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedChain {
    /// Whether it is a base chain that filters at the hook and with the policy of the one [`crate::Chain`] there is, and
    /// its priority; `None`: another kind of chain.
    pub priority: Option<i32>,
    /// Its comment; versions of nft before 1.1 do not list it.
    pub comment: Option<String>,
    /// Its rules in order; `None` for one that this crate cannot say.
    pub rules: Vec<Option<Rule>>,
}

/// A set, as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedSet {
    /// Its definition; `None`: one that this crate cannot say.
    pub definition: Option<Set>,
    /// Its elements.
    pub elements: BTreeSet<Element>,
    /// Whether it has others that this crate cannot say.
    pub foreign: bool,
}

impl Observed {
    /// The same after the kernel has taken `transaction`.
    pub fn apply(&mut self, transaction: &Transaction) {
        for command in &transaction.commands {
            self.take(command);
        }
    }

    fn take(&mut self, command: &Command) {
        match command {
            Command::AddTable => self.table = true,
            Command::AddSet(set) => {
                let new = ObservedSet { definition: Some(set.clone()), ..ObservedSet::default() };
                self.sets.entry(set.name.clone()).or_insert(new);
            }
            Command::DeleteSet(name) => drop(self.sets.remove(name)),
            Command::AddChain(chain) => {
                let (priority, comment) = (Some(chain.priority), Some(chain.comment.clone()));
                let new = ObservedChain { priority, comment, rules: Vec::new() };
                self.chains.entry(chain.name.clone()).or_insert(new);
            }
            Command::FlushChain(name) => {
                if let Some(chain) = self.chains.get_mut(name) {
                    chain.rules.clear();
                }
            }
            Command::DeleteChain(name) => drop(self.chains.remove(name)),
            Command::AddRule(name, rule) => {
                if let Some(chain) = self.chains.get_mut(name) {
                    chain.rules.push(Some(rule.clone()));
                }
            }
            Command::AddElements(name, elements) => {
                if let Some(set) = self.sets.get_mut(name) {
                    set.elements.extend(elements);
                }
            }
            Command::DeleteElements(name, elements) => {
                if let Some(set) = self.sets.get_mut(name) {
                    for element in elements {
                        set.elements.remove(element);
                    }
                }
            }
        }
    }
}
