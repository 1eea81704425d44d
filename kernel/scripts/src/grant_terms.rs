//! The policies that a grant names: those of scripts and of handler programs of a skill.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use skillhost_files::RunDirectory;
use skillhost_home::{Approver, ScriptGrant};
use skillhost_payload::{CallError, ErrorKind, SkillFileScope, SkillSecurity, SkillTree};
use skillhost_policy::{
    ComposedPolicy, DeclaredLimits, GrantedPolicy, OperatorPolicy, PolicyLayer, PolicyRequest,
    PolicySource, PolicyUse, RequestedLayer,
};
use skillhost_sandbox::{IsolationReport, SandboxLauncher};

use crate::work_directory::create_scratch;

/// The names that stand for directories of a run in policies and digests.
pub(crate) const COPY_NAME: &str = "@skill";
pub(crate) const SCRATCH_NAME: &str = "@scratch";

/// The statements from which the policy of a run is composed.
#[derive(Clone, Copy)]
pub(crate) struct PolicyTerms<'a> {
    pub(crate) operator: &'a OperatorPolicy,
    pub(crate) policy_use: PolicyUse,
    pub(crate) tree: &'a SkillTree,
    pub(crate) work: &'a Path,
    pub(crate) operator_layer: Option<&'a PolicyLayer>,
}

/// The terms of a grant for all scripts and handler programs of a skill.
#[derive(Debug)]
pub struct GrantTerms {
    /// Those of scripts.
    pub scripts: UseTerms,
    /// Those of handler programs.
    pub handlers: UseTerms,
}

/// The terms of one use.
#[derive(Debug)]
pub struct UseTerms {
    /// The policy, without the directories of interpreters.
    pub policy: ComposedPolicy,
    /// The isolation that a run under it reaches.
    pub isolation: IsolationReport,
}

impl GrantTerms {
    /// Determines the policies and the isolation of a skill as the settings are now. Blocks.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a policy that is not valid, [`ErrorKind::Unavailable`]
    /// without isolation, [`ErrorKind::Io`] if the disk fails.
    pub fn determine(
        operator: &OperatorPolicy,
        launcher: &SandboxLauncher,
        tree: &SkillTree,
    ) -> Result<Self, CallError> {
        let io_error = |error: std::io::Error| CallError::new(ErrorKind::Io, error.to_string());
        let directory = RunDirectory::create().map_err(io_error)?;
        let base = directory.path();
        for name in ["work", "skill", "scratch"] {
            create_scratch(base, name).map_err(io_error)?;
        }
        let determine_use = |policy_use| -> Result<UseTerms, CallError> {
            let policy = compose_at(operator, policy_use, tree, base)?;
            let isolation = launcher.probe(&policy.policy).map_err(|refusal| {
                CallError::new(ErrorKind::Unavailable, refusal.to_string()).with_hint(refusal.hint)
            })?;
            Ok(UseTerms { policy, isolation })
        };
        let (scripts, handlers) =
            (determine_use(PolicyUse::Script)?, determine_use(PolicyUse::Handler)?);
        Ok(Self { scripts, handlers })
    }

    /// Returns the grant of these terms.
    #[must_use]
    pub fn to_grant(&self, tree: &SkillTree, approver: &Approver) -> ScriptGrant {
        let (scripts, handlers) = (self.scripts.to_granted(), self.handlers.to_granted());
        ScriptGrant::new(tree, scripts, handlers, approver)
    }
}

impl UseTerms {
    /// Returns what a grant names of these terms.
    #[must_use]
    pub fn to_granted(&self) -> GrantedPolicy {
        GrantedPolicy::new(&self.policy, self.isolation.level)
    }
}

/// Composes the policy of a skill's scripts or handler programs that a grant has to name: its digest
/// depends neither on the private directories of a run nor on the interpreter.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a policy that is not valid.
pub(crate) fn grant_policy(
    operator: &OperatorPolicy,
    policy_use: PolicyUse,
    tree: &SkillTree,
) -> Result<ComposedPolicy, CallError> {
    // The names of these directories are in no digest, so they need not exist.
    compose_at(operator, policy_use, tree, "/nonexistent/skillhost".as_ref())
}

fn compose_at(
    operator: &OperatorPolicy,
    policy_use: PolicyUse,
    tree: &SkillTree,
    base: &Path,
) -> Result<ComposedPolicy, CallError> {
    let (copy, scratch) = (base.join("skill"), base.join("scratch"));
    let required = RequiredPaths {
        reads: vec![copy.clone()],
        writes: vec![scratch.clone()],
        aliases: vec![(copy, COPY_NAME), (scratch, SCRATCH_NAME)],
    };
    let work = base.join("work");
    required.compose(&PolicyTerms { operator, policy_use, tree, work: &work, operator_layer: None })
}

/// Returns the key below `sandbox.skills` that applies to a skill: `ID@SOURCE` if the operator states
/// it, else `ID` for a skill of the operator's. A statement on `ID` is no statement on a skill with this
/// name in a root that is not trusted, which may have taken the name.
pub(crate) fn settings_id(operator: &OperatorPolicy, tree: &SkillTree) -> String {
    let name = tree.skill_id.split('@').next().unwrap_or_default();
    let full = format!("{name}@{}", tree.source);
    let is_full = !tree.is_operator_root || operator.settings.skills.contains_key(&full);
    if is_full { full } else { name.to_owned() }
}

/// The paths without which no script of a skill can run, which no layer takes away.
pub(crate) struct RequiredPaths {
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) writes: Vec<PathBuf>,
    pub(crate) aliases: Vec<(PathBuf, &'static str)>,
}

impl RequiredPaths {
    /// Composes the policy of a run, which always has these paths.
    pub(crate) fn compose(&self, terms: &PolicyTerms<'_>) -> Result<ComposedPolicy, CallError> {
        let PolicyTerms { operator, policy_use, tree, work, operator_layer } = *terms;
        let mut base = policy_use.default_policy(work);
        base.filesystem.allow_read.extend(self.reads.iter().cloned());
        base.filesystem.allow_write.extend(self.writes.iter().cloned());
        let layer = parse_skill_layer(tree)?;
        let layers: Vec<_> = layer
            .iter()
            .map(|layer| RequestedLayer { source: PolicySource::Skill, layer })
            .collect();
        let aliases: Vec<_> =
            self.aliases.iter().map(|(path, name)| (path.as_path(), *name)).collect();
        let policy_error = |error: skillhost_policy::PolicyError| {
            let hint = "correct `sandbox` in skillhost.yaml or in the skill's frontmatter";
            CallError::new(ErrorKind::InvalidArgument, format!("policy: {error}"))
                .with_hint(error.hint_or(hint))
        };
        let id = settings_id(operator, tree);
        let mut composed = operator
            .compose(PolicyRequest {
                policy_use,
                id: Some(&id),
                base,
                approved_layer: None,
                operator_layer,
                layers: &layers,
                work,
                aliases: &aliases,
            })
            .map_err(policy_error)?;
        let limits = tree.security.map(|security| declared_limits(security, work));
        if let Some(limits) = &limits {
            composed.apply_limits(limits);
        }
        let files = &mut composed.policy.filesystem;
        for path in &self.reads {
            if !files.allow_read.contains(path) {
                files.allow_read.push(path.clone());
            }
        }
        for path in &self.writes {
            if !files.allow_write.contains(path) {
                files.allow_write.push(path.clone());
            }
        }
        // A layer may take the permission to write; the start directory stays readable.
        let work = work.to_owned();
        let is_confined = tree.security.is_some_and(is_confined);
        if !is_confined && !files.allow_write.contains(&work) && !files.allow_read.contains(&work) {
            files.allow_read.push(work);
        }
        Ok(composed)
    }
}

/// Returns whether a skill's code reaches only its own copy and its scratch directory.
pub(crate) fn is_confined(security: SkillSecurity) -> bool {
    matches!(security.file_scope, Some(SkillFileScope::SkillDirectory | SkillFileScope::Unknown))
}

/// Returns the limits of a security manifest for a run with a work directory.
fn declared_limits(security: SkillSecurity, work: &Path) -> DeclaredLimits {
    DeclaredLimits {
        uses_network: security.requires_network != Some(false),
        executes_programs: security.executes_commands != Some(false),
        writes_files: match security.file_scope {
            // The scope says that it reads there; writing is a statement of its own.
            Some(SkillFileScope::Workspace) => security.modifies_files == Some(true),
            _ => security.modifies_files != Some(false),
        },
        directories: match security.file_scope {
            Some(SkillFileScope::SkillDirectory | SkillFileScope::Unknown) => Some(Vec::new()),
            Some(SkillFileScope::Workspace) => Some(vec![work.to_owned()]),
            Some(SkillFileScope::System) | None => None,
        },
    }
}

/// Parses the layer in a skill's frontmatter.
fn parse_skill_layer(tree: &SkillTree) -> Result<Option<PolicyLayer>, CallError> {
    let Some(value) = &tree.sandbox else { return Ok(None) };
    PolicyLayer::deserialize(value).map(Some).map_err(|error| {
        let message = format!("`sandbox` in the frontmatter of {}: {error}", tree.skill_id);
        CallError::new(ErrorKind::InvalidArgument, message)
            .with_hint("correct the frontmatter; the keys are those of `sandbox` in skillhost.yaml")
    })
}
