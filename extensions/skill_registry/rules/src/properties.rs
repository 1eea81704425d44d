//! The properties of a skill as JSON output.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::skill_document::SkillDocument;

/// The fields of the Agent Skills specification, in its order.
const FIELDS: [&str; 6] =
    ["name", "description", "license", "compatibility", "allowed-tools", "metadata"];

/// The fields of the Agent Skills specification that a skill has, in the specification's order.
///
/// Serialization keeps the written form: scalars are texts, lists are lists, maps keep their order;
/// of a duplicate field, the first counts.
#[derive(Clone, Copy, Debug)]
pub struct SkillProperties<'s, 'a>(&'s SkillDocument<'a>);

/// Returns the properties of a skill.
#[must_use]
pub fn collect_properties<'s, 'a>(subject: &'s SkillDocument<'a>) -> SkillProperties<'s, 'a> {
    SkillProperties(subject)
}

impl Serialize for SkillProperties<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        // The order of the specification, not of the file, so that outputs compare.
        for name in FIELDS {
            if let Some(entry) = self.0.field(name) {
                map.serialize_entry(name, &entry.value)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use skill_format::SkillInput;

    use super::*;
    use crate::profile::Profile;

    fn to_json(text: &str) -> String {
        let input = SkillInput {
            dir_name: "beads",
            file_name: Some("SKILL.md"),
            bytes: text.as_bytes(),
            files: None,
        };
        let subject = SkillDocument::new(&input, Profile::Spec);
        serde_json::to_string(&collect_properties(&subject)).unwrap()
    }

    #[test]
    fn fields_follow_specification_order() {
        let text = "---\nmetadata:\n  z: 1.10\n  a: yes\nallowed-tools: [Read, Write]\nname: beads\nname: jars\ncolour: blue\ndescription: >-\n  Counts\n  beads.\n---\nBody.\n";
        assert_eq!(
            to_json(text),
            r#"{"name":"beads","description":"Counts beads.","allowed-tools":["Read","Write"],"metadata":{"z":"1.10","a":"yes"}}"#
        );
    }

    #[test]
    fn broken_skill_keeps_readable_properties() {
        assert_eq!(to_json("no frontmatter"), "{}");
        assert_eq!(
            to_json("---\nname: beads\ndescription: Use when: asked\nlicense: [MIT\n---\n"),
            r#"{"name":"beads","description":"Use when: asked","license":"[MIT"}"#
        );
    }
}
