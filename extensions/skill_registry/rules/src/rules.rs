//! One file per rule; this one lists them.

mod name_reserved;

use crate::rule::Rule;

/// Every rule, sorted by id.
pub static RULES: &[&Rule] = &[&name_reserved::RULE];

/// Finds a rule by its id.
#[must_use]
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.binary_search_by(|rule| rule.id.cmp(id)).ok().map(|index| RULES[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_and_their_ids_differ() {
        assert!(RULES.is_sorted_by(|a, b| a.id < b.id));
        for rule in RULES {
            assert_eq!(super::rule(rule.id).map(|found| found.id), Some(rule.id));
        }
    }
}
