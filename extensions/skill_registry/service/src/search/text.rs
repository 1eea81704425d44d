//! The searchable text of a skill.

use std::sync::Arc;

use skill_catalog::{Skill, Store};
use skill_format::Digest;
use skill_search::Document;

/// A skill with the searchable fields of its text.
pub(super) struct SearchableText {
    pub(super) skill: Arc<Skill>,
    /// The digest of the text; `None` if the text is not available.
    pub(super) digest: Option<Digest>,
    /// The name, and the id if it differs: a query may use either.
    name: String,
    pub(super) headings: Vec<String>,
    pub(super) body: String,
}

impl SearchableText {
    /// Reads a skill's text from the snapshot's cache, else from the disk, else its last good
    /// version; the body is cut after `body_chars`. If no text is available, the frontmatter of the
    /// listing is used.
    pub(super) fn read(store: &Store, skill: &Arc<Skill>, body_chars: usize) -> Self {
        let mut text = Self {
            skill: Arc::clone(skill),
            digest: None,
            name: display_name(skill),
            headings: Vec::new(),
            body: String::new(),
        };
        if let Some(source) = store.read_cached(skill) {
            let body = source.body();
            text.digest = Some(source.digest);
            text.headings =
                skill_search::extract_headings(body).into_iter().map(str::to_owned).collect();
            text.body = body.chars().take(body_chars).collect();
        }
        text
    }

    pub(super) fn document(&self) -> Document<'_> {
        Document {
            id: self.skill.id().as_str(),
            name: &self.name,
            description: self.skill.description(),
            when_to_use: self.skill.when_to_use().unwrap_or_default(),
            tags: self.skill.tags().iter().map(|tag| &**tag).collect(),
            headings: self.headings.iter().map(String::as_str).collect(),
            body: &self.body,
        }
    }

    /// Returns the searchable text of each field.
    pub(super) fn fields(&self) -> [(&'static str, String); 5] {
        let when_to_use = self.skill.when_to_use().unwrap_or_default();
        [
            ("name", self.name.clone()),
            ("description", format!("{}\n{when_to_use}", self.skill.description())),
            ("tags", self.skill.tags().join("\n")),
            ("headings", self.headings.join("\n")),
            ("body", self.body.clone()),
        ]
    }
}

/// Returns the names of a skill.
pub(super) fn display_name(skill: &Skill) -> String {
    let (name, id) = (skill.name(), skill.id().as_str());
    if name == id { id.to_owned() } else { format!("{name} {id}") }
}
