//! `skills.load`, `skills.unload` and `skills.read`: the skills that a thread has loaded.
//!
//! The kernel keeps the list in the thread and passes it with each call; these tools return a
//! change of it. A caller without a thread, such as an MCP client, gets the texts themselves.

use serde::Deserialize;
use serde_json::{Value, json};
use skill_catalog::{RegistryError, Skill, SkillSource, Snapshot, SourceState, Store};
use skill_format::{TokenCount, sanitize_line, wrap_content};
use skill_ledger::{SkillAccess, current_digests};
use skillhost_payload::{ActiveSkillsChange, CallContext, CallOrigin, ErrorKind, SkillRef};

use super::properties::describe_properties;
use super::{ReadResourceArgs, find_visible, read_skill_resource};
use crate::audience_of;

/// The name of the tool that loads skills.
pub const LOAD_SKILLS: &str = "skills.load";
/// The name of the tool that unloads skills.
pub const UNLOAD_SKILLS: &str = "skills.unload";
/// The name of the tool that reads a file of a loaded skill.
pub const READ_LOADED: &str = "skills.read";

/// The maximum number of loaded skills.
pub(super) const MAX_LOADED: usize = 8;
/// The maximum number of tokens of the loaded skills.
const MAX_TOKENS: u32 = 25_000;
/// Their share of the context window, in percent.
const WINDOW_PERCENT: u64 = 15;
/// The largest result for a model in bytes; the kernel would cut a longer one.
const MAX_RESULT: usize = 60 << 10;

/// The arguments of `skills.load`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSkillsArgs {
    /// The ids of the skills.
    pub names: Vec<String>,
    /// What happens to the skills that are loaded.
    #[serde(default)]
    pub mode: LoadMode,
}

/// What a load does with the skills that are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMode {
    /// They are unloaded.
    #[default]
    Replace,
    /// They stay, before the new ones.
    Add,
}

/// The arguments of `skills.unload`: exactly one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnloadSkillsArgs {
    /// The ids of the skills.
    pub names: Option<Vec<String>>,
    /// Every skill.
    pub all: Option<bool>,
}

/// The arguments of `skills.read`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadLoadedArgs {
    /// The file's path below the skill's directory.
    pub path: String,
    /// The id of a loaded skill; the one loaded last if it is not given.
    #[serde(default)]
    pub skill: Option<String>,
    /// The offset of the first byte; 0 if it is not given.
    #[serde(default)]
    pub offset: Option<u64>,
    /// The maximum number of bytes.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// The result of a session tool.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionAnswer {
    /// The text for the caller.
    pub text: String,
    /// The value for programs.
    pub structured: Value,
    /// The change of the loaded skills, unless everything is as it was.
    pub change: Option<ActiveSkillsChange>,
    /// The parts of skills that the caller received or loaded, for the log of reads.
    pub reads: Vec<SkillAccess>,
}

/// A skill that is to be loaded.
struct ResolvedSkill<'s> {
    skill: &'s Skill,
    source: SkillSource,
    reference: SkillRef,
}

/// Loads skills into the thread of the caller.
///
/// # Errors
/// As for [`read_skill`](super::read_skill) for each name, [`ErrorKind::TooLarge`] if too many
/// skills or tokens would be loaded; nothing is loaded then.
pub fn load_skills(
    store: &Store,
    snapshot: &Snapshot,
    context: &CallContext,
    args: &LoadSkillsArgs,
) -> Result<SessionAnswer, RegistryError> {
    if args.names.is_empty() {
        return Err(RegistryError::new(
            ErrorKind::InvalidArgument,
            "names is empty".to_owned(),
            format!("name 1 to {MAX_LOADED} skills; {UNLOAD_SKILLS} unloads all of them"),
        ));
    }
    let mut resolved: Vec<ResolvedSkill<'_>> = Vec::new();
    for name in &args.names {
        let found = ResolvedSkill::resolve(store, snapshot, context, name)?;
        let id = &found.reference.skill_id;
        if !resolved.iter().any(|known| known.reference.skill_id == *id) {
            resolved.push(found);
        }
        check_count(resolved.len())?;
    }
    let has_thread = context.origin == CallOrigin::Agent;
    let before: &[SkillRef] = if has_thread { &context.active_skills } else { &[] };
    let references = resolved.iter().map(|found| found.reference.clone()).collect();
    let change = match args.mode {
        LoadMode::Replace => ActiveSkillsChange::Replace(references),
        LoadMode::Add => ActiveSkillsChange::Add(references),
    };
    let mut after = before.to_vec();
    change.apply(&mut after);
    let is_new = |found: &ResolvedSkill<'_>| find(before, &found.reference.skill_id).is_none();
    if resolved.iter().any(is_new) {
        check_count(after.len())?;
        check_tokens(snapshot, context, &resolved, &after)?;
    }
    let receipts: Vec<Value> = after
        .iter()
        .map(|reference| {
            let found =
                resolved.iter().find(|found| found.reference.skill_id == reference.skill_id);
            match found {
                Some(found) => found.describe(context, before),
                None => describe_loaded(store, snapshot, context, reference),
            }
        })
        .collect();
    let reads = resolved.iter().map(ResolvedSkill::access).collect();
    if has_thread {
        let change = (after != before).then_some(change);
        return Ok(SessionAnswer { change, reads, ..receipt_answer(receipts) });
    }
    let contents: Vec<_> = resolved.iter().map(ResolvedSkill::content).collect();
    let pairs = receipts.into_iter().zip(&contents);
    let with_text = pairs.map(|(mut receipt, text)| {
        receipt["instructions"] = json!(text);
        receipt
    });
    let structured = json!({ "active_skills": with_text.collect::<Vec<_>>() });
    Ok(SessionAnswer { text: contents.join("\n\n"), structured, change: None, reads })
}

/// Unloads skills from the thread of the caller; a name that is not loaded is ignored.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] unless exactly one of the arguments is given,
/// [`ErrorKind::Denied`] for a caller without a thread.
pub fn unload_skills(
    store: &Store,
    snapshot: &Snapshot,
    context: &CallContext,
    args: &UnloadSkillsArgs,
) -> Result<SessionAnswer, RegistryError> {
    if context.origin != CallOrigin::Agent {
        return Err(RegistryError::new(
            ErrorKind::Denied,
            "no thread of this caller has loaded skills".to_owned(),
            format!("{LOAD_SKILLS} returns instructions here and keeps nothing"),
        ));
    }
    let before = &context.active_skills;
    let change = match (&args.names, args.all) {
        (None, Some(true)) => ActiveSkillsChange::Replace(Vec::new()),
        (Some(names), None) if !names.is_empty() => {
            let id = |name: &String| loaded_id(snapshot, before, name);
            ActiveSkillsChange::Remove(names.iter().map(id).collect())
        }
        _ => {
            return Err(RegistryError::new(
                ErrorKind::InvalidArgument,
                "exactly one of names and all is needed".to_owned(),
                "give the names of loaded skills, or all: true",
            ));
        }
    };
    let mut after = before.clone();
    change.apply(&mut after);
    let receipts =
        after.iter().map(|reference| describe_loaded(store, snapshot, context, reference));
    let receipts = receipts.collect();
    let change = (after != *before).then_some(change);
    Ok(SessionAnswer { change, ..receipt_answer(receipts) })
}

/// Reads one page of a file of a loaded skill. A caller without a thread names the skill.
///
/// # Errors
/// [`ErrorKind::Denied`] if no skill is loaded or not this one,
/// [`ErrorKind::InvalidArgument`] without a name where no thread has one; otherwise as for
/// [`read_skill_resource`].
pub fn read_loaded(
    snapshot: &Snapshot,
    context: &CallContext,
    args: &ReadLoadedArgs,
) -> Result<SessionAnswer, RegistryError> {
    let skill_id = select_skill(snapshot, context, args.skill.as_deref())?;
    let mut limit = args.limit;
    loop {
        let request = ReadResourceArgs {
            skill_id: skill_id.clone(),
            path: args.path.clone(),
            offset: args.offset,
            limit,
        };
        let page = read_skill_resource(snapshot, audience_of(context), &request)?;
        let is_binary = page.structured["encoding"] == "base64";
        let (kind, key) = if is_binary { ("binary", "base64") } else { ("text", "text") };
        let length = page.structured["length"].as_u64().unwrap_or_default();
        let structured = json!({
            "path": page.structured["path"],
            "type": kind,
            key: page.structured["content"],
            "mime": page.structured["mime_type"],
            "next_offset": page.structured["next_offset"],
        });
        let text = structured.to_string();
        // A page of a few bytes always fits, so this ends.
        if text.len() > MAX_RESULT && length > 1 {
            // Quotes and line breaks take two bytes each; half a page leaves whole groups of base64.
            limit = Some((length / 2).next_multiple_of(3).min(length - 1));
            continue;
        }
        let reads = page.read.into_iter().collect();
        return Ok(SessionAnswer { text, structured, change: None, reads });
    }
}

impl<'s> ResolvedSkill<'s> {
    fn resolve(
        store: &Store,
        snapshot: &'s Snapshot,
        context: &CallContext,
        name: &str,
    ) -> Result<Self, RegistryError> {
        let skill = find_visible(snapshot, name, audience_of(context))?;
        let source = store.read(skill)?;
        let skill_id = canonical_id(snapshot, skill, name);
        let (digest, tree) = (source.digest.to_string(), tree_digest(skill));
        Ok(Self { skill, source, reference: SkillRef { skill_id, digest, tree } })
    }

    fn describe(&self, context: &CallContext, before: &[SkillRef]) -> Value {
        let known = find(before, &self.reference.skill_id);
        let changed = known.is_some_and(|known| differs(known, &self.reference));
        describe_skill(context, self.skill, &self.source, &self.reference, changed)
    }

    fn content(&self) -> String {
        let Self { source, reference, .. } = self;
        wrap_content(&reference.skill_id, &source.digest, source.body())
    }

    fn access(&self) -> SkillAccess {
        SkillAccess {
            skill_id: self.reference.skill_id.clone(),
            path: None,
            digest: Some(self.source.digest),
            tokens: self.source.tokens,
        }
    }
}

/// Returns the receipt as text and value; without the properties where they make it too long.
fn receipt_answer(mut receipts: Vec<Value>) -> SessionAnswer {
    let mut structured = json!({ "active_skills": receipts });
    let mut text = structured.to_string();
    if text.len() > MAX_RESULT {
        for receipt in receipts.iter_mut().filter_map(Value::as_object_mut) {
            receipt.remove("properties");
        }
        let note = "the properties are left out: they are too long";
        structured = json!({ "active_skills": receipts, "note": note });
        text = structured.to_string();
    }
    SessionAnswer { text, structured, change: None, reads: Vec::new() }
}

/// Describes a skill that stays loaded: as it was loaded, with a mark if it is another on disk.
fn describe_loaded(
    store: &Store,
    snapshot: &Snapshot,
    context: &CallContext,
    reference: &SkillRef,
) -> Value {
    let found = find_visible(snapshot, &reference.skill_id, audience_of(context));
    let read = found.and_then(|skill| Ok((skill, store.read(skill)?)));
    let Ok((skill, source)) = read else {
        // It stays in the thread, and its instructions return with it.
        let (name, digest) = (&reference.skill_id, prefixed(&reference.digest));
        return json!({ "name": name, "digest": digest, "removed": true });
    };
    let tree = reference.tree.as_ref().and_then(|_| tree_digest(skill));
    let now = SkillRef { digest: source.digest.to_string(), tree, ..reference.clone() };
    describe_skill(context, skill, &source, reference, differs(reference, &now))
}

fn describe_skill(
    context: &CallContext,
    skill: &Skill,
    source: &SkillSource,
    reference: &SkillRef,
    changed: bool,
) -> Value {
    let mut receipt = json!({
        "name": reference.skill_id,
        "digest": prefixed(&reference.digest),
        "properties": describe_properties(skill, &source.frontmatter),
    });
    if context.reads_files {
        receipt["location"] = json!(skill.location().to_string_lossy());
        receipt["root_dir"] = json!(skill.dir().to_string_lossy());
    }
    if changed {
        receipt["changed"] = json!(true);
    }
    if let SourceState::LastGood { problem } = &source.state {
        let problem = sanitize_line(&problem.message);
        receipt["note"] =
            json!(format!("SKILL.md is broken on disk ({problem}); the last good text is loaded"));
    }
    receipt
}

fn prefixed(digest: &str) -> String {
    format!("sha256:{digest}")
}

/// Returns whether a skill differs in a digest that both references have.
fn differs(known: &SkillRef, now: &SkillRef) -> bool {
    let other_tree = known.tree.is_some() && now.tree.is_some() && known.tree != now.tree;
    known.digest != now.digest || other_tree
}

/// Returns the digest of all files of a skill, unless they exceed the limits of a version.
fn tree_digest(skill: &Skill) -> Option<String> {
    let (tree, complete) = current_digests(skill).ok()?;
    complete.map(|_| tree.to_string())
}

fn find<'r>(skills: &'r [SkillRef], id: &str) -> Option<&'r SkillRef> {
    skills.iter().find(|skill| skill.skill_id == id)
}

/// Returns the id under which a skill is loaded: without the label of its root, where the plain id
/// means the same skill.
fn canonical_id(snapshot: &Snapshot, skill: &Skill, name: &str) -> String {
    let plain = skill.id().as_str();
    let same = snapshot.get(plain).is_some_and(|found| found.dir() == skill.dir());
    if same { plain.to_owned() } else { name.to_owned() }
}

/// Returns the id of a loaded skill by any of its names.
pub(crate) fn loaded_id(snapshot: &Snapshot, loaded: &[SkillRef], name: &str) -> String {
    match (find(loaded, name), snapshot.get(name)) {
        (None, Some(skill)) => canonical_id(snapshot, skill, name),
        _ => name.to_owned(),
    }
}

/// Returns the skill whose file is to be read.
fn select_skill(
    snapshot: &Snapshot,
    context: &CallContext,
    name: Option<&str>,
) -> Result<String, RegistryError> {
    let loaded = &context.active_skills;
    if context.origin != CallOrigin::Agent {
        return name.map(str::to_owned).ok_or_else(|| {
            RegistryError::new(
                ErrorKind::InvalidArgument,
                "skill is missing: no thread of this caller has loaded skills".to_owned(),
                "name the skill whose file is to be read",
            )
        });
    }
    let denied =
        |message: String, hint: String| Err(RegistryError::new(ErrorKind::Denied, message, hint));
    let Some(last) = loaded.last() else {
        return denied("load a skill first".to_owned(), format!("call {LOAD_SKILLS}"));
    };
    let Some(name) = name else { return Ok(last.skill_id.clone()) };
    let id = loaded_id(snapshot, loaded, name);
    if find(loaded, &id).is_none() {
        let ids: Vec<_> = loaded.iter().map(|skill| skill.skill_id.as_str()).collect();
        let name: String = name.chars().take(128).collect();
        return denied(
            format!("`{}` is not loaded: load it first", sanitize_line(&name)),
            format!("loaded: {}", ids.join(", ")),
        );
    }
    Ok(id)
}

/// Checks that a skill whose text a caller reads may become one of the loaded ones.
///
/// # Errors
/// [`ErrorKind::TooLarge`] if as many as possible are loaded.
pub fn check_room(context: &CallContext, id: &str) -> Result<(), RegistryError> {
    let loaded = &context.active_skills;
    match find(loaded, id) {
        None if context.origin == CallOrigin::Agent => check_count(loaded.len() + 1),
        _ => Ok(()),
    }
}

fn check_count(count: usize) -> Result<(), RegistryError> {
    if count <= MAX_LOADED {
        return Ok(());
    }
    Err(RegistryError::new(
        ErrorKind::TooLarge,
        format!("at most {MAX_LOADED} skills can be loaded at once: load fewer"),
        format!("{UNLOAD_SKILLS} those that are no longer needed"),
    ))
}

fn check_tokens(
    snapshot: &Snapshot,
    context: &CallContext,
    resolved: &[ResolvedSkill<'_>],
    after: &[SkillRef],
) -> Result<(), RegistryError> {
    let tokens = |reference: &SkillRef| {
        let id = &reference.skill_id;
        let found = resolved.iter().find(|found| found.reference.skill_id == *id);
        let found = found.map(|found| found.source.tokens);
        let known = || snapshot.get(id).map(|skill| skill.tokens());
        u64::from(found.or_else(known).map_or(0, TokenCount::get))
    };
    let total: u64 = after.iter().map(tokens).sum();
    let share = context.context_window.map(|window| u64::from(window) * WINDOW_PERCENT / 100);
    let limit = share.map_or(u64::from(MAX_TOKENS), |share| share.min(u64::from(MAX_TOKENS)));
    if total <= limit {
        return Ok(());
    }
    Err(RegistryError::new(
        ErrorKind::TooLarge,
        format!("{} skills of approx. {total} tokens exceed {limit}: load fewer", after.len()),
        format!("{UNLOAD_SKILLS} those that are no longer needed, or load one at a time"),
    ))
}
