//! Hostile texts in every place of the console that shows texts which are not its own.

use std::collections::BTreeSet;

use mock_model::MockModel;
use serde_json::{Map, Value, json};
use skillhost_tasks::{FailureReason, NewTask, QuestionKind, TaskKind, TaskOutcome};

use crate::browser::{Browser, log_in};
use crate::console_client::{encode_form, hostile_texts};
use crate::console_scene::ConsoleScene;
use crate::fixtures::{agent_manifest, skill_md, start_kernel};
use crate::proposals::{BEADS, beads_with, propose_request};

/// The number of the texts that a sink has to show: errors are shortened, and Markdown drops the
/// targets of links that lead nowhere.
const MIN_SHOWN: usize = 360;
/// The lengths of packed texts, in bytes: of fields for titles, targets and bodies.
const TITLE: usize = 190;
const TARGET: usize = 500;
const BODY: usize = 9_000;

/// A place of the console that shows texts of models, tools, people or other programs.
struct TextSink {
    name: &'static str,
    /// The pages that show it, with the pages of their lists.
    pages: &'static [&'static str],
    /// Puts the texts there before the kernel starts; returns further pages.
    put: fn(&ConsoleScene, &[String]) -> Vec<String>,
}

/// Every sink but the messages of threads, which `console_browser` tests with streamed replies.
const SINKS: &[TextSink] = &[
    TextSink { name: "titles of tasks", pages: &["/tasks"], put: put_task_titles },
    TextSink { name: "inputs of tasks", pages: &[], put: put_task_inputs },
    TextSink { name: "outcomes of tasks", pages: &[], put: put_task_outcomes },
    TextSink { name: "errors of tasks", pages: &[], put: put_task_errors },
    TextSink { name: "lines of tasks", pages: &[], put: put_task_lines },
    TextSink { name: "targets of tasks", pages: &[], put: put_task_targets },
    TextSink { name: "titles of questions", pages: &["/inbox", "/"], put: put_question_titles },
    TextSink { name: "subjects of questions", pages: &[], put: put_question_subjects },
    TextSink { name: "options of questions", pages: &[], put: put_question_options },
    TextSink { name: "reasons of decisions", pages: &[], put: put_decisions },
    TextSink { name: "proposals", pages: &["/proposals"], put: put_proposals },
    TextSink { name: "texts of skills", pages: &["/skills"], put: put_skills },
    TextSink { name: "payloads of events", pages: &["/events"], put: put_events },
    TextSink { name: "dead letters", pages: &["/events"], put: put_dead_letters },
    TextSink { name: "errors of schedules", pages: &["/schedules"], put: put_schedule_error },
    TextSink { name: "people of channels", pages: &["/channels"], put: put_people },
    TextSink { name: "errors of deliveries", pages: &["/channels"], put: put_deliveries },
    TextSink { name: "names of agents", pages: &["/threads", "/extensions"], put: put_agents },
    TextSink { name: "searches and filters", pages: &[], put: put_searches },
    TextSink { name: "messages of errors", pages: &[], put: put_errors },
];

/// Joins texts up to a number of bytes each.
fn pack(texts: &[String], limit: usize) -> Vec<String> {
    let mut packs: Vec<String> = Vec::new();
    for text in texts {
        match packs.last_mut() {
            Some(last) if last.len() + text.len() + 2 <= limit => {
                last.push_str("\n\n");
                last.push_str(text);
            }
            _ => packs.push(text.clone()),
        }
    }
    packs
}

fn new_task(title: &str, input: String) -> NewTask {
    NewTask { title: title.into(), ..NewTask::new(TaskKind::Tool, "echo", input) }
}

fn completed(text: &str) -> TaskOutcome {
    TaskOutcome::Completed { text: text.into(), structured: None, is_error: false }
}

/// Ends a task for each text; returns the pages of the tasks.
fn end_tasks(
    scene: &ConsoleScene,
    texts: &[String],
    to_task: impl Fn(&str) -> (NewTask, Vec<Value>, TaskOutcome),
) -> Vec<String> {
    let end = |text: &String| {
        let (new, lines, outcome) = to_task(text);
        format!("/tasks/{}", scene.end_task(new, &lines, outcome))
    };
    texts.iter().map(end).collect()
}

fn put_task_titles(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let to_task = |text: &str| (new_task(text, "{}".into()), Vec::new(), completed("done"));
    end_tasks(scene, &pack(texts, TITLE), to_task);
    Vec::new()
}

fn put_task_inputs(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    end_tasks(scene, &pack(texts, BODY), |text| {
        let input = json!({ "text": text, text: [text] }).to_string();
        (new_task("input", input), Vec::new(), completed("done"))
    })
}

fn put_task_outcomes(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    end_tasks(scene, &pack(texts, BODY), |text| {
        (new_task("outcome", "{}".into()), Vec::new(), completed(text))
    })
}

fn put_task_errors(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    end_tasks(scene, &pack(texts, BODY), |text| {
        let outcome = TaskOutcome::Failed {
            reason: FailureReason::Error,
            message: text.into(),
            hint: text.into(),
        };
        (new_task("error", "{}".into()), Vec::new(), outcome)
    })
}

fn put_task_lines(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    end_tasks(scene, &pack(texts, BODY), |text| {
        let lines = vec![
            json!({ "at": 1, "message": { "role": "user", "text": text } }),
            json!({ "at": 2, "message": { "role": "assistant", "text": text, "calls": [
                { "id": "1", "name": text, "arguments": json!({ "text": text }).to_string() }
            ] } }),
            json!({ "at": 3, "message": { "role": "tool", "call_id": "1", "name": text, "text": text } }),
            json!({ "entry": text, text: text }),
            json!([text]),
        ];
        (new_task("lines", "{}".into()), lines, completed("done"))
    })
}

fn put_task_targets(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    end_tasks(scene, &pack(texts, TARGET), |text| {
        let target = NewTask::new(TaskKind::Tool, text, "{}");
        (NewTask { title: "target".into(), ..target }, Vec::new(), completed("done"))
    })
}

fn page_of_question(id: &str) -> String {
    format!("/inbox/{id}")
}

fn put_question_titles(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let ask = |text: &String| scene.ask(QuestionKind::Choice, text, &json!({}), &[]);
    pack(texts, BODY).iter().map(ask).map(|id| page_of_question(&id)).collect()
}

fn put_question_subjects(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let ask = |text: &String| {
        let diff = text.lines().map(|line| format!("+{line}\n")).collect::<String>();
        let count = diff.lines().count();
        let subject = json!({
            "tool": text,
            "arguments": json!({ "text": text, text: { text: [text] } }).to_string(),
            "details": format!("@@ -0,0 +1,{count} @@\n{diff}"),
            "lint": { "new": [{ "rule": text, "message": text }], "gone": [] },
            text: text,
        });
        let options = ["approve".to_owned(), "refuse".to_owned(), "edit".to_owned()];
        scene.ask(QuestionKind::Consent, "subject", &subject, &options)
    };
    pack(texts, BODY / 3).iter().map(ask).map(|id| page_of_question(&id)).collect()
}

fn put_question_options(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let ask = |options: &[String]| {
        scene.ask(QuestionKind::Choice, "options", &json!({ "question": "?" }), options)
    };
    texts.chunks(10).map(ask).map(|id| page_of_question(&id)).collect()
}

fn put_decisions(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let decide = |text: &String| {
        let subject = json!({ "question": "?" });
        let id = scene.ask(QuestionKind::Choice, "decided", &subject, &[]);
        let queue = &scene.queue;
        let question = queue.runtime.block_on(queue.queue.question(&id)).unwrap().unwrap();
        // Without options, the choice is the text of the person.
        queue.decide(&question, text);
        page_of_question(&id)
    };
    pack(texts, BODY).iter().map(decide).collect()
}

fn put_proposals(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    for (number, text) in pack(texts, 3_000).iter().enumerate() {
        let home = &scene.mailbox.home;
        // A skill for each, as the number of open proposals of one is limited.
        let id = format!("beads-{number}");
        let named = |text: &str| text.replace("name: beads", &format!("name: {id}"));
        home.write(format!("sandbox/skills/{id}/SKILL.md"), named(BEADS));
        let request = skill_ledger::ProposeRequest {
            skill_id: id.clone(),
            new_content: Some(named(&beads_with(text))),
            justification: text.clone(),
            evidence: vec![text.clone()],
            ..skill_ledger::ProposeRequest::default()
        };
        propose_request(home, &request).unwrap();
    }
    Vec::new()
}

fn put_skills(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let mut pages = Vec::new();
    for (number, text) in pack(texts, 900).iter().enumerate() {
        let id = format!("hostile-{number}");
        let description = serde_json::to_string(&text.replace('\t', " ")).unwrap();
        let content = skill_md("DESCRIPTION", text).replace("DESCRIPTION", &description);
        let content = content.replacen("name: greet", &format!("name: {id}"), 1);
        scene.mailbox.home.write(format!("sandbox/skills/{id}/SKILL.md"), content);
        pages.push(format!("/skills/{id}"));
        pages.push(format!("/skills/{id}/edit"));
    }
    pages
}

fn put_events(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    for text in pack(texts, BODY) {
        let fields: Map<String, Value> = [(text.clone(), json!([text]))].into_iter().collect();
        scene.publish("scene.text", &Value::Object(fields));
    }
    Vec::new()
}

fn put_dead_letters(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    for text in pack(texts, BODY) {
        scene.fail_delivery(&json!({ "text": text }), &text);
    }
    Vec::new()
}

fn put_schedule_error(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    scene.record_run(Some(&texts.join("\n")));
    Vec::new()
}

fn put_people(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    for text in pack(texts, BODY) {
        let role = if text.len() % 2 == 0 { "owner" } else { "guest" };
        scene.add_person(&text, &text, role);
    }
    Vec::new()
}

fn put_deliveries(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    // As many as the page lists; its rows shorten errors, which the pages of the tasks have.
    end_tasks(scene, &pack(texts, BODY / 3), |text| {
        let new =
            NewTask { title: text.into(), ..NewTask::new(TaskKind::Deliver, "mailbox", "{}") };
        (new, Vec::new(), TaskOutcome::failed(FailureReason::Error, text))
    })
}

fn put_agents(scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    for (number, text) in pack(texts, BODY).iter().enumerate() {
        let id = format!("hostile_{number}_agent");
        let manifest = agent_manifest(&id, "  instructions: You work.\n");
        // A name is one line.
        let name = serde_json::to_string(&text.replace(['\n', '\t'], " ")).unwrap();
        let line = manifest.lines().find(|line| line.starts_with("name:")).unwrap().to_owned();
        let manifest = manifest.replace(&line, &format!("name: {name}"));
        scene.mailbox.home.write(format!("manifests/{id}/manifest.yaml"), manifest);
    }
    Vec::new()
}

fn put_searches(_scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let search = |text: &String| {
        [
            format!("/skills?{}", encode_form(&[("q", text)])),
            format!("/events?{}", encode_form(&[("topic", text)])),
        ]
    };
    pack(texts, 1_500).iter().flat_map(search).collect()
}

fn put_errors(_scene: &ConsoleScene, texts: &[String]) -> Vec<String> {
    let path = |text: &String| {
        let segment = encode_form(&[("x", text)]).split_off(2);
        format!("/skills/{segment}")
    };
    pack(texts, TITLE).iter().map(path).collect()
}

/// Checks the page that is open; returns the numbers in it.
#[track_caller]
fn check_page(browser: &Browser, path: &str, name: &str) -> BTreeSet<u64> {
    let checked = browser.evaluate(
        "const count = document.querySelectorAll('main script, main img, main iframe, main style, \
         main object, main video, main embed, main base, main math, main template, main link, \
         main meta, main main, main mtext, [onerror], [onload], [ontoggle], [style], [formaction], \
         form[action^=\"http\"], a[href^=\"javascript:\" i], a[href^=\"data:\" i], \
         title ~ title').length; \
         const values = [...document.querySelectorAll('input, textarea')].map((it) => it.value); \
         const text = document.querySelector('main').textContent + ' ' + values.join(' '); \
         return [count, document.title.length > 0, text.match(/\\d+/g) ?? []]",
    );
    assert_eq!(checked[0], 0, "{name}: {path}");
    let numbers = checked[2].as_array().unwrap().iter();
    numbers.filter_map(|number| number.as_str().unwrap().parse().ok()).collect()
}

#[test]
fn hostile_texts_do_nothing_in_any_sink() {
    let Some(browser) = Browser::start(true) else { return };
    let scene = ConsoleScene::new(&MockModel::new());
    let texts = hostile_texts();
    let put = |sink: &TextSink| {
        let further = (sink.put)(&scene, &texts);
        sink.pages.iter().map(|page| (*page).to_owned()).chain(further).collect::<Vec<String>>()
    };
    let pages: Vec<Vec<String>> = SINKS.iter().map(put).collect();
    let _kernel = start_kernel(&scene.mailbox.home);
    let origin = log_in(&browser, &scene.mailbox.home);
    let _ = (browser.console_messages(), browser.requested_urls());
    let mut short = Vec::new();
    for (sink, pages) in SINKS.iter().zip(pages) {
        let mut shown = BTreeSet::new();
        let mut pending: Vec<String> = pages.into_iter().rev().collect();
        while let Some(path) = pending.pop() {
            browser.open(&format!("{origin}{path}"));
            shown.append(&mut check_page(&browser, &path, sink.name));
            let older = "return [...document.querySelectorAll('.pages a')].find((it) => \
                         it.textContent === 'Older')?.getAttribute('href') ?? ''";
            let links = "return [...document.querySelectorAll('main .cards a')].map((it) => \
                         it.getAttribute('href'))";
            match &*path {
                // The pages of the proposals themselves.
                "/proposals" => {
                    let links = browser.evaluate(links);
                    let links = links.as_array().unwrap().iter();
                    pending.extend(links.map(|link| link.as_str().unwrap().to_owned()));
                }
                path if path.starts_with("/tasks") => {
                    let older = browser.evaluate(older).as_str().unwrap().to_owned();
                    pending.extend(Some(older).filter(|older| !older.is_empty()));
                }
                _ => {}
            }
        }
        let count = (0..500).filter(|number| shown.contains(number)).count();
        if count < MIN_SHOWN {
            short.push((sink.name, count));
        }
    }
    assert_eq!(short, [], "sinks that do not show the texts");
    assert!(!browser.has_dialog());
    // The browser itself reports the status of a page that is not found.
    let mut messages = browser.console_messages();
    messages.retain(|message| !message.contains("status of 4"));
    assert_eq!(messages, Vec::<String>::new());
    let foreign: Vec<_> =
        browser.requested_urls().into_iter().filter(|url| !url.starts_with(&origin)).collect();
    assert_eq!(foreign, Vec::<String>::new());
}
