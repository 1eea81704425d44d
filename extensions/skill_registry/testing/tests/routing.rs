//! Skills on disk against the real index and catalog.

#![cfg(test)]

use std::fs;
use std::path::PathBuf;

use skill_catalog::{SkillRoot, StoreOptions, TrustLevel};
use skill_evals::CaseSplit;
use skill_format::SkillId;
use skill_testing::{
    AgentView, AgentViews, CandidateSkill, RoutingFailure, RoutingHarness, RoutingReport,
    RoutingSetup, SkillCases, UsageAdvice, advise_usage, load_cases, load_held_out,
    load_installed_cases, open_held_out, test_all_routing, test_routing,
};
use skillhost_files::jail;
use tempfile::TempDir;

/// A directory of skills.
struct SkillsDirectory(TempDir);

impl SkillsDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Writes a skill, and its queries if there are any.
    fn skill(&self, id: &str, description: &str, triggers: &str) -> &Self {
        let body = format!("# {id}\n\nThe vernier calipers of {id} have to be calibrated.\n");
        let head = format!("---\nname: {id}\ndescription: {description}\n---\n\n{body}");
        self.write(&format!("{id}/SKILL.md"), &head);
        if !triggers.is_empty() {
            self.write(&format!("{id}/evals/triggers.json"), triggers);
        }
        self
    }

    fn options(&self) -> StoreOptions {
        let root = SkillRoot {
            label: "sandbox".to_owned(),
            path: self.0.path().to_owned(),
            trust: TrustLevel::Operator,
        };
        StoreOptions { roots: vec![root], ..StoreOptions::default() }
    }

    fn harness(&self) -> RoutingHarness {
        self.harness_with(Vec::new())
    }

    fn harness_with(&self, candidates: Vec<CandidateSkill>) -> RoutingHarness {
        let options = self.options();
        RoutingHarness::open(RoutingSetup { options, candidates, with_distractors: true }).unwrap()
    }

    fn path(&self, id: &str) -> PathBuf {
        self.0.path().join(id)
    }

    fn cases(&self, id: &str) -> SkillCases {
        load_cases(&jail::open_root(&self.path(id)).unwrap(), id, 0)
    }

    fn test(&self, id: &str) -> RoutingReport {
        test_routing(&self.harness(), &self.cases(id), &AgentViews::default())
    }
}

const FORMS: &str = "Fills in PDF forms such as the W-9. Use when a form has to be completed.";

fn query(text: &str, should_trigger: bool, more: &str) -> String {
    format!("{{\"query\": \"{text}\", \"should_trigger\": {should_trigger}{more}}}")
}

fn failures(report: &RoutingReport) -> Vec<Option<RoutingFailure>> {
    report.results.iter().map(|result| result.failure.clone()).collect()
}

#[test]
fn queries_are_judged_by_what_agent_is_offered() {
    let skills = SkillsDirectory::new();
    let queries = [
        query("complete the W-9 form", true, ""),
        query("calibrate the vernier calipers", true, ""),
        query("xylophone", true, ""),
        query("complete the W-9 form", false, ", \"agent\": \"all\""),
        query("xylophone lessons", false, ""),
        query("fill in a form", true, ", \"agent\": \"absent\""),
    ];
    skills.skill("pdf-forms", FORMS, &format!("[{}]", queries.join(",")));
    let views = AgentViews::from([("all".to_owned(), AgentView::default())]);
    let report = test_routing(&skills.harness(), &skills.cases("pdf-forms"), &views);
    assert_eq!(
        failures(&report),
        [
            None,
            Some(RoutingFailure::BodyOnly),
            Some(RoutingFailure::NotMatched),
            Some(RoutingFailure::Surfaced),
            None,
            Some(RoutingFailure::UnknownAgent),
        ]
    );
    assert_eq!((report.recall, report.precision), (Some(0.25), Some(0.5)));
    assert_eq!(report.failed(), 4);
}

#[test]
fn better_matches_push_skill_down() {
    let skills = SkillsDirectory::new();
    let wanted = "glaze pottery with cobalt oxide";
    skills.skill(
        "pottery",
        "Shapes clay.",
        &format!("[{}]", query("glaze clay with cobalt", true, "")),
    );
    for number in 1..=4 {
        skills.skill(
            &format!("glazes-{number}"),
            &format!("Use to {wanted} of kind {number}."),
            "",
        );
    }
    let [Some(RoutingFailure::RankedLow { rank, above })] = &failures(&skills.test("pottery"))[..]
    else {
        panic!("{:?}", skills.test("pottery"))
    };
    assert!(*rank > 3 && above.starts_with("glazes-"), "{rank} {above}");
}

#[test]
fn expected_and_forbidden_skills_are_compared() {
    let skills = SkillsDirectory::new();
    let expects = ", \"expected_skill\": \"form-builder\"";
    let queries = [
        query("design a new form with fields", false, expects),
        query("complete the W-9 form", false, expects),
        query("complete the W-9 form", true, ", \"forbidden\": [\"form-builder\"]"),
        query(
            "complete the W-9 form",
            true,
            ", \"forbidden\": [\"missing\"], \"split\": \"train\"",
        ),
    ];
    skills.skill("pdf-forms", FORMS, &format!("[{}]", queries.join(","))).skill(
        "form-builder",
        "Designs a new form with fields and checks.",
        "",
    );
    let report = skills.test("pdf-forms");
    let expected = "form-builder".to_owned();
    assert_eq!(
        failures(&report),
        [
            None,
            Some(RoutingFailure::AboveExpected {
                expected: expected.clone(),
                rank: report_rank(&skills)
            }),
            Some(RoutingFailure::Forbidden { skill_id: expected }),
            None,
        ]
    );
}

/// Returns the rank of `form-builder` for the query about the W-9.
fn report_rank(skills: &SkillsDirectory) -> Option<usize> {
    skills.harness().route(&AgentView::default(), "complete the W-9 form").rank("form-builder")
}

#[test]
fn view_of_agent_limits_skills_but_not_distractors() {
    let skills = SkillsDirectory::new();
    skills.skill("pdf-forms", FORMS, "").skill("form-builder", "Designs a form.", "");
    let harness = skills.harness();
    let view = |include: &[&str]| AgentView {
        include: include.iter().map(|glob| (*glob).to_owned()).collect(),
        ..AgentView::default()
    };
    let routed = harness.route(&view(&["pdf-*"]), "complete the form");
    assert_eq!(routed.rank("pdf-forms"), Some(1));
    assert_eq!(routed.rank("form-builder"), None);
    assert!(routed.listed.len() > 100, "distractors compete: {}", routed.listed.len());
    assert!(harness.route(&view(&[]), "complete the form").rank("pdf-forms").is_none());
}

#[test]
fn candidate_replaces_installed_skill() {
    let skills = SkillsDirectory::new();
    skills.skill("pdf-forms", "Something else entirely.", "");
    let id = SkillId::new("pdf-forms").unwrap();
    let bytes =
        format!("---\nname: pdf-forms\ndescription: {FORMS}\n---\n\n# Forms\n").into_bytes();
    let rank = |harness: &RoutingHarness| {
        harness.route(&AgentView::default(), "complete the W-9").rank("pdf-forms")
    };
    assert_eq!(rank(&skills.harness()), None);
    assert_eq!(rank(&skills.harness_with(vec![CandidateSkill { id, bytes }])), Some(1));
    // The installed skill is as it was.
    let text = fs::read_to_string(skills.path("pdf-forms").join("SKILL.md")).unwrap();
    assert!(text.contains("Something else"));
}

#[test]
fn catch_all_description_costs_precision() {
    let skills = SkillsDirectory::new();
    let positive =
        ["pin this beetle specimen", "label the insect drawer", "arrange my beetle specimens"];
    let negative = ["plan a garden", "translate a letter", "repair a bicycle", "bake rye bread"];
    let of = |texts: &[&str], expected| {
        texts.iter().map(|text| query(text, expected, "")).collect::<Vec<_>>()
    };
    let queries = [of(&positive, true), of(&negative, false)].concat().join(",");
    let beetles = "Arranges beetle specimens. Use when an insect drawer needs pins and labels.";
    let catch_all =
        format!("{beetles} Also for {}.", [&positive[..], &negative[..]].concat().join(", "));
    let figures = |description: &str| {
        skills.skill("clerk", description, &format!("[{queries}]"));
        let report = skills.test("clerk");
        (report.recall.unwrap_or(0.0), report.precision.unwrap_or(0.0))
    };
    let (recall, precision) = figures(beetles);
    assert!(recall >= 0.9 && precision >= 0.9, "{recall} {precision}");
    let (recall, precision) = figures(&catch_all);
    assert!(recall >= 0.9 && precision < 0.6, "{recall} {precision}");
    assert_eq!(figures("Q").0, 0.0, "a description without words is never found");
}

#[test]
fn held_out_cases_come_from_home() {
    let skills = SkillsDirectory::new();
    let queries: Vec<String> = (0..40).map(|n| query(&format!("form {n}"), true, "")).collect();
    skills.skill("pdf-forms", FORMS, &format!("[{}]", queries.join(",")));
    let sides = |cases: &SkillCases| {
        cases.triggers.iter().filter(|case| case.split == CaseSplit::Train).count()
    };
    let mut cases = skills.cases("pdf-forms");
    let train = sides(&cases);
    assert!((16..=32).contains(&train), "{train}");
    assert!(cases.triggers.iter().all(|case| !case.is_private));
    let digest = cases.digest();

    let data = SkillsDirectory::new();
    data.write("evals/pdf-forms/triggers.json", &format!("[{}]", query("finish a form", true, "")));
    load_held_out(&mut cases, &open_held_out(data.0.path(), "pdf-forms").unwrap());
    assert_eq!(sides(&cases), 40, "readers of the skill can see these");
    let last = cases.triggers.last().unwrap();
    assert_eq!((last.name.as_str(), last.split), ("held-out/q1", CaseSplit::HeldOut));
    assert!(last.is_private);
    assert_ne!(cases.digest(), digest);
    assert!(open_held_out(data.0.path(), "other").is_none());
    assert!(open_held_out(data.0.path(), "../evals/pdf-forms").is_none());
}

#[test]
fn all_case_files_are_read() {
    let skills = SkillsDirectory::new();
    skills
        .skill("pdf-forms", FORMS, &format!("[{}]", query("a form", true, "")))
        .write("pdf-forms/evals/eval_queries.json", &format!("[{}]", query("b form", true, "")))
        .write("pdf-forms/evals/trigger_eval.json", &format!("[{}]", query("c form", true, "")))
        .write("pdf-forms/evals/suite.yaml", "runs: 7\n")
        .write("pdf-forms/evals/evals.json", r#"{"evals": [{"id": 1, "prompt": "x"}]}"#)
        .write(
            "pdf-forms/skill.yaml",
            "tests: [{name: t, description: d, cases: [{name: c, input: i, assertions: []}]}]\n",
        );
    let cases = skills.cases("pdf-forms");
    assert_eq!(cases.errors().collect::<Vec<_>>(), []);
    let names: Vec<&str> = cases.triggers.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["q1", "eval_queries/q1", "trigger_eval/q1"]);
    let names: Vec<&str> = cases.outputs.iter().map(|case| case.name.as_str()).collect();
    assert_eq!((names, cases.settings.runs), (vec!["1", "t/c"], 7));
}

#[cfg(unix)]
#[test]
fn links_and_large_files_are_reported() {
    let skills = SkillsDirectory::new();
    skills.skill("pdf-forms", FORMS, "").write("secret.json", "[]");
    let evals = skills.path("pdf-forms").join("evals");
    fs::create_dir(&evals).unwrap();
    std::os::unix::fs::symlink("../../secret.json", evals.join("triggers.json")).unwrap();
    fs::create_dir(evals.join("evals.json")).unwrap();
    fs::write(evals.join("suite.yaml"), b"\xff").unwrap();
    // A sparse file of 50 MB.
    fs::File::create(evals.join("eval_queries.json")).unwrap().set_len(50 << 20).unwrap();
    let cases = skills.cases("pdf-forms");
    let found: Vec<(String, &str)> = cases
        .errors()
        .map(|(file, found)| (file.path.to_string(), found.message.as_str()))
        .collect();
    let found: Vec<(&str, &str)> =
        found.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_eq!(
        found,
        [
            ("evals/triggers.json", "it is a symbolic link"),
            ("evals/eval_queries.json", "it has more than 4 MiB"),
            ("evals/evals.json", "it is not a regular file"),
            ("evals/suite.yaml", "it is not UTF-8"),
        ]
    );
}

#[test]
fn reports_are_equal_ten_times() {
    let skills = SkillsDirectory::new();
    let words = "amber birch cedar dahlia elm fern gorse hazel iris juniper".split(' ');
    for (number, word) in words.clone().enumerate() {
        let other = words.clone().nth((number + 3) % 10).unwrap();
        let queries: Vec<String> = (0..20)
            .map(|n| query(&format!("prune the {word} near the {other} {n}"), n % 3 > 0, ""))
            .collect();
        let description = format!("Prunes each {word}. Use when a {word} grows too tall.");
        skills.skill(&format!("{word}-care"), &description, &format!("[{}]", queries.join(",")));
    }
    let all = || -> Vec<RoutingReport> {
        let harness = skills.harness();
        let test = |id: String| test_routing(&harness, &skills.cases(&id), &AgentViews::default());
        words.clone().map(|word| test(format!("{word}-care"))).collect()
    };
    let first = all();
    assert_eq!(first.iter().map(|report| report.results.len()).sum::<usize>(), 200);
    for _ in 0..9 {
        assert_eq!(all(), first);
    }
}

#[test]
fn advice_names_shadowing_skill() {
    let directory = SkillsDirectory::new();
    let triggers = r#"[
        {"query": "quarterly zeppelin inventory", "should_trigger": true},
        {"query": "assemble a marimba", "should_trigger": true},
        {"query": "zeppelin inventory", "should_trigger": false}
    ]"#;
    directory.skill("marimba-care", "Assembles a marimba.", triggers);
    directory.skill("zeppelin-list", "Prints the quarterly zeppelin inventory.", "");
    let harness = directory.harness();
    let cases = load_installed_cases(&harness, None);
    let reports = test_all_routing(&harness, &cases.iter().collect::<Vec<_>>(), &AgentViews::new());
    let report = advise_usage(&[], &harness, &reports);
    let [UsageAdvice::Shadowed { skill_id, by, cases, positives }] = &*report.advice else {
        panic!("{report:?}");
    };
    assert_eq!(
        (&**skill_id, &**by, cases.len(), *positives),
        ("marimba-care", "zeppelin-list", 1, 2)
    );
    assert_eq!(report.too_little_use, ["marimba-care", "zeppelin-list"]);
    assert_eq!(report.without_cases, ["zeppelin-list"]);
}
