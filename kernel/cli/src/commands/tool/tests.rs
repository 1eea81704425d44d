//! Tests of the descriptions of parameters and approvals.

use serde_json::json;
use skillhost_payload::{TaskSupport, ToolAudience};

use super::*;

#[test]
fn parameters_are_described() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "File to read" },
            "mode": { "enum": ["text", 1], "default": "text" },
            "lines": { "type": ["integer", "null"] },
            "tags": { "type": "array", "items": { "type": "string" } },
            "limit": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "other": {},
        },
        "required": ["path"],
    });
    let rows: Vec<String> = parameter_rows(&schema).into_iter().map(|row| row.join("|")).collect();
    let mut expected = [
        "path|string|yes|File to read",
        "mode|text or 1||[default: \"text\"]",
        "lines|integer or null||",
        "tags|array of string||",
        "limit|integer or null||",
        "other|any||",
    ]
    .map(str::to_owned);
    expected.sort();
    let mut found = rows;
    found.sort();
    assert_eq!(found, expected);
    assert!(parameter_rows(&Value::Null).is_empty());
}

#[test]
fn approval_of_code_of_skills_is_described() {
    let tool = |extension: &str, name: &str, skill: Option<&str>, needs_approval| OwnedTool {
        extension: extension.parse().unwrap(),
        skill: skill.map(str::to_owned),
        spec: ToolSpec {
            name: name.to_owned(),
            description: "Does something.".to_owned(),
            input_schema: json!({}),
            output_schema: None,
            read_only: false,
            destructive: false,
            needs_approval,
            audience: ToolAudience::Agent,
            changes_skills: false,
            effect: None,
            task: TaskSupport::Never,
            needs: Vec::new(),
            skill_use: None,
        },
    };
    let granted = ApprovalPolicy::UnlessGranted;
    for (tool, text) in [
        (tool("skill_registry", "quotes", Some("quotes"), granted), "approved for these files"),
        (
            tool("kernel", "skills.run_script", None, granted),
            "required: `skillhost skill approve-scripts ID`",
        ),
        (
            tool("web", "skills.run_script", None, granted),
            "required unless an active skill allows the tool",
        ),
        (tool("web", "web_fetch", None, ApprovalPolicy::Always), "required for each call"),
        (tool("skill_registry", "guide", None, ApprovalPolicy::Never), "not required"),
    ] {
        assert_eq!(describe_approval(&tool), text);
    }
}
