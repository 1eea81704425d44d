use std::fs;
use std::path::{Path, PathBuf};

use skill_catalog::{AgentScope, ManualClock};

use super::*;
use crate::RegistryConfig;

const HANDLER: &str = "export default async () => ({ result: 1 });\n";

struct TestHome {
    _temp: tempfile::TempDir,
    skills: PathBuf,
    clock: Arc<ManualClock>,
    store: Arc<Store>,
    index: ProgramIndex,
}

impl TestHome {
    fn new(files: &[(&str, &str)]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let skills = temp.path().join("sandbox/skills");
        files.iter().for_each(|(path, text)| write(&skills, path, text));
        // Every file is old enough for its stamp to be trusted.
        let clock = Arc::new(ManualClock::new(SystemTime::now() + Duration::from_secs(60)));
        let options = RegistryConfig::default().options(temp.path(), None);
        let store = Arc::new(Store::open(options, Arc::clone(&clock) as _).unwrap());
        let index = ProgramIndex::new(Arc::clone(&store));
        Self { _temp: temp, skills, clock, store, index }
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.skills, path, text);
        self.store.poll_full();
    }

    fn names(&self) -> Vec<String> {
        let programs = self.index.list(Audience::Operator);
        programs.into_iter().map(|program| program.tool_name).collect()
    }
}

fn write(skills: &Path, path: &str, text: &str) {
    let path = skills.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill_md(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Describes {name}.\n---\nBody\n")
}

#[test]
fn programs_are_listed_as_tools() {
    let home = TestHome::new(&[
        ("quotes/SKILL.md", &skill_md("quotes")),
        ("quotes/index.js", HANDLER),
        ("quotes/chart.js", HANDLER),
        ("plain/SKILL.md", &skill_md("plain")),
        ("plain/scripts/run.py", "print()"),
        ("summary/SKILL.md", &skill_md("summary")),
        (
            "summary/tool.json",
            r#"{"kind": "skill", "description": "Tells.", "inputSchema": {"type": "object", "required": ["a"]}}"#,
        ),
        ("broken/SKILL.md", &skill_md("broken")),
        ("broken/tool.json", "{\"kind\": 7}"),
        ("broken/index.js", HANDLER),
    ]);
    let programs = home.index.list(Audience::Operator);
    let lines: Vec<_> =
        programs.iter().map(|it| (&*it.tool_name, it.entry.as_deref(), &*it.description)).collect();
    assert_eq!(
        lines,
        [
            ("quotes.chart", Some("chart.js"), "Describes quotes. (program `chart`)"),
            ("quotes", Some("index.js"), "Describes quotes."),
            ("summary", None, "Tells."),
        ]
    );
    assert_eq!(programs[0].tree_digest, programs[1].tree_digest);
    assert!(programs[0].tree_digest.starts_with("sha256:"));
    assert_eq!(programs[2].input_schema["required"][0], "a");
    // A skill without programs is a tool for those who name it.
    let plain = home.index.list_skill(Audience::Operator, "plain").unwrap();
    assert_eq!((plain.len(), &plain[0].entry, &*plain[0].tool_name), (1, &None, "plain"));
    assert_eq!(plain[0].instructions.trim(), "Body");
    let error = home.index.list_skill(Audience::Operator, "broken").unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(error.message.contains("tool.json:1:10: `kind` is not a text"), "{}", error.message);
    let error = home.index.list_skill(Audience::Operator, "gone").unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[test]
fn changes_of_files_grow_the_revision() {
    let home = TestHome::new(&[
        ("quotes/SKILL.md", &skill_md("quotes")),
        ("quotes/index.js", HANDLER),
        ("plain/SKILL.md", &skill_md("plain")),
    ]);
    let first = home.index.refresh();
    assert_eq!(home.index.refresh(), first);
    // The files below are younger than the clock, but old enough.
    home.clock.advance(Duration::from_secs(60));
    let digest = home.index.list(Audience::Operator)[0].tree_digest.clone();
    home.write("quotes/index.js", &format!("{HANDLER}\n"));
    let second = home.index.refresh();
    assert!(second > first);
    assert_ne!(home.index.list(Audience::Operator)[0].tree_digest, digest);
    home.write("plain/index.js", HANDLER);
    let third = home.index.refresh();
    assert!(third > second);
    assert_eq!(home.names(), ["plain", "quotes"]);
    home.write("plain/tool.json", "{\"kind\": \"skill\", \"enabled\": false}");
    assert_eq!(home.names(), ["quotes"]);
    home.write("plain/tool.json", "{\"kind\": \"skill\"}");
    assert_eq!(home.names(), ["plain", "quotes"]);
    fs::remove_dir_all(home.skills.join("quotes")).unwrap();
    home.store.poll_full();
    home.store.poll_full();
    assert!(home.index.refresh() > third);
    assert_eq!(home.names(), ["plain"]);
}

#[test]
fn models_see_programs_of_their_skills() {
    let home = TestHome::new(&[
        ("quotes/SKILL.md", &skill_md("quotes")),
        ("quotes/index.js", HANDLER),
        (
            "hidden/SKILL.md",
            "---\nname: hidden\ndescription: H.\ndisable-model-invocation: true\n---\n",
        ),
        ("hidden/index.js", HANDLER),
    ]);
    let model = Audience::Agent(AgentScope::default());
    let seen = home.index.list(model);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].skill_id, "quotes");
    assert_eq!(home.index.list_skill(model, "hidden").unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(home.names(), ["hidden", "quotes"]);
}

#[test]
fn skill_over_the_limits_has_no_programs() {
    let home =
        TestHome::new(&[("quotes/SKILL.md", &skill_md("quotes")), ("quotes/index.js", HANDLER)]);
    (0..600).for_each(|n| write(&home.skills, &format!("quotes/data/{n}"), ""));
    let error = home.index.list_skill(Audience::Operator, "quotes").unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}
