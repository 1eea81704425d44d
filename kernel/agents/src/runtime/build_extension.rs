//! The tool by which an agent has a new extension checked, approved, built, tried, installed and
//! loaded.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use skillhost_control::{BuildOutcome, BuildPreview, RollbackOutcome};
use skillhost_core::{BuildCandidate, BuildPlan, KernelError, KernelState, ToolError};
use skillhost_events::topic;
use skillhost_home::{ApprovalSurface, Approver, find_in_sandbox, suggest_similar};
use skillhost_manifest::{ExtensionDependency, ExtensionId, Manifest};
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, ErrorKind, TaskSupport, ToolAudience, ToolOutput,
    ToolSpec,
};

use crate::agent_runtime::AgentRuntime;

/// The name of the tool.
pub(crate) const NAME: &str = "build_extension";

#[derive(Deserialize)]
struct BuildExtensionArgs {
    id: String,
}

/// Returns the tool's spec for models.
pub(super) fn tool_spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description:
            "Checks, builds and installs the extension in sandbox/extensions/<id>: a Rust crate, \
             a process extension or an agent. It is not used before. Asks for approval, with all \
             its files shown. Returns the compiler's messages when it does not build. May take \
             minutes."
                .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"id": {
                "type": "string", "minLength": 1,
                "description": "The extension: the name of its directory and the `id` of its manifest."
            }},
            "required": ["id"],
            "additionalProperties": false
        }),
        output_schema: None,
        read_only: false,
        destructive: false,
        needs_approval: ApprovalPolicy::Always,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: Vec::new(),
        skill_use: None,
    }
}

impl AgentRuntime {
    /// Plans the build of a tool call. Errors here come before any approval is requested.
    pub(super) async fn plan_from_args(&self, arguments: &str) -> Result<BuildPlan, CallError> {
        let BuildExtensionArgs { id } = serde_json::from_str(arguments).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}"))
        })?;
        self.plan_build(&id).await
    }

    /// Runs an approved build.
    pub(super) async fn build_for_agent(
        &self,
        context: &CallContext,
        plan: BuildPlan,
    ) -> Result<ToolOutput, CallError> {
        let approver = match context.agent_id.as_str() {
            "" => Approver::operator(ApprovalSurface::CommandLine),
            agent => Approver::for_agent(agent),
        };
        let built = self.build_planned(&plan, &approver).await?;
        if plan.manifest.agent().is_some() {
            let text = format!(
                "The agent `{}` is approved, digest {}. It can be used from the next start of the \
                 kernel on; request_restart asks for one.",
                built.id, built.sha256
            );
            return Ok(ToolOutput { text, ..ToolOutput::default() });
        }
        let tools = match built.tools.as_slice() {
            [] => "It has no tools.".to_owned(),
            names => format!("Its tools: {}.", names.join(", ")),
        };
        let availability = match built.active {
            true => "It is in use now.",
            false => {
                "It is in use from the next start of the kernel on; request_restart asks for one."
            }
        };
        let mut text = format!(
            "`{}` {} was built and installed, sha256 {}. {tools} {availability}",
            built.id, built.version, built.sha256
        );
        if !built.warnings.is_empty() {
            text.push_str("\nThe compiler warns:\n");
            text.push_str(&built.warnings);
        }
        Ok(ToolOutput { text, ..ToolOutput::default() })
    }

    /// Previews a build by [`AgentRuntime::build_extension`], after every check that needs no compiler.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an id without a directory or manifest, [`ErrorKind::Denied`] for
    /// an id with another owner, and every error of the build policy.
    pub fn preview_build<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<BuildPreview, KernelError>> {
        Box::pin(async move {
            let plan = self.plan_build(id).await?;
            let BuildPlan { manifest, sha256, details, .. } = plan;
            Ok(BuildPreview { id: manifest.id.clone(), sha256, details })
        })
    }

    /// Builds and installs the files with the digest `sha256`, on behalf of the operator.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the files have changed since, and all errors of
    /// [`AgentRuntime::preview_build`], the compiler and the trial run. No extension is installed then.
    pub fn build_extension<'a>(
        &'a self,
        id: &'a str,
        sha256: &'a str,
        surface: ApprovalSurface,
    ) -> BoxFuture<'a, Result<BuildOutcome, KernelError>> {
        Box::pin(async move {
            let plan = self.plan_build(id).await?;
            if plan.sha256 != sha256 {
                return Err(files_changed_error(&plan.manifest.id).into());
            }
            Ok(self.build_planned(&plan, &Approver::operator(surface)).await?)
        })
    }

    /// Restores the previous build of an extension, and reloads it if it is loaded.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] without a previous build; [`KernelError::NotReloaded`] if it no
    /// longer loads, in which case the present build stays in place.
    pub fn rollback_extension<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<RollbackOutcome, KernelError>> {
        Box::pin(async move {
            let id = self.find_sandbox_extension(id)?;
            let builder = self.builder();
            let operator = Approver::operator(ApprovalSurface::CommandLine);
            let mut outcome = builder.rollback(&id, &operator).await?;
            if outcome.approved && self.is_loaded(&id) {
                // Undoes the rollback: a second one swaps both builds back.
                if let Err(error) = self.reload(id.as_str()).await {
                    builder.rollback(&id, &operator).await?;
                    return Err(error);
                }
                outcome.active = true;
            }
            Ok(outcome)
        })
    }

    async fn plan_build(&self, id: &str) -> Result<BuildPlan, CallError> {
        let id = self.find_sandbox_extension(id)?;
        let plan = self.builder().plan_build(&id).await?;
        self.check_dependencies(&plan.manifest)?;
        Ok(plan)
    }

    /// Rejects an extension whose required dependencies are missing.
    fn check_dependencies(&self, manifest: &Manifest) -> Result<(), CallError> {
        let shadowing = &self.extensions().settings().allow_shadowing;
        let installation = self.extensions().installation();
        let found =
            skillhost_home::discover_manifests(self.extensions().home(), installation, shadowing);
        let mut needed = manifest.depends_on.iter().filter(|needed| !needed.optional);
        // A dependency that waits for its approval may be approved after this one.
        let known = |id| found.manifests.contains_key(id) || found.unapproved.contains_key(id);
        let missing = needed.find(|needed| !known(&needed.id));
        let Some(ExtensionDependency { id, line, column, .. }) = missing else { return Ok(()) };
        let message =
            format!("manifest.yaml:{line}:{column}: depends_on: extension `{id}` not found");
        let known = found.manifests.keys().chain(found.unapproved.keys());
        let names = suggest_similar(id.as_str(), known.map(ExtensionId::as_str));
        let hint = match names.as_slice() {
            [] => "install it first, or remove it from depends_on".to_owned(),
            names => format!("did you mean {}?", names.join(", ")),
        };
        Err(CallError::new(ErrorKind::Denied, message).with_hint(hint))
    }

    /// Returns the id of an extension with a manifest in `sandbox/extensions`, approved or not.
    fn find_sandbox_extension(&self, id: &str) -> Result<ExtensionId, CallError> {
        let shadowing = &self.extensions().settings().allow_shadowing;
        let (home, installation) = (self.extensions().home(), self.extensions().installation());
        let found = find_in_sandbox(home, installation, shadowing, id)?;
        Ok(found.manifest.id.clone())
    }

    async fn build_planned(
        &self,
        plan: &BuildPlan,
        approver: &Approver,
    ) -> Result<BuildOutcome, CallError> {
        let id = &plan.manifest.id;
        let events = self.extensions().events();
        match self.build_and_install(plan, approver).await {
            Ok(built) => {
                let BuildOutcome { sha256, tools, .. } = &built;
                let payload = json!({ "id": id.as_str(), "sha256": sha256, "tools": tools });
                events.publish_kernel_event(topic::BUILT, &payload).await;
                Ok(built)
            }
            Err(error) => {
                let reason = error.message.lines().next().unwrap_or_default();
                let payload = json!({ "id": id.as_str(), "reason": reason });
                events.publish_kernel_event(topic::BUILD_FAILED, &payload).await;
                Err(error)
            }
        }
    }

    async fn build_and_install(
        &self,
        plan: &BuildPlan,
        approver: &Approver,
    ) -> Result<BuildOutcome, CallError> {
        let id = &plan.manifest.id;
        let builder = self.builder();
        // The files may have changed while the approval was pending.
        if builder.plan_build(id).await?.sha256 != plan.sha256 {
            return Err(files_changed_error(id));
        }
        let candidate = builder.build(plan).await?;
        self.check_tools_are_free(id, &candidate)?;
        // From here on the task runs to its end, even if the caller is dropped: a half-installed
        // build would remain.
        let (kernel, plan, approver) = (self.clone(), plan.clone(), approver.clone());
        let installing =
            tokio::spawn(
                async move { kernel.install_and_activate(&plan, candidate, &approver).await },
            );
        installing.await.map_err(|error| CallError::new(ErrorKind::Panicked, error.to_string()))?
    }

    async fn install_and_activate(
        &self,
        plan: &BuildPlan,
        candidate: BuildCandidate,
        approver: &Approver,
    ) -> Result<BuildOutcome, CallError> {
        let id = &plan.manifest.id;
        let builder = self.builder();
        builder.install(plan, &candidate, approver).await?;
        let active = self.is_loaded(id);
        if active && let Err(error) = self.reload(id.as_str()).await {
            // A build that this kernel rejects would also be rejected by the next one.
            let restored = builder.rollback(id, approver).await;
            let error = CallError::from(error);
            return Err(match restored {
                Ok(_) => error.with_extra_hint("the previous build is restored"),
                Err(_) => error.with_extra_hint("the new build stays in place"),
            });
        }
        Ok(BuildOutcome {
            id: id.clone(),
            version: candidate.version,
            sha256: candidate.sha256,
            tools: candidate.tools.into_iter().map(|tool| tool.name).collect(),
            warnings: candidate.warnings,
            isolation: candidate.isolation,
            active,
        })
    }

    fn check_tools_are_free(
        &self,
        id: &ExtensionId,
        candidate: &BuildCandidate,
    ) -> Result<(), CallError> {
        let mut state = KernelState::clone(&self.extensions().state());
        // The tools of the present build are replaced, so their names are free.
        state.tools.remove(id);
        let checked = state.check_names(id, &candidate.tools);
        checked.and_then(|()| state.tools.try_add(id, &candidate.tools)).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            CallError::new(ErrorKind::Conflict, lines.join("\n"))
                .with_hint(ToolError::hints(&problems))
                .with_extra_hint("the new build was not installed")
        })
    }

    fn is_loaded(&self, id: &ExtensionId) -> bool {
        self.extensions().state().instances.contains_key(id)
    }
}

fn files_changed_error(id: &ExtensionId) -> CallError {
    CallError::new(
        ErrorKind::Conflict,
        format!("files of `{id}` have changed since they were shown"),
    )
    .with_hint("leave them unchanged until the build ends, and request it again")
}
