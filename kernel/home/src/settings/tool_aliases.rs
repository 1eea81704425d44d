//! Further names of tools, by which skills require them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The length limit of a name, in bytes.
const MAX_NAME: usize = 64;

/// By the name that skills use: the tool that is meant, such as `Read: read_file`. A tool of that name
/// goes before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "BTreeMap<String, String>")]
#[schemars(!try_from)]
pub struct ToolAliases(BTreeMap<String, String>);

impl ToolAliases {
    /// Returns each name with the tool that it means, directly or through other names. The name of a
    /// tool means that tool, and a name that leads to no tool is left out.
    pub fn resolve_names(
        &self,
        is_tool: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&str, &str)> {
        let names = self.0.iter();
        names.filter_map(move |(name, target)| {
            let mut target = target;
            if is_tool(name) {
                return None;
            }
            // The names have no cycle, which was checked when they were read.
            while !is_tool(target) {
                target = self.0.get(target)?;
            }
            Some((name.as_str(), target.as_str()))
        })
    }

    /// Returns whether there is no alias.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for ToolAliases {
    type Error = String;

    fn try_from(aliases: BTreeMap<String, String>) -> Result<Self, String> {
        let is_name = |name: &str| {
            let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"()".contains(c);
            (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain)
        };
        for (name, target) in &aliases {
            if let Some(odd) = [name, target].into_iter().find(|text| !is_name(text)) {
                return Err(format!(
                    "`tool_aliases`: {odd:?} is not a name of 1 to {MAX_NAME} bytes without blanks \
                     and parentheses"
                ));
            }
            let (mut seen, mut at) = (BTreeSet::from([name]), target);
            loop {
                if !seen.insert(at) {
                    return Err(format!("`tool_aliases`: `{name}` leads back to `{at}`"));
                }
                let Some(next) = aliases.get(at) else { break };
                at = next;
            }
        }
        Ok(Self(aliases))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Settings, SettingsError};

    fn parse(aliases: &str) -> Result<Settings, SettingsError> {
        Settings::parse(Path::new("skillhost.yaml"), &format!("\ntool_aliases: {aliases}\n"))
    }

    #[test]
    fn aliases_lead_to_a_tool() {
        let settings = parse("{Read: read, read: read_file, Bash: run_command}").unwrap();
        let resolve = |tools: &[&str]| -> Vec<_> {
            let names = settings.tool_aliases.resolve_names(|name| tools.contains(&name));
            names.map(|(name, tool)| format!("{name}={tool}")).collect()
        };
        assert_eq!(
            resolve(&["run_command", "read_file"]),
            ["Bash=run_command", "Read=read_file", "read=read_file"]
        );
        assert_eq!(resolve(&["Bash", "run_command", "read"]), ["Read=read"]);
        assert_eq!(resolve(&[]), Vec::<String>::new());
    }

    #[test]
    fn cycles_and_odd_names_are_rejected() {
        for (aliases, part) in [
            ("{Read: Read}", "`Read` leads back to `Read`"),
            ("{A: B, B: A}", "`A` leads back to `A`"),
            ("{A: B, B: C, C: B}", "leads back to `B`"),
            ("{'Bash(git:*)': run_command}", "is not a name"),
            ("{Read: ''}", "is not a name"),
            ("{'a b': c}", "is not a name"),
            ("{\"a\\u0007\": c}", "is not a name"),
        ] {
            let error = parse(aliases).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert!(matches!(error, SettingsError::Invalid { line: 2, .. }), "{error}");
        }
        let long = format!("{{{}: x}}", "a".repeat(65));
        assert!(parse(&long).is_err());
    }
}
