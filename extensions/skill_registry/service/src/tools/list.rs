//! `list_skills` without a ranking: all skills, or those that contain a text.

use serde_json::{Value, json};
use skill_catalog::{Audience, CreatedSkill, Skill, SkillState, Snapshot, TrustLevel};
use skill_format::{sanitize_line, shorten_description};

use super::{ListSkillsArgs, ToolAnswer};

/// The maximum number of listed skills if the caller sets no limit.
const DEFAULT_LIMIT: usize = 100;

/// Returns the visible skills that match the arguments, regardless of the limit, sorted by id; each
/// with the fields in which the query occurs.
pub fn matching_skills<'s>(
    snapshot: &'s Snapshot,
    audience: Audience<'_>,
    args: &ListSkillsArgs,
) -> impl Iterator<Item = (&'s Skill, Vec<&'static str>)> {
    let query = args.query.as_deref().map(|query| query.trim().to_lowercase());
    let query = query.filter(|query| !query.is_empty());
    let tags = args.tags.clone().unwrap_or_default();
    snapshot.visible(audience).filter_map(move |skill| {
        let fields = match &query {
            Some(query) => matched_fields(skill, query),
            None => Vec::new(),
        };
        let matches = (query.is_none() || !fields.is_empty()) && skill.has_tags(&tags);
        matches.then_some((&**skill, fields))
    })
}

pub(super) fn has_query(args: &ListSkillsArgs) -> bool {
    args.query.as_deref().is_some_and(|query| !query.trim().is_empty())
}

/// Lists the visible skills that match the arguments, sorted by id.
#[must_use]
pub fn list_skills(
    snapshot: &Snapshot,
    audience: Audience<'_>,
    args: &ListSkillsArgs,
) -> ToolAnswer {
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let total = snapshot.visible(audience).count();
    let mut matched = 0;
    let mut listed = Vec::new();
    let mut text = String::new();
    for (skill, fields) in matching_skills(snapshot, audience, args) {
        matched += 1;
        if listed.len() < limit {
            let line = SkillLine::from_skill(snapshot, skill);
            line.write(&mut text, "");
            let mut value = line.value();
            if has_query(args) {
                value["matched"] = json!(fields);
            }
            listed.push(value);
        }
    }
    let omitted = matched - listed.len();
    let heading = match (matched, total) {
        (_, 0) => "No skills found.".to_owned(),
        (0, _) => format!("None of the {total} skills matches."),
        (1, 1) => "1 skill".to_owned(),
        _ if matched == total => format!("{total} skills"),
        _ => format!("{matched} of {total} skills"),
    };
    let mut answer = format!("{heading}\n{text}");
    if omitted > 0 {
        answer.push_str(&format!("({omitted} more: narrow the query or raise the limit)\n"));
    }
    let mut structured = json!({
        "generation": snapshot.generation(),
        "total": total,
        "matched": matched,
        "omitted": omitted,
        "skills": listed,
    });
    if let Some(partial) = snapshot.partial() {
        structured["partial"] = json!(partial);
        answer.push_str(&format!(
            "(the list is not complete: {})\n",
            sanitize_line(&partial.to_string())
        ));
    }
    answer.truncate(answer.trim_end().len());
    ToolAnswer { text: answer, structured, read: None }
}

/// An entry of the list.
pub(super) struct SkillLine<'s> {
    skill: &'s Skill,
    description: String,
    unapproved: Option<&'s CreatedSkill>,
    state: SkillState,
}

impl<'s> SkillLine<'s> {
    pub(super) fn from_skill(snapshot: &'s Snapshot, skill: &'s Skill) -> Self {
        let description = shorten_description(skill.description());
        let (unapproved, state) = (snapshot.unapproved(skill), snapshot.state(skill));
        Self { skill, description, unapproved, state }
    }

    /// Appends the line; `more` is added at its end.
    pub(super) fn write(&self, text: &mut String, more: &str) {
        let skill = self.skill;
        text.push_str(&format!(
            "• `{}` — {} [",
            sanitize_line(skill.id().as_str()),
            self.description
        ));
        if !skill.tags().is_empty() {
            let tags: Vec<String> = skill.tags().iter().map(|tag| sanitize_line(tag)).collect();
            text.push_str(&format!("{}; ", tags.join(", ")));
        }
        let untrusted = if skill.trust() == TrustLevel::Untrusted { ", untrusted" } else { "" };
        let (tokens, source) = (skill.tokens(), skill.source());
        text.push_str(&format!("~{tokens} tokens; {source}{untrusted}"));
        if let Some(created) = self.unapproved {
            text.push_str(&format!(", unapproved, created by {}", created.author_line()));
        }
        if self.state != SkillState::On {
            text.push_str(&format!(", {}", self.state.as_str()));
        }
        text.push_str(more);
        text.push_str("]\n");
    }

    pub(super) fn value(&self) -> Value {
        let skill = self.skill;
        let mut value = json!({
            "skill_id": skill.id(),
            "description": self.description,
            "tags": skill.tags(),
            "tokens": skill.tokens(),
            "source": skill.source(),
            "trust": skill.trust(),
            "model_invocable": skill.is_model_invocable(),
        });
        if let Some(created) = self.unapproved {
            value["unapproved"] = json!(created);
        }
        // Left out for most skills, since models read every byte.
        if self.state != SkillState::On {
            value["skill_state"] = json!(self.state);
        }
        value
    }
}

/// Returns the fields in which the text, in lower case, occurs.
fn matched_fields(skill: &Skill, query: &str) -> Vec<&'static str> {
    let within = |text: &str| text.to_lowercase().contains(query);
    let mut fields = Vec::new();
    if within(skill.id().as_str()) {
        fields.push("id");
    }
    if skill.name() != skill.id().as_str() && within(skill.name()) {
        fields.push("name");
    }
    if within(skill.description()) || skill.when_to_use().is_some_and(within) {
        fields.push("description");
    }
    if skill.tags().iter().any(|tag| within(tag)) {
        fields.push("tags");
    }
    fields
}
