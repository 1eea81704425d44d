//! One file per rule; this one lists them.

mod allowed_tools_format;
mod allowed_tools_type;
mod body_max_lines;
mod body_max_tokens;
mod compatibility_max_length;
mod compatibility_type;
mod description_comment;
mod description_max_length;
mod description_required;
mod description_type;
mod description_xml_tag;
mod disable_model_invocation_type;
mod file_bom;
mod file_encoding;
mod file_max_size;
mod file_more_findings;
mod file_not_regular;
mod file_symlink;
mod file_unreadable;
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
mod id_invalid;
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
mod path_not_found;
mod reference_absolute;
mod reference_depth;
mod reference_missing;
mod reference_traversal;
mod requires_type;
mod scan_limit;
mod structure_extraneous_file;
mod structure_file_name;
mod structure_missing_skill_md;
mod structure_symlink;
mod tags_type;
mod user_invocable_type;
mod version_type;
mod when_to_use_type;

use crate::rule::Rule;

/// Every rule, sorted by id.
pub static RULES: &[&Rule] = &[
    &allowed_tools_format::RULE,
    &allowed_tools_type::RULE,
    &body_max_lines::RULE,
    &body_max_tokens::RULE,
    &compatibility_max_length::RULE,
    &compatibility_type::RULE,
    &description_comment::RULE,
    &description_max_length::RULE,
    &description_required::RULE,
    &description_type::RULE,
    &description_xml_tag::RULE,
    &disable_model_invocation_type::RULE,
    &file_bom::RULE,
    &file_encoding::RULE,
    &file_max_size::RULE,
    &file_more_findings::RULE,
    &file_not_regular::RULE,
    &file_symlink::RULE,
    &file_unreadable::RULE,
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
    &id_invalid::RULE,
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
    &path_not_found::RULE,
    &reference_absolute::RULE,
    &reference_depth::RULE,
    &reference_missing::RULE,
    &reference_traversal::RULE,
    &requires_type::RULE,
    &scan_limit::RULE,
    &structure_extraneous_file::RULE,
    &structure_file_name::RULE,
    &structure_missing_skill_md::RULE,
    &structure_symlink::RULE,
    &tags_type::RULE,
    &user_invocable_type::RULE,
    &version_type::RULE,
    &when_to_use_type::RULE,
];

/// Finds a rule by its id.
#[must_use]
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.binary_search_by(|rule| rule.id.cmp(id)).ok().map(|index| RULES[index])
}

/// Returns the ids of up to three rules that look like what was typed, the most similar first.
#[must_use]
pub fn similar_rules(typed: &str) -> Vec<&'static str> {
    /// Below this, two ids have little more in common than their group.
    const ALIKE: f64 = 0.75;
    let typed = typed.to_lowercase();
    let alike = |id: &str| {
        let id = id.to_lowercase();
        // People remember the second half: `format` for `name.format`.
        let half = id.split_once('.').map_or(&*id, |(_, half)| half);
        strsim::jaro_winkler(&typed, &id).max(strsim::jaro_winkler(&typed, half))
    };
    let mut ids: Vec<_> = RULES.iter().map(|rule| (alike(rule.id), rule.id)).collect();
    ids.retain(|(score, _)| *score >= ALIKE);
    ids.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    ids.into_iter().take(3).map(|(_, id)| id).collect()
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
    #[test]
    fn ids_are_guessed_from_what_was_typed() {
        assert_eq!(similar_rules("name.formt").first(), Some(&"name.format"));
        assert_eq!(similar_rules("matchesdirectory").first(), Some(&"name.matchesDirectory"));
        assert_eq!(similar_rules("qqqq"), [""; 0]);
    }
}
