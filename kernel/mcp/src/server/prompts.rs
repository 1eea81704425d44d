//! Prompts: one per skill that users may invoke.

use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
    PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::Value;
use skillhost_payload::{PublishedArgument, PublishedSkill};

use super::pagination::paginate;
use super::protocol_error::{to_protocol_error, unknown_parameter_error};
use super::session::{McpRequestContext, ServerSession};
use crate::backend::PromptArguments;

/// Lists the prompts of user-invocable skills.
pub(super) async fn list_prompts(
    session: &ServerSession,
    context: &McpRequestContext,
    request: Option<PaginatedRequestParams>,
) -> Result<ListPromptsResult, ErrorData> {
    let client = session.client(context);
    let all = session.shared.skills(&client).await?;
    let size = session.shared.limits.page;
    let invocable: Vec<_> = all.skills.iter().filter(|skill| skill.user_invocable).collect();
    let (skills, next) = paginate(&invocable, |skill| &skill.id, request.as_ref(), size)?;
    let ids: Vec<_> = skills.iter().map(|skill| &*skill.id).collect();
    // A kernel without a skill provider rejects a request for details, even an empty one.
    let details = match ids.is_empty() {
        true => Vec::new(),
        false => {
            session.backend().details(&client, &ids).await.map_err(|e| to_protocol_error(&e))?
        }
    };
    let prompts = skills.iter().map(|skill| {
        let details = details.iter().find(|details| details.id == skill.id);
        to_prompt(skill, details.map_or(&[], |details| &details.arguments))
    });
    let mut result = ListPromptsResult::with_all_items(prompts.collect());
    result.next_cursor = next;
    let (ttl, scope) = session.cache_control();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}

fn to_prompt(skill: &PublishedSkill, arguments: &[PublishedArgument]) -> Prompt {
    let arguments = arguments.iter().map(|argument| {
        let described = PromptArgument::new(&argument.name).with_required(argument.required);
        match &argument.description {
            Some(text) => described.with_description(text),
            None => described,
        }
    });
    Prompt::new(&skill.id, Some(&skill.description), Some(arguments.collect()))
        .with_title(&skill.name)
}

/// Renders the prompt of a user-invocable skill.
pub(super) async fn get_prompt(
    session: &ServerSession,
    context: &McpRequestContext,
    request: GetPromptRequestParams,
) -> Result<GetPromptResponse, ErrorData> {
    let client = session.client(context);
    let all = session.shared.skills(&client).await?;
    let found = all.skills.iter().find(|skill| skill.user_invocable && skill.id == request.name);
    let skill = found.ok_or_else(|| unknown_parameter_error("prompt", &request.name))?;
    let details = session
        .backend()
        .details(&client, &[&skill.id])
        .await
        .map_err(|e| to_protocol_error(&e))?;
    let arguments = details.first().map_or(&[][..], |details| &details.arguments);
    let given = accepted_arguments(arguments, request.arguments.unwrap_or_default())?;
    let text = session
        .backend()
        .prompt(&client, &skill.id, given)
        .await
        .map_err(|e| to_protocol_error(&e))?;
    let result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]);
    Ok(result.with_description(&skill.description).into())
}

/// Returns the client's arguments as text.
///
/// # Errors
/// An invalid-parameter error for a value that is not a string and for a missing argument.
fn accepted_arguments(
    arguments: &[PublishedArgument],
    arguments_given: serde_json::Map<String, Value>,
) -> Result<PromptArguments, ErrorData> {
    let mut given = PromptArguments::new();
    for (name, value) in arguments_given {
        let Value::String(text) = value else {
            let message = format!("argument {name:?} is not a string");
            return Err(ErrorData::invalid_params(message, None));
        };
        given.insert(name, text);
    }
    match arguments.iter().find(|a| a.required && !given.contains_key(&a.name)) {
        Some(missing) => {
            let message = format!("argument {:?} is required", missing.name);
            Err(ErrorData::invalid_params(message, None))
        }
        None => Ok(given),
    }
}
