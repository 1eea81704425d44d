//! Every page of the console with realistic rows: pictures, the rules of axe-core, and the scores of
//! Lighthouse.
//!
//! `cargo xtask screenshots` draws the pictures into `target/screenshots/console`. The rules are
//! checked where `SKILLHOST_AXE` is the path of `axe.min.js`, which is not part of this repository:
//! `npm install axe-core`. Likewise `SKILLHOST_LIGHTHOUSE` is the path of `cli/index.js` of the package
//! `lighthouse`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use skillhost_tasks::{FailureReason, NewTask, QuestionKind, TaskBudget, TaskKind, TaskOutcome};
use test_support::{Background, TestHome};

use crate::agents_scene::{ask_agent, last_thread};
use crate::browser::{Browser, CHROMIUM, log_in};
use crate::console::PAGES;
use crate::console_client::{ConsoleClient, value_after};
use crate::console_scene::ConsoleScene;
use crate::fixtures::{repository_root, start_kernel};
use crate::proposals::propose_request;
use crate::screenshots::NOTES;

/// The widths of pictures in pixels: a telephone, a tablet and a large screen.
const WIDTHS: [u32; 3] = [390, 1024, 1600];
const THEMES: [&str; 2] = ["light", "dark"];
/// A page that is an error.
const MISSING: &str = "/skills/missing";

/// The rest of the skill `release-notes`, with a table and code.
const REST_OF_NOTES: &str = "
| section | content |
|---|---|
| Added | new commands and options |
| Fixed | errors that users have reported |

```sh
git log --oneline v1.4..HEAD
```
";

const REPLY: &str = "The release has **three** changes that users notice:

- `skill search` finds phrases, not only words.
- The console lists *channels* with their people.
- A task that is retried keeps its budget.

I left out the renamed modules. Shall I write the notes into `CHANGELOG.md`?
";

/// A home with rows on every page, and its kernel.
struct ConsolePages {
    scene: ConsoleScene,
    _mock: MockModel,
    _kernel: Background,
    /// The name of each page and its path.
    pages: Vec<(String, String)>,
}

fn home_of(scene: &ConsoleScene) -> &TestHome {
    &scene.mailbox.home
}

fn release_notes() -> String {
    format!("{NOTES}{REST_OF_NOTES}")
}

fn meeting_notes() -> String {
    release_notes().replace("name: release-notes", "name: meeting-notes")
}

fn task(title: &str, agent: &str, input: &str) -> NewTask {
    NewTask { title: title.into(), ..NewTask::for_agent(agent, input) }
}

/// Writes what a home has before its kernel starts; returns the pages of single rows.
fn write_rows(scene: &ConsoleScene) -> Vec<(String, String)> {
    let home = home_of(scene);
    home.write("sandbox/skills/release-notes/SKILL.md", release_notes());
    home.write("sandbox/skills/release-notes/references/style.md", "# Style\n\nShort sentences.\n");
    home.write("sandbox/skills/meeting-notes/SKILL.md", meeting_notes());
    let change =
        release_notes().replace("for the user first.", "for the user first and its number last.");
    let request = skill_ledger::ProposeRequest {
        skill_id: "release-notes".into(),
        new_content: Some(change.replace("three", "3")),
        justification: "Reviewers asked for the number of the change three times.".into(),
        evidence: vec!["thread 01J8: \"Which pull request is this?\"".into()],
        ..skill_ledger::ProposeRequest::default()
    };
    propose_request(home, &request).unwrap();
    home.write(
        "manifests/weather/manifest.yaml",
        "id: weather\nname: Weather\nentrypoint: weather\n",
    );
    let lines = [
        json!({ "at": 1_790_000_000_000_u64, "message": { "role": "user", "text": "Review the kv extension" } }),
        json!({ "at": 1_790_000_004_000_u64, "message": { "role": "assistant", "text": "I read the files first.",
            "calls": [{ "id": "c1", "name": "read_file", "arguments": "{\"path\":\"kv/src/lib.rs\"}" }] } }),
        json!({ "at": 1_790_000_005_000_u64, "message": { "role": "tool", "call_id": "c1", "name": "read_file",
            "text": "pub fn get(key: &str) -> Option<String> { … }" } }),
    ];
    let done = TaskOutcome::Completed {
        text: "The extension is **in order**. Two remarks:\n\n1. `get` copies the value.\n2. A test for \
               an empty key is missing."
            .into(),
        structured: None,
        is_error: false,
    };
    let review = task("Review the kv extension", "worker", "Review the kv extension");
    let budget = TaskBudget { tokens: Some(200_000), turns: Some(30), ..TaskBudget::default() };
    let completed = scene.end_task(NewTask { budget, ..review }, &lines, done);
    let failure = TaskOutcome::Failed {
        reason: FailureReason::Error,
        message: "model `claude-sonnet` did not answer: connection refused".into(),
        hint: "check the network, then retry the task".into(),
    };
    let nightly = task("Summarize the mail of the night", "worker", "Summarize");
    let failed = scene.end_task(nightly, &[], failure);
    let new_delivery = || {
        let delivery = NewTask::new(TaskKind::Deliver, "mailbox", "{}");
        NewTask { title: "message to mailbox".into(), ..delivery }
    };
    let lost = TaskOutcome::failed(FailureReason::Error, "the chat no longer exists");
    scene.end_task(new_delivery(), &[], lost);
    let sent = TaskOutcome::Completed {
        text: "sent in 2 parts".into(),
        structured: None,
        is_error: false,
    };
    scene.end_task(new_delivery(), &[], sent);
    scene.add_person("48151623", "Ada Lovelace", "owner");
    scene.add_person("10842", "Grace Hopper", "guest");
    scene.record_run(Some("the tool `echo` timed out after 60 s"));
    scene.fail_delivery(
        &json!({ "feed": "https://example.org/news.xml", "items": 12, "newest": "2026-02-28T09:00:00Z" }),
        "event handler timed out after 30 s",
    );
    scene.publish("weather.changed", &json!({ "city": "Bergen", "rain_mm": 4.2, "warnings": [] }));
    let row = |name: &str, id: String| (name.to_owned(), format!("/tasks/{id}"));
    vec![row("task", completed.to_string()), row("task-failed", failed.to_string())]
}

impl ConsolePages {
    fn open() -> Self {
        let mock = MockModel::new();
        let scene = ConsoleScene::new(&mock);
        let mut pages: Vec<(String, String)> = PAGES
            .iter()
            .map(|path| {
                let name = path.trim_start_matches('/');
                (if name.is_empty() { "overview" } else { name }.to_owned(), (*path).to_owned())
            })
            .collect();
        pages.extend(write_rows(&scene));
        let kernel = start_kernel(home_of(&scene));
        let home = home_of(&scene);
        mock.push(Step::text("I look at the changes.").call("echo", r#"{"text":"v1.4..HEAD"}"#));
        mock.push(Step::text(REPLY));
        ask_agent(home, "worker", "Which changes of the release do users notice?").success();
        pages.push(("thread".into(), format!("/threads/{}", last_thread(home))));
        let later = ["task", "submit", "worker", "Write the weekly report", "--at", "48h"];
        home.skillhost(later).success();
        home.skillhost(["task", "submit", "worker", "Look for dead links", "--at", "2h"]).success();
        let write =
            json!({ "path": "CHANGELOG.md", "content": "## 1.5\n\n- Phrases in searches\n" });
        let subject = json!({
            "tool": "write_file",
            "extension": "core_tools",
            "arguments": write.to_string(),
            "details": "--- a/CHANGELOG.md\n+++ b/CHANGELOG.md\n@@ -1,2 +1,5 @@\n # Changelog\n+\n+## 1.5\n+\n+- Phrases in searches\n",
            "agent": "worker",
            "extension_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        });
        let options = ["approve", "session", "refuse", "edit"].map(str::to_owned);
        let title = "write_file: CHANGELOG.md";
        let consent = scene.ask(QuestionKind::Consent, title, &subject, &options);
        let subject = json!({ "question": "Which of the two drafts shall I publish?" });
        let choices = ["The short one", "The long one"].map(str::to_owned);
        let title = "Which of the two drafts shall I publish?";
        scene.ask(QuestionKind::Choice, title, &subject, &choices);
        let question = scene.ask(
            QuestionKind::Choice,
            "What is the name of the release?",
            &json!({ "question": "What is the name of the release?" }),
            &[],
        );
        pages.push(("question".into(), format!("/inbox/{consent}")));
        pages.push(("question-answer".into(), format!("/inbox/{question}")));
        for (name, path) in [
            ("skill", "/skills/release-notes"),
            ("skill-edit", "/skills/release-notes/edit"),
            ("error", MISSING),
        ] {
            pages.push((name.into(), path.into()));
        }
        Self { scene, _mock: mock, _kernel: kernel, pages }
    }

    /// Logs in, and adds the pages whose addresses only lists have.
    fn log_in(&mut self, browser: &Browser) -> String {
        let origin = log_in(browser, home_of(&self.scene));
        browser.open(&format!("{origin}/proposals"));
        let first = "return document.querySelector('main .cards a').getAttribute('href')";
        let proposal = browser.evaluate(first).as_str().unwrap().to_owned();
        self.pages.push(("proposal".into(), proposal));
        // Recorded by the page of the skill; a second version is that of an edit.
        browser.open(&format!("{origin}/skills/meeting-notes"));
        let edited = meeting_notes()
            .replace("three", "two")
            .replace("users do not notice", "no user notices");
        home_of(&self.scene).write("sandbox/skills/meeting-notes/SKILL.md", edited);
        browser.open(&format!("{origin}/skills/meeting-notes"));
        self.pages.push(("skill-version".into(), "/skills/meeting-notes/versions/1".into()));
        origin
    }
}

#[test]
fn screenshots_of_console_are_drawn() {
    // Not compared with committed pictures, as fonts differ between machines.
    if std::env::var_os("UPDATE_DOCS").is_none() {
        return;
    }
    let Some(browser) = Browser::start(true) else { return };
    let mut pages = ConsolePages::open();
    let directory: PathBuf = repository_root().join("target/screenshots/console");
    fs::create_dir_all(&directory).unwrap();
    let origin = pages.log_in(&browser);
    for theme in THEMES {
        browser.set_theme(theme);
        for width in WIDTHS {
            browser.set_width(width);
            for (name, path) in &pages.pages {
                browser.open(&format!("{origin}{path}"));
                let file = directory.join(format!("{name}-{width}-{theme}.png"));
                fs::write(file, browser.draw_page(width)).unwrap();
            }
        }
    }
}

#[test]
fn pages_with_rows_fit_narrow_screens() {
    let Some(browser) = Browser::start(true) else { return };
    let mut pages = ConsolePages::open();
    let origin = pages.log_in(&browser);
    browser.set_width(WIDTHS[0]);
    for (name, path) in &pages.pages {
        browser.open(&format!("{origin}{path}"));
        let overflow = "return document.documentElement.scrollWidth - innerWidth";
        assert!(browser.evaluate(overflow).as_i64().unwrap() <= 0, "{name}");
        // A cell is a grid of its label and one value: a second one would be drawn below the label.
        let cells = browser.evaluate(
            "return [...document.querySelectorAll('.rows td')].filter((cell) => \
             [...cell.childNodes].filter((it) => it.textContent.trim()).length > 1) \
             .map((cell) => cell.outerHTML)",
        );
        assert_eq!(cells, json!([]), "{name}");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "the reason of a skip")]
fn pages_follow_rules_of_axe() {
    let Some(axe) = std::env::var_os("SKILLHOST_AXE") else {
        eprintln!("skipped: SKILLHOST_AXE is not set to the path of axe.min.js");
        return;
    };
    let Some(browser) = Browser::start(true) else { return };
    let axe = fs::read_to_string(axe).unwrap();
    let mut pages = ConsolePages::open();
    let origin = pages.log_in(&browser);
    let mut findings: Vec<Value> = Vec::new();
    for theme in THEMES {
        browser.set_theme(theme);
        for width in [390, 1024] {
            browser.set_width(width);
            for (name, path) in &pages.pages {
                browser.open(&format!("{origin}{path}"));
                // Everything is checked, also what is folded.
                browser.evaluate(
                    "document.querySelectorAll('details').forEach((it) => it.open = true)",
                );
                browser.evaluate(&axe);
                let found = browser.evaluate_async(
                    "const done = arguments[0]; axe.run(document).then((it) => done([it.passes.length, \
                     it.violations.map((it) => [it.id, it.nodes.map((node) => \
                     node.html.slice(0, 160)).slice(0, 4)])]), (error) => done([0, [String(error)]]))",
                );
                assert!(found[0].as_u64().unwrap() > 10, "{name}: {found}");
                let found = found[1].as_array().unwrap().iter();
                findings.extend(found.map(|it| json!([name, theme, width, it])));
            }
        }
    }
    assert_eq!(findings, Vec::<Value>::new());
}

/// Returns the scores of a page in percent.
fn lighthouse_scores(program: &Path, client: &ConsoleClient, path: &str) -> (i64, i64) {
    let profile = tempfile::tempdir().unwrap();
    let flags = format!(
        "--chrome-flags=--headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
         --user-data-dir={}",
        profile.path().display()
    );
    let output = Command::new("node")
        .arg(program)
        .arg(format!("{}{path}", client.address.origin()))
        .args(["--quiet", "--output=json", "--only-categories=accessibility,performance"])
        .arg(format!("--extra-headers={}", json!({ "Cookie": client.cookie })))
        .arg(flags)
        .env("CHROME_PATH", CHROMIUM)
        .env("HOME", profile.path())
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    // A login page would have good scores as well.
    assert!(report["finalDisplayedUrl"].as_str().unwrap().ends_with(path), "{path}");
    let score = |name: &str| {
        let score = report["categories"][name]["score"].as_f64().unwrap_or_default();
        (score * 100.0).round() as i64
    };
    (score("accessibility"), score("performance"))
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures, and the reason of a skip")]
fn pages_reach_scores_of_lighthouse() {
    let Some(program) = std::env::var_os("SKILLHOST_LIGHTHOUSE") else {
        eprintln!(
            "skipped: SKILLHOST_LIGHTHOUSE is not set to the path of lighthouse/cli/index.js"
        );
        return;
    };
    let pages = ConsolePages::open();
    let client = ConsoleClient::log_in(home_of(&pages.scene));
    let proposals = client.get("/proposals").expect(200).body;
    let proposal = value_after(&proposals, "href=\"/inbox/");
    let mut paths: Vec<String> = pages.pages.iter().map(|(_, path)| path.clone()).collect();
    paths.push(format!("/inbox/{proposal}"));
    // Its status is an error for Lighthouse.
    paths.retain(|path| path != MISSING);
    for path in paths {
        let scores = lighthouse_scores(program.as_ref(), &client, &path);
        eprintln!("{path}: accessibility {}, performance {}", scores.0, scores.1);
        assert!(scores.0 == 100 && scores.1 >= 95, "{path}: {scores:?}");
    }
}
