//! Requests to an extension that provides skills.

use std::time::Duration;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, SkillContent, SkillGeneration, SkillProgram,
    SkillProgramsRequest, SkillReport, SkillRequest, SkillTree, SkillTreeRequest, skill_interface,
};

use crate::extension_host::ExtensionHost;
use crate::instance::{Instance, PinnedInstance};

impl ExtensionHost {
    /// Pins the skill provider; the first one loaded, if there are several.
    #[must_use]
    pub fn skill_provider(&self) -> Option<PinnedInstance> {
        self.pin_state(|state| {
            let mut all = state.order.iter().filter_map(|id| state.instances.get(id));
            match all.find(|instance| instance.provides(skill_interface::NAME)) {
                Some(provider) => provider.pin().map(Some),
                None => Some(None),
            }
        })
    }
}

/// Requests the generation of a skill provider. Each build counts its own, so the instance number
/// is part of the result.
pub fn fetch_skill_generation(
    provider: &Instance,
    limit: Duration,
) -> BoxFuture<'_, Result<(u64, u64), CallError>> {
    Box::pin(async move {
        let reply = provider
            .call(skill_interface::NAME, skill_interface::GENERATION, Vec::new(), limit)
            .await?;
        let reply: SkillGeneration = parse_reply(&reply)?;
        Ok((provider.number, reply.generation))
    })
}

/// Requests the content of a bound skill.
pub fn get_skill<'a>(
    provider: &'a Instance,
    id: &'a str,
    limit: Duration,
) -> BoxFuture<'a, Result<SkillContent, CallError>> {
    Box::pin(async move {
        let request = serde_json::to_vec(&SkillRequest { skill_id: id.into() })
            .map_err(|error| CallError::protocol_error(&error))?;
        let method = skill_interface::GET_SKILL_CONTENT;
        parse_reply(&provider.call(skill_interface::NAME, method, request, limit).await?)
    })
}

/// Requests the files of a skill, or of the one that was loaded last.
pub fn get_skill_tree<'a>(
    provider: &'a Instance,
    context: &CallContext,
    skill_id: Option<&str>,
    limit: Duration,
) -> BoxFuture<'a, Result<SkillTree, CallError>> {
    let skill_id = skill_id.map(str::to_owned);
    let request = SkillTreeRequest { context: context.clone(), skill_id };
    Box::pin(async move {
        let request =
            serde_json::to_vec(&request).map_err(|error| CallError::protocol_error(&error))?;
        parse_reply(
            &provider
                .call(skill_interface::NAME, skill_interface::GET_TREE, request, limit)
                .await?,
        )
    })
}

/// Reports that a script of a skill ran for the agent of a call. An error is logged: the count of uses
/// is no part of the run.
pub fn report_script_run<'a>(
    provider: &'a Instance,
    context: &CallContext,
    skill_id: &'a str,
    limit: Duration,
) -> BoxFuture<'a, ()> {
    let report = SkillReport { context: context.clone(), skill_id: skill_id.to_owned() };
    // A struct of strings and numbers has a JSON form.
    let report = serde_json::to_vec(&report).unwrap_or_default();
    let method = skill_interface::SCRIPT_RAN;
    Box::pin(async move {
        if let Err(error) = provider.call(skill_interface::NAME, method, report, limit).await {
            tracing::warn!(skill_id, %error, "the run of a script was not counted");
        }
    })
}

/// Returns a note for each of these skills that the provider does not have.
pub(crate) async fn unknown_skill_notes(
    provider: &Instance,
    ids: impl Iterator<Item = &String>,
    limit: Duration,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !provider.provides(skill_interface::NAME) {
        return notes;
    }
    let operator = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
    for id in ids {
        let tree = get_skill_tree(provider, &operator, Some(id), limit).await;
        // Other errors are reported where the skill is used.
        if tree.is_err_and(|error| error.kind == ErrorKind::NotFound) {
            notes.push(format!("skillhost.yaml: sandbox.skills.{id}: no such skill"));
        }
    }
    notes
}

/// Requests the programs of the skills that a caller sees, or those of one skill.
///
/// # Errors
/// The error of the provider; [`ErrorKind::Protocol`] for one that does not know the request.
pub fn list_skill_programs<'a>(
    provider: &'a Instance,
    context: &'a CallContext,
    skill_id: Option<&'a str>,
    limit: Duration,
) -> BoxFuture<'a, Result<Vec<SkillProgram>, CallError>> {
    Box::pin(async move {
        let request =
            SkillProgramsRequest { context: context.clone(), skill_id: skill_id.map(Into::into) };
        let request =
            serde_json::to_vec(&request).map_err(|error| CallError::protocol_error(&error))?;
        let method = skill_interface::LIST_PROGRAMS;
        parse_reply(&provider.call(skill_interface::NAME, method, request, limit).await?)
    })
}

fn parse_reply<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(bytes)
        .map_err(|error| CallError::new(ErrorKind::Protocol, error.to_string()))
}
