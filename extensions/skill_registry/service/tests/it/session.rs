//! The tools that load, unload and read skills of a thread.

use serde_json::{Value, json};
use skill_catalog::{RegistryError, Store};
use skill_service::{
    LoadSkillsArgs, ReadLoadedArgs, SessionAnswer, UnloadSkillsArgs, load_skills, read_loaded,
    unload_skills,
};
use skillhost_payload::{CallContext, CallOrigin, ErrorKind, SkillRef};

use crate::fixture::StoreFixture;

/// The calls of one thread; the kernel applies their changes.
struct ThreadCalls {
    fixture: StoreFixture,
    store: Store,
    context: CallContext,
}

impl ThreadCalls {
    fn new(skills: &[(&str, &str)]) -> Self {
        let fixture = StoreFixture::new();
        skills.iter().for_each(|(id, body)| write(&fixture, id, body));
        let store = fixture.open_warm();
        Self { fixture, store, context: CallContext::default() }
    }

    fn apply(
        &mut self,
        answer: Result<SessionAnswer, RegistryError>,
    ) -> Result<Value, (ErrorKind, String)> {
        let answer = answer.map_err(|error| (error.kind, error.message))?;
        if let Some(change) = &answer.change {
            change.apply(&mut self.context.active_skills);
        }
        assert_eq!(serde_json::from_str::<Value>(&answer.text).unwrap(), answer.structured);
        Ok(answer.structured)
    }

    fn load(&mut self, args: Value) -> Result<Value, (ErrorKind, String)> {
        let args: LoadSkillsArgs = serde_json::from_value(args).unwrap();
        let answer = load_skills(&self.store, &self.store.snapshot(), &self.context, &args);
        self.apply(answer)
    }

    fn unload(&mut self, args: Value) -> Result<Value, (ErrorKind, String)> {
        let args: UnloadSkillsArgs = serde_json::from_value(args).unwrap();
        let answer = unload_skills(&self.store, &self.store.snapshot(), &self.context, &args);
        self.apply(answer)
    }

    fn read(&mut self, args: Value) -> Result<Value, (ErrorKind, String)> {
        let args: ReadLoadedArgs = serde_json::from_value(args).unwrap();
        let answer = read_loaded(&self.store.snapshot(), &self.context, &args);
        self.apply(answer)
    }

    fn loaded(&self) -> Vec<&str> {
        self.context.active_skills.iter().map(|skill| skill.skill_id.as_str()).collect()
    }
}

fn write(fixture: &StoreFixture, id: &str, body: &str) {
    let text = format!(
        "---\nname: {id}\ndescription: About {id}.\nlicense: MIT\nallowed-tools: a b\n\
         metadata: {{kind: test}}\n---\n{body}\n"
    );
    fixture.write(&format!("skills/{id}/SKILL.md"), &text);
}

fn names(receipt: &Value) -> Vec<&str> {
    let skills = receipt["active_skills"].as_array().unwrap();
    skills.iter().map(|skill| skill["name"].as_str().unwrap()).collect()
}

#[test]
fn load_answers_with_receipt() {
    let mut thread = ThreadCalls::new(&[("alpha", "Alpha's body.")]);
    let receipt = thread.load(json!({"names": ["alpha"]})).unwrap();
    let reference = thread.context.active_skills[0].clone();
    let SkillRef { digest, tree, .. } = &reference;
    assert!(tree.as_ref().is_some_and(|tree| tree.len() == 64 && tree != digest));
    let expected = json!({"active_skills": [{
        "name": "alpha",
        "digest": format!("sha256:{digest}"),
        "properties": {
            "name": "alpha", "description": "About alpha.", "license": "MIT",
            "allowed-tools": "a b", "metadata": {"kind": "test"},
        },
    }]});
    assert_eq!(receipt, expected);
    // Only a caller that can open files learns where they are.
    thread.context.reads_files = true;
    let receipt = thread.load(json!({"names": ["alpha"]})).unwrap();
    let dir = thread.fixture.path("skills/alpha");
    assert_eq!(receipt["active_skills"][0]["root_dir"], json!(dir));
    assert_eq!(receipt["active_skills"][0]["location"], json!(dir.join("SKILL.md")));
}

#[test]
fn modes_keep_order_and_merge_names() {
    let bodies: Vec<_> = ["a", "b", "c", "d"].map(|id| (id, "Do it.")).into();
    let mut thread = ThreadCalls::new(&bodies);
    thread.load(json!({"names": ["b", "a", "b"]})).unwrap();
    assert_eq!(thread.loaded(), ["b", "a"]);
    let receipt = thread.load(json!({"names": ["c", "b"], "mode": "add"})).unwrap();
    assert_eq!(names(&receipt), ["b", "a", "c"]);
    assert_eq!(thread.loaded(), ["b", "a", "c"]);
    thread.load(json!({"names": ["a", "d"], "mode": "replace"})).unwrap();
    assert_eq!(thread.loaded(), ["a", "d"]);
    // A root's label means the same skill.
    thread.load(json!({"names": ["a@skills"], "mode": "add"})).unwrap();
    assert_eq!(thread.loaded(), ["a", "d"]);
    let receipt = thread.unload(json!({"names": ["a@skills", "zebra"]})).unwrap();
    assert_eq!((names(&receipt), thread.loaded()), (vec!["d"], vec!["d"]));
    assert_eq!(thread.unload(json!({"all": true})).unwrap(), json!({"active_skills": []}));
    assert_eq!(thread.loaded(), [""; 0]);
}

#[test]
fn second_load_changes_nothing() {
    let mut thread = ThreadCalls::new(&[("alpha", "Do it.")]);
    let first = thread.load(json!({"names": ["alpha"]})).unwrap();
    let args: LoadSkillsArgs = serde_json::from_value(json!({"names": ["alpha"]})).unwrap();
    let snapshot = thread.store.snapshot();
    let again = load_skills(&thread.store, &snapshot, &thread.context, &args).unwrap();
    assert_eq!((again.structured, again.change), (first, None));
    let args: UnloadSkillsArgs = serde_json::from_value(json!({"names": ["beta"]})).unwrap();
    let answer = unload_skills(&thread.store, &snapshot, &thread.context, &args).unwrap();
    assert_eq!(answer.change, None);
}

#[test]
fn wrong_arguments_change_nothing() {
    let ids: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
    let bodies: Vec<_> = ids.iter().map(|id| (id.as_str(), "Do it.")).collect();
    let mut thread = ThreadCalls::new(&bodies);
    thread.load(json!({"names": ["s9"]})).unwrap();
    let too_many = (ErrorKind::TooLarge, "at most 8 skills can be loaded at once: load fewer");
    let one = "exactly one of names and all is needed";
    let cases = [
        (json!({"names": []}), (ErrorKind::InvalidArgument, "names is empty")),
        (json!({"names": ["s0", "S1"]}), (ErrorKind::NotFound, "skill `S1` not found")),
        (json!({"names": ["s0", "../s1"]}), (ErrorKind::NotFound, "skill `../s1` not found")),
        (json!({"names": ids}), too_many),
        (json!({"names": ids[..8], "mode": "add"}), too_many),
    ];
    for (args, (kind, message)) in cases {
        assert_eq!(thread.load(args).unwrap_err(), (kind, message.to_owned()));
        assert_eq!(thread.loaded(), ["s9"]);
    }
    for args in [json!({}), json!({"names": []}), json!({"all": false})] {
        let error = thread.unload(args).unwrap_err();
        assert_eq!(error, (ErrorKind::InvalidArgument, one.to_owned()));
    }
    let both = json!({"names": ["s9"], "all": true});
    assert_eq!(thread.unload(both).unwrap_err().1, one);
    // Nine names of eight skills are eight skills.
    let mut twice = ids[..8].to_vec();
    twice.push(ids[0].clone());
    thread.load(json!({"names": twice})).unwrap();
    assert_eq!(thread.loaded(), ids[..8].iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        serde_json::from_value::<LoadSkillsArgs>(json!({"names": [], "mode": "some"})).is_err()
    );
}

#[test]
fn tokens_are_limited() {
    // 12,000 tokens each.
    let body = "word ".repeat(9_600);
    let mut thread = ThreadCalls::new(&[("a", &body), ("b", &body), ("c", &body)]);
    thread.load(json!({"names": ["a", "b"]})).unwrap();
    let (kind, message) = thread.load(json!({"names": ["c"], "mode": "add"})).unwrap_err();
    assert_eq!(kind, ErrorKind::TooLarge);
    assert!(message.starts_with("3 skills of approx. 36"), "{message}");
    assert!(message.ends_with(" tokens exceed 25000: load fewer"), "{message}");
    // What is loaded can be loaded again, whatever the window.
    thread.context.context_window = Some(100_000);
    thread.load(json!({"names": ["a"], "mode": "add"})).unwrap();
    assert_eq!(thread.loaded(), ["a", "b"]);
    thread.unload(json!({"all": true})).unwrap();
    thread.load(json!({"names": ["a"]})).unwrap();
    let (_, message) = thread.load(json!({"names": ["b"], "mode": "add"})).unwrap_err();
    assert!(message.ends_with(" tokens exceed 15000: load fewer"), "{message}");
}

#[test]
fn changed_and_removed_skills_are_marked() {
    let mut thread = ThreadCalls::new(&[("a", "Do it."), ("b", "Do it."), ("c", "Do it.")]);
    thread.load(json!({"names": ["a", "b"]})).unwrap();
    let before = thread.context.active_skills.clone();
    write(&thread.fixture, "a", "Do it well.");
    thread.fixture.write("skills/b/scripts/run.sh", "true");
    let receipt = thread.load(json!({"names": ["c"], "mode": "add"})).unwrap();
    let marks = |receipt: &Value| {
        let skills = receipt["active_skills"].as_array().unwrap().iter();
        skills.map(|skill| skill["changed"] == true).collect::<Vec<_>>()
    };
    assert_eq!(marks(&receipt), [true, true, false]);
    // A skill that stays loaded is as it was; loaded again, it is as it is now.
    assert_eq!(thread.context.active_skills[..2], before);
    let receipt = thread.load(json!({"names": ["a"], "mode": "add"})).unwrap();
    assert_eq!(marks(&receipt), [true, true, false]);
    assert_ne!(thread.context.active_skills[0], before[0]);
    let digest = format!("sha256:{}", thread.context.active_skills[0].digest);
    assert_eq!(receipt["active_skills"][0]["digest"], json!(digest));

    std::fs::remove_dir_all(thread.fixture.path("skills/b")).unwrap();
    thread.store.poll_full();
    thread.store.poll_full();
    let receipt = thread.unload(json!({"names": ["c"]})).unwrap();
    assert_eq!(receipt["active_skills"][1]["removed"], true);
    assert_eq!(thread.loaded(), ["a", "b"]);
    assert_eq!(thread.read(json!({"path": "x"})).unwrap_err().0, ErrorKind::NotFound);
}

#[test]
fn read_serves_loaded_skills_only() {
    let mut thread = ThreadCalls::new(&[("a", "Do it."), ("b", "Do it."), ("c", "Do it.")]);
    thread.fixture.write("skills/a/references/r.md", "Of a.");
    thread.fixture.write("skills/b/references/r.md", "Of b.");
    thread.fixture.write("skills/b/assets/x.bin", [0, 159, 146, 150]);
    let nothing = (ErrorKind::Denied, "load a skill first".to_owned());
    assert_eq!(thread.read(json!({"path": "references/r.md"})).unwrap_err(), nothing);
    thread.load(json!({"names": ["a", "b"]})).unwrap();
    let text = |text: &str| {
        json!({
            "path": "references/r.md", "type": "text", "text": text, "mime": "text/markdown",
            "next_offset": null,
        })
    };
    assert_eq!(thread.read(json!({"path": "references/r.md"})).unwrap(), text("Of b."));
    let of_a = json!({"path": "references/r.md", "skill": "a"});
    assert_eq!(thread.read(of_a).unwrap(), text("Of a."));
    let binary = thread.read(json!({"path": "assets/x.bin"})).unwrap();
    assert_eq!((&binary["type"], &binary["base64"]), (&json!("binary"), &json!("AJ+Slg==")));
    let page = thread.read(json!({"path": "references/r.md", "offset": 1, "limit": 2})).unwrap();
    assert_eq!((&page["text"], &page["next_offset"]), (&json!("f "), &json!(3)));
    let other = thread.read(json!({"path": "references/r.md", "skill": "c"})).unwrap_err();
    assert_eq!(other, (ErrorKind::Denied, "`c` is not loaded: load it first".to_owned()));
    for path in ["../a/references/r.md", "/etc/passwd", "references/../../c/SKILL.md", "a\\b"] {
        let error = thread.read(json!({"path": path})).unwrap_err();
        assert_eq!(error.0, ErrorKind::Denied, "{path}: {error:?}");
    }
    assert_eq!(thread.read(json!({"path": "none.md"})).unwrap_err().0, ErrorKind::NotFound);
}

#[test]
fn long_file_is_read_in_whole_results() {
    let mut thread = ThreadCalls::new(&[("a", "Do it.")]);
    let long = "\"é\"\n\t".repeat(20_000);
    thread.fixture.write("skills/a/long.txt", &long);
    thread.load(json!({"names": ["a"]})).unwrap();
    let (mut offset, mut text) = (json!(0), String::new());
    while !offset.is_null() {
        let page = thread.read(json!({"path": "long.txt", "offset": offset})).unwrap();
        assert!(page.to_string().len() <= 64 << 10);
        text.push_str(page["text"].as_str().unwrap());
        offset = page["next_offset"].clone();
    }
    assert_eq!(text, long);
}

#[test]
fn callers_without_thread_receive_texts() {
    let thread = ThreadCalls::new(&[("a", "Do it."), ("b", "Or not.")]);
    let (store, snapshot) = (&thread.store, thread.store.snapshot());
    thread.fixture.write("skills/a/r.md", "Of a.");
    for origin in [CallOrigin::Mcp, CallOrigin::Operator] {
        let context = CallContext { origin, ..CallContext::default() };
        let args: LoadSkillsArgs = serde_json::from_value(json!({"names": ["a", "b"]})).unwrap();
        let answer = load_skills(store, &snapshot, &context, &args).unwrap();
        assert_eq!(answer.change, None);
        let skills = answer.structured["active_skills"].as_array().unwrap();
        let texts: Vec<_> =
            skills.iter().map(|skill| skill["instructions"].as_str().unwrap()).collect();
        assert!(texts[1].ends_with("\nOr not.\n</skill_content>"), "{texts:?}");
        assert_eq!(answer.text, texts.join("\n\n"));
        let all: UnloadSkillsArgs = serde_json::from_value(json!({"all": true})).unwrap();
        let denied = unload_skills(store, &snapshot, &context, &all).unwrap_err();
        assert_eq!(denied.kind, ErrorKind::Denied);
        let read = |args: Value| {
            let args: ReadLoadedArgs = serde_json::from_value(args).unwrap();
            read_loaded(&snapshot, &context, &args).map_err(|error| error.kind)
        };
        assert_eq!(read(json!({"path": "r.md"})).unwrap_err(), ErrorKind::InvalidArgument);
        let page = read(json!({"path": "r.md", "skill": "a"})).unwrap();
        assert_eq!(page.structured["text"], "Of a.");
    }
}

#[test]
fn long_properties_are_limited() {
    let mut thread = ThreadCalls::new(&[]);
    let metadata: String = (0..40).map(|n| format!("  k{n}: {}\n", "é".repeat(400))).collect();
    for id in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let text = format!(
            "---\nname: {id}\ndescription: {}\nlicense: {}\nmetadata:\n{metadata}---\nDo it.\n",
            "é".repeat(1_024),
            "<b>\u{202e} ".repeat(400),
        );
        thread.fixture.write(&format!("skills/{id}/SKILL.md"), &text);
    }
    thread.store.poll_full();
    let receipt = thread.load(json!({"names": ["a"]})).unwrap();
    let properties = &receipt["active_skills"][0]["properties"];
    assert_eq!(properties["more_metadata"], 24);
    assert_eq!(properties["license"].as_str().unwrap().chars().count(), 1_025);
    assert!(!properties["license"].as_str().unwrap().contains('<'));
    // Eight of them exceed what a model receives: the receipt stays whole.
    let receipt = thread.load(json!({"names": ["a", "b", "c", "d", "e", "f", "g", "h"]})).unwrap();
    assert_eq!(names(&receipt).len(), 8);
    assert!(receipt["active_skills"][0].get("properties").is_none());
    assert!(receipt["note"].as_str().unwrap().starts_with("the properties are left out"));
}
