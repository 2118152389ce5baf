//! All rules of the namespace, in the order the kernel evaluates them.

use std::sync::Arc;

use imbl::OrdSet;

use super::model::Rule;
use crate::prefix::Family;

/// All rules. A clone shares everything with its original.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    pub(crate) rows: OrdSet<Arc<Rule>>,
}

/// Whether an added rule was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Seen {
    /// It was not.
    First,
    /// It was. Either the event is older than the last dump, or the kernel has the rule twice, which it allows to
    /// programs that do not ask it to refuse.
    Again,
}

impl Rules {
    /// All rules: IPv4 by priority, then IPv6 by priority.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rows.iter()
    }

    /// The rules of one family, by priority.
    pub fn of(&self, family: Family) -> impl Iterator<Item = &Arc<Rule>> {
        self.rows.iter().filter(move |rule| rule.family == family)
    }

    /// How many different rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn insert(&mut self, rule: Rule) -> Seen {
        if self.rows.contains(&rule) {
            return Seen::Again;
        }
        self.rows.insert(Arc::new(rule));
        Seen::First
    }

    pub(crate) fn remove(&mut self, rule: &Rule) {
        self.rows.remove(rule);
    }

    /// Takes a complete dump of one family. Answers whether the kernel listed a rule twice.
    pub(crate) fn replace_family(&mut self, family: Family, rows: Vec<Rule>) -> Seen {
        let mut listed = OrdSet::new();
        let mut seen = Seen::First;
        for row in rows {
            let row = match self.rows.get(&row) {
                Some(known) => Arc::clone(known),
                None => Arc::new(row),
            };
            if listed.insert(row).is_some() {
                seen = Seen::Again;
            }
        }
        let gone: Vec<Arc<Rule>> = self.of(family).filter(|rule| !listed.contains(*rule)).cloned().collect();
        for rule in gone {
            self.rows.remove(&rule);
        }
        for rule in listed {
            if !self.rows.contains(&rule) {
                self.rows.insert(rule);
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::RuleAction;

    fn rule(family: Family, priority: u32) -> Rule {
        Rule {
            family,
            priority,
            action: RuleAction::Table(254),
            source: None,
            destination: None,
            input: None,
            output: None,
            mark: 0,
            mark_mask: 0,
            inverted: false,
            protocol: 0,
            tos: 0,
            suppress_prefix_length: None,
            ip_protocol: None,
            source_ports: None,
            destination_ports: None,
            users: None,
            unknown: None,
        }
    }

    #[test]
    fn rules_are_listed_by_priority() {
        let mut rules = Rules::default();
        for priority in [32766, 0, 1000] {
            assert_eq!(rules.insert(rule(Family::V4, priority)), Seen::First);
        }
        assert_eq!(rules.insert(rule(Family::V4, 0)), Seen::Again);
        assert_eq!(rules.iter().map(|r| r.priority).collect::<Vec<_>>(), [0, 1000, 32766]);
    }

    #[test]
    fn a_dump_of_one_family_leaves_the_other() {
        let mut rules = Rules::default();
        assert_eq!(rules.insert(rule(Family::V4, 1)), Seen::First);
        assert_eq!(rules.insert(rule(Family::V6, 1)), Seen::First);
        assert_eq!(rules.replace_family(Family::V4, vec![rule(Family::V4, 2)]), Seen::First);
        assert_eq!(rules.of(Family::V4).map(|r| r.priority).collect::<Vec<_>>(), [2]);
        assert_eq!(rules.of(Family::V6).count(), 1);
    }

    #[test]
    fn a_dump_tells_when_the_kernel_has_a_rule_twice() {
        let mut rules = Rules::default();
        let twice = vec![rule(Family::V4, 2), rule(Family::V4, 2)];
        assert_eq!(rules.replace_family(Family::V4, twice), Seen::Again);
        assert_eq!(rules.len(), 1);
    }
}
