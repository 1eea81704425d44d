//! One skill as the registry holds it: the data of a listing and the path of the rest.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use cap_std::fs::Dir;
use skill_format::{Digest, Frontmatter, SkillId, TokenCount};
use skillhost_files::jail::{JailError, open_below};

use crate::options::{SkillRoot, TrustLevel};

/// The two names a skill's file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillFile {
    /// `SKILL.md`.
    Upper,
    /// `skill.md`.
    Lower,
}

impl SkillFile {
    /// In the order in which they are tried.
    pub const BOTH: [Self; 2] = [Self::Upper, Self::Lower];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upper => "SKILL.md",
            Self::Lower => "skill.md",
        }
    }
}

/// The target of a skill directory whose entry in the root is a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkTarget {
    /// The root the target lies in.
    pub(crate) root: Arc<SkillRoot>,
    /// The index of that root.
    pub(crate) index: u16,
    /// The path below that root.
    pub(crate) rel: Box<str>,
}

impl PartialEq for LinkTarget {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.rel == other.rel
    }
}

/// The facts of a text that was read completely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextFacts {
    pub(crate) digest: Digest,
    pub(crate) tokens: TokenCount,
}

/// The frontmatter of a skill and its path.
///
/// Immutable except for the digest, which is set when the complete text is first read. Kept small:
/// a registry holds thousands.
#[derive(Debug)]
pub struct Skill {
    pub(crate) id: SkillId,
    /// The frontmatter's name where it is not the id.
    name: Option<Box<str>>,
    description: Box<str>,
    when_to_use: Option<Box<str>>,
    tags: Box<[Box<str>]>,
    requires: Box<[Box<str>]>,
    pub(crate) root: Arc<SkillRoot>,
    /// The path of the directory above, relative to the root.
    pub(crate) parent: Arc<str>,
    pub(crate) link: Option<Box<LinkTarget>>,
    known: OnceLock<TextFacts>,
    estimate: TokenCount,
    size: u32,
    pub(crate) file: SkillFile,
    disable_model_invocation: bool,
    user_invocable: bool,
    /// The fields that may be declarations; most skills have none.
    declared: Option<Box<Frontmatter>>,
}

/// The location of a skill.
#[derive(Clone, Debug)]
pub(crate) struct SkillLocation {
    pub(crate) root: Arc<SkillRoot>,
    pub(crate) parent: Arc<str>,
    pub(crate) link: Option<Box<LinkTarget>>,
    pub(crate) file: SkillFile,
}

impl Skill {
    pub(crate) fn new(
        id: SkillId,
        place: SkillLocation,
        frontmatter: Frontmatter,
        size: u64,
        estimate: TokenCount,
        known: Option<TextFacts>,
    ) -> Self {
        let declared = select_declarations(&frontmatter).map(Box::new);
        let boxed = |texts: Vec<String>| texts.into_iter().map(String::into_boxed_str).collect();
        Self {
            name: frontmatter.name.filter(|name| name != id.as_str()).map(String::into_boxed_str),
            id,
            description: frontmatter.description.into_boxed_str(),
            when_to_use: frontmatter.when_to_use.map(String::into_boxed_str),
            tags: boxed(frontmatter.tags),
            requires: boxed(frontmatter.requires),
            root: place.root,
            parent: place.parent,
            link: place.link,
            known: known.map_or_else(OnceLock::new, OnceLock::from),
            estimate,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            file: place.file,
            disable_model_invocation: frontmatter.disable_model_invocation,
            user_invocable: frontmatter.user_invocable,
            declared,
        }
    }

    /// Returns the id: the name of the skill's directory.
    #[must_use]
    pub fn id(&self) -> &SkillId {
        &self.id
    }

    /// Returns the frontmatter's `name`; the id where it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Returns the description as written.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the `when_to_use` text, which complements the description.
    #[must_use]
    pub fn when_to_use(&self) -> Option<&str> {
        self.when_to_use.as_deref()
    }

    /// Returns the tags.
    #[must_use]
    pub fn tags(&self) -> &[Box<str>] {
        &self.tags
    }

    /// Returns whether the skill has all of these tags, in any case.
    #[must_use]
    pub fn has_tags(&self, wanted: &[String]) -> bool {
        wanted.iter().all(|wanted| {
            let wanted = wanted.trim().to_lowercase();
            self.tags.iter().any(|tag| tag.to_lowercase() == wanted)
        })
    }

    /// Returns the ids of the skills to load first.
    #[must_use]
    pub fn requires(&self) -> &[Box<str>] {
        &self.requires
    }

    /// Returns the label of the root the skill was found in.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.root.label
    }

    /// Returns the trust of the skill: at most that of its root and that of the root its directory
    /// links to.
    #[must_use]
    pub fn trust(&self) -> TrustLevel {
        let linked = self.link.as_ref().map_or(TrustLevel::Operator, |link| link.root.trust);
        if self.root.trust == TrustLevel::Operator { linked } else { TrustLevel::Untrusted }
    }

    /// Returns the path of the skill's directory, below its root.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.root.path.join(&*self.parent).join(self.id.as_str())
    }

    /// Returns the path of the skill's SKILL.md.
    #[must_use]
    pub fn location(&self) -> PathBuf {
        self.dir().join(self.file.name())
    }

    /// Returns the name that the skill's file has.
    #[must_use]
    pub fn file(&self) -> SkillFile {
        self.file
    }

    /// Returns the size of SKILL.md in bytes.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the cost of the body in tokens: estimated from its size until the text is read.
    #[must_use]
    pub fn tokens(&self) -> TokenCount {
        self.known.get().map_or(self.estimate, |known| known.tokens)
    }

    /// Returns the digest of SKILL.md, or `None` before the complete text is read.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.known.get().map(|known| known.digest)
    }

    /// Returns whether models are offered the skill; operators always are.
    #[must_use]
    pub fn is_model_invocable(&self) -> bool {
        !self.disable_model_invocation
    }

    /// Returns whether users get a slash command or a prompt for it.
    #[must_use]
    pub fn is_user_invocable(&self) -> bool {
        self.user_invocable
    }

    /// Returns a frontmatter with only the fields that may be declarations beyond the standard, such as
    /// `composition`; `None` without any.
    #[must_use]
    pub fn declared(&self) -> Option<&Frontmatter> {
        self.declared.as_deref()
    }

    /// Returns the facts of the complete text.
    pub(crate) fn text_facts(&self) -> Option<TextFacts> {
        self.known.get().copied()
    }

    /// Records the facts of the complete text; the first reading counts.
    pub(crate) fn set_text_facts(&self, known: TextFacts) {
        // A second value can only come from the same text.
        let _ = self.known.set(known);
    }

    /// Returns whether both have the same frontmatter and the same path.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.id == other.id
            && self.name == other.name
            && self.description == other.description
            && self.when_to_use == other.when_to_use
            && self.tags == other.tags
            && self.requires == other.requires
            && self.root == other.root
            && self.parent == other.parent
            && self.link == other.link
            && self.file == other.file
            && self.size == other.size
            && self.disable_model_invocation == other.disable_model_invocation
            && self.user_invocable == other.user_invocable
            && self.declared == other.declared
    }

    /// Returns the root's path and the path below it through which the directory is reached without
    /// following a link.
    pub fn resolved_location(&self) -> (&SkillRoot, String) {
        match &self.link {
            Some(link) => (&link.root, link.rel.to_string()),
            None => (&self.root, join_relative(&self.parent, self.id.as_str())),
        }
    }

    /// Opens the skill's directory. Links in the root's own path are the operator's; below it none
    /// is followed.
    ///
    /// # Errors
    /// [`JailError::NotFound`] if a directory of the path is missing, [`JailError::Link`] if one
    /// below the root is a link; others if the system refuses to open it.
    pub fn open_directory(&self) -> Result<Dir, JailError> {
        let (root, rel) = self.resolved_location();
        open_below(&root.path, &rel, false)
    }

    /// Returns the skill's key in the cache of texts.
    pub fn cache_key(&self) -> String {
        format!("{}\0{}\0{}", self.root.label, self.parent, self.id)
    }
}

/// Returns a frontmatter of the fields that declare tools, permissions or relations.
fn select_declarations(frontmatter: &Frontmatter) -> Option<Frontmatter> {
    let unknown = frontmatter.unknown.iter().filter(|(key, _)| is_declaring_key(key));
    let unknown: Vec<_> = unknown.cloned().collect();
    let metadata = frontmatter.metadata.iter().filter(|(key, _)| is_declaring_key(key));
    let metadata: Vec<_> = metadata.cloned().collect();
    let is_empty = unknown.is_empty() && metadata.is_empty();
    (!is_empty).then(|| Frontmatter { unknown, metadata, ..Frontmatter::default() })
}

/// Returns whether a key may declare something, in any spelling; its reader decides.
fn is_declaring_key(key: &str) -> bool {
    const KEYS: [&str; 6] =
        ["security", "securitymanifest", "tools", "toolbinding", "composition", "skillcomposition"];
    // Keys are compared for each skill of a scan, and most are longer or shorter.
    key.len() <= 20 && KEYS.contains(&key.replace(['-', '_'], "").to_ascii_lowercase().as_str())
}

/// Joins two relative paths.
pub(crate) fn join_relative(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a skill without a directory.
    pub(crate) fn skill(id: &str, digest: Option<Digest>) -> Arc<Skill> {
        let root = SkillRoot { label: "r".into(), path: "/r".into(), trust: TrustLevel::Operator };
        let place = SkillLocation {
            root: Arc::new(root),
            parent: "".into(),
            link: None,
            file: SkillFile::Upper,
        };
        let frontmatter = Frontmatter {
            name: Some(id.to_owned()),
            description: format!("About {id}."),
            ..Frontmatter::default()
        };
        let known = digest.map(|digest| TextFacts { digest, tokens: TokenCount::from_chars(40) });
        let id = SkillId::new(id).unwrap();
        Arc::new(Skill::new(id, place, frontmatter, 80, TokenCount::from_chars(80), known))
    }

    #[test]
    fn counted_tokens_replace_estimate() {
        let skill = skill("a", None);
        assert_eq!((skill.tokens().get(), skill.digest()), (20, None));
        let digest = Digest::compute(b"x");
        skill.set_text_facts(TextFacts { digest, tokens: TokenCount::from_chars(12) });
        skill.set_text_facts(TextFacts {
            digest: Digest::compute(b"y"),
            tokens: TokenCount::from_chars(99),
        });
        assert_eq!((skill.tokens().get(), skill.digest()), (3, Some(digest)));
    }

    #[test]
    fn target_limits_trust_of_link() {
        let with = |own: TrustLevel, target: Option<TrustLevel>| {
            let root = |trust| Arc::new(SkillRoot { label: "r".into(), path: "/r".into(), trust });
            let link = target
                .map(|trust| Box::new(LinkTarget { root: root(trust), index: 1, rel: "x".into() }));
            let place =
                SkillLocation { root: root(own), parent: "p".into(), link, file: SkillFile::Lower };
            let id = SkillId::new("a").unwrap();
            Skill::new(id, place, Frontmatter::default(), 1, TokenCount::default(), None)
        };
        assert_eq!(with(TrustLevel::Operator, None).trust(), TrustLevel::Operator);
        assert_eq!(with(TrustLevel::Untrusted, None).trust(), TrustLevel::Untrusted);
        assert_eq!(
            with(TrustLevel::Operator, Some(TrustLevel::Untrusted)).trust(),
            TrustLevel::Untrusted
        );
        assert_eq!(
            with(TrustLevel::Untrusted, Some(TrustLevel::Operator)).trust(),
            TrustLevel::Untrusted
        );
        assert_eq!(with(TrustLevel::Operator, None).location(), PathBuf::from("/r/p/a/skill.md"));
    }

    #[test]
    fn skill_size_is_bounded() {
        assert!(size_of::<Skill>() <= 208, "{}", size_of::<Skill>());
    }
}
