//! The skill registry: the Agent Skills standard for every agent of the kernel.
//!
//! Wiring only. What a skill is lives in `skill-format`, what lies on disk in `skill-store`; this
//! crate offers both as tools, as a block in every prompt, as a service that watches the folders,
//! and as the provider that `uses_skills` is bound through.

mod caller;
mod desk;
mod meaning;
mod review;
mod tools;
mod watch;

use std::collections::BTreeMap;

use skill_store::{
    GenerationFile, News, Publication, Read, RegistryError, activate_skill, skill_content,
};
use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{Serialize, de::DeserializeOwned};
use skillhost_sdk::{
    ActiveSkill, PublishedBody, PublishedDetails, PublishedEntry, PublishedPrompt, PublishedSkills,
    ReviewDecision, ReviewOffer, serde_json, tokio,
};

use crate::caller::audience;
use crate::desk::Desk;
use crate::meaning::Meaning;
use crate::watch::Watch;

/// The extension.
struct SkillRegistry {
    desk: Arc<Desk>,
    meaning: Meaning,
    watch: Arc<Watch>,
    generation_file: GenerationFile,
    publication: Publication,
}

#[async_trait]
impl Extension for SkillRegistry {
    fn new(cx: ExtensionContext) -> Result<Self> {
        // Before the scan, so that no write falls between the two.
        let generation_file = GenerationFile::new(cx.data_path());
        let desk = Arc::new(Desk::new(cx)?);
        watch::log(&News::first(&desk.store.snapshot()));
        let (meaning, watch) = (Meaning::new(&desk), Arc::new(Watch::new(&desk)));
        let publication = Publication::new(Arc::clone(&desk.store));
        Ok(Self { desk, meaning, watch, generation_file, publication })
    }

    async fn start(&self) -> Result<()> {
        // Before anything is bound: what agents created is not, unless somebody approved it.
        self.desk.tell(blocking(|| self.desk.keeper.prepare(&self.desk.store))).await;
        Ok(())
    }

    async fn stop(&self) -> Result<()> {
        self.desk.write().await;
        Ok(())
    }

    async fn health_check(&self) -> Result<()> {
        let trouble = self.desk.finder.trouble(self.desk.keeper.trouble());
        let Some((message, hint)) = trouble else { return Ok(()) };
        Err(ExtensionError::new(ErrorKind::Io, message).with_hint(hint))
    }
}

#[async_trait]
impl ToolProvider for SkillRegistry {
    fn tools(&self, cx: &CallContext) -> Vec<ToolSpec> {
        tools::specs(&self.desk, cx)
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput> {
        match tool {
            "propose_skill_update" => {
                let answer = self.desk.propose(cx, args).await;
                review::begin(&self.desk);
                answer
            }
            "list_skills" => tools::list(&self.meaning, cx, args).await,
            "explain_catalog" => tools::explain(&self.meaning, cx, args).await,
            _ => blocking(|| tools::read(&self.desk, cx, tool, args)),
        }
    }
}

#[async_trait]
impl ContextProvider for SkillRegistry {
    fn context_priority(&self) -> i32 {
        60
    }

    fn ready_context(&self, cx: &CallContext, prompt: &str) -> Option<Option<Arc<str>>> {
        self.desk.finder.ready_block(&self.desk.turn(cx, prompt))
    }

    async fn get_context(&self, cx: &CallContext, prompt: &str) -> Result<Option<Arc<str>>> {
        let (snapshot, turn) = (self.desk.store.snapshot(), self.desk.turn(cx, prompt));
        let near = self.meaning.near(&snapshot, prompt).await;
        Ok(blocking(|| self.desk.finder.block(&snapshot, &turn, near.as_ref())))
    }
}

#[async_trait]
impl ServiceProvider for SkillRegistry {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        let watch = self.watch.run();
        let finding = self.meaning.keep_ready(&self.watch.changed);
        let work = async { tokio::join!(watch, self.desk.write_in_batches(), finding) };
        let _ended = cancel.run_until_cancelled(work).await;
        Ok(())
    }
}

#[async_trait]
impl SkillProvider for SkillRegistry {
    async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent> {
        let Desk { store, cx, .. } = &*self.desk;
        let content = blocking(|| skill_content(store, &store.snapshot(), skill_id));
        shaped(&content.map_err(refused)?.below(cx.home()))
    }

    async fn activate(&self, cx: &CallContext, skill_id: &str) -> Result<ActiveSkill> {
        let Desk { store, ledger, cx: own, .. } = &*self.desk;
        let (who, now) = (audience(cx), store.snapshot());
        let made = blocking(|| activate_skill(store, &now, ledger, who, skill_id));
        shaped(&made.map_err(refused)?.below(own.home()))
    }

    async fn skill_created(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        blocking(|| self.desk.created(cx, skill_id))?;
        // What the next call is told already has it.
        self.watch.poll_fully().await
    }

    async fn list_published(&self, cx: &CallContext) -> Result<PublishedSkills> {
        shaped(&self.publication.list(audience(cx)))
    }

    async fn published_details(
        &self,
        cx: &CallContext,
        ids: &[String],
    ) -> Result<Vec<PublishedDetails>> {
        let found = blocking(|| self.publication.details(audience(cx), ids));
        watch::log(&found.notes);
        shaped(&found.details)
    }

    async fn published_stamp(&self, cx: &CallContext, ids: &[String]) -> Result<Option<u64>> {
        Ok(Some(blocking(|| self.publication.stamp(audience(cx), ids))))
    }

    async fn read_published(&self, cx: &CallContext, uri: &str) -> Result<PublishedBody> {
        self.handed_out(cx, blocking(|| self.publication.read(audience(cx), uri)))
    }

    async fn read_published_directory(
        &self,
        cx: &CallContext,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>> {
        let children = blocking(|| self.publication.directory(audience(cx), uri));
        shaped(&children.map_err(refused)?)
    }

    async fn published_prompt(
        &self,
        cx: &CallContext,
        skill_id: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<PublishedPrompt> {
        self.handed_out(cx, blocking(|| self.publication.prompt(audience(cx), skill_id, given)))
    }

    async fn offer_review(&self, _cx: &CallContext, proposal: &str) -> Result<Option<ReviewOffer>> {
        shaped(&self.desk.offer(proposal)?)
    }

    async fn decide(&self, decision: &ReviewDecision) -> Result<String> {
        let text = self.desk.decide(decision).await?;
        // What the next call is told already has it.
        self.watch.poll_fully().await?;
        Ok(text)
    }

    async fn generation(&self) -> Result<u64> {
        // One stat; a write by another process is then in this very turn.
        if self.generation_file.moved() {
            self.watch.poll().await?;
        }
        Ok(self.desk.store.snapshot().generation())
    }
}

impl SkillRegistry {
    /// What a client gets out of a skill, taken down.
    fn handed_out<T: DeserializeOwned>(
        &self,
        cx: &CallContext,
        found: std::result::Result<(impl Serialize, Read), RegistryError>,
    ) -> Result<T> {
        let (made, read) = found.map_err(refused)?;
        self.desk.record(cx, read);
        shaped(&made)
    }
}

/// A value of the registry in the kernel's shape, which is the same on the wire.
fn shaped<T: DeserializeOwned>(value: &impl Serialize) -> Result<T> {
    serde_json::from_value(json!(value)).map_err(|error| ExtensionError::failed(error.to_string()))
}

/// Runs work that waits for the disk where it keeps no other call waiting.
///
/// The thread stays the same, so a call costs no switch; the others of the runtime go on elsewhere.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// The registry's errors in the kernel's words.
fn refused(error: RegistryError) -> ExtensionError {
    // Both name their kinds as they are on the wire.
    let kind = serde_json::from_value(json!(error.kind)).unwrap_or(ErrorKind::Failed);
    ExtensionError::new(kind, error.message).with_hint(error.hint)
}

export_extension!(SkillRegistry: tools, context, service, skills);
