//! Conflicts between skills that are loaded, read or bound.

use skill_catalog::{RegistryError, Snapshot};
use skill_compat::describe_tool_problems;
use skill_format::sanitize_line;
use skillhost_payload::{AgentTools, BindingProblem, CallContext, ErrorKind};

use crate::declarations::{DeclarationIndex, DeclaredSkills, describe_reasons, to_available_tools};
use crate::ineligible::ineligible_error;
use crate::tools::{LoadMode, LoadSkillsArgs, UNLOAD_SKILLS, loaded_id};

impl DeclaredSkills {
    /// Returns whether one of two different skills declares a conflict with the other one.
    pub(crate) fn has_conflict(&self, snapshot: &Snapshot, one: &str, other: &str) -> bool {
        let declares = |from: &str, to: &str| {
            let spec = snapshot.get(from).and_then(|skill| self.find(skill));
            let stated = spec.and_then(|spec| spec.composition.as_ref());
            // A conflict names an id; a skill of another root has it, too.
            let id = snapshot.get(to).map_or(to, |skill| skill.id().as_str());
            stated.is_some_and(|it| it.conflicts.iter().any(|named| named == to || named == id))
        };
        let same = match (snapshot.get(one), snapshot.get(other)) {
            (Some(one), Some(other)) => std::sync::Arc::ptr_eq(one, other),
            _ => one == other,
        };
        !same && (declares(one, other) || declares(other, one))
    }

    /// Returns the ids among `others` that conflict with a skill.
    pub(crate) fn conflicts_of<'o>(
        &self,
        snapshot: &Snapshot,
        id: &str,
        others: impl Iterator<Item = &'o str>,
    ) -> Vec<&'o str> {
        if self.is_empty() {
            return Vec::new();
        }
        others.filter(|other| self.has_conflict(snapshot, id, other)).collect()
    }
}

impl DeclarationIndex {
    /// Returns the reasons why an agent cannot bind skills together: tools that it lacks, and
    /// conflicts between the skills.
    #[must_use]
    pub fn check_binding(&self, agent: &AgentTools, ids: &[String]) -> Vec<BindingProblem> {
        self.refresh();
        let (snapshot, current) = (self.store().snapshot(), self.current());
        if current.is_empty() {
            return Vec::new();
        }
        let tools = to_available_tools(agent);
        let mut problems = Vec::new();
        for id in ids {
            let Some(spec) = snapshot.get(id).and_then(|skill| current.find(skill)) else {
                continue;
            };
            let reasons = describe_tool_problems(spec, &tools);
            if !reasons.is_empty() {
                let error = ineligible_error(id, &describe_reasons(&reasons, &agent.agent_id));
                let (message, hint) = (error.message, error.hint.to_string());
                problems.push(BindingProblem { skill_id: id.clone(), message, hint });
            }
        }
        for (at, id) in ids.iter().enumerate() {
            for other in &ids[at + 1..] {
                if current.has_conflict(&snapshot, id, other) {
                    let message = format!("`{id}` conflicts with `{other}`");
                    let hint = "bind only one of the two".to_owned();
                    problems.push(BindingProblem { skill_id: id.clone(), message, hint });
                }
            }
        }
        problems
    }

    /// Checks that the skills of a load fit each other, the skills that stay loaded and those that
    /// the agent binds.
    ///
    /// # Errors
    /// [`ErrorKind::Ineligible`] for a skill that requires a missing tool, [`ErrorKind::Conflict`]
    /// that names two skills.
    pub fn check_load(
        &self,
        snapshot: &Snapshot,
        context: &CallContext,
        args: &LoadSkillsArgs,
    ) -> Result<(), RegistryError> {
        let current = self.current();
        if current.is_empty() {
            return Ok(());
        }
        for name in &args.names {
            self.check_eligible(snapshot, context, name)?;
        }
        let kept = match args.mode {
            LoadMode::Replace => &[][..],
            LoadMode::Add => &context.active_skills,
        };
        let kept = kept.iter().map(|skill| skill.skill_id.as_str());
        let bound = context.uses_skills.iter().map(String::as_str);
        let mut before: Vec<&str> = kept.chain(bound).collect();
        for name in &args.names {
            let id = loaded_id(snapshot, &context.active_skills, name);
            let others = before.iter().copied().filter(|other| *other != id);
            if let Some(other) = current.conflicts_of(snapshot, &id, others).first() {
                return Err(conflict_error(name, other));
            }
            before.push(name);
        }
        Ok(())
    }

    /// Returns a note for each active or bound skill that conflicts with a skill that is read.
    #[must_use]
    pub fn conflict_notes(
        &self,
        snapshot: &Snapshot,
        context: &CallContext,
        name: &str,
    ) -> Vec<String> {
        let active = context.active_skills.iter().map(|skill| skill.skill_id.as_str());
        let others = active.chain(context.uses_skills.iter().map(String::as_str));
        let current = self.current();
        let mut found = current.conflicts_of(snapshot, name, others);
        found.dedup();
        let name = sanitize_line(name);
        found
            .into_iter()
            .map(|other| {
                let other = sanitize_line(other);
                format!(
                    "`{name}` conflicts with the active skill `{other}`: follow only one of them"
                )
            })
            .collect()
    }
}

fn conflict_error(name: &str, other: &str) -> RegistryError {
    let (name, other) = (sanitize_line(name), sanitize_line(other));
    RegistryError::new(
        ErrorKind::Conflict,
        format!("`{name}` conflicts with `{other}`: they must not be used together"),
        format!("{UNLOAD_SKILLS} `{other}` first, or go on without `{name}`"),
    )
}
