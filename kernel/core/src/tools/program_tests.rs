//! Tests of the tools of programs.

use async_trait::async_trait;
use serde_json::json;
use skillhost_payload::{ApprovalPolicy, CallContext, TaskSupport, ToolAudience, ToolOutput};

use super::*;
use crate::plugin::PreparedCall;

struct NoTools;

#[async_trait]
impl Plugin for NoTools {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(Vec::new())
    }

    async fn invoke(
        &self,
        _: &CallContext,
        name: &str,
        _: &str,
        _: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        Err(CallError::new(skillhost_payload::ErrorKind::NotFound, name))
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        read_only: true,
        destructive: false,
        needs_approval: ApprovalPolicy::Never,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: Vec::new(),
        skill_use: None,
    }
}

fn programs(names: &[&str]) -> (ProgramTools, Vec<ToolError>) {
    let owner = ExtensionId::new("skill_registry").unwrap();
    let plugin: Arc<dyn Plugin> = Arc::new(NoTools);
    let specs = names.iter().map(|name| spec(name)).collect();
    ProgramTools::new((1, 2), &owner, &plugin, specs)
}

#[test]
fn extension_precedes_program_of_its_name() {
    let mut table = ToolTable::default();
    table.try_add(&ExtensionId::new("weather").unwrap(), &[spec("quotes")]).unwrap();
    let (tools, problems) = programs(&["quotes", "quotes.chart"]);
    assert_eq!(problems, []);
    let shadowed = table.replace_programs(&Arc::new(tools));
    let shadowed: Vec<_> = shadowed.iter().map(ToString::to_string).collect();
    let message = "the program `quotes` is not offered: `weather` has a tool of this name";
    assert_eq!(shadowed, [message]);
    let owner =
        |name| table.find(name, CallOrigin::Agent).map(|entry| entry.owner.to_string()).ok();
    assert_eq!(owner("quotes").as_deref(), Some("weather"));
    assert_eq!(owner("quotes.chart").as_deref(), Some("skill_registry"));
    // A program never blocks an extension that is loaded later.
    table.try_add(&ExtensionId::new("charts").unwrap(), &[spec("quotes.chart")]).unwrap();
    assert_eq!(table.find("quotes.chart", CallOrigin::Agent).unwrap().owner.to_string(), "charts");
}

#[test]
fn skill_precedes_program_of_its_name() {
    let mut specs = [spec("quotes.chart"), spec("quotes.chart")];
    specs[1].description = "Of the skill.".to_owned();
    let owner = ExtensionId::new("skill_registry").unwrap();
    let plugin: Arc<dyn Plugin> = Arc::new(NoTools);
    let (tools, problems) = ProgramTools::new((1, 2), &owner, &plugin, specs.into());
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let message =
        "two programs are called `quotes.chart`; only that of the skill `quotes.chart` is offered";
    assert_eq!(problems, [message]);
    assert_eq!(tools.find("quotes.chart").unwrap().spec.description, "Of the skill.");
}

#[test]
fn programs_are_offered_to_agents_and_operators() {
    let (tools, problems) = programs(&["quotes", "a b"]);
    assert_eq!(problems.len(), 1);
    assert_eq!(tools.stamp(), Some((1, 2)));
    let table = ToolTable { programs: Arc::new(tools), ..ToolTable::default() };
    for (origin, is_offered) in
        [(CallOrigin::Agent, true), (CallOrigin::Operator, true), (CallOrigin::Mcp, false)]
    {
        assert_eq!(table.find("quotes", origin).is_ok(), is_offered, "{origin:?}");
    }
    assert!(table.usable_names().contains("quotes"));
}
