//! The extended specification of SkillsCraft: requirements, tests and composition of a skill.
//!
//! The SkillsCraft specification reference defines four types, but neither their location nor their
//! keys. Here:
//!
//! | type | key | other spellings |
//! |---|---|---|
//! | [`SecurityManifest`] | `security` | `securityManifest` |
//! | [`TestScenario`], a list or one | `tests` | `testScenarios`, `testScenario` |
//! | [`ToolBinding`] | `tools` | `toolBinding` |
//! | [`SkillComposition`] | `composition` | `skillComposition` |
//!
//! - The canonical location is a `skill.yaml` next to SKILL.md with these keys at its top level: no
//!   validator objects to it. The keys are also read in the frontmatter, at its top level or under
//!   `metadata`, there as a map or as a text with the map in YAML (`composition: |`), which
//!   validators that require texts under `metadata` accept.
//! - Of a repeated type, the first one counts, in the order frontmatter, `metadata`, `skill.yaml`.
//! - Keys are written in camelCase as in the specification; kebab-case and snake_case are read.
//! - Other tools use `security`, `tests` and `tools` with other meanings. Under a short key, a
//!   value counts only if it has one of the type's own fields (`tools: Read, Grep` and
//!   `tools: {bash: true}` are ignored); under a type's name it always counts.
//! - The tree has no types: `true` is a string to be parsed. If the specification requires a string and
//!   YAML would read a number or a boolean, only profile `skillscraft` reports it.

mod composition;
mod finding;
mod reader;
mod scenarios;
mod security;
mod tools;
mod version;

use serde::Serialize;
use skill_format::{
    Diagnostic, FRONTMATTER_LIMIT, Frontmatter, SKILL_YAML, SKILL_YAML_LIMIT, tree,
};
use yaml_tree::{Mapping, Span, Value, YamlStyle};

pub use composition::{ExecutionOrder, SkillComposition, SkillDependency};
pub use finding::ExtendedFinding;
pub use reader::{FieldRecord, FindingAnchor, RecordReader, SectionRules, excerpt};
pub use scenarios::{AssertionType, TestAssertion, TestCase, TestScenario, read_test_assertion};
pub use security::{CapabilityDeclaration, FileSystemScope, SecurityManifest};
pub(crate) use tools::tool_name;
pub use tools::{ToolBinding, ToolDependency};
pub use version::ToolVersion;

/// The declarations of a skill beyond the standard.
///
/// As JSON it has the keys of the specification; absent declarations are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExtendedSpec {
    /// The requested permissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<SecurityManifest>,
    /// The tests of its behavior.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<Vec<TestScenario>>,
    /// The tools it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolBinding>,
    /// The skills it needs and the skills it conflicts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub composition: Option<SkillComposition>,
}

/// The parsed declarations with their findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedExtendedSpec {
    /// The declarations; of invalid ones, the usable part.
    pub extended: ExtendedSpec,
    /// The findings, in the order of parsing.
    pub noticed: Vec<ExtendedFinding>,
}

/// The sections of the extended specification, one per type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtendedSection {
    Security,
    Tests,
    Tools,
    Composition,
}

impl ExtendedSpec {
    /// Returns `true` if there is no declaration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the declarations of `other` that are missing here.
    #[must_use]
    pub fn merge_with(self, other: Self) -> Self {
        Self {
            security: self.security.or(other.security),
            tests: self.tests.or(other.tests),
            tools: self.tools.or(other.tools),
            composition: self.composition.or(other.composition),
        }
    }

    /// Parses the declarations of a loaded frontmatter.
    ///
    /// The result equals that of [`ParsedExtendedSpec::from_mapping`] without the findings. For a
    /// skill without declarations it only compares keys.
    #[must_use]
    pub fn from_frontmatter(frontmatter: &Frontmatter) -> Self {
        let mut collector = SectionCollector::new(None);
        for (key, value) in &frontmatter.unknown {
            collector.add_entry(key, value, value.span());
        }
        for (key, text) in &frontmatter.metadata {
            collector.add_text(key, text, Span::default(), FindingAnchor::At(Span::default()));
        }
        collector.done.extended
    }
}

impl ParsedExtendedSpec {
    /// Parses the declarations of a frontmatter.
    ///
    /// `id` is the skill's own id, to detect a dependency on itself.
    #[must_use]
    pub fn from_mapping(root: &Mapping, id: &str) -> Self {
        let mut collector = SectionCollector::new(Some(id));
        collector.add_map(root);
        if let Some(Value::Mapping(metadata)) = root.get("metadata") {
            collector.add_map(metadata);
        }
        collector.done
    }

    /// Parses a `skill.yaml`; a text longer than [`SKILL_YAML_LIMIT`] is not read.
    ///
    /// `id` is the skill's own id.
    #[must_use]
    pub fn parse_skill_yaml(text: &str, id: &str) -> Self {
        let mut collector = SectionCollector::new(Some(id));
        let type_finding = |message: String| ExtendedFinding {
            rule: "composition.type",
            at: Span::default(),
            message,
            help: "write the keys `security`, `tests`, `tools`, `composition`".to_owned(),
            strict: false,
        };
        if text.len() > SKILL_YAML_LIMIT {
            let message = format!("`{SKILL_YAML}` has more than {SKILL_YAML_LIMIT} bytes");
            collector.done.noticed.push(type_finding(message));
            return collector.done;
        }
        let tree = tree::parse_frontmatter(text, 1);
        for found in tree.diagnostics {
            collector.done.noticed.push(ExtendedFinding {
                rule: found.rule,
                at: Span { line: found.line, column: found.column },
                message: found.message,
                help: found.help.unwrap_or_default(),
                strict: false,
            });
        }
        match &tree.root {
            Value::Mapping(root) => collector.add_map(root),
            _ => collector.done.noticed.push(type_finding(format!("`{SKILL_YAML}` is not a map"))),
        }
        collector.done
    }

    /// Returns the findings as warnings, without those of profile `skillscraft` alone.
    pub fn warnings(&self) -> impl Iterator<Item = Diagnostic> {
        let noticed = self.noticed.iter().filter(|noticed| !noticed.strict);
        noticed.map(|noticed| {
            Diagnostic::warning(noticed.rule, noticed.message.clone())
                .with_position(noticed.at.line, noticed.at.column)
                .with_help(noticed.help.clone())
        })
    }
}

/// Returns `true` if a frontmatter has a key of an extended declaration.
#[must_use]
pub fn may_declare(frontmatter: &Frontmatter) -> bool {
    frontmatter.unknown.iter().any(|(key, _)| classify_key(key).is_some())
        || frontmatter.metadata.iter().any(|(key, _)| classify_key(key).is_some())
}

/// Returns the section of a key, and whether the key is the name of the type.
fn classify_key(key: &str) -> Option<(ExtendedSection, bool)> {
    // Every key of every frontmatter is classified, and most have other initials.
    if !key.as_bytes().first().is_some_and(|first| b"sStTcC".contains(first)) {
        return None;
    }
    let named = |names: &[&str]| names.iter().any(|name| reader::is_spelling(name, key));
    match () {
        () if key == "security" => Some((ExtendedSection::Security, false)),
        () if key == "tests" => Some((ExtendedSection::Tests, false)),
        () if key == "tools" => Some((ExtendedSection::Tools, false)),
        () if key == "composition" => Some((ExtendedSection::Composition, false)),
        () if named(&["securityManifest"]) => Some((ExtendedSection::Security, true)),
        () if named(&["testScenarios", "testScenario"]) => Some((ExtendedSection::Tests, true)),
        () if named(&["toolBinding"]) => Some((ExtendedSection::Tools, true)),
        () if named(&["skillComposition"]) => Some((ExtendedSection::Composition, true)),
        () => None,
    }
}

/// A collector of the four types from all their locations.
struct SectionCollector<'a> {
    id: Option<&'a str>,
    done: ParsedExtendedSpec,
}

impl<'a> SectionCollector<'a> {
    fn new(id: Option<&'a str>) -> Self {
        Self { id, done: ParsedExtendedSpec::default() }
    }

    fn add_map(&mut self, map: &Mapping) {
        for entry in &map.entries {
            self.add_entry(&entry.key.text, &entry.value, entry.key.span);
        }
    }

    fn add_entry(&mut self, key: &str, value: &Value, key_span: Span) {
        match value {
            Value::Scalar(scalar) if !scalar.text.trim().is_empty() => {
                // The lines of a literal block map to lines of the file, except for the
                // indentation. The span of a block starts at its first line with text.
                let blank = scalar.text.bytes().take_while(|&byte| byte == b'\n').count();
                let anchor = match scalar.style {
                    YamlStyle::Literal => {
                        FindingAnchor::Block(scalar.span, u32::try_from(blank).unwrap_or(0))
                    }
                    _ => FindingAnchor::At(scalar.span),
                };
                self.add_text(key, &scalar.text, scalar.span, anchor);
            }
            value => self.add_value(key, value, key_span, FindingAnchor::Own),
        }
    }

    /// Adds a text: YAML, or a field of another tool.
    fn add_text(&mut self, key: &str, text: &str, span: Span, anchor: FindingAnchor) {
        let Some((_, by_name)) = classify_key(key) else { return };
        let inner =
            // A longer text is treated as a plain one, which bounds the cost of parsing.
            (text.len() <= FRONTMATTER_LIMIT).then(|| tree::parse_frontmatter(text, 1).root);
        match inner {
            Some(root @ (Value::Mapping(_) | Value::Sequence(_))) => {
                self.add_value(key, &root, span, anchor);
            }
            _ if by_name => {
                let scalar = yaml_tree::Scalar {
                    text: text.to_owned(),
                    style: YamlStyle::DoubleQuoted,
                    span,
                };
                self.add_value(key, &Value::Scalar(scalar), span, FindingAnchor::At(span));
            }
            _ => {}
        }
    }

    /// Adds a value; `anchor` is the position for its findings.
    fn add_value(&mut self, key: &str, value: &Value, key_span: Span, anchor: FindingAnchor) {
        let Some((section, by_name)) = classify_key(key) else { return };
        let (rules, fields) = match section {
            ExtendedSection::Security => (&security::RULES, security::FIELDS),
            ExtendedSection::Tests => (&scenarios::RULES, scenarios::FIELDS),
            ExtendedSection::Tools => (&tools::RULES, tools::FIELDS),
            ExtendedSection::Composition => (&composition::RULES, composition::FIELDS),
        };
        // Another tool's `tools` or `tests` must not be reported.
        if !by_name && !has_field(value, fields) {
            return;
        }
        let ParsedExtendedSpec { extended, noticed } = &mut self.done;
        // The first declaration wins; a later one is reported at its key.
        let given = match section {
            ExtendedSection::Security => extended.security.is_some(),
            ExtendedSection::Tests => extended.tests.is_some(),
            ExtendedSection::Tools => extended.tools.is_some(),
            ExtendedSection::Composition => extended.composition.is_some(),
        };
        let mut reader = RecordReader::new(rules, anchor, noticed);
        if given {
            let message = format!("`{key}` is given once more and not used");
            reader.anchor = FindingAnchor::At(key_span);
            return reader.report(rules.unknown, key_span, message, "keep one of the two");
        }
        match section {
            ExtendedSection::Security => {
                extended.security = security::read_security(&mut reader, value);
            }
            ExtendedSection::Tests => {
                extended.tests = scenarios::read_scenarios(&mut reader, value);
            }
            ExtendedSection::Tools => extended.tools = tools::read_tools(&mut reader, value),
            ExtendedSection::Composition => {
                extended.composition = composition::read_composition(&mut reader, value, self.id);
            }
        }
    }
}

/// Returns `true` if a value, or an item of it, is a map with one of these fields.
fn has_field(value: &Value, fields: &[&str]) -> bool {
    match value {
        Value::Scalar(_) => false,
        Value::Mapping(map) => map
            .entries
            .iter()
            .any(|entry| fields.iter().any(|field| reader::is_spelling(field, &entry.key.text))),
        Value::Sequence(list) => list
            .items
            .iter()
            // Only one level of lists: no type is a list of lists.
            .any(|item| matches!(item, Value::Mapping(_)) && has_field(item, fields)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(yaml: &str) -> Mapping {
        match tree::parse_frontmatter(yaml, 2).root {
            Value::Mapping(root) => root,
            other => panic!("not a map: {other:?}"),
        }
    }

    fn lines(collector: &ParsedExtendedSpec) -> Vec<String> {
        let line = |it: &ExtendedFinding| {
            let strict = if it.strict { " (strict)" } else { "" };
            format!("{}:{} {}: {}{strict}", it.at.line, it.at.column, it.rule, it.message)
        };
        collector.noticed.iter().map(line).collect()
    }

    const WHOLE: &str = "
security:
  capabilities:
    - {capability: 'shell:execute', reason: Runs git.}
    - {capability: 'net:fetch', reason: Looks up issues., optional: true}
  requiresNetwork: true
  modifies-files: false
  file_system_scope: workspace
tests:
  - name: greeting
    description: It greets.
    cases:
      - name: by name
        input: Greet Ada
        expectedBehavior: A friendly line
        assertions:
          - {type: contains, value: Ada}
          - {type: not-contains, value: Bob, description: no other guest}
tools:
  dependencies:
    - {tool: 'Bash(git:*)', required: true, purpose: Reads history., minVersion: '2.40'}
    - {tool: Read, required: false, purpose: Reads files.}
composition:
  dependencies:
    - {skillName: people, reason: Knows names., optional: true}
  conflicts: [insult]
  executionOrder: after
";

    #[test]
    fn spec_round_trips_as_json() {
        let collector = ParsedExtendedSpec::from_mapping(&tree(WHOLE), "greet");
        assert_eq!(lines(&collector), [""; 0]);
        assert_eq!(
            serde_json::to_value(&collector.extended).unwrap(),
            serde_json::json!({
                "security": {
                    "capabilities": [
                        {"capability": "shell:execute", "reason": "Runs git.", "optional": false},
                        {
                            "capability": "net:fetch",
                            "reason": "Looks up issues.",
                            "optional": true,
                        },
                    ],
                    "requiresNetwork": true,
                    "modifiesFiles": false,
                    "fileSystemScope": "workspace",
                },
                "tests": [{
                    "name": "greeting",
                    "description": "It greets.",
                    "cases": [{
                        "name": "by name",
                        "input": "Greet Ada",
                        "assertions": [
                            {"type": "contains", "value": "Ada"},
                            {"type": "not-contains", "value": "Bob", "description": "no other guest"},
                        ],
                        "expectedBehavior": "A friendly line",
                    }],
                }],
                "tools": {"dependencies": [
                    {
                        "tool": "Bash(git:*)",
                        "required": true,
                        "purpose": "Reads history.",
                        "minVersion": "2.40",
                    },
                    {"tool": "Read", "required": false, "purpose": "Reads files."},
                ]},
                "composition": {
                    "dependencies": [
                        {"skillName": "people", "reason": "Knows names.", "optional": true},
                    ],
                    "conflicts": ["insult"],
                    "executionOrder": "after",
                },
            })
        );
    }

    #[test]
    fn locations_are_equivalent() {
        let indented = |by: &str| WHOLE.replace('\n', &format!("\n{by}"));
        let top = ParsedExtendedSpec::from_mapping(&tree(WHOLE), "greet").extended;
        let metadata = format!("metadata:{}\n", indented("  ").trim_end());
        let named = WHOLE
            .replace("\nsecurity:", "\nsecurity-manifest:")
            .replace("\ntests:", "\ntestScenarios:")
            .replace("\ntools:", "\nTool_Binding:".to_lowercase().as_str())
            .replace("\ncomposition:", "\nSkillComposition:");
        let mut texts = String::from("metadata:\n");
        for part in WHOLE.trim().split("\n").collect::<Vec<_>>().chunk_by(|_, b| b.starts_with(' '))
        {
            texts.push_str(&format!("  {} |\n", part[0]));
            part[1..].iter().for_each(|line| texts.push_str(&format!("    {line}\n")));
        }
        for place in [&metadata, &named, &texts] {
            let collector = ParsedExtendedSpec::from_mapping(&tree(place), "greet");
            assert_eq!(
                (lines(&collector), collector.extended),
                (Vec::new(), top.clone()),
                "{place}"
            );
            let file = format!("---\ndescription: Greets.\n{place}---\n");
            let loaded = skill_format::parse_head("greet", file.as_bytes()).frontmatter.unwrap();
            assert!(may_declare(&loaded));
            assert_eq!(ExtendedSpec::from_frontmatter(&loaded), top, "{place}");
        }
        assert_eq!(ParsedExtendedSpec::parse_skill_yaml(WHOLE, "greet").extended, top);
    }

    #[test]
    fn invalid_values_are_reported_in_place() {
        let yaml = "\
security:
  capabilities: {capability: x, reason: y}
  requiresNetwork: yes
  modifiesFiles: 'true'
  fileSystemScope: home
  colour: red
testScenarios: soon
tools:
  dependencies:
    - {tool: Bash(git, required: true, purpose: x}
    - {tool: Read, purpose: 7, minVersion: latest}
    - {tool: Grep, required: true, purpose: x, minVersion: 1.10}
    - just a text
composition:
  dependencies:
    - {skillName: greet, reason: x}
    - {skillName: people}
    - {skillName: ../up, reason: x}
  conflicts: [people, greet]
  executionOrder: first
metadata:
  composition: {dependencies: []}
";
        let collector = ParsedExtendedSpec::from_mapping(&tree(yaml), "greet");
        assert_eq!(
            lines(&collector),
            [
                "7:3 security.unknownField: `security` has no field `colour`",
                "3:17 security.type: `security.capabilities` is a map, not a list",
                "4:20 security.type: `security.requiresNetwork` is neither true nor false; it is not used",
                "5:18 security.type: `security.modifiesFiles` is a string, not true or false",
                "6:20 security.value: `security.fileSystemScope` cannot be `home`",
                "8:16 tests.type: `tests[0]` is a string, not a map",
                "11:14 tools.value: `Bash(git` is not the name of a tool",
                "12:7 tools.required: `tools.dependencies[1]` has no `required`",
                "12:29 tools.type: `tools.dependencies[1].purpose` is a number, not a string (strict)",
                "12:44 tools.value: `latest` is not a version",
                "13:60 tools.type: `tools.dependencies[2].minVersion` is a number, not a string (strict)",
                "14:7 tools.type: `tools.dependencies[3]` is a string, not a map",
                "17:19 composition.contradiction: `greet` depends on itself",
                "18:7 composition.required: `composition.dependencies[1]` has no `reason`",
                "19:19 composition.value: `../up` is not the id of a skill: a skill id cannot contain U+002F",
                "20:15 composition.contradiction: `people` is both a dependency and a conflict",
                "20:23 composition.contradiction: `greet` is both a dependency and a conflict",
                "21:19 composition.value: `composition.executionOrder` cannot be `first`",
                "23:3 composition.unknownField: `composition` is given once more and not used",
            ]
        );
        let extended = collector.extended;
        assert_eq!(extended.security.map(|it| it.modifies_files), Some(Some(true)));
        assert_eq!(extended.tests, None);
        let tools = extended.tools.unwrap().dependencies;
        let tools: Vec<_> = tools.iter().map(|it| (it.tool.as_str(), it.required)).collect();
        assert_eq!(tools, [("Read", true), ("Grep", true)]);
    }

    #[test]
    fn nested_text_findings_have_positions() {
        let yaml = "\
metadata:
  tools: |

    dependencies: none
  composition: '{dependencies: none}'
  tool-binding: soon
";
        assert_eq!(
            lines(&ParsedExtendedSpec::from_mapping(&tree(yaml), "x")),
            [
                "5:19 tools.type: `tools.dependencies` is a string, not a list",
                "6:16 composition.type: `composition.dependencies` is a string, not a list",
                "7:17 tools.unknownField: `tool-binding` is given once more and not used",
            ]
        );
    }

    #[test]
    fn foreign_fields_are_ignored() {
        for yaml in [
            "tools: Read, Grep",
            "tools: [Read, Grep]",
            "tools: {bash: true}",
            "tools:\n  - name: x\n    command: y",
            "security: high",
            "tests: {name: x, description: y}",
            "metadata: {tools: 'Note: see below', tests: unit}",
            "test: {cases: []}",
        ] {
            assert_eq!(
                ParsedExtendedSpec::from_mapping(&tree(yaml), "x"),
                ParsedExtendedSpec::default(),
                "{yaml}"
            );
        }
    }
}
