//! The list of rules; each rule has its own file.

mod absolute_path;
mod allowed_tools_format;
mod allowed_tools_type;
mod backslash_path;
mod body_max_lines;
mod body_max_tokens;
pub(crate) mod catalog_duplicate;
pub(crate) mod catalog_overlap;
mod compatibility_max_length;
mod compatibility_type;
mod composition_contradiction;
mod composition_required;
mod composition_type;
mod composition_unknown_field;
mod composition_value;
mod context_budget;
mod defaults_over_menus;
mod description_comment;
mod description_max_length;
mod description_quality;
mod description_required;
mod description_type;
mod description_xml_tag;
mod dialect_field;
mod disable_model_invocation_type;
mod empty_body;
mod file_bom;
mod file_encoding;
mod file_max_size;
mod file_more_findings;
mod file_not_regular;
mod file_symlink;
mod file_unreadable;
mod final_newline;
mod first_person_description;
mod frontmatter_alias;
mod frontmatter_anchor;
mod frontmatter_complex_key;
mod frontmatter_duplicate_key;
mod frontmatter_fence_whitespace;
mod frontmatter_leading_blank;
mod frontmatter_max_size;
mod frontmatter_missing;
mod frontmatter_multiple_documents;
mod frontmatter_recovered;
mod frontmatter_tag;
mod frontmatter_type;
mod frontmatter_unclosed;
mod frontmatter_unknown_field;
mod frontmatter_yaml;
mod gotchas_present;
mod hardcoded_secret;
mod hidden_unicode;
mod id_invalid;
mod large_file;
mod license_type;
mod metadata_type;
mod metadata_value_type;
mod name_format;
mod name_matches_directory;
mod name_max_length;
mod name_portability;
mod name_required;
mod name_reserved;
mod name_type;
mod no_generic_instructions;
mod path_not_found;
mod placeholder_text;
mod progressive_disclosure;
mod prompt_markup;
mod reference_absolute;
mod reference_depth;
mod reference_missing;
mod reference_traversal;
mod requires_type;
pub(crate) mod requires_unresolved;
mod scan_limit;
mod script_not_executable;
mod security_required;
mod security_type;
mod security_unknown_field;
mod security_value;
mod structure_extraneous_file;
mod structure_file_name;
mod structure_missing_skill_md;
mod structure_symlink;
pub(crate) mod suppression_unknown;
pub(crate) mod suppression_unused;
mod tags_type;
mod tests_required;
mod tests_type;
mod tests_unknown_field;
mod tests_value;
mod tools_required;
mod tools_type;
mod tools_unknown_field;
mod tools_value;
mod trailing_whitespace;
mod unclosed_fence;
mod unmentioned_resource;
mod user_invocable_type;
mod version_type;
mod when_to_use_type;

use crate::rule::Rule;

/// All rules, sorted by id.
pub static RULES: &[&Rule] = &[
    &absolute_path::RULE,
    &allowed_tools_format::RULE,
    &allowed_tools_type::RULE,
    &backslash_path::RULE,
    &body_max_lines::RULE,
    &body_max_tokens::RULE,
    &catalog_duplicate::RULE,
    &catalog_overlap::RULE,
    &compatibility_max_length::RULE,
    &compatibility_type::RULE,
    &composition_contradiction::RULE,
    &composition_required::RULE,
    &composition_type::RULE,
    &composition_unknown_field::RULE,
    &composition_value::RULE,
    &context_budget::RULE,
    &defaults_over_menus::RULE,
    &description_quality::RULE,
    &description_comment::RULE,
    &description_max_length::RULE,
    &description_required::RULE,
    &description_type::RULE,
    &description_xml_tag::RULE,
    &dialect_field::RULE,
    &disable_model_invocation_type::RULE,
    &empty_body::RULE,
    &file_bom::RULE,
    &file_encoding::RULE,
    &file_max_size::RULE,
    &file_more_findings::RULE,
    &file_not_regular::RULE,
    &file_symlink::RULE,
    &file_unreadable::RULE,
    &final_newline::RULE,
    &first_person_description::RULE,
    &frontmatter_alias::RULE,
    &frontmatter_anchor::RULE,
    &frontmatter_complex_key::RULE,
    &frontmatter_duplicate_key::RULE,
    &frontmatter_fence_whitespace::RULE,
    &frontmatter_leading_blank::RULE,
    &frontmatter_max_size::RULE,
    &frontmatter_missing::RULE,
    &frontmatter_multiple_documents::RULE,
    &frontmatter_recovered::RULE,
    &frontmatter_tag::RULE,
    &frontmatter_type::RULE,
    &frontmatter_unclosed::RULE,
    &frontmatter_unknown_field::RULE,
    &frontmatter_yaml::RULE,
    &gotchas_present::RULE,
    &hardcoded_secret::RULE,
    &hidden_unicode::RULE,
    &id_invalid::RULE,
    &large_file::RULE,
    &license_type::RULE,
    &metadata_type::RULE,
    &metadata_value_type::RULE,
    &name_format::RULE,
    &name_matches_directory::RULE,
    &name_max_length::RULE,
    &name_portability::RULE,
    &name_required::RULE,
    &name_reserved::RULE,
    &name_type::RULE,
    &no_generic_instructions::RULE,
    &path_not_found::RULE,
    &placeholder_text::RULE,
    &progressive_disclosure::RULE,
    &prompt_markup::RULE,
    &reference_absolute::RULE,
    &reference_depth::RULE,
    &reference_missing::RULE,
    &reference_traversal::RULE,
    &requires_unresolved::RULE,
    &requires_type::RULE,
    &scan_limit::RULE,
    &script_not_executable::RULE,
    &security_required::RULE,
    &security_type::RULE,
    &security_unknown_field::RULE,
    &security_value::RULE,
    &structure_extraneous_file::RULE,
    &structure_file_name::RULE,
    &structure_missing_skill_md::RULE,
    &structure_symlink::RULE,
    &suppression_unknown::RULE,
    &suppression_unused::RULE,
    &tags_type::RULE,
    &tests_required::RULE,
    &tests_type::RULE,
    &tests_unknown_field::RULE,
    &tests_value::RULE,
    &tools_required::RULE,
    &tools_type::RULE,
    &tools_unknown_field::RULE,
    &tools_value::RULE,
    &trailing_whitespace::RULE,
    &unclosed_fence::RULE,
    &unmentioned_resource::RULE,
    &user_invocable_type::RULE,
    &version_type::RULE,
    &when_to_use_type::RULE,
];

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
