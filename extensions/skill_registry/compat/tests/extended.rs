//! Tests of `skill.yaml` with arbitrary content.

use proptest::prelude::*;
use skill_compat::extended::{ExtendedSpec, ParsedExtendedSpec};
use skill_format::{SKILL_YAML_LIMIT, tree};
use yaml_tree::Value;

#[test]
fn skill_yaml_has_limits() {
    let warnings_of = |text: &str| {
        let reading = ParsedExtendedSpec::parse_skill_yaml(text, "x");
        assert_eq!(reading.extended, ExtendedSpec::default());
        reading.warnings().map(|found| found.to_string()).collect::<Vec<_>>()
    };
    let long = format!("tools: {{dependencies: []}}\n#{}", "x".repeat(SKILL_YAML_LIMIT));
    assert_eq!(
        warnings_of(&long),
        ["warning[composition.type]: `skill.yaml` has more than 65536 bytes"]
    );
    assert_eq!(warnings_of("- a\n"), ["warning[composition.type]: `skill.yaml` is not a map"]);
    assert_eq!(warnings_of(""), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn locations_parse_alike_without_panic(
        words in proptest::collection::vec(
            "tools|tests|security|composition|metadata|dependencies|cases|capabilities|conflicts|\
             tool|skillName|: |- |\\n|\\n  |\\n    |\\||\\{|\\}|\\[|\\]|'|\"|, |true|1.0|\\PC{0,3}",
            0..40,
        ),
    ) {
        let text = words.concat();
        let from_file = ParsedExtendedSpec::parse_skill_yaml(&text, "x").extended;
        let Value::Mapping(root) = tree::parse_frontmatter(&text, 1).root else { return Ok(()) };
        if root.get("metadata").is_none() {
            prop_assert_eq!(ParsedExtendedSpec::from_mapping(&root, "x").extended, from_file);
        }
    }
}
