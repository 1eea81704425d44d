//! Completion of skill ids and of file paths within skills.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData};

use super::protocol_error::{to_protocol_error, unknown_parameter_error};
use super::resources::TEMPLATE;
use super::session::{McpRequestContext, ServerSession};

/// Completes an argument of a prompt or of the resource template.
pub(super) async fn complete_argument(
    session: &ServerSession,
    context: &McpRequestContext,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let client = session.client(context);
    let typed = &request.argument.value;
    if let Some(name) = request.r#ref.as_prompt_name() {
        let all = session.shared.skills(&client).await?;
        let known = all.skills.iter().any(|skill| skill.user_invocable && skill.id == name);
        // Skills declare no values for their arguments, so there are no suggestions.
        return if known {
            Ok(completion_result(Vec::new()))
        } else {
            Err(unknown_parameter_error("prompt", name))
        };
    }
    let uri = request.r#ref.as_resource_uri().unwrap_or_default();
    if uri != TEMPLATE {
        return Err(unknown_parameter_error("resource template", uri));
    }
    match request.argument.name.as_str() {
        "skill_id" => {
            let all = session.shared.skills(&client).await?;
            Ok(completion_result(matching_values(all.skills.iter().map(|skill| &*skill.id), typed)))
        }
        "path" => {
            let id = request.context.as_ref().and_then(|given| given.get_argument("skill_id"));
            let details = match id {
                Some(id) => session.backend().details(&client, &[id]).await,
                None => Ok(Vec::new()),
            };
            let details = details.map_err(|error| to_protocol_error(&error))?;
            let files = details.iter().flat_map(|details| details.files.iter().flatten());
            Ok(completion_result(matching_values(files.map(|file| &*file.path), typed)))
        }
        other => Err(unknown_parameter_error("argument", other)),
    }
}

/// Returns the candidates that start with the typed text, then those that contain it, each in
/// order.
fn matching_values<'a>(candidates: impl Iterator<Item = &'a str>, typed: &str) -> Vec<String> {
    let typed = typed.to_lowercase();
    let at = candidates
        .filter_map(|candidate| Some((candidate.to_lowercase().find(&typed)?, candidate)));
    let (prefixed, contained): (Vec<_>, Vec<_>) = at.partition(|(at, _)| *at == 0);
    prefixed.into_iter().chain(contained).map(|(_, candidate)| candidate.to_owned()).collect()
}

fn completion_result(mut values: Vec<String>) -> CompleteResult {
    let total = values.len();
    values.truncate(CompletionInfo::MAX_VALUES);
    let more = total > values.len();
    let info = CompletionInfo::with_pagination(values, u32::try_from(total).ok(), more);
    // The only error is too many values, and these have been truncated to the protocol's maximum.
    CompleteResult::new(info.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_matches_come_first() {
        let ids = ["a-review", "b", "review", "Review-2"];
        assert_eq!(matching_values(ids.into_iter(), "rev"), ["review", "Review-2", "a-review"]);
        assert_eq!(matching_values(ids.into_iter(), "").len(), 4);
    }

    #[test]
    fn completion_is_limited_and_counted() {
        let offered = completion_result((0..250).map(|n| n.to_string()).collect()).completion;
        let found = (offered.values.len(), offered.total, offered.has_more);
        assert_eq!(found, (100, Some(250), Some(true)));
        let offered = completion_result(vec!["a".to_owned()]).completion;
        assert_eq!((offered.total, offered.has_more), (Some(1), Some(false)));
    }
}
