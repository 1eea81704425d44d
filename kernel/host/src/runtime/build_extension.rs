//! An extension that was written is checked, shown, built, tried, installed and taken into use.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use skillhost_contract::payload::{
    Approval, Audience, CallContext, ErrorKind, ToolOutput, ToolSpec,
};
use skillhost_manifest::{Dependency, ExtensionId, Manifest};

use crate::boot::RESERVED;
use crate::builder::{BuildPlan, BuildPreview, Built, Candidate, RolledBack};
use crate::discovery::{self, Discovered};
use crate::error::{CallError, KernelError, similar};
use crate::events::topic;
use crate::kernel::Kernel;
use crate::tools::{ToolProblem, ToolTable};

/// The tool's name.
pub(crate) const NAME: &str = "build_extension";

#[derive(Deserialize)]
struct Wanted {
    id: String,
}

/// The tool, as models see it.
pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description:
            "Checks, builds and installs the extension in sandbox/extensions/<id>, a Rust \
                      crate or a process extension. Shows a person all its files first and asks. \
                      Returns the compiler's messages when it does not build. May take minutes."
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
        needs_approval: Approval::Always,
        audience: Audience::Agent,
    }
}

impl Kernel {
    /// What a call of the tool would build; refused here is refused before anybody is asked.
    pub(super) async fn plan_of_call(&self, arguments: &str) -> Result<BuildPlan, CallError> {
        let Wanted { id } = serde_json::from_str(arguments).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}"))
        })?;
        self.plan_build(&id).await
    }

    /// Builds what somebody has agreed to.
    pub(super) async fn build_for(
        &self,
        context: &CallContext,
        plan: BuildPlan,
    ) -> Result<ToolOutput, KernelError> {
        let by = match context.agent_id.as_str() {
            "" => "operator".to_owned(),
            agent => format!("agent {agent}"),
        };
        let built = self.build_planned(&plan, &by).await?;
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
    pub async fn build_extension(&self, id: &str, sha256: &str) -> Result<Built, KernelError> {
        let plan = self.plan_build(id).await?;
        if plan.sha256 != sha256 {
            return Err(changed(&plan.manifest.id).into());
        }
        Ok(self.build_planned(&plan, "operator").await?)
    }

    /// Takes the build before the present one back into place, and into use where it is loaded.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none; [`KernelError::NotReloaded`] when it does not
    /// load any more, in which case the present one stays in place.
    pub async fn roll_back_extension(&self, id: &str) -> Result<RolledBack, KernelError> {
        let id = self.own_extension(id)?;
        let builder = &self.shared.builder;
        let mut done = builder.roll_back(&id, "operator").await?;
        if self.is_loaded(&id) {
            if let Err(error) = self.reload(id.as_str()).await {
                builder.roll_back(&id, "operator").await?;
                return Err(error);
            }
            done.active = true;
        }
        Ok(done)
    }

    async fn plan_build(&self, id: &str) -> Result<BuildPlan, CallError> {
        let id = self.own_extension(id)?;
        let plan = self.shared.builder.inspect(&id).await?;
        self.check_dependencies(&plan.manifest)?;
        Ok(plan)
    }

    /// Refuses what could not be loaded for want of another extension.
    fn check_dependencies(&self, manifest: &Manifest) -> Result<(), CallError> {
        let shadowing = &self.shared.settings.load().allow_shadowing;
        let installation = self.shared.installation.as_ref();
        let found = discovery::discover(&self.shared.home, installation, shadowing);
        let mut needed = manifest.depends_on.iter().filter(|needed| !needed.optional);
        let missing = needed.find(|needed| !found.manifests.contains_key(&needed.id));
        let Some(Dependency { id, line, column, .. }) = missing else { return Ok(()) };
        let message =
            format!("manifest.yaml:{line}:{column}: depends_on: extension `{id}` not found");
        let names = similar(id.as_str(), found.manifests.keys().map(ExtensionId::as_str));
        let hint = match names.as_slice() {
            [] => "install it first, or take it out of depends_on".to_owned(),
            names => format!("did you mean {}?", names.join(", ")),
        };
        Err(CallError::new(ErrorKind::Denied, message).with_hint(hint))
    }

    /// The id of an extension whose manifest lies in `sandbox/extensions` and counts.
    fn own_extension(&self, id: &str) -> Result<ExtensionId, CallError> {
        let id = ExtensionId::new(id).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, error.to_string())
                .with_hint("an id is such as `rss_reader`")
        })?;
        let denied = |message: String| {
            CallError::new(ErrorKind::Denied, message).with_hint("choose another id")
        };
        if RESERVED.contains(&id.as_str()) {
            return Err(denied(format!("the id `{id}` is the kernel's own")));
        }
        let extensions = self.shared.home.extensions();
        let place = extensions.join(id.as_str()).join("manifest.yaml");
        let shadowing = &self.shared.settings.load().allow_shadowing;
        let found =
            discovery::discover(&self.shared.home, self.shared.installation.as_ref(), shadowing);
        match found.manifests.get(&id) {
            Some(owner) if owner.path == place => Ok(id),
            Some(owner) if owner.path.starts_with(&extensions) => Err(denied(format!(
                "the id `{id}` is that of the extension in another folder, {}",
                owner.path.display()
            ))),
            Some(_) => Err(denied(format!("the id `{id}` is that of an extension that ships"))),
            None => Err(unusable_manifest(&id, &place, &found)),
        }
    }

    async fn build_planned(&self, plan: &BuildPlan, by: &str) -> Result<Built, CallError> {
        let id = &plan.manifest.id;
        let events = &self.shared.events;
        match self.build_and_install(plan, by).await {
            Ok(built) => {
                let Built { sha256, tools, .. } = &built;
                let payload = json!({ "id": id.as_str(), "sha256": sha256, "tools": tools });
                events.publish_own(topic::BUILT, &payload).await;
                Ok(built)
            }
            Err(error) => {
                let reason = error.message.lines().next().unwrap_or_default();
                let payload = json!({ "id": id.as_str(), "reason": reason });
                events.publish_own(topic::BUILD_FAILED, &payload).await;
                Err(error)
            }
        }
    }

    async fn build_and_install(&self, plan: &BuildPlan, by: &str) -> Result<Built, CallError> {
        let id = &plan.manifest.id;
        let builder = &self.shared.builder;
        // Between the question and its answer time has passed.
        if builder.inspect(id).await?.sha256 != plan.sha256 {
            return Err(changed(id));
        }
        let made = builder.make(plan).await?;
        self.check_tools_are_free(id, &made)?;
        // From here on it is done to the end, also when whoever waits for it goes away.
        let (kernel, plan, by) = (self.clone(), plan.clone(), by.to_owned());
        let installing = tokio::spawn(async move { kernel.take_into_use(&plan, made, &by).await });
        installing.await.map_err(|error| CallError::new(ErrorKind::Panicked, error.to_string()))?
    }

    async fn take_into_use(
        &self,
        plan: &BuildPlan,
        made: Candidate,
        by: &str,
    ) -> Result<Built, CallError> {
        let id = &plan.manifest.id;
        let builder = &self.shared.builder;
        builder.install(plan, &made, by).await?;
        let active = self.is_loaded(id);
        if active && let Err(error) = self.reload(id.as_str()).await {
            // What this kernel refuses, the next one would refuse too.
            let back = builder.roll_back(id, by).await;
            let error = CallError::from(error);
            return Err(match back {
                Ok(_) => error.with_more("the build before is in place again"),
                Err(_) => error.with_more("the new build stays in place"),
            });
        }
        Ok(Built {
            id: id.clone(),
            version: made.version,
            sha256: made.sha256,
            tools: made.tools.into_iter().map(|tool| tool.name).collect(),
            warnings: made.warnings,
            active,
        })
    }

    fn check_tools_are_free(&self, id: &ExtensionId, made: &Candidate) -> Result<(), CallError> {
        let mut tools: ToolTable = self.shared.state.load().tools.clone();
        tools.remove(id);
        tools.try_add(id, &made.tools).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            CallError::new(ErrorKind::Conflict, lines.join("\n"))
                .with_hint(ToolProblem::hints(&problems))
                .with_more("nothing was installed")
        })
    }

    fn is_loaded(&self, id: &ExtensionId) -> bool {
        self.shared.state.load().instances.contains_key(id)
    }
}

/// Says why no manifest at `place` has the id.
fn unusable_manifest(id: &ExtensionId, place: &Path, found: &Discovered) -> CallError {
    let mut rejected = found.rejected.iter();
    if let Some(rejected) = rejected.find(|it| it.manifest.parent() == place.parent()) {
        return CallError::new(ErrorKind::Failed, rejected.reason.clone())
            .with_hint(rejected.hint.clone());
    }
    let mut others = found.manifests.iter().filter(|(_, found)| found.path == place);
    if let Some((other, _)) = others.next() {
        let message = format!(
            "sandbox/extensions/{id}/manifest.yaml has the id `{other}`, and its directory is named \
             `{id}`"
        );
        return CallError::new(ErrorKind::Conflict, message).with_hint("give both the same name");
    }
    CallError::new(
        ErrorKind::NotFound,
        format!("there is no sandbox/extensions/{id}/manifest.yaml with `id: {id}`"),
    )
    .with_hint("write the manifest and the sources there first")
}

fn changed(id: &ExtensionId) -> CallError {
    CallError::new(
        ErrorKind::Conflict,
        format!("the files of `{id}` are not those that were shown any more"),
    )
    .with_hint("leave them as they are until it is built; ask again")
}
