//! The Skills extension, `io.modelcontextprotocol/skills` (SEP-2640).

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{
    ErrorData, GetSkillResult, ListSkillsResult, PaginatedRequestParams, Skill, SkillFrontmatter,
    SkillResource, SkillResources,
};
use skillhost_payload::{PublishedDetails, PublishedSkill, PublishedSkills};

use super::pagination::paginate;
use super::protocol_error::{to_protocol_error, unknown_parameter_error, unknown_resource};
use super::session::{McpRequestContext, ServerSession, ServerShared};
use super::skill_pages::SkillPage;
use crate::backend::ClientSession;

/// Lists the skills that models may invoke.
pub(super) async fn list_skills(
    session: &ServerSession,
    context: &McpRequestContext,
    request: Option<PaginatedRequestParams>,
) -> Result<ListSkillsResult, ErrorData> {
    let client = session.client(context);
    let all = session.shared.skills(&client).await?;
    let offered: Vec<_> = all.skills.iter().filter(|skill| skill.model_invocable).collect();
    let size = session.shared.limits.page;
    let (page, next) = paginate(&offered, |skill| &skill.id, request.as_ref(), size)?;
    let entries = page_entries(session, &client, &all, page).await?;
    let mut result = ListSkillsResult::with_all_items(Vec::clone(&entries));
    result.next_cursor = next;
    let (ttl, scope) = session.cache_control();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}

/// Returns the entry of the skill with an address.
pub(super) async fn get_skill(
    session: &ServerSession,
    context: &McpRequestContext,
    uri: &str,
) -> Result<GetSkillResult, ErrorData> {
    let client = session.client(context);
    // A skill is not a resource: an unknown one is an invalid parameter in every protocol version.
    let skill = find_skill(&session.shared, &client, uri)
        .await
        .map_err(|_| unknown_parameter_error("skill", uri))?;
    let found = skill_entries(session, &client, &[&skill]).await?;
    let found = found.into_iter().find(|found| found.uri == uri);
    let (ttl, scope) = session.cache_control();
    match found {
        Some(found) => Ok(GetSkillResult::new(found).with_ttl_ms(ttl).with_cache_scope(scope)),
        None => Err(unknown_parameter_error("skill", uri)),
    }
}

/// Returns the entries of a page, from the cache unless one of them may have changed.
async fn page_entries(
    session: &ServerSession,
    client: &ClientSession,
    list: &Arc<PublishedSkills>,
    page: &[&PublishedSkill],
) -> Result<Arc<Vec<Skill>>, ErrorData> {
    let skill_ids: Vec<_> = page.iter().map(|skill| &*skill.id).collect();
    // Read before the entries: a change while they are made then invalidates them next time.
    let stamp = match skill_ids.is_empty() {
        true => None,
        false => session.backend().stamp(client, &skill_ids).await,
    };
    let pages = &session.shared.pages;
    if let Some(entries) = stamp.and_then(|stamp| pages.find(list, &skill_ids, stamp)) {
        return Ok(entries);
    }
    let entries = Arc::new(skill_entries(session, client, page).await?);
    if let Some(stamp) = stamp {
        let skill_ids = skill_ids.into_iter().map(str::to_owned).collect();
        let (list, entries) = (Arc::clone(list), Arc::clone(&entries));
        pages.insert(SkillPage { list, skill_ids, stamp, entries });
    }
    Ok(entries)
}

/// Returns the skill to which an address belongs.
///
/// # Errors
/// A not-found error for an address outside of all skills that the client sees.
pub(super) async fn find_skill(
    shared: &ServerShared,
    client: &ClientSession,
    uri: &str,
) -> Result<PublishedSkill, ErrorData> {
    let all = shared.skills(client).await?;
    // A bare prefix would match `skill://a` for `skill://ab`.
    let below = |root: &str| {
        uri.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let found = all.skills.iter().find(|skill| skill.model_invocable && below(&skill.root));
    found.cloned().ok_or_else(|| unknown_resource(uri))
}

/// Returns the entries of skills; a skill that the extension cannot represent is skipped and
/// logged.
async fn skill_entries(
    session: &ServerSession,
    client: &ClientSession,
    skills: &[&PublishedSkill],
) -> Result<Vec<Skill>, ErrorData> {
    if skills.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = skills.iter().map(|skill| &*skill.id).collect();
    let details =
        session.backend().details(client, &ids).await.map_err(|e| to_protocol_error(&e))?;
    let mut details: HashMap<_, _> =
        details.into_iter().map(|details| (details.id.clone(), details)).collect();
    let entries = skills.iter().filter_map(|skill| {
        // The skill may have been removed since the list was made.
        let details = details.remove(&skill.id)?;
        let reason = match details.unlisted.clone() {
            Some(reason) => reason,
            None => {
                let entry = to_skill_entry(skill, details);
                // Clients reject the complete list for one entry that violates the protocol.
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

fn to_skill_entry(skill: &PublishedSkill, details: PublishedDetails) -> Skill {
    // `name` and `description` are fields of their own, and must not appear twice.
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
