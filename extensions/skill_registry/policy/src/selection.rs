//! Rules that a policy or a command line names.

use skill_rules::{RULES, similar_rules};

/// An error for a name that no rule has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule `{name}` not found")]
pub struct UnknownRuleError {
    /// The name.
    pub name: String,
    /// The ids that are the most similar.
    pub similar: Vec<&'static str>,
}

/// The rules that a command line selects or leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSelection {
    pub(crate) select: Option<Vec<&'static str>>,
    pub(crate) ignore: Vec<&'static str>,
}

impl RuleSelection {
    /// Resolves names: an id such as `name.format`, or the beginning of ids such as `name.*`. Without
    /// names to select, all rules are selected.
    ///
    /// # Errors
    /// No rule has the name.
    pub fn new(select: &[String], ignore: &[String]) -> Result<Self, UnknownRuleError> {
        let resolve = |names: &[String]| {
            let mut ids = Vec::new();
            for name in names.iter().flat_map(|names| names.split(',')).map(str::trim) {
                ids.extend(resolve_rules(name)?);
            }
            Ok(ids)
        };
        let selected = resolve(select)?;
        let select = (!select.is_empty()).then_some(selected);
        Ok(Self { select, ignore: resolve(ignore)? })
    }

    /// Returns `true` if all rules are selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.select.is_none() && self.ignore.is_empty()
    }
}

/// Returns the ids of a name: one, or all with its beginning.
///
/// # Errors
/// No rule has the name.
pub(crate) fn resolve_rules(name: &str) -> Result<Vec<&'static str>, UnknownRuleError> {
    let ids = RULES.iter().map(|rule| rule.id);
    let found: Vec<_> = match name.strip_suffix('*') {
        Some(start) => ids.filter(|id| id.starts_with(start)).collect(),
        None => ids.filter(|id| *id == name).collect(),
    };
    if found.is_empty() {
        let similar = similar_rules(name.trim_end_matches(['*', '.']));
        return Err(UnknownRuleError { name: name.to_owned(), similar });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_and_beginnings_are_resolved() {
        let selection = RuleSelection::new(&names(&["name.format, name.r*"]), &[]).unwrap();
        assert_eq!(selection.select.unwrap(), ["name.format", "name.required", "name.reserved"]);
        assert!(RuleSelection::new(&[], &[]).unwrap().is_everything());
    }

    #[test]
    fn unknown_name_has_suggestions() {
        let error = RuleSelection::new(&[], &names(&["name.formt"])).unwrap_err();
        assert_eq!(error.to_string(), "rule `name.formt` not found");
        assert_eq!(error.similar.first(), Some(&"name.format"));
        assert!(RuleSelection::new(&names(&[""]), &[]).is_err());
    }
}
