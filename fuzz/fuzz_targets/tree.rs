//! Fuzzes a frontmatter: the number of parser events is bounded, and printed text parses the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_format::FRONTMATTER_LIMIT;
use skill_format::tree::{parse_counted, parse_frontmatter};
use yaml_tree::{Value, print_tree};

fuzz_target!(|text: &str| {
    if text.len() > FRONTMATTER_LIMIT {
        return;
    }
    let (tree, events) = parse_counted(text, 2);
    assert!(events <= 16_000);
    if let Value::Mapping(root) = tree.root {
        let printed = print_tree(&root);
        let again = parse_frontmatter(&printed, 2);
        // If the tree is near a limit, the printed text can exceed it.
        if again.gap.is_none() {
            assert!(again.root.same_content(&Value::Mapping(root)), "{printed}");
        }
    }
});
