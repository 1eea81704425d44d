//! The naming and selection of an extension's tools.

use std::collections::BTreeMap;

use globset::Glob;

/// The names under which an extension's tools are offered.
///
/// Keys of `rename` and globs refer to the extension's own names; everything outside of this type
/// uses the final names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    /// A prefix of each name that is not renamed.
    pub prefix: Option<String>,
    /// Final names, by the extension's own ones.
    pub rename: BTreeMap<String, String>,
    /// Globs over own names; `None` means that every tool is offered.
    pub include: Option<Vec<String>>,
    /// Globs over own names; a tool that matches is omitted even if it is included.
    pub exclude: Vec<String>,
}

impl ToolNames {
    /// Returns whether every tool is offered under its own name.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the name under which a tool is offered, or `None` if it is omitted.
    pub fn final_name(&self, own: &str) -> Option<String> {
        let included = self.include.as_ref().is_none_or(|globs| matches_any(globs, own));
        if !included || matches_any(&self.exclude, own) {
            return None;
        }
        // A renamed tool gets no prefix: `rename` states the complete final name.
        let renamed = self.rename.get(own).cloned();
        Some(
            renamed
                .unwrap_or_else(|| format!("{}{own}", self.prefix.as_deref().unwrap_or_default())),
        )
    }

    /// Returns the entries that match no tool of an extension, as `field: entry`.
    pub fn unmatched(&self, own: &[&str]) -> Vec<String> {
        // `rename` has names and no globs: an exact comparison suffices.
        let names = self.rename.keys().filter(|name| !own.contains(&name.as_str()));
        let missing = names.map(|name| format!("rename: {name}"));
        let globs = |field, globs: &[String]| {
            let unmatched = globs.iter().filter(|glob| {
                !own.iter().any(|tool| matches_any(std::slice::from_ref(glob), tool))
            });
            unmatched.map(|glob| format!("{field}: {glob}")).collect::<Vec<_>>()
        };
        let included = globs("include", self.include.as_deref().unwrap_or_default());
        missing.chain(included).chain(globs("exclude", &self.exclude)).collect()
    }
}

/// Returns whether a name matches one of the globs. An invalid glob matches only itself.
fn matches_any(globs: &[String], name: &str) -> bool {
    globs.iter().any(|glob| {
        glob == name || Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn final_names_follow_rules() {
        let own = ["read_file", "write_file", "delete_file", "a/b"];
        let names = |names: &ToolNames| own.map(|own| names.final_name(own).unwrap_or_default());
        assert_eq!(names(&ToolNames::default()), own);
        assert!(ToolNames::default().is_empty());
        let prefixed = ToolNames {
            prefix: Some("fs_".to_owned()),
            rename: BTreeMap::from([("a/b".to_owned(), "fs_a_b".to_owned())]),
            ..ToolNames::default()
        };
        assert_eq!(names(&prefixed), ["fs_read_file", "fs_write_file", "fs_delete_file", "fs_a_b"]);
        let chosen = ToolNames {
            include: Some(words(&["*_file", "nope"])),
            exclude: words(&["delete_*", "x*"]),
            rename: BTreeMap::from([("gone".to_owned(), "g".to_owned())]),
            ..ToolNames::default()
        };
        assert_eq!(names(&chosen), ["read_file", "write_file", "", ""]);
        assert_eq!(chosen.unmatched(&own), ["rename: gone", "include: nope", "exclude: x*"]);
        let none = ToolNames { include: Some(Vec::new()), ..ToolNames::default() };
        assert_eq!(names(&none), ["", "", "", ""]);
    }
}
