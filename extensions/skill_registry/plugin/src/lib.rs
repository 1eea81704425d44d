//! The skill registry: the Agent Skills standard for every agent of the kernel.
//!
//! This crate only connects parts. Skills are found by `skill-catalog`, changed by `skill-ledger` and
//! shown by `skill-service`; this crate offers them as tools, as a block in every prompt, as a service
//! that watches the directories, and as the provider through which `uses_skills` is bound.

mod bridge;
mod embedding_search;
mod registry_state;
mod review;
mod tools;
mod watch;

use std::collections::BTreeMap;

use skill_catalog::{GenerationFile, RegistryError};
use skill_ledger::SkillAccess;
use skill_service::{
    ChangeLog, SkillPublication, activate_skill, audience_of, audience_without, skill_content,
    skill_tree, tool_specs,
};
use skillhost_sdk::prelude::*;
use skillhost_sdk::{
    ActiveSkill, AgentTools, BindingProblem, PublishedBody, PublishedDetails, PublishedEntry,
    PublishedPrompt, PublishedSkills, ReviewDecision, ReviewOffer, ReviewQuestion, SkillProgram,
    SkillTree, SkillVersionFile, SkillVersionSummary, tokio,
};

use crate::bridge::{log_messages, run_blocking, to_extension_error};
use crate::embedding_search::EmbeddingSearch;
use crate::registry_state::RegistryState;
use crate::watch::SkillWatcher;

/// The extension.
struct SkillRegistry {
    registry: Arc<RegistryState>,
    embedding: EmbeddingSearch,
    watch: Arc<SkillWatcher>,
    generation_file: GenerationFile,
    publication: SkillPublication,
}

#[async_trait]
impl Extension for SkillRegistry {
    fn new(cx: ExtensionContext) -> Result<Self> {
        // Before the scan, so that no write falls between the two.
        let generation_file = GenerationFile::new(cx.data_path());
        let registry = Arc::new(RegistryState::new(cx)?);
        log_messages(&ChangeLog::initial_messages(&registry.store.snapshot()));
        let (embedding, watch) =
            (EmbeddingSearch::new(&registry), Arc::new(SkillWatcher::new(&registry)));
        let publication = SkillPublication::new(Arc::clone(&registry.store));
        Ok(Self { registry, embedding, watch, generation_file, publication })
    }

    async fn start(&self) -> Result<()> {
        // This must precede the first binding: an unapproved skill that an agent created cannot be
        // bound.
        self.registry
            .publish_outcome(run_blocking(|| {
                self.registry.keeper.load_created_skills(&self.registry.store)
            }))
            .await;
        Ok(())
    }

    async fn stop(&self) -> Result<()> {
        self.registry.flush_completely().await;
        Ok(())
    }

    async fn health_check(&self) -> Result<()> {
        let trouble = self.registry.finder.warning(self.registry.keeper.last_error());
        let Some((message, hint)) = trouble else { return Ok(()) };
        Err(ExtensionError::new(ErrorKind::Io, message).with_hint(hint))
    }
}

#[async_trait]
impl ToolProvider for SkillRegistry {
    fn tools(&self, cx: &CallContext) -> Vec<ToolSpec> {
        let specs = tool_specs(&self.registry.store.snapshot(), audience_of(cx));
        specs.into_iter().map(ToolSpec::from).collect()
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput> {
        match tool {
            "propose_skill_update" => {
                let answer = self.registry.propose(cx, args).await;
                review::spawn_review(&self.registry);
                answer
            }
            "list_skills" => tools::call_list_skills(&self.embedding, cx, args).await,
            "explain_catalog" => tools::call_explain_catalog(&self.embedding, cx, args).await,
            _ => run_blocking(|| tools::call_read(&self.registry, cx, tool, args)),
        }
    }
}

#[async_trait]
impl ContextProvider for SkillRegistry {
    fn context_priority(&self) -> i32 {
        60
    }

    fn ready_context(&self, cx: &CallContext, prompt: &str) -> Option<Option<Arc<str>>> {
        let hidden = self.registry.declarations.hidden_skills(cx);
        self.registry.finder.cached_block(&self.registry.finder.block_request(cx, prompt, &hidden))
    }

    async fn get_context(&self, cx: &CallContext, prompt: &str) -> Result<Option<Arc<str>>> {
        let hidden = self.registry.declarations.hidden_skills(cx);
        let (snapshot, turn) = (
            self.registry.store.snapshot(),
            self.registry.finder.block_request(cx, prompt, &hidden),
        );
        let near = self.embedding.score_similarity(&snapshot, prompt).await;
        Ok(run_blocking(|| self.registry.finder.block(&snapshot, &turn, near.as_ref())))
    }
}

#[async_trait]
impl ServiceProvider for SkillRegistry {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        let watch = self.watch.run();
        let finding = self.embedding.maintain_index(&self.watch.changed);
        let work = async { tokio::join!(watch, self.registry.flush_periodically(), finding) };
        let _ended = cancel.run_until_cancelled(work).await;
        Ok(())
    }
}

#[async_trait]
impl SkillProvider for SkillRegistry {
    async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent> {
        let RegistryState { store, cx, .. } = &*self.registry;
        let made = run_blocking(|| skill_content(store, &store.snapshot(), skill_id, cx.home()));
        made.map_err(to_extension_error)
    }

    async fn activate(&self, cx: &CallContext, skill_id: &str) -> Result<ActiveSkill> {
        let RegistryState { store, ledger, cx: own, .. } = &*self.registry;
        let (who, now) = (audience_of(cx), store.snapshot());
        self.registry.check_eligible(cx, skill_id)?;
        let made = run_blocking(|| activate_skill(store, &now, ledger, who, skill_id, own.home()));
        made.map_err(to_extension_error)
    }

    async fn tree(&self, cx: &CallContext, skill_id: Option<&str>) -> Result<SkillTree> {
        let RegistryState { store, .. } = &*self.registry;
        let id = skill_id.or_else(|| Some(&*cx.active_skills.last()?.skill_id));
        id.map_or(Ok(()), |id| self.registry.check_use(cx, id))?;
        let made = run_blocking(|| skill_tree(store, &store.snapshot(), audience_of(cx), id));
        made.map_err(to_extension_error)
    }

    async fn list_programs(
        &self,
        cx: &CallContext,
        skill_id: Option<&str>,
    ) -> Result<Vec<SkillProgram>> {
        let hidden = self.registry.declarations.hidden_skills(cx);
        let (programs, who) = (&self.registry.programs, audience_without(cx, &hidden));
        let listed = run_blocking(|| match skill_id {
            Some(id) => programs.list_skill(who, id),
            None => Ok(programs.list(who)),
        });
        listed.map_err(to_extension_error)
    }

    async fn set_agent_tools(&self, agents: Vec<AgentTools>) -> Result<()> {
        self.registry.declarations.set_agent_tools(agents);
        Ok(())
    }

    async fn check_binding(
        &self,
        agent: &AgentTools,
        skill_ids: &[String],
    ) -> Result<Vec<BindingProblem>> {
        Ok(run_blocking(|| self.registry.declarations.check_binding(agent, skill_ids)))
    }

    async fn skill_created(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        run_blocking(|| self.registry.record_created_skill(cx, skill_id))?;
        // The index must contain the change before the event lets another call rely on it.
        self.watch.poll_fully().await
    }

    async fn script_ran(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        self.registry.count_script_run(cx, skill_id);
        Ok(())
    }

    async fn list_published(&self, cx: &CallContext) -> Result<PublishedSkills> {
        Ok(self.publication.list(audience_of(cx)))
    }

    async fn published_details(
        &self,
        cx: &CallContext,
        ids: &[String],
    ) -> Result<Vec<PublishedDetails>> {
        let found = run_blocking(|| self.publication.details(audience_of(cx), ids));
        log_messages(&found.notes);
        Ok(found.details)
    }

    async fn published_stamp(&self, cx: &CallContext, ids: &[String]) -> Result<Option<u64>> {
        Ok(Some(run_blocking(|| self.publication.stamp(audience_of(cx), ids))))
    }

    async fn read_published(&self, cx: &CallContext, uri: &str) -> Result<PublishedBody> {
        self.record_read(cx, run_blocking(|| self.publication.read(audience_of(cx), uri)))
    }

    async fn read_published_directory(
        &self,
        cx: &CallContext,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>> {
        let children = run_blocking(|| self.publication.directory(audience_of(cx), uri));
        children.map_err(to_extension_error)
    }

    async fn published_prompt(
        &self,
        cx: &CallContext,
        skill_id: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<PublishedPrompt> {
        self.record_read(
            cx,
            run_blocking(|| self.publication.prompt(audience_of(cx), skill_id, given)),
        )
    }

    async fn offer_review(&self, _cx: &CallContext, proposal: &str) -> Result<Option<ReviewOffer>> {
        self.registry.review_offer(proposal)
    }

    async fn decide(&self, decision: &ReviewDecision) -> Result<String> {
        let text = self.registry.apply_decision(decision).await?;
        // The index must contain the change before the event lets another call rely on it.
        self.watch.poll_fully().await?;
        Ok(text)
    }

    async fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>> {
        self.registry.list_reviews(known)
    }

    async fn list_versions(&self, skill_id: &str) -> Result<Vec<SkillVersionSummary>> {
        self.registry.list_versions(skill_id)
    }

    async fn read_version(&self, skill_id: &str, number: u64) -> Result<Vec<SkillVersionFile>> {
        self.registry.read_version(skill_id, number)
    }

    async fn generation(&self) -> Result<u64> {
        // One stat; a write by another process is then in this very turn.
        if self.generation_file.has_changed() {
            self.watch.poll().await?;
        }
        let RegistryState { store, programs, declarations, .. } = &*self.registry;
        // Each grows, so their sum changes with any of them.
        Ok(store.snapshot().generation() + programs.revision() + declarations.revision())
    }
}

impl SkillRegistry {
    /// Records the reading of a skill by a client.
    fn record_read<T>(
        &self,
        cx: &CallContext,
        found: std::result::Result<(T, SkillAccess), RegistryError>,
    ) -> Result<T> {
        let (made, read) = found.map_err(to_extension_error)?;
        self.registry.record_access(cx, read);
        Ok(made)
    }
}

export_extension!(SkillRegistry: tools, context, service, skills);
