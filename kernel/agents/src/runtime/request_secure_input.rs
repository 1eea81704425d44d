//! The tool by which an agent requests a secret from a person. The value goes from the person's
//! terminal to `.env`; neither the model nor the stored records of the run contain it.

use serde::Deserialize;
use serde_json::json;
use skillhost_conversation::{ApprovalDecision, RunEntry, SecretPrompt, SecretReply};
use skillhost_home::{discover_manifests, suggest_similar};
use skillhost_payload::{CallError, ErrorKind, ToolSpec};

use super::session::RunSession;
use super::tool_spec::new_spec;
use crate::agent_runtime::AgentRuntime;

pub(super) const NAME: &str = "request_secure_input";

pub(super) fn tool_spec() -> ToolSpec {
    let text =
        |description: &str| json!({"type": "string", "minLength": 1, "description": description});
    new_spec(
        NAME,
        "Asks the person for a secret, such as an access key, and stores it for the extensions whose \
         manifests list it under `secrets`. You do not see it. Never ask for a secret in any other \
         way.",
        json!({
            "type": "object",
            "properties": {
                "name": text("The secret's name, as a manifest lists it."),
                "reason": text("Its purpose and where the person gets it, in a sentence.")
            },
            "required": ["name", "reason"],
            "additionalProperties": false
        }),
    )
}

#[derive(Deserialize)]
pub(super) struct SecureInputArgs {
    name: String,
    reason: String,
}

impl AgentRuntime {
    /// Requests and stores a secret. Typing it is the approval, so the tool requires no other.
    pub(super) async fn request_secure_input(
        &self,
        session: &RunSession,
        call_id: u64,
        SecureInputArgs { name, reason }: SecureInputArgs,
    ) -> Result<String, CallError> {
        let extensions = self.extensions_listing_secret(&name)?;
        // A stored value would have no effect, so the person is not prompted for it.
        if std::env::var_os(&name).is_some() {
            let message =
                format!("`{name}` is set in the kernel's environment, which takes precedence");
            return Err(CallError::new(ErrorKind::Conflict, message)
                .with_hint("change or unset the variable before the kernel is started"));
        }
        let no_channel_error = || {
            CallError::new(
                ErrorKind::Denied,
                "secret requires an approval channel, but none is available",
            )
            .with_hint(format!("write {name}=… into .env in the home"))
        };
        let channel = session.reporter.channel.as_ref().ok_or_else(no_channel_error)?;
        let prompt = SecretPrompt {
            agent_id: session.agent.to_string(),
            name: name.clone(),
            extensions: extensions.clone(),
            reason,
        };
        let limit = self.extensions().limits().approval;
        let reply = {
            let _waiting = session.budget.start_wait(call_id);
            let _alone = session.approval_lock.lock().await;
            let reply = tokio::time::timeout(limit, channel.request_secret(&prompt)).await;
            reply.unwrap_or_else(|_| SecretReply::Refused {
                reason: format!("secret prompt timed out after {} ms", limit.as_millis()),
            })
        };
        // Recorded as a decision only; the transcript never has the value.
        let decision = match &reply {
            SecretReply::Given(_) => ApprovalDecision::Once,
            SecretReply::Refused { reason } => ApprovalDecision::Refuse { reason: reason.clone() },
        };
        session.reporter.record(&RunEntry::Approval { tool: NAME.to_owned(), decision });
        let value = match reply {
            SecretReply::Given(value) => value,
            SecretReply::Refused { reason } => {
                let message = format!("`{name}` was not provided: {reason}");
                return Err(CallError::new(ErrorKind::Denied, message)
                    .with_hint("request it again only if the user says so"));
            }
        };
        // Writes and syncs a file, which would block the executor.
        let (kernel, stored) = (self.clone(), name.clone());
        let storing = tokio::task::spawn_blocking(move || {
            kernel.extensions().secrets().store(&stored, &value)
        });
        let stored = storing
            .await
            .map_err(|error| CallError::new(ErrorKind::Panicked, error.to_string()))?;
        stored.map_err(|error| {
            CallError::new(ErrorKind::Io, format!("`{name}` was not stored: {error}"))
        })?;
        Ok(format!(
            "The secret `{name}` is stored; you do not see it. {} can read it from now on. An \
             extension that reads it only when it starts needs a restart of the kernel.",
            extensions.join(", ")
        ))
    }

    /// Returns the extensions whose manifests list a secret, with those not loaded yet: an
    /// extension may have been rejected for the missing secret.
    fn extensions_listing_secret(&self, name: &str) -> Result<Vec<String>, CallError> {
        let settings = self.extensions().settings();
        let (home, installation) = (self.extensions().home(), self.extensions().installation());
        let found = discover_manifests(home, installation, &settings.allow_shadowing);
        // Unapproved extensions are named too: the secret may be needed for their trial run.
        let all = || found.manifests.values().chain(found.unapproved.values());
        let manifests = || all().map(|found| &found.manifest);
        let listing = manifests().filter(|manifest| manifest.secrets.iter().any(|s| s == name));
        let ids: Vec<_> = listing.map(|manifest| manifest.id.to_string()).collect();
        if ids.is_empty() {
            let known = manifests().flat_map(|manifest| &manifest.secrets).map(String::as_str);
            let hint = match suggest_similar(name, known).as_slice() {
                [] => format!("add `secrets: [{name}]` to the manifest of the extension"),
                names => format!("did you mean {}?", names.join(", ")),
            };
            let name = skillhost_core::mistakes::truncate(name, 100);
            let message = format!("secret `{name}` is not listed in any manifest");
            return Err(CallError::new(ErrorKind::NotFound, message).with_hint(hint));
        }
        Ok(ids)
    }
}
