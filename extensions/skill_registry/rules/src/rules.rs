//! One file per rule; this one lists them.

mod composition_contradiction;
mod composition_required;
mod composition_type;
mod composition_unknown_field;
mod composition_value;
mod name_reserved;
mod security_required;
mod security_type;
mod security_unknown_field;
mod security_value;
mod tests_required;
mod tests_type;
mod tests_unknown_field;
mod tests_value;
mod tools_required;
mod tools_type;
mod tools_unknown_field;
mod tools_value;

use crate::rule::Rule;

/// Every rule, sorted by id.
pub static RULES: &[&Rule] = &[
    &composition_contradiction::RULE,
    &composition_required::RULE,
    &composition_type::RULE,
    &composition_unknown_field::RULE,
    &composition_value::RULE,
    &name_reserved::RULE,
    &security_required::RULE,
    &security_type::RULE,
    &security_unknown_field::RULE,
    &security_value::RULE,
    &tests_required::RULE,
    &tests_type::RULE,
    &tests_unknown_field::RULE,
    &tests_value::RULE,
    &tools_required::RULE,
    &tools_type::RULE,
    &tools_unknown_field::RULE,
    &tools_value::RULE,
];

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
