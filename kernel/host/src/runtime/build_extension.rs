//! An extension that was written is checked, shown, built, tried, installed and taken into use.

use serde::Deserialize;
use serde_json::json;
use skillhost_contract::payload::{
    ApprovalPolicy, CallContext, ErrorKind, ToolAudience, ToolOutput, ToolSpec,
};
use skillhost_manifest::{ExtensionDependency, ExtensionId, Manifest};

use crate::approvals::{ApprovalSurface, Approver};
use crate::builder::{BuildCandidate, BuildOutcome, BuildPlan, BuildPreview, RollbackOutcome};
use crate::discovery::{self, find_in_sandbox};
use crate::error::{CallError, KernelError, suggest_similar};
use crate::events::topic;
use crate::kernel::{Kernel, KernelState};
use crate::tools::ToolError;

/// The tool's name.
pub(crate) const NAME: &str = "build_extension";

#[derive(Deserialize)]
struct BuildExtensionArgs {
    id: String,
}

/// The tool, as models see it.
pub(super) fn tool_spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description:
            "Checks, builds and installs the extension in sandbox/extensions/<id>: a Rust crate, \
             a process extension or an agent. Nothing there is used before. Shows a person all its \
             files first and asks. Returns the compiler's messages when it does not build. May take \
             minutes."
                .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"id": {
                "type": "string", "minLength": 1,
                "description": "The extension: the name of its folder and the `id` of its manifest."
            }},
            "required": ["id"],
            "additionalProperties": false
        }),
        output_schema: None,
        read_only: false,
        destructive: false,
        needs_approval: ApprovalPolicy::Always,
        audience: ToolAudience::Agent,
    }
}

impl Kernel {
    /// What a call of the tool would build; refused here is refused before anybody is asked.
    pub(super) async fn plan_from_args(&self, arguments: &str) -> Result<BuildPlan, CallError> {
        let BuildExtensionArgs { id } = serde_json::from_str(arguments).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}"))
        })?;
        self.plan_build(&id).await
    }

    /// Builds what somebody has agreed to.
    pub(super) async fn build_for_agent(
        &self,
        context: &CallContext,
        plan: BuildPlan,
    ) -> Result<ToolOutput, KernelError> {
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
            return Ok(ToolOutput { text, structured: None, is_error: false, skill: None });
        }
        let tools = match built.tools.as_slice() {
            [] => "It has no tools.".to_owned(),
            names => format!("Its tools: {}.", names.join(", ")),
        };
        let when = match built.active {
            true => "It is in use now.",
            false => {
                "It is in use from the next start of the kernel on; request_restart asks for one."
            }
        };
        let mut text = format!(
            "`{}` {} was built and installed, sha256 {}. {tools} {when}",
            built.id, built.version, built.sha256
        );
        if !built.warnings.is_empty() {
            text.push_str("\nThe compiler warns:\n");
            text.push_str(&built.warnings);
        }
        Ok(ToolOutput { text, structured: None, is_error: false, skill: None })
    }

    /// Says what [`Kernel::build_extension`] would build, after every check that needs no compiler.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an id without a folder or manifest, [`ErrorKind::Denied`] for an
    /// id that is somebody else's, and everything that the policy refuses.
    pub async fn preview_build(&self, id: &str) -> Result<BuildPreview, KernelError> {
        let plan = self.plan_build(id).await?;
        let BuildPlan { manifest, sha256, details, .. } = plan;
        Ok(BuildPreview { id: manifest.id.clone(), sha256, details })
    }

    /// Builds and installs the files that `sha256` names, on behalf of the operator.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when the files are others by now, and whatever
    /// [`Kernel::preview_build`], compiler and trial say. Nothing is installed then.
    pub async fn build_extension(
        &self,
        id: &str,
        sha256: &str,
        surface: ApprovalSurface,
    ) -> Result<BuildOutcome, KernelError> {
        let plan = self.plan_build(id).await?;
        if plan.sha256 != sha256 {
            return Err(files_changed_error(&plan.manifest.id).into());
        }
        Ok(self.build_planned(&plan, &Approver::operator(surface)).await?)
    }

    /// Takes the build before the present one back into place, and into use where it is loaded.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none; [`KernelError::NotReloaded`] when it does not
    /// load any more, in which case the present one stays in place.
    pub async fn rollback_extension(&self, id: &str) -> Result<RollbackOutcome, KernelError> {
        let id = self.find_sandbox_extension(id)?;
        let builder = &self.shared.builder;
        let operator = Approver::operator(ApprovalSurface::CommandLine);
        let mut done = builder.rollback(&id, &operator).await?;
        if done.approved && self.is_loaded(&id) {
            if let Err(error) = self.reload(id.as_str()).await {
                builder.rollback(&id, &operator).await?;
                return Err(error);
            }
            done.active = true;
        }
        Ok(done)
    }

    async fn plan_build(&self, id: &str) -> Result<BuildPlan, CallError> {
        let id = self.find_sandbox_extension(id)?;
        let plan = self.shared.builder.plan_build(&id).await?;
        self.check_dependencies(&plan.manifest)?;
        Ok(plan)
    }

    /// Refuses what could not be loaded for want of another extension.
    fn check_dependencies(&self, manifest: &Manifest) -> Result<(), CallError> {
        let shadowing = &self.shared.settings.load().allow_shadowing;
        let installation = self.shared.installation.as_ref();
        let found = discovery::discover_manifests(&self.shared.home, installation, shadowing);
        let mut needed = manifest.depends_on.iter().filter(|needed| !needed.optional);
        // One that waits for its approval may be approved after this one.
        let known = |id| found.manifests.contains_key(id) || found.unapproved.contains_key(id);
        let missing = needed.find(|needed| !known(&needed.id));
        let Some(ExtensionDependency { id, line, column, .. }) = missing else { return Ok(()) };
        let message =
            format!("manifest.yaml:{line}:{column}: depends_on: extension `{id}` not found");
        let known = found.manifests.keys().chain(found.unapproved.keys());
        let names = suggest_similar(id.as_str(), known.map(ExtensionId::as_str));
        let hint = match names.as_slice() {
            [] => "install it first, or take it out of depends_on".to_owned(),
            names => format!("did you mean {}?", names.join(", ")),
        };
        Err(CallError::new(ErrorKind::Denied, message).with_hint(hint))
    }

    /// The id of an extension whose manifest lies in `sandbox/extensions`, approved or not.
    fn find_sandbox_extension(&self, id: &str) -> Result<ExtensionId, CallError> {
        let shadowing = &self.shared.settings.load().allow_shadowing;
        let (home, installation) = (&self.shared.home, self.shared.installation.as_ref());
        let found = find_in_sandbox(home, installation, shadowing, id)?;
        Ok(found.manifest.id.clone())
    }

    async fn build_planned(
        &self,
        plan: &BuildPlan,
        approver: &Approver,
    ) -> Result<BuildOutcome, CallError> {
        let id = &plan.manifest.id;
        let events = &self.shared.events;
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
        let builder = &self.shared.builder;
        // Between the question and its answer time has passed.
        if builder.plan_build(id).await?.sha256 != plan.sha256 {
            return Err(files_changed_error(id));
        }
        let made = builder.build(plan).await?;
        self.check_tools_are_free(id, &made)?;
        // From here on it is done to the end, also when whoever waits for it goes away.
        let (kernel, plan, approver) = (self.clone(), plan.clone(), approver.clone());
        let installing =
            tokio::spawn(async move { kernel.install_and_activate(&plan, made, &approver).await });
        installing.await.map_err(|error| CallError::new(ErrorKind::Panicked, error.to_string()))?
    }

    async fn install_and_activate(
        &self,
        plan: &BuildPlan,
        made: BuildCandidate,
        approver: &Approver,
    ) -> Result<BuildOutcome, CallError> {
        let id = &plan.manifest.id;
        let builder = &self.shared.builder;
        builder.install(plan, &made, approver).await?;
        let active = self.is_loaded(id);
        if active && let Err(error) = self.reload(id.as_str()).await {
            // What this kernel refuses, the next one would refuse too.
            let back = builder.rollback(id, approver).await;
            let error = CallError::from(error);
            return Err(match back {
                Ok(_) => error.with_extra_hint("the build before is in place again"),
                Err(_) => error.with_extra_hint("the new build stays in place"),
            });
        }
        Ok(BuildOutcome {
            id: id.clone(),
            version: made.version,
            sha256: made.sha256,
            tools: made.tools.into_iter().map(|tool| tool.name).collect(),
            warnings: made.warnings,
            active,
        })
    }

    fn check_tools_are_free(
        &self,
        id: &ExtensionId,
        made: &BuildCandidate,
    ) -> Result<(), CallError> {
        let mut state = KernelState::clone(&self.shared.state.load());
        state.tools.remove(id);
        let free = state.check_names(id, &made.tools);
        free.and_then(|()| state.tools.try_add(id, &made.tools)).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            CallError::new(ErrorKind::Conflict, lines.join("\n"))
                .with_hint(ToolError::hints(&problems))
                .with_extra_hint("nothing was installed")
        })
    }

    fn is_loaded(&self, id: &ExtensionId) -> bool {
        self.shared.state.load().instances.contains_key(id)
    }
}

fn files_changed_error(id: &ExtensionId) -> CallError {
    CallError::new(
        ErrorKind::Conflict,
        format!("the files of `{id}` are not those that were shown any more"),
    )
    .with_hint("leave them as they are until it is built; ask again")
}
