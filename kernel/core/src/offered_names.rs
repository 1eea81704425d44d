//! The names under which an extension's tools are offered, and the mapping back to its own names.

use std::collections::BTreeMap;

use skillhost_manifest::ToolNames;
use skillhost_payload::ToolSpec;

/// The two directions of a manifest's `tools`; without that section names are unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfferedNames(Option<NameMapping>);

#[derive(Debug, Clone)]
struct NameMapping {
    by_own: BTreeMap<String, String>,
    by_final: BTreeMap<String, String>,
    /// The entries of the manifest that match no tool.
    unmatched: Vec<String>,
}

impl OfferedNames {
    /// Maps the tools that an extension lists during wiring.
    pub(crate) fn new(names: &ToolNames, listed: &[ToolSpec]) -> Self {
        if names.is_empty() {
            return Self(None);
        }
        let own: Vec<_> = listed.iter().map(|spec| spec.name.as_str()).collect();
        let named = own.iter().copied();
        let pairs = named.filter_map(|own| Some((own.to_owned(), names.final_name(own)?)));
        let by_own: BTreeMap<_, _> = pairs.collect();
        let by_final = by_own.iter().map(|(own, name)| (name.clone(), own.clone())).collect();
        Self(Some(NameMapping { by_own, by_final, unmatched: names.unmatched(&own) }))
    }

    /// Renames listed tools. A tool that was not listed during wiring is dropped.
    pub(crate) fn rename(&self, listed: Vec<ToolSpec>) -> Vec<ToolSpec> {
        let Some(mapping) = &self.0 else { return listed };
        let renamed = listed.into_iter().filter_map(|spec| {
            let name = mapping.by_own.get(&spec.name)?.clone();
            // Its final name was never checked against the other tools.
            Some(ToolSpec { name, ..spec })
        });
        renamed.collect()
    }

    /// Returns the extension's own name of a tool.
    pub(crate) fn own<'n>(&'n self, name: &'n str) -> &'n str {
        let own = self.0.as_ref().and_then(|mapping| mapping.by_final.get(name));
        own.map_or(name, String::as_str)
    }

    /// Returns the entries of the manifest that match no tool.
    pub(crate) fn unmatched(&self) -> &[String] {
        self.0.as_ref().map_or(&[], |mapping| &mapping.unmatched)
    }
}
