//! The names under which one extension's tools are offered, and the way back to its own.

use std::collections::BTreeMap;

use skillhost_contract::payload::ToolSpec;
use skillhost_manifest::ToolNames;

/// The two directions of a manifest's `tools`; without that section names stay as they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfferedNames(Option<Mapping>);

#[derive(Debug, Clone)]
struct Mapping {
    by_own: BTreeMap<String, String>,
    by_final: BTreeMap<String, String>,
    /// Entries of the manifest that no tool matches.
    unmatched: Vec<String>,
}

impl OfferedNames {
    /// Names the tools that an extension lists when it is wired.
    pub(crate) fn new(names: &ToolNames, listed: &[ToolSpec]) -> Self {
        if names.is_empty() {
            return Self(None);
        }
        let own: Vec<_> = listed.iter().map(|spec| spec.name.as_str()).collect();
        let named = own.iter().copied();
        let pairs = named.filter_map(|own| Some((own.to_owned(), names.final_name(own)?)));
        let by_own: BTreeMap<_, _> = pairs.collect();
        let by_final = by_own.iter().map(|(own, name)| (name.clone(), own.clone())).collect();
        Self(Some(Mapping { by_own, by_final, unmatched: names.unmatched(&own) }))
    }

    /// Renames what an extension lists. A tool that it did not have when it was wired is left out.
    pub(crate) fn rename(&self, listed: Vec<ToolSpec>) -> Vec<ToolSpec> {
        let Some(mapping) = &self.0 else { return listed };
        let renamed = listed.into_iter().filter_map(|spec| {
            let name = mapping.by_own.get(&spec.name)?.clone();
            Some(ToolSpec { name, ..spec })
        });
        renamed.collect()
    }

    /// Returns the extension's own name of a tool.
    pub(crate) fn own<'n>(&'n self, name: &'n str) -> &'n str {
        let own = self.0.as_ref().and_then(|mapping| mapping.by_final.get(name));
        own.map_or(name, String::as_str)
    }

    /// Returns the entries of the manifest that no tool matches.
    pub(crate) fn unmatched(&self) -> &[String] {
        self.0.as_ref().map_or(&[], |mapping| &mapping.unmatched)
    }
}
