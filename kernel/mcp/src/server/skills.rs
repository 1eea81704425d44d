//! The Skills extension, `io.modelcontextprotocol/skills` (SEP-2640).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ErrorData, GetSkillResult, ListSkillsResult, PaginatedRequestParams, Skill, SkillFrontmatter,
    SkillResource, SkillResources,
};
use skillhost_contract::payload::{PublishedDetails, PublishedSkill, PublishedSkills};

use super::page::paginate;
use super::{
    McpRequestContext, ServerSession, ServerShared, to_protocol_error, unknown_parameter_error,
    unknown_resource,
};
use crate::backend::ClientSession;

/// Pages of `skills/list` that are kept; where there are more, all of them are made anew.
const MAX_PAGES: usize = 64;

/// The pages that were made, by the id of their first skill.
#[derive(Default)]
pub(super) struct SkillPages(Mutex<HashMap<String, SkillPage>>);

/// The entries of a page, and what they were made of.
struct SkillPage {
    list: Arc<PublishedSkills>,
    skill_ids: Vec<String>,
    stamp: u64,
    entries: Arc<Vec<Skill>>,
}

impl SkillPages {
    /// Returns the entries of a page of a list, if they were made of the same.
    fn find(
        &self,
        list: &Arc<PublishedSkills>,
        skill_ids: &[&str],
        stamp: u64,
    ) -> Option<Arc<Vec<Skill>>> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let page = pages.get(*skill_ids.first()?)?;
        let is_same = Arc::ptr_eq(&page.list, list)
            && page.stamp == stamp
            && page.skill_ids.iter().eq(skill_ids);
        is_same.then(|| Arc::clone(&page.entries))
    }

    /// Keeps a page; those of an earlier list are dropped.
    fn insert(&self, page: SkillPage) {
        let Some(first) = page.skill_ids.first().cloned() else { return };
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|_, kept| Arc::ptr_eq(&kept.list, &page.list));
        if pages.len() >= MAX_PAGES {
            pages.clear();
        }
        pages.insert(first, page);
    }
}

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

pub(super) async fn get_skill(
    session: &ServerSession,
    context: &McpRequestContext,
    uri: &str,
) -> Result<GetSkillResult, ErrorData> {
    let client = session.client(context);
    // A skill is not a resource: one that does not exist is a wrong parameter to every version.
    let skill = find_skill(&session.shared, &client, uri)
        .await
        .map_err(|_| unknown_parameter_error("skill", uri))?;
    let found = entries(session, &client, &[&skill]).await?;
    let found = found.into_iter().find(|found| found.uri == uri);
    let (ttl, scope) = session.cache_control();
    match found {
        Some(found) => Ok(GetSkillResult::new(found).with_ttl_ms(ttl).with_cache_scope(scope)),
        None => Err(unknown_parameter_error("skill", uri)),
    }
}

/// The entries of a page of a list, made anew only if one of them may have changed.
async fn page_entries(
    session: &ServerSession,
    client: &ClientSession,
    list: &Arc<PublishedSkills>,
    page: &[&PublishedSkill],
) -> Result<Arc<Vec<Skill>>, ErrorData> {
    let skill_ids: Vec<_> = page.iter().map(|skill| &*skill.id).collect();
    // Taken first: what changes while the entries are made shows the next time.
    let stamp = match skill_ids.is_empty() {
        true => None,
        false => session.backend().stamp(client, &skill_ids).await,
    };
    let pages = &session.shared.pages;
    if let Some(entries) = stamp.and_then(|stamp| pages.find(list, &skill_ids, stamp)) {
        return Ok(entries);
    }
    let entries = Arc::new(entries(session, client, page).await?);
    if let Some(stamp) = stamp {
        let skill_ids = skill_ids.into_iter().map(str::to_owned).collect();
        let (list, entries) = (Arc::clone(list), Arc::clone(&entries));
        pages.insert(SkillPage { list, skill_ids, stamp, entries });
    }
    Ok(entries)
}

/// Finds the skill that an address belongs to.
///
/// # Errors
/// For an address that is none, and for a skill that the client does not see.
pub(super) async fn find_skill(
    shared: &ServerShared,
    client: &ClientSession,
    uri: &str,
) -> Result<PublishedSkill, ErrorData> {
    let all = shared.skills(client).await?;
    let below = |root: &str| {
        uri.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let found = all.skills.iter().find(|skill| skill.model_invocable && below(&skill.root));
    found.cloned().ok_or_else(|| unknown_resource(uri))
}

/// The entries of skills; one that the extension has no form for is left out and logged.
async fn entries(
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
