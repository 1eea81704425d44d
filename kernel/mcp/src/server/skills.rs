//! The Skills extension, `io.modelcontextprotocol/skills` (SEP-2640).

use std::collections::HashMap;

use rmcp::model::{
    ErrorData, GetSkillResult, ListSkillsResult, PaginatedRequestParams, Skill, SkillFrontmatter,
    SkillResource, SkillResources,
};
use skillhost_contract::payload::{PublishedDetails, PublishedSkill};

use super::page::page;
use super::{Context, Session, Shared, refused, unknown};
use crate::backend::ClientSession;

pub(super) async fn list(
    session: &Session,
    context: &Context,
    request: Option<PaginatedRequestParams>,
) -> Result<ListSkillsResult, ErrorData> {
    let client = session.client(context);
    let all = session.shared.skills(&client).await?;
    let offered: Vec<_> = all.skills.iter().filter(|skill| skill.model_invocable).collect();
    let size = session.shared.limits.page;
    let (page, next) = page(&offered, |skill| &skill.id, request.as_ref(), size)?;
    let mut result = ListSkillsResult::with_all_items(entries(session, &client, page).await?);
    result.next_cursor = next;
    let (ttl, scope) = session.freshness();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}

pub(super) async fn get(
    session: &Session,
    context: &Context,
    uri: &str,
) -> Result<GetSkillResult, ErrorData> {
    let client = session.client(context);
    let skill = find(&session.shared, &client, uri).await?;
    let found = entries(session, &client, &[&skill]).await?;
    let found = found.into_iter().find(|found| found.uri == uri);
    let (ttl, scope) = session.freshness();
    match found {
        Some(found) => Ok(GetSkillResult::new(found).with_ttl_ms(ttl).with_cache_scope(scope)),
        None => Err(unknown("skill", uri)),
    }
}

/// Finds the skill that an address belongs to.
///
/// # Errors
/// For an address that is none, and for a skill that the client does not see.
pub(super) async fn find(
    shared: &Shared,
    client: &ClientSession,
    uri: &str,
) -> Result<PublishedSkill, ErrorData> {
    let all = shared.skills(client).await?;
    let below = |root: &str| {
        uri.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let found = all.skills.iter().find(|skill| skill.model_invocable && below(&skill.root));
    found.cloned().ok_or_else(|| unknown("resource", uri))
}

/// The entries of skills; one that the extension has no form for is left out and logged.
async fn entries(
    session: &Session,
    client: &ClientSession,
    skills: &[&PublishedSkill],
) -> Result<Vec<Skill>, ErrorData> {
    if skills.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = skills.iter().map(|skill| &*skill.id).collect();
    let details = session.backend().details(client, &ids).await.map_err(|e| refused(&e))?;
    let mut details: HashMap<_, _> =
        details.into_iter().map(|details| (details.id.clone(), details)).collect();
    let entries = skills.iter().filter_map(|skill| {
        // Removed between the two questions.
        let details = details.remove(&skill.id)?;
        let reason = match details.unlisted.clone() {
            Some(reason) => reason,
            None => {
                let entry = entry(skill, details);
                // One entry that breaks a rule of the protocol would take the whole list with it.
                match entry.validate() {
                    Ok(()) => return Some(entry),
                    Err(error) => error.to_string(),
                }
            }
        };
        tracing::warn!(id = skill.id, "not in skills/list: {reason}");
        None
    });
    Ok(entries.collect())
}

fn entry(skill: &PublishedSkill, details: PublishedDetails) -> Skill {
    let mut extra = details.frontmatter;
    extra.remove("name");
    let description = match extra.remove("description") {
        Some(serde_json::Value::String(written)) => written,
        _ => skill.description.clone(),
    };
    let mut frontmatter = SkillFrontmatter::new(&skill.name, description);
    frontmatter.extra = extra;
    let resources = match details.files {
        None => SkillResources::Dynamic,
        Some(files) => {
            let files = files.into_iter().map(|file| {
                SkillResource::new(file.uri, format!("sha256:{}", file.sha256), file.size)
            });
            SkillResources::Files(files.collect())
        }
    };
    Skill::new(&skill.uri, frontmatter, resources)
}
