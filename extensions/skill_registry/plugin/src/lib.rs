//! The skill registry: the Agent Skills standard for every agent of the kernel.
//!
//! Wiring only. What a skill is lives in `skill-format`, what lies on disk in `skill-store`; this
//! crate offers both as tools, as a block in every prompt, as a service that watches the folders,
//! and as the provider that `uses_skills` is bound through.

mod block;
mod desk;
mod tools;
mod watch;

use std::sync::Arc;

use skill_store::{
    Audience, GenerationFile, RegistryConfig, RegistryError, Store, SystemClock, skill_content,
};
use skillhost_sdk::prelude::*;
use skillhost_sdk::{Origin, tokio};

use crate::block::Prompter;
use crate::desk::Desk;
use crate::watch::Watch;

/// The extension.
struct SkillRegistry {
    cx: ExtensionContext,
    poll_interval_ms: u64,
    store: Arc<Store>,
    prompter: Prompter,
    desk: Arc<Desk>,
    watch: Arc<Watch>,
    generation_file: GenerationFile,
}

#[async_trait]
impl Extension for SkillRegistry {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config: RegistryConfig = cx.config()?;
        let options = config.options(cx.home(), cx.share_dir());
        // Before the scan, so that no write falls between the two.
        let generation_file = GenerationFile::new(cx.data_path());
        let store = Store::open(options, Arc::new(SystemClock)).map_err(|error| {
            ExtError::invalid_argument(error.to_string())
                .with_hint("correct extensions.skill_registry in skillhost.yaml")
        })?;
        let store = Arc::new(store);
        watch::log_skipped(&store.snapshot());
        let desk = Arc::new(Desk::new(cx.clone()));
        let watch = Arc::new(Watch::new(cx.clone(), Arc::clone(&store), Arc::clone(&desk)));
        let poll_interval_ms = config.poll_interval_ms;
        let prompter = Prompter::new(config, Arc::clone(&store));
        Ok(Self { cx, poll_interval_ms, store, prompter, desk, watch, generation_file })
    }

    async fn start(&self) -> Result<()> {
        // Before anything is bound: what agents created is not, unless somebody approved it.
        self.desk.tell(blocking(|| self.desk.keeper.prepare(&self.store))).await;
        Ok(())
    }

    async fn stop(&self) -> Result<()> {
        self.desk.write().await;
        Ok(())
    }

    async fn health_check(&self) -> Result<()> {
        let bad = |message, hint: &str| Err(ExtError::new(ErrorKind::Io, message).with_hint(hint));
        if let Some(partial) = self.store.snapshot().partial() {
            let hint = "skills found earlier are kept until the folders can be read again";
            return bad(format!("the list of skills is not complete: {partial}"), hint);
        }
        if let Some(error) = self.desk.keeper.trouble() {
            return bad(format!("the ledger cannot be used: {error}"), error.hint());
        }
        let unmatched = self.store.snapshot().unmatched_settings();
        match unmatched.iter().map(ToString::to_string).reduce(|all, one| all + "; " + &one) {
            None => Ok(()),
            Some(all) => bad(all, "correct extensions.skill_registry.skills in skillhost.yaml"),
        }
    }
}

#[async_trait]
impl ToolProvider for SkillRegistry {
    fn tools(&self, cx: &CallContext) -> Vec<ToolSpec> {
        tools::specs(&self.store.snapshot(), audience(cx))
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: Args<'_>) -> Result<ToolOutput> {
        if tool == "propose_skill_update" {
            return self.desk.propose(&self.store, cx, args).await;
        }
        blocking(|| tools::invoke(&self.store, &self.desk, &self.prompter, cx, tool, args))
    }
}

#[async_trait]
impl ContextProvider for SkillRegistry {
    fn context_priority(&self) -> i32 {
        60
    }

    fn ready_context(&self, cx: &CallContext, prompt: &str) -> Option<Option<Arc<str>>> {
        self.prompter.ready(cx, prompt)
    }

    async fn get_context(&self, cx: &CallContext, prompt: &str) -> Result<Option<Arc<str>>> {
        Ok(self.prompter.block(cx, prompt))
    }
}

#[async_trait]
impl ServiceProvider for SkillRegistry {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        let watch = self.watch.run(self.poll_interval_ms);
        let work = async { tokio::join!(watch, self.desk.write_in_batches()) };
        let _ended = cancel.run_until_cancelled(work).await;
        Ok(())
    }
}

#[async_trait]
impl SkillProvider for SkillRegistry {
    async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent> {
        let content = blocking(|| skill_content(&self.store, &self.store.snapshot(), skill_id))
            .map_err(refused)?;
        let location = content.location.strip_prefix(self.cx.home()).unwrap_or(&content.location);
        Ok(SkillContent {
            skill_id: skill_id.to_owned(),
            text: content.text,
            digest: content.digest.to_string(),
            tokens: content.tokens.get(),
            source: location.display().to_string(),
        })
    }

    async fn skill_created(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        blocking(|| self.desk.created(&self.store, cx, skill_id))?;
        // What the next call is told already has it.
        self.watch.poll_fully().await
    }

    async fn generation(&self) -> Result<u64> {
        // One stat; a write by another process is then in this very turn.
        if self.generation_file.moved() {
            self.watch.poll().await?;
        }
        Ok(self.store.snapshot().generation())
    }
}

/// Runs work that waits for the disk where it keeps no other call waiting.
///
/// The thread stays the same, so a call costs no switch; the others of the runtime go on elsewhere.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// Whom an answer is for: operators also see what is not offered to models.
fn audience(cx: &CallContext) -> Audience<'_> {
    match cx.origin {
        Origin::Operator => Audience::Operator,
        Origin::Agent | Origin::Mcp => Audience::Agent(block::scope(cx)),
    }
}

/// The registry's errors in the kernel's words.
fn refused(error: RegistryError) -> ExtError {
    use skill_store::ErrorKind as Kind;
    let kind = match error.kind {
        Kind::NotFound => ErrorKind::NotFound,
        Kind::InvalidArgument => ErrorKind::InvalidArgument,
        Kind::Denied => ErrorKind::Denied,
        Kind::TooLarge => ErrorKind::TooLarge,
        Kind::Conflict => ErrorKind::Conflict,
        Kind::Io => ErrorKind::Io,
    };
    ExtError::new(kind, error.message).with_hint(error.hint)
}

export_extension!(SkillRegistry: tools, context, service, skills);
