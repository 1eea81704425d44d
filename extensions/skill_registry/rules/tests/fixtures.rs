//! Verdicts on the fixture packs.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its fixtures has failed")]
#![expect(clippy::disallowed_methods, reason = "fixtures are files; the crate itself reads none")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skill_format::{EntryKind, FileEntry, SkillInput};
use skill_rules::{
    CheckOptions, CheckReport, CheckScope, Profile, RULES, RuleCheck, RuleGroup, RuleLevel,
    check_skill, find_rule,
};

fn pack(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures").join(name)
}

/// A skill as it is on the disk.
struct SkillOnDisk {
    dir_name: String,
    file_name: Option<String>,
    bytes: Vec<u8>,
    files: Vec<FileEntry>,
}

impl SkillOnDisk {
    fn read(dir: &Path) -> Self {
        let mut files = Vec::new();
        list_files(dir, "", &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let is_skill_md = |name: &&str| name.eq_ignore_ascii_case("SKILL.md");
        let names = files.iter().map(|file| file.path.as_str());
        let file_name = names.filter(is_skill_md).min().map(str::to_owned);
        let bytes = file_name.as_ref().map(|name| fs::read(dir.join(name)).unwrap());
        Self {
            dir_name: dir.file_name().unwrap().to_str().unwrap().to_owned(),
            file_name,
            bytes: bytes.unwrap_or_default(),
            files,
        }
    }

    fn check(&self, profile: Profile) -> CheckReport {
        self.check_in(profile, CheckScope::Lint)
    }

    fn check_in(&self, profile: Profile, scope: CheckScope) -> CheckReport {
        let input = SkillInput {
            dir_name: &self.dir_name,
            file_name: self.file_name.as_deref(),
            bytes: &self.bytes,
            files: Some(&self.files),
        };
        check_skill(&input, CheckOptions { profile, scope })
    }
}

fn list_files(dir: &Path, prefix: &str, files: &mut Vec<FileEntry>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let metadata = entry.metadata().unwrap();
        let kind = if metadata.is_dir() {
            list_files(&entry.path(), &format!("{path}/"), files);
            EntryKind::Directory
        } else if path.ends_with("/out.md") {
            // The pack has a link here; without support for links, Git checks it out as a file.
            EntryKind::Symlink { escapes: true }
        } else {
            EntryKind::File
        };
        files.push(FileEntry { path, size: metadata.len(), mode: 0o644, kind });
    }
}

fn expected(case: &Value, column: &str) -> BTreeSet<String> {
    let findings = case[column].as_array().unwrap();
    let finding_id = |found: &Value| {
        format!("{} {}", found["severity"].as_str().unwrap(), found["rule"].as_str().unwrap())
    };
    findings.iter().map(finding_id).collect()
}

fn assert_verdicts(profile: Profile, verdict: &str, column: &str) {
    let lines = fs::read_to_string(pack("skill-fixtures").join("expected.jsonl")).unwrap();
    let cases: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 88);
    let columns = ["rules", "rules_001"];
    let known: BTreeSet<&str> = cases
        .iter()
        .flat_map(|case| columns.iter().flat_map(|column| case[column].as_array().unwrap()))
        .map(|found| found["rule"].as_str().unwrap())
        .collect();
    let mut wrong = Vec::new();
    for case in &cases {
        let path = case["path"].as_str().unwrap();
        let skill = SkillOnDisk::read(&pack("skill-fixtures").join(path));
        let report = skill.check(profile);
        // `lint` replaces some advice of `validate` by a lint rule.
        let validated = skill.check_in(profile, CheckScope::Validate);
        let found: BTreeSet<String> = report
            .findings
            .iter()
            .chain(&validated.findings)
            .map(|found| &found.diagnostic)
            .filter(|found| {
                find_rule(found.rule).is_some_and(|it| it.group == RuleGroup::Validation)
            })
            .filter(|found| known.contains(found.rule))
            .map(|found| format!("{} {}", found.severity, found.rule))
            .collect();
        let expected = expected(case, column);
        if found != expected {
            wrong.push(format!("{path}: found {found:?}, expected {expected:?}"));
        }
        if report.is_valid() != (case["verdict"][verdict] == "valid") {
            wrong.push(format!("{path}: valid is {}: {report:?}", report.is_valid()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn skillscraft_agrees_with_all_fixtures() {
    assert_verdicts(Profile::Skillscraft, "seed002", "rules");
}

#[test]
fn seed_strict_agrees_with_all_fixtures() {
    assert_verdicts(Profile::SeedStrict, "seed001", "rules_001");
}

#[test]
fn spec_profile_judges_torture_set() {
    let cases: [(&str, &[&str]); 20] = [
        ("alias-bomb", &["error frontmatter.alias", "error frontmatter.anchor"]),
        ("bom", &["warning file.bom"]),
        ("colon", &["error frontmatter.recovered"]),
        ("crlf", &[]),
        ("dashes-value", &[]),
        ("dup-key", &["error frontmatter.duplicateKey"]),
        ("eof-fence", &[]),
        ("folded", &[]),
        ("hr-body", &[]),
        ("lead-nl", &["error frontmatter.leadingBlank"]),
        ("list-tools", &["error allowed-tools.type"]),
        ("nodesc", &["error description.required"]),
        ("num-name", &["error name.matchesDirectory"]),
        ("plain", &[]),
        ("tab-indent", &["error frontmatter.recovered"]),
        ("trail-ws", &["warning frontmatter.fenceWhitespace"]),
        ("uni-naïve", &["warning name.portability"]),
        ("unknown", &["error frontmatter.unknownField"]),
        ("utf16", &["error file.encoding"]),
        ("yaml-null", &[]),
    ];
    for (name, expected) in cases {
        let report = SkillOnDisk::read(&pack("parser-torture").join(name)).check(Profile::Spec);
        let found: BTreeSet<String> = report
            .findings
            .iter()
            .map(|found| &found.diagnostic)
            .filter(|found| {
                find_rule(found.rule).is_some_and(|it| it.group == RuleGroup::Validation)
            })
            .map(|found| format!("{} {}", found.severity, found.rule))
            .collect();
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn skillscraft_warns_about_unknown_fields() {
    let report =
        SkillOnDisk::read(&pack("parser-torture").join("unknown")).check(Profile::Skillscraft);
    assert!(report.is_valid());
    assert!(report.findings.iter().any(|it| it.diagnostic.rule == "frontmatter.unknownField"));
}

#[test]
fn lenient_profile_matches_loading() {
    for entry in fs::read_dir(pack("parser-torture")).unwrap() {
        let dir = entry.unwrap().path();
        if !dir.is_dir() {
            continue;
        }
        let skill = SkillOnDisk::read(&dir);
        let loaded = match skill_format::parse_skill(&skill.dir_name, &skill.bytes) {
            Ok(skill) => skill.parsed.diagnostics,
            Err(rejected) => rejected.diagnostics,
        };
        let report = skill.check(Profile::Lenient);
        let found: Vec<_> = report.findings.into_iter().map(|found| found.diagnostic).collect();
        let found: Vec<_> = found
            .into_iter()
            .filter(|found| {
                find_rule(found.rule).is_some_and(|it| it.group == RuleGroup::Validation)
            })
            .collect();
        assert_eq!(found, loaded, "{}", dir.display());
    }
}

#[test]
fn reference_profile_uses_reference_findings() {
    let lines = fs::read_to_string(pack("skill-fixtures").join("expected.jsonl")).unwrap();
    let mut raised = BTreeSet::new();
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let skill = SkillOnDisk::read(&pack("skill-fixtures").join(case["path"].as_str().unwrap()));
        let report = skill.check(Profile::Reference);
        // A crash of the reference has no verdict to compare.
        if case["verdict"]["skills-ref"] != "crash" {
            let valid = case["verdict"]["skills-ref"] == "valid";
            assert_eq!(report.is_valid(), valid, "{}: {report:?}", case["path"]);
        }
        let found = report.findings.iter().map(|found| found.diagnostic.rule);
        raised.extend(
            found.filter(|id| find_rule(id).is_none_or(|it| it.group == RuleGroup::Validation)),
        );
    }
    let errors: BTreeSet<&str> = RULES
        .iter()
        .filter(|rule| {
            rule.group == RuleGroup::Validation && rule.levels.reference == RuleLevel::Error
        })
        .filter(|rule| !matches!(rule.check, RuleCheck::Reading))
        .map(|rule| rule.id)
        .collect();
    assert_eq!(errors, raised);
}
