//! The capabilities that the active skills of a run declare in their security manifests.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The capabilities that the active skills of a run declare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SkillCapabilities {
    /// By the id of each skill; `None` for one without a security manifest.
    declared: BTreeMap<String, Option<BTreeSet<String>>>,
}

impl SkillCapabilities {
    /// Adds a skill with the capabilities of its manifest.
    pub(crate) fn insert(&mut self, skill_id: String, capabilities: Option<Vec<String>>) {
        self.declared.insert(skill_id, capabilities.map(BTreeSet::from_iter));
    }

    /// Returns whether the declarations of a skill are known.
    pub(super) fn has_skill(&self, skill_id: &str) -> bool {
        self.declared.contains_key(skill_id)
    }

    /// Returns each need that a skill with a manifest does not declare, with the id of the skill.
    pub(super) fn list_undeclared<'n>(&self, needs: &'n [Cow<'n, str>]) -> Vec<(&str, &'n str)> {
        let manifests = self.declared.iter().filter_map(|(id, set)| Some((id, set.as_ref()?)));
        let of_skill = |(id, set): (_, &BTreeSet<String>)| {
            let missing = needs.iter().filter(|need| !set.contains(&***need));
            missing.map(|need| (id, &**need)).collect::<Vec<_>>()
        };
        manifests.map(|(id, set)| (id.as_str(), set)).flat_map(of_skill).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs<'n>(list: &[&'n str]) -> Vec<Cow<'n, str>> {
        list.iter().map(|need| Cow::Borrowed(*need)).collect()
    }

    #[test]
    fn every_manifest_must_declare_need() {
        let mut declared = SkillCapabilities::default();
        assert_eq!(declared.list_undeclared(&needs(&["file:write"])), []);
        declared.insert("silent".to_owned(), None);
        assert_eq!(declared.list_undeclared(&needs(&["file:write"])), []);
        declared.insert("writer".to_owned(), Some(vec!["file:write".to_owned()]));
        assert_eq!(declared.list_undeclared(&needs(&["file:write"])), []);
        declared.insert("reader".to_owned(), Some(vec!["file:read".to_owned()]));
        let both = needs(&["file:read", "file:write"]);
        let expected = [("reader", "file:write"), ("writer", "file:read")];
        assert_eq!(declared.list_undeclared(&both), expected);
    }

    #[test]
    fn hostile_names_declare_only_themselves() {
        for odd in [
            "*",
            "file:*",
            "file:",
            "FILE:WRITE",
            " file:write",
            "file:write ",
            "file:write\0",
            "file:wr\u{456}te",
            "file:write,file:read",
            "tool:*",
            "",
            "../file:write",
        ] {
            let mut declared = SkillCapabilities::default();
            declared.insert("odd".to_owned(), Some(vec![odd.to_owned()]));
            let expected = [("odd", "file:write")];
            assert_eq!(declared.list_undeclared(&needs(&["file:write"])), expected, "{odd:?}");
            let itself = declared.list_undeclared(&needs(&[odd])).len();
            assert_eq!(itself, 0, "{odd:?}");
        }
    }

    #[test]
    fn many_capabilities_are_compared_by_name() {
        let list = (0..10_000).map(|number| format!("tool:t{number}"));
        let mut declared = SkillCapabilities::default();
        declared.insert("many".to_owned(), Some(list.collect()));
        assert_eq!(declared.list_undeclared(&needs(&["tool:t9999"])), []);
        let expected = [("many", "tool:t10000")];
        assert_eq!(declared.list_undeclared(&needs(&["tool:t10000"])), expected);
    }
}
