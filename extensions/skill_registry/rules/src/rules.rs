//! The list of rules. A rule with code has its own file; the others are rows of `loading` and
//! `declared`, with their documentation in `docs/<rule_id>.md`.

mod absolute_path;
mod allowed_tools_type;
mod backslash_path;
mod body_max_lines;
mod body_max_tokens;
mod broad_description;
pub(crate) mod catalog_duplicate;
pub(crate) mod catalog_overlap;
mod compatibility_type;
mod context_budget;
mod declared;
mod defaults_over_menus;
mod description_quality;
mod description_required;
mod description_type;
mod description_xml_tag;
mod dialect_field;
mod empty_body;
mod final_newline;
mod first_person_description;
mod frontmatter_unknown_field;
mod frontmatter_yaml;
mod gotchas_present;
mod hardcoded_secret;
mod hidden_unicode;
mod large_file;
mod license_type;
mod loading;
mod metadata_type;
mod name_format;
mod name_required;
mod name_reserved;
mod name_type;
mod no_generic_instructions;
mod placeholder_text;
mod positional_placeholder;
mod progressive_disclosure;
mod prompt_markup;
mod reference_absolute;
mod reference_depth;
mod reference_missing;
mod reference_traversal;
pub(crate) mod requires_unresolved;
mod script_not_executable;
mod structure_extraneous_file;
mod structure_file_name;
mod structure_missing_skill_md;
mod structure_symlink;
pub(crate) mod suppression_unknown;
pub(crate) mod suppression_unused;
mod trailing_whitespace;
mod unclosed_fence;
mod unmentioned_resource;
mod unpinned_runner;

use crate::rule::Rule;

/// All rules, sorted by id.
pub static RULES: &[&Rule] = &ALL_RULES;

static ALL_RULES: [&Rule; RULE_COUNT] = sort_rules();

const RULE_COUNT: usize = RULES_WITH_CODE.len() + loading::RULES.len() + declared::RULES.len();

/// The rules that have a file of their own, sorted by id.
static RULES_WITH_CODE: &[&Rule] = &[
    &absolute_path::RULE,
    &allowed_tools_type::RULE,
    &backslash_path::RULE,
    &body_max_lines::RULE,
    &body_max_tokens::RULE,
    &broad_description::RULE,
    &catalog_duplicate::RULE,
    &catalog_overlap::RULE,
    &compatibility_type::RULE,
    &context_budget::RULE,
    &defaults_over_menus::RULE,
    &description_quality::RULE,
    &description_required::RULE,
    &description_type::RULE,
    &description_xml_tag::RULE,
    &dialect_field::RULE,
    &empty_body::RULE,
    &final_newline::RULE,
    &first_person_description::RULE,
    &frontmatter_unknown_field::RULE,
    &frontmatter_yaml::RULE,
    &gotchas_present::RULE,
    &hardcoded_secret::RULE,
    &hidden_unicode::RULE,
    &large_file::RULE,
    &license_type::RULE,
    &metadata_type::RULE,
    &name_format::RULE,
    &name_required::RULE,
    &name_reserved::RULE,
    &name_type::RULE,
    &no_generic_instructions::RULE,
    &placeholder_text::RULE,
    &positional_placeholder::RULE,
    &progressive_disclosure::RULE,
    &prompt_markup::RULE,
    &reference_absolute::RULE,
    &reference_depth::RULE,
    &reference_missing::RULE,
    &reference_traversal::RULE,
    &requires_unresolved::RULE,
    &script_not_executable::RULE,
    &structure_extraneous_file::RULE,
    &structure_file_name::RULE,
    &structure_missing_skill_md::RULE,
    &structure_symlink::RULE,
    &suppression_unknown::RULE,
    &suppression_unused::RULE,
    &trailing_whitespace::RULE,
    &unclosed_fence::RULE,
    &unmentioned_resource::RULE,
    &unpinned_runner::RULE,
];

/// Returns the rules with code and the rows of the tables, sorted by id.
const fn sort_rules() -> [&'static Rule; RULE_COUNT] {
    let mut rules = [RULES_WITH_CODE[0]; RULE_COUNT];
    let mut count = 0;
    while count < RULE_COUNT {
        let first_row = RULES_WITH_CODE.len();
        let rule = if count < first_row {
            RULES_WITH_CODE[count]
        } else if count - first_row < loading::RULES.len() {
            &loading::RULES[count - first_row]
        } else {
            &declared::RULES[count - first_row - loading::RULES.len()]
        };
        // An insertion sort: the sorts of the standard library are not available in constants.
        let mut at = count;
        while at > 0 && is_before(rule.id, rules[at - 1].id) {
            rules[at] = rules[at - 1];
            at -= 1;
        }
        rules[at] = rule;
        count += 1;
    }
    rules
}

/// Returns `true` if a text sorts before another one.
const fn is_before(text: &str, other: &str) -> bool {
    let (text, other) = (text.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < text.len() && at < other.len() {
        if text[at] != other[at] {
            return text[at] < other[at];
        }
        at += 1;
    }
    text.len() < other.len()
}

/// Finds a rule by its id.
#[must_use]
pub fn find_rule(id: &str) -> Option<&'static Rule> {
    RULES.binary_search_by(|rule| rule.id.cmp(id)).ok().map(|index| RULES[index])
}

/// Returns the ids of up to three rules similar to the input, the most similar first.
#[must_use]
pub fn similar_rules(input: &str) -> Vec<&'static str> {
    /// The minimum similarity: below it, two ids share little more than their group.
    const MIN_SIMILARITY: f64 = 0.75;
    let input = input.to_lowercase();
    let similarity = |id: &str| {
        let id = id.to_lowercase();
        // Users tend to remember the second half: `format` for `name.format`.
        let half = id.split_once('.').map_or(&*id, |(_, half)| half);
        strsim::jaro_winkler(&input, &id).max(strsim::jaro_winkler(&input, half))
    };
    let mut ids: Vec<_> = RULES.iter().map(|rule| (similarity(rule.id), rule.id)).collect();
    ids.retain(|(score, _)| *score >= MIN_SIMILARITY);
    ids.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    ids.into_iter().take(3).map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_by_unique_id() {
        let tables = [&loading::RULES[..], &declared::RULES[..]];
        assert!(RULES_WITH_CODE.is_sorted_by(|a, b| a.id < b.id));
        assert!(tables.iter().all(|table| table.is_sorted_by(|a, b| a.id < b.id)));
        assert!(RULES.is_sorted_by(|a, b| a.id < b.id));
        for rule in RULES {
            assert_eq!(super::find_rule(rule.id).map(|found| found.id), Some(rule.id));
        }
    }

    #[test]
    fn lint_rules_find_no_errors() {
        use crate::{Profile, RuleGroup, RuleLevel};
        let lint = RULES.iter().filter(|rule| rule.group == RuleGroup::Lint);
        let is_error = |rule: &&&Rule| {
            Profile::ALL.iter().any(|profile| rule.levels.level_for(*profile) == RuleLevel::Error)
        };
        let errors: Vec<_> = lint.filter(is_error).map(|rule| rule.id).collect();
        assert_eq!(errors, [""; 0]);
    }

    #[test]
    fn similar_ids_are_suggested() {
        assert_eq!(similar_rules("name.formt").first(), Some(&"name.format"));
        assert_eq!(similar_rules("matchesdirectory").first(), Some(&"name.matchesDirectory"));
        assert_eq!(similar_rules("qqqq"), [""; 0]);
    }
}
