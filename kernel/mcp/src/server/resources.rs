//! Resources: the files of skills.

use rmcp::model::{
    DIRECTORY_MIME_TYPE, ErrorData, ListResourceTemplatesResult, ListResourcesResult,
    PaginatedRequestParams, ReadResourceDirectoryRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use skillhost_payload::{ErrorKind, PublishedContent, PublishedSkill};

use super::pagination::paginate;
use super::protocol_error::resource_error;
use super::session::{McpRequestContext, ServerSession};
use super::skills::find_skill;

/// The template of resource addresses.
pub(super) const TEMPLATE: &str = "skill://{skill_id}/{+path}";

/// Lists the SKILL.md of each skill.
///
/// The other files appear in the entry of the skill and in its directories.
pub(super) async fn list_resources(
    session: &ServerSession,
    context: &McpRequestContext,
    request: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let all = session.shared.skills(&session.client(context)).await?;
    let size = session.shared.limits.page;
    let offered: Vec<_> = all.skills.iter().filter(|skill| skill.model_invocable).collect();
    let (skills, next) = paginate(&offered, |skill| &skill.id, request.as_ref(), size)?;
    let resources = skills.iter().map(|skill| to_resource(skill)).collect();
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next;
    let (ttl, scope) = session.cache_control();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}

fn to_resource(skill: &PublishedSkill) -> Resource {
    // Clients show little but the description, so a warning belongs into it.
    let description = match skill.trusted {
        true => skill.description.clone(),
        false => format!("{} (from {}, not trusted)", skill.description, skill.source),
    };
    Resource::new(&skill.uri, &skill.id)
        .with_title(&skill.name)
        .with_description(description)
        .with_mime_type("text/markdown")
}

/// Returns the only resource template.
pub(super) fn list_templates(session: &ServerSession) -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(TEMPLATE, "skill-file")
        .with_title("A file of a skill")
        .with_description("SKILL.md has the instructions; they name the other files.");
    let (ttl, scope) = session.cache_control();
    ListResourceTemplatesResult::with_all_items(vec![template])
        .with_ttl_ms(ttl)
        .with_cache_scope(scope)
}

/// Reads one file of a skill.
pub(super) async fn read_resource(
    session: &ServerSession,
    context: &McpRequestContext,
    uri: &str,
) -> Result<ReadResourceResponse, ErrorData> {
    let client = session.client(context);
    // The backend serves every file; the visibility of a skill is checked here.
    find_skill(&session.shared, &client, uri).await?;
    let body = session.backend().read(&client, uri).await.map_err(|e| resource_error(&e))?;
    let (PublishedContent::Text(content) | PublishedContent::Base64(content)) = &body.content;
    let limit = session.shared.limits.resource;
    if content.len() > limit {
        return Err(size_error(uri, content.len(), limit));
    }
    let contents = match body.content {
        PublishedContent::Text(text) => ResourceContents::text(text, uri),
        PublishedContent::Base64(blob) => ResourceContents::blob(blob, uri),
    };
    let (ttl, scope) = session.cache_control();
    let result = ReadResourceResult::new(vec![contents.with_mime_type(body.mime_type)]);
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope).into())
}

/// Returns the error for a resource that exceeds the size limit of responses.
fn size_error(uri: &str, size: usize, limit: usize) -> ErrorData {
    let message = format!("{uri} takes {size} bytes in a response, more than {limit}");
    let kind = serde_json::json!({ "kind": ErrorKind::TooLarge });
    ErrorData::invalid_params(message, Some(kind))
}

/// Lists one directory of a skill.
pub(super) async fn read_directory(
    session: &ServerSession,
    context: &McpRequestContext,
    request: ReadResourceDirectoryRequestParams,
) -> Result<ListResourcesResult, ErrorData> {
    let client = session.client(context);
    // Clients may send the address of a directory with or without a final slash.
    let uri = request.uri.strip_suffix('/').unwrap_or(&request.uri);
    find_skill(&session.shared, &client, uri).await?;
    let entries =
        session.backend().directory(&client, uri).await.map_err(|e| resource_error(&e))?;
    let paging = PaginatedRequestParams::default().with_cursor(request.cursor);
    let size = session.shared.limits.page;
    let (entries, next) = paginate(&entries, |entry| &entry.name, Some(&paging), size)?;
    let resources = entries.iter().map(|entry| {
        let resource = Resource::new(&entry.uri, &entry.name);
        let resource = match &entry.mime_type {
            _ if entry.directory => resource.with_mime_type(DIRECTORY_MIME_TYPE),
            Some(mime) => resource.with_mime_type(mime),
            None => resource,
        };
        match entry.size {
            Some(size) => resource.with_size(size),
            None => resource,
        }
    });
    let mut result = ListResourcesResult::with_all_items(resources.collect());
    result.next_cursor = next;
    let (ttl, scope) = session.cache_control();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}
