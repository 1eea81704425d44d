//! Required tools and their minimum versions, compared with the tools of an agent.

use skill_compat::extended::ParsedExtendedSpec;
use skill_compat::{AvailableTool, describe_tool_problems};

/// The version of the tool, the minimum and the result. `-` is no version, `!` no tool.
const CASES: [(&str, &str, bool); 66] = [
    ("!", "-", false),
    ("!", "1", false),
    ("-", "-", true),
    ("-", "0", false),
    ("-", "1.0", false),
    ("1", "-", true),
    ("nightly", "-", true),
    ("nightly", "1", false),
    ("nightly", "0", false),
    ("1", "1", true),
    ("1", "1.0", true),
    ("1", "1.0.0", true),
    ("1.0.0", "1", true),
    ("1.0.1", "1", true),
    ("1", "1.0.1", false),
    ("0.9", "1", false),
    ("0.9.9.9", "1", false),
    ("1.9", "2.0", false),
    ("2.0", "2.0", true),
    ("2.0.0", "2.0", true),
    ("2.1", "2.0", true),
    ("2", "2.0", true),
    ("10", "9", true),
    ("9", "10", false),
    ("1.10", "1.9", true),
    ("1.9", "1.10", false),
    ("2.40", "2.9", true),
    ("2.9", "2.40", false),
    ("2.40.1", "2.40", true),
    ("2.39.99", "2.40", false),
    ("v2.40", "2.40", true),
    ("2.40", "v2.40", true),
    ("V2.40", "v2.40", true),
    ("02.40", "2.40", true),
    ("2.040", "2.40", true),
    ("2.40-beta", "2.40", false),
    ("2.40", "2.40-beta", true),
    ("2.40-beta.2", "2.40-beta.10", false),
    ("2.40-beta.10", "2.40-beta.2", true),
    ("2.40-rc", "2.40-beta", true),
    ("2.40-alpha", "2.40-beta", false),
    ("2.40-1", "2.40-alpha", false),
    ("2.40-alpha", "2.40-1", true),
    ("2.40-alpha", "2.40-alpha.1", false),
    ("2.40-alpha.1", "2.40-alpha", true),
    ("2.41-beta", "2.40", true),
    ("2.40+build", "2.40", true),
    ("2.40", "2.40+build", true),
    ("2.40-beta+7", "2.40-beta", true),
    ("2.39+build", "2.40", false),
    ("20260101", "20251231", true),
    ("20251231", "20260101", false),
    ("1.2.3.4", "1.2.3", true),
    ("1.2.3", "1.2.3.4", false),
    ("1.2.3.0", "1.2.3", true),
    ("99999999999999999999999", "99999999999999999999998", true),
    ("99999999999999999999998", "99999999999999999999999", false),
    ("0.0.0", "0", true),
    ("0", "0.0.1", false),
    // Not versions: the tool then has none, and a minimum that is none is not used.
    ("1.x", "1", false),
    (">=2", "1", false),
    ("2.", "1", false),
    (".2", "1", false),
    ("1", "1.x", true),
    ("1", "latest", true),
    ("!", "latest", false),
];

fn problems(yaml: &str, tools: &[AvailableTool]) -> Vec<String> {
    describe_tool_problems(&ParsedExtendedSpec::parse_skill_yaml(yaml, "csv-tools").extended, tools)
}

fn tool(name: &str, version: &str) -> AvailableTool {
    let version = (version != "-").then(|| version.to_owned());
    AvailableTool { name: name.to_owned(), version }
}

#[test]
fn minimum_versions_are_compared() {
    for (has, oldest, fits) in CASES {
        let minimum =
            if oldest == "-" { String::new() } else { format!(", minVersion: '{oldest}'") };
        let yaml = format!(
            "tools:\n  dependencies:\n    - {{tool: 'Bash(git:*)', required: true, purpose: x{minimum}}}\n"
        );
        let tools = if has == "!" { vec![] } else { vec![tool("Bash", has)] };
        assert_eq!(problems(&yaml, &tools).is_empty(), fits, "{has} against {oldest}");
        // An optional tool is never missing.
        let optional = yaml.replace("required: true", "required: false");
        assert_eq!(problems(&optional, &tools), Vec::<String>::new());
    }
}

#[test]
fn missing_tools_are_described() {
    let yaml = "\
tools:
  dependencies:
    - {tool: Bash, required: true, purpose: x, minVersion: '2.0'}
    - {tool: Read, required: true, purpose: x}
    - {tool: 'Bash', required: true, purpose: y, minVersion: '2.0'}
";
    assert_eq!(problems(yaml, &[]), ["Bash ≥ 2.0 is missing", "Read is missing"]);
    let read = tool("Read", "-");
    let old = [tool("Bash", "1.9"), read.clone()];
    assert_eq!(problems(yaml, &old), ["Bash ≥ 2.0 is missing (found 1.9)"]);
    let silent = [tool("Bash", "-"), read.clone()];
    assert_eq!(problems(yaml, &silent), ["Bash ≥ 2.0 is missing (found without a version)"]);
    // Names are compared literally.
    assert_eq!(problems(yaml, &[tool("bash", "9"), read]), ["Bash ≥ 2.0 is missing"]);
}

#[test]
fn one_of_several_servers_is_enough() {
    let yaml =
        "tools: {dependencies: [{tool: search, required: true, purpose: x, minVersion: '3'}]}";
    let mut tools = vec![tool("search", "1"), tool("search", "nightly"), tool("search", "2.9")];
    assert_eq!(problems(yaml, &tools), ["search ≥ 3 is missing (found 1)"]);
    tools.push(tool("search", "3.1"));
    assert_eq!(problems(yaml, &tools), Vec::<String>::new());
}
