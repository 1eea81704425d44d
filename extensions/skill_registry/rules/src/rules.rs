//! One file per rule; this one lists them.

mod absolute_path;
mod backslash_path;
mod context_budget;
mod defaults_over_menus;
mod description_quality;
mod dialect_field;
mod empty_body;
mod final_newline;
mod first_person_description;
mod gotchas_present;
mod hardcoded_secret;
mod hidden_unicode;
mod large_file;
mod name_reserved;
mod no_generic_instructions;
mod placeholder_text;
mod progressive_disclosure;
mod prompt_markup;
mod script_not_executable;
mod trailing_whitespace;
mod unclosed_fence;
mod unmentioned_resource;

use crate::rule::Rule;

/// Every rule, sorted by id.
pub static RULES: &[&Rule] = &[
    &absolute_path::RULE,
    &backslash_path::RULE,
    &context_budget::RULE,
    &defaults_over_menus::RULE,
    &description_quality::RULE,
    &dialect_field::RULE,
    &empty_body::RULE,
    &final_newline::RULE,
    &first_person_description::RULE,
    &gotchas_present::RULE,
    &hardcoded_secret::RULE,
    &hidden_unicode::RULE,
    &large_file::RULE,
    &name_reserved::RULE,
    &no_generic_instructions::RULE,
    &placeholder_text::RULE,
    &progressive_disclosure::RULE,
    &prompt_markup::RULE,
    &script_not_executable::RULE,
    &trailing_whitespace::RULE,
    &unclosed_fence::RULE,
    &unmentioned_resource::RULE,
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
