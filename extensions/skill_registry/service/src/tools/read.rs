//! `read_skill`: the instructions of a skill and the list of its resources.

use serde_json::{Value, json};
use skill_catalog::{
    Audience, FileTree, RegistryError, Skill, SkillFile, SkillState, Snapshot, SourceState, Store,
    read_skill_yaml_in,
};
use skill_compat::extended::{ExtendedSpec, ParsedExtendedSpec};
use skill_compat::{Eligibility, MissingRequirement, check_eligibility};
use skill_format::{
    Frontmatter, LARGE_SKILL, ResourceKind, ResourceLine, SKILL_YAML, SkillInstructions, mime_type,
    render_instructions, sanitize_line,
};
use skill_ledger::SkillAccess;
use skillhost_files::jail::{self, RelPath};

use super::{ReadSkillArgs, ToolAnswer, describe_state, find_visible};
use crate::caller::is_withheld;

/// The maximum number of listed resources; the others are counted.
const MAX_RESOURCES: usize = 100;

/// Returns a skill's current instructions and lists its resources.
///
/// Required skills are named and not loaded.
///
/// # Errors
/// [`ErrorKind::NotFound`](skillhost_payload::ErrorKind::NotFound) for an unknown id,
/// [`ErrorKind::Denied`](skillhost_payload::ErrorKind::Denied) if a model requests a skill that is for users
/// only, [`ErrorKind::Io`](skillhost_payload::ErrorKind::Io) if its text cannot be read and no good one is
/// cached.
pub fn read_skill(
    store: &Store,
    snapshot: &Snapshot,
    audience: Audience<'_>,
    args: &ReadSkillArgs,
) -> Result<ToolAnswer, RegistryError> {
    let skill = find_visible(snapshot, &args.skill_id, audience)?;
    let source = store.read(skill)?;
    let resources = ResourceList::list(skill, audience);
    let lines: Vec<ResourceLine<'_>> = resources
        .listed
        .iter()
        .map(|(path, size)| ResourceLine { path, kind: ResourceKind::from_path(path), size: *size })
        .collect();
    let requires = &source.frontmatter.requires;
    let mut text = render_instructions(&SkillInstructions {
        id: &args.skill_id,
        digest: &source.digest,
        tokens: source.tokens,
        body: source.body(),
        resources: &lines,
        more_resources: resources.more,
        requires,
    });
    let mut notes = resources.warnings;
    let unapproved = snapshot.unapproved(skill);
    if let Some(created) = unapproved {
        let by = created.author_line();
        notes.push(format!(
            "unapproved: created by {by}, it grants nothing until a person approves it"
        ));
    }
    if let SourceState::LastGood { problem } = &source.state {
        notes.push(format!(
            "SKILL.md is broken on disk ({}); this is the last good version",
            sanitize_line(&problem.message)
        ));
    }
    let missing = missing_requirements(
        snapshot,
        requires,
        &source.frontmatter,
        resources.skill_yaml.as_deref(),
    );
    if !missing.is_empty() {
        let reasons: Vec<String> = missing.iter().map(MissingRequirement::to_string).collect();
        notes.push(format!("loaded but not eligible: {}", sanitize_line(&reasons.join("; "))));
    }
    for note in &notes {
        text.push_str(&format!("\nNote: {note}."));
    }
    let mut structured = json!({
        "generation": snapshot.generation(),
        "skill_id": args.skill_id,
        "description": source.frontmatter.description,
        "digest": source.digest,
        "tokens": source.tokens,
        "large": source.tokens.get() > LARGE_SKILL,
        "source": skill.source(),
        "trust": skill.trust(),
        "requires": requires,
        "resources": lines.iter().map(describe_resource).collect::<Vec<Value>>(),
        "more_resources": resources.more,
        "notes": notes,
    });
    if !missing.is_empty() {
        structured["ineligible"] = json!(missing);
    }
    if let Some(created) = unapproved {
        structured["unapproved"] = json!(created);
    }
    describe_state(&mut structured, skill, &source);
    let (skill_id, digest) = (args.skill_id.clone(), Some(source.digest));
    let read = SkillAccess { skill_id, path: None, digest, tokens: source.tokens };
    Ok(ToolAnswer { text, structured, read: Some(read) })
}

/// Returns the required skills that are missing. Tools are not checked: the registry does not know
/// them.
fn missing_requirements(
    snapshot: &Snapshot,
    requires: &[String],
    frontmatter: &Frontmatter,
    skill_yaml: Option<&str>,
) -> Vec<MissingRequirement> {
    let from_file = skill_yaml.map(|text| ParsedExtendedSpec::parse_skill_yaml(text, "").extended);
    let extended =
        ExtendedSpec::from_frontmatter(frontmatter).merge_with(from_file.unwrap_or_default());
    let is_available =
        |id: &str| snapshot.get(id).is_some_and(|skill| snapshot.state(skill) != SkillState::Off);
    match check_eligibility(requires, &extended, &is_available, None) {
        Eligibility::Eligible => Vec::new(),
        Eligibility::Ineligible(reasons) => reasons,
    }
}

fn describe_resource(line: &ResourceLine<'_>) -> Value {
    json!({
        "path": line.path,
        "kind": line.kind,
        "mime_type": mime_type(line.path),
        "size": line.size,
    })
}

/// The files of a skill other than its SKILL.md.
#[derive(Default)]
struct ResourceList {
    listed: Vec<(String, u64)>,
    more: usize,
    warnings: Vec<String>,
    /// The text of `skill.yaml`, if it exists.
    skill_yaml: Option<String>,
}

impl ResourceList {
    /// Lists the files that an audience can read; a missing directory has none.
    fn list(skill: &Skill, audience: Audience<'_>) -> Self {
        let mut resources = Self::default();
        // The instructions may still be served from the cache, so this does not fail.
        let Ok(dir) = skill.open_directory() else { return resources };
        let tree = match FileTree::list(&dir) {
            Ok(tree) => tree,
            Err(error) => {
                resources.warnings.push(format!("the resources cannot be listed: {error}"));
                return resources;
            }
        };
        match read_skill_yaml_in(&dir) {
            Ok(text) => resources.skill_yaml = text,
            Err(error) => {
                resources.warnings.push(format!("`{SKILL_YAML}` is not used: {error}"));
            }
        }
        let mut others = tree.others;
        let skill_files = SkillFile::BOTH.map(SkillFile::name);
        let is_listed = |path: &str| !skill_files.contains(&path) && !is_withheld(audience, path);
        for path in tree.files.into_iter().filter(|path| is_listed(path)) {
            if resources.listed.len() == MAX_RESOURCES {
                resources.more += 1;
                continue;
            }
            // Opened, not only listed: `read_skill_resource` must be able to serve each listed
            // file.
            let opened =
                RelPath::new(&path).ok().and_then(|path| jail::open_file(&dir, &path).ok());
            match opened {
                Some((_, metadata)) => resources.listed.push((path, metadata.len())),
                None => others += 1,
            }
        }
        if others > 0 {
            resources.warnings.push(format!(
                "{others} entries of the skill's directory cannot be read: links, special or \
                 unreadable files, or names that are not UTF-8"
            ));
        }
        if tree.cut {
            resources.warnings.push("the skill has more files than are counted".to_owned());
        }
        resources
    }
}
