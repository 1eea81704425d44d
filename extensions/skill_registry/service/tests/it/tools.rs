//! The results of the tools.

use std::fs;
use std::path::Path;

use serde_json::json;
use skill_catalog::{AgentScope, Audience, Store, TrustLevel};
use skill_format::Digest;
use skill_service::{
    ListSkillsArgs, ReadResourceArgs, ReadSkillArgs, list_skills, read_skill, read_skill_resource,
    skill_content,
};
use skillhost_payload::{ErrorKind, SkillContent};

use crate::fixture::{StoreFixture, skill_text};

fn write_skill(fixture: &StoreFixture, name: &str, more: &str, body: &str) -> Digest {
    let text = format!("---\nname: {name}\ndescription: About {name}.\n{more}---\n{body}\n");
    fixture.write(&format!("skills/{name}/SKILL.md"), &text);
    Digest::compute(text.as_bytes())
}

fn fixture() -> (StoreFixture, Store) {
    let fixture = StoreFixture::new();
    write_skill(&fixture, "alpha", "tags: [Rust, testing]\n", "Alpha's body.");
    write_skill(&fixture, "beta", "when_to_use: When a Zebra is near.\n", "Beta's body.");
    write_skill(&fixture, "gamma", "disable-model-invocation: true\n", "For users only.");
    let store = fixture.open_warm();
    (fixture, store)
}

fn list(
    store: &Store,
    audience: Audience<'_>,
    args: serde_json::Value,
) -> (String, serde_json::Value) {
    let args: ListSkillsArgs = serde_json::from_value(args).unwrap();
    let answer = list_skills(&store.snapshot(), audience, &args);
    (answer.text, answer.structured)
}

fn resource(
    store: &Store,
    args: serde_json::Value,
) -> Result<(String, serde_json::Value), ErrorKind> {
    let args: ReadResourceArgs = serde_json::from_value(args).unwrap();
    read_skill_resource(&store.snapshot(), Audience::Model, &args)
        .map(|answer| (answer.text, answer.structured))
        .map_err(|error| error.kind)
}

#[test]
fn list_is_sorted_by_audience() {
    let (_scene, store) = fixture();
    let (text, structured) = list(&store, Audience::Model, json!({}));
    assert_eq!(
        text,
        "2 skills\n\
         • `alpha` — About alpha. [Rust, testing; ~4 tokens; skills]\n\
         • `beta` — About beta. [~4 tokens; skills]"
    );
    let skill = |id: &str, tags: &[&str], model_invocable: bool| {
        json!({
            "skill_id": id, "description": format!("About {id}."), "tags": tags, "tokens": 4,
            "source": "skills", "trust": "operator", "model_invocable": model_invocable,
        })
    };
    let alpha = skill("alpha", &["Rust", "testing"], true);
    let expected = json!({
        "generation": 1, "total": 2, "matched": 2, "omitted": 0,
        "skills": [alpha, skill("beta", &[], true)],
    });
    assert_eq!(structured, expected);
    let (text, structured) = list(&store, Audience::Operator, json!({"limit": 1}));
    assert_eq!(
        text,
        "3 skills\n\
         • `alpha` — About alpha. [Rust, testing; ~4 tokens; skills]\n\
         (2 more: narrow the query or raise the limit)"
    );
    assert_eq!((&structured["total"], &structured["omitted"]), (&json!(3), &json!(2)));
}

#[test]
fn query_matches_all_fields_ignoring_case() {
    let (fixture, store) = fixture();
    fixture.write(
        "skills/delta/SKILL.md",
        "---\nname: other-name\ndescription: Delta things.\n---\nbody\n",
    );
    store.poll();
    let found = |args: serde_json::Value| -> Vec<(String, serde_json::Value)> {
        let (_, structured) = list(&store, Audience::Model, args);
        let skills = structured["skills"].as_array().unwrap();
        let pair = |skill: &serde_json::Value| {
            (skill["skill_id"].as_str().unwrap().to_owned(), skill["matched"].clone())
        };
        skills.iter().map(pair).collect()
    };
    let one = |id: &str, fields: &[&str]| vec![(id.to_owned(), json!(fields))];
    assert_eq!(found(json!({"query": "ALPH"})), one("alpha", &["id", "description"]));
    assert_eq!(found(json!({"query": "rust"})), one("alpha", &["tags"]));
    assert_eq!(found(json!({"query": "a zebra"})), one("beta", &["description"]));
    assert_eq!(found(json!({"query": "Other-N"})), one("delta", &["name"]));
    assert_eq!(found(json!({"query": "users"})), []);
    let untold = |id: &str| vec![(id.to_owned(), serde_json::Value::Null)];
    assert_eq!(found(json!({"tags": ["RUST", "testing"]})), untold("alpha"));
    assert_eq!(found(json!({"tags": ["rust", "missing"]})), []);
    let (text, _) = list(&store, Audience::Model, json!({"query": "nothing like it"}));
    assert_eq!(text, "None of the 3 skills matches.");
    let (text, _) = list(&store, Audience::Model, json!({"query": "zebra"}));
    assert_eq!(text.lines().next(), Some("1 of 3 skills"));
}

#[test]
fn unknown_arguments_are_rejected() {
    let unknown = |error: serde_json::Error| error.to_string().contains("unknown field `x`");
    assert!(serde_json::from_value::<ListSkillsArgs>(json!({"x": 1})).is_err_and(unknown));
    let read = json!({"skill_id": "a", "x": 1});
    assert!(serde_json::from_value::<ReadSkillArgs>(read).is_err_and(unknown));
    let resource = json!({"skill_id": "a", "path": "b", "x": 1});
    assert!(serde_json::from_value::<ReadResourceArgs>(resource).is_err_and(unknown));
    assert!(serde_json::from_value::<ReadSkillArgs>(json!({})).is_err());
}

#[test]
fn instructions_have_digest_and_resources() {
    let fixture = StoreFixture::new();
    let digest =
        write_skill(&fixture, "demo", "requires: [alpha, beta]\nlicense: MIT\n", "Do it well.");
    write_skill(&fixture, "alpha", "", "Alpha's body.");
    write_skill(&fixture, "beta", "", "Beta's body.");
    fixture.write("skills/demo/scripts/run.py", "print()");
    fixture.write("skills/demo/references/guide.md", "guide");
    let store = fixture.open();
    let args = ReadSkillArgs { skill_id: "demo".to_owned() };
    let answer = read_skill(&store, &store.snapshot(), Audience::Model, &args).unwrap();
    assert_eq!(
        answer.text,
        format!(
            "Skill loaded: demo (approx. 3 tokens)\n\n\
             <skill_content name=\"demo\" digest=\"{digest}\">\nDo it well.\n</skill_content>\n\n\
             Resources (load one with read_skill_resource(skill_id, path)):\n\
             - references/guide.md (instructions, 5 bytes)\n\
             - scripts/run.py (code, 7 bytes)\n\n\
             This skill requires: alpha, beta. Load it first if you haven't already."
        )
    );
    assert_eq!(
        answer.structured,
        json!({
            "generation": 1, "skill_id": "demo", "description": "About demo.", "digest": digest.to_string(), "tokens": 3,
            "large": false, "source": "skills", "trust": "operator",
            "requires": ["alpha", "beta"],
            "resources": [
                {"path": "references/guide.md", "kind": "instructions",
                 "mime_type": "text/markdown", "size": 5},
                {"path": "scripts/run.py", "kind": "code", "mime_type": "text/x-python", "size": 7},
            ],
            "more_resources": 0, "notes": [], "state": "current", "changed_since_snapshot": false,
        })
    );
}

#[test]
fn missing_required_skills_are_reported() {
    let fixture = StoreFixture::new();
    write_skill(&fixture, "alpha", "", "Alpha's body.");
    let declared = "metadata:\n  composition: |\n    dependencies:\n\
                    \x20     - {skillName: lost, reason: x}\n      - {skillName: beta, reason: x}\n";
    write_skill(&fixture, "demo", &format!("requires: [alpha, gone]\n{declared}"), "Do it well.");
    write_skill(&fixture, "beside", "", "Do it too.");
    let yaml = "composition:\n  dependencies:\n    - {skillName: absent, reason: x}\n    \
                - {skillName: spare, reason: x, optional: true}\n";
    let yaml = fixture.write("skills/beside/skill.yaml", yaml);
    let store = fixture.open();
    let read = |id: &str| {
        let args = ReadSkillArgs { skill_id: id.to_owned() };
        read_skill(&store, &store.snapshot(), Audience::Model, &args).unwrap()
    };
    let demo = read("demo");
    assert!(demo.text.contains("\nDo it well.\n"), "{}", demo.text);
    let note = "loaded but not eligible: required skill 'gone' not found; \
                required skill 'lost' not found; required skill 'beta' not found";
    assert!(demo.text.ends_with(&format!("\nNote: {note}.")), "{}", demo.text);
    assert_eq!(demo.structured["notes"], json!([note]));
    let missing = |id: &str| {
        let message = format!("required skill `{id}` not found");
        json!({"kind": "missing_skill", "name": id, "message": message})
    };
    let ineligible = json!([missing("gone"), missing("lost"), missing("beta")]);
    assert_eq!(demo.structured["ineligible"], ineligible);
    assert_eq!(read("beside").structured["ineligible"], json!([missing("absent")]));
    assert_eq!(read("alpha").structured.get("ineligible"), None);
    // A link is not followed, and the result reports it.
    fs::remove_file(&yaml).unwrap();
    std::os::unix::fs::symlink("../alpha/SKILL.md", &yaml).unwrap();
    let beside = read("beside").structured;
    let note = "`skill.yaml` is not used: it is not a regular file";
    assert_eq!((beside.get("ineligible"), &beside["notes"][0]), (None, &json!(note)));
}

#[test]
fn changed_text_has_own_digest() {
    let (fixture, store) = fixture();
    let snapshot = store.snapshot();
    let new = write_skill(&fixture, "alpha", "", "Another body.");
    let args = ReadSkillArgs { skill_id: "alpha".to_owned() };
    let answer = read_skill(&store, &snapshot, Audience::Model, &args).unwrap();
    assert!(answer.text.contains("Another body."));
    assert_eq!(answer.structured["digest"], new.to_string());
    assert_eq!(answer.structured["changed_since_snapshot"], true);
    assert_eq!(answer.structured["state"], "current");
}

#[test]
fn broken_text_yields_last_good() {
    let (fixture, store) = fixture();
    let old = store.snapshot().get("alpha").unwrap().digest().unwrap();
    fixture.write("skills/alpha/SKILL.md", "no frontmatter at all");
    let args = ReadSkillArgs { skill_id: "alpha".to_owned() };
    for _ in 0..2 {
        let answer = read_skill(&store, &store.snapshot(), Audience::Model, &args).unwrap();
        assert!(answer.text.contains("Alpha's body."));
        assert!(answer.text.contains("\nNote: SKILL.md is broken on disk ("), "{}", answer.text);
        assert_eq!(answer.structured["digest"], old.to_string());
        assert_eq!(answer.structured["state"], "last_good");
        assert_eq!(answer.structured["problem"]["rule"], "frontmatter.missing");
        store.poll();
    }
}

#[test]
fn unknown_and_hidden_skills_have_hints() {
    let (_scene, store) = fixture();
    let read = |id: &str, audience| {
        let args = ReadSkillArgs { skill_id: id.to_owned() };
        read_skill(&store, &store.snapshot(), audience, &args)
    };
    let error = read("alhpa", Audience::Model).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(error.message, "skill `alhpa` not found");
    assert_eq!(error.hint.to_string(), "did you mean `alpha`?");
    assert_eq!(error.similar, ["alpha"]);
    // A model gets no sign of a skill that it may not invoke.
    assert_eq!(read("gama", Audience::Model).unwrap_err().similar, Vec::<String>::new());
    assert_eq!(read("gama", Audience::Operator).unwrap_err().similar, ["gamma"]);
    assert_eq!(read("gamma", Audience::Model).unwrap_err().kind, ErrorKind::Denied);
    assert!(read("gamma", Audience::Operator).unwrap().text.contains("For users only."));
    for id in ["", "../skills/alpha", "/etc", "a\0b", &"x".repeat(9_000)] {
        let error = read(id, Audience::Model).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{id}");
        assert!(error.message.len() < 200);
    }
}

#[test]
fn bound_content_is_element_only() {
    let (fixture, store) = fixture();
    let snapshot = store.snapshot();
    let digest = snapshot.get("gamma").unwrap().digest().unwrap();
    let content = skill_content(&store, &snapshot, "gamma", Path::new("")).unwrap();
    let text = format!(
        "<skill_content name=\"gamma\" digest=\"{digest}\">\nFor users only.\n</skill_content>"
    );
    let tokens = content.tokens;
    assert_eq!(tokens as usize, text.len().div_ceil(4));
    let source = fixture.path("skills/gamma/SKILL.md").display().to_string();
    let (skill_id, digest) = ("gamma".to_owned(), digest.to_string());
    let expected = SkillContent { skill_id, text, digest, tokens, source };
    assert_eq!(content, expected);
    let below = skill_content(&store, &snapshot, "gamma", &fixture.path("skills")).unwrap();
    assert_eq!(below, SkillContent { source: "gamma/SKILL.md".to_owned(), ..expected });
    let error = skill_content(&store, &snapshot, "gamm", Path::new("")).unwrap_err();
    assert_eq!((error.kind, error.similar), (ErrorKind::NotFound, vec!["gamma".to_owned()]));
}

#[test]
fn untrusted_skill_is_listed_not_bound() {
    let fixture = StoreFixture::new();
    fixture.write("pool/demo/SKILL.md", skill_text("demo", "text"));
    let mut options = fixture.options(&["pool"]);
    options.roots[0].trust = TrustLevel::Untrusted;
    let store = fixture.open_with(options);
    let error = skill_content(&store, &store.snapshot(), "demo", Path::new("")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert_eq!(error.message, "`demo` lies in the untrusted root `pool` and cannot be bound");
    let (text, structured) = list(&store, Audience::Model, json!({}));
    assert_eq!(text, "1 skill\n• `demo` — About demo. [~2 tokens; pool, untrusted]");
    assert_eq!(structured["skills"][0]["trust"], "untrusted");
    let catalog = store.snapshot().catalog(AgentScope::default(), 8_000).unwrap();
    assert!(
        catalog.text.contains("• `demo` — (untrusted, from pool) About demo."),
        "{}",
        catalog.text
    );
}

#[test]
fn text_pages_never_split_characters() {
    let (fixture, store) = fixture();
    let text: String = ('a'..='z')
        .cycle()
        .zip("éß技🦀".chars().cycle())
        .take(40_000)
        .flat_map(|(a, b)| [a, b])
        .collect();
    assert!(text.len() > 2 * (64 << 10));
    fixture.write("skills/alpha/long.md", &text);
    for limit in [None, Some(1), Some(7), Some(1_000), Some(1_u64 << 40)] {
        let (mut joined, mut offset, mut pages) = (String::new(), Some(0), 0);
        while let Some(at) = offset.filter(|_| pages < 500) {
            let args =
                json!({"skill_id": "alpha", "path": "long.md", "offset": at, "limit": limit});
            let (_, page) = resource(&store, args).unwrap();
            assert_eq!(page["encoding"], "utf-8");
            let content = page["content"].as_str().unwrap();
            assert!(!content.is_empty() && content.len() <= 64 << 10);
            assert_eq!(page["length"], content.len());
            joined.push_str(content);
            offset = page["next_offset"].as_u64();
            pages += 1;
        }
        assert!(text.starts_with(&joined), "{limit:?}");
        assert!(offset.is_some() || joined == text, "{limit:?}");
    }
    // An offset in the middle of a character starts at the character.
    fixture.write("skills/alpha/crab.md", "🦀🦀");
    for at in 0..4 {
        let args = json!({"skill_id": "alpha", "path": "crab.md", "offset": at, "limit": 4});
        let (text, page) = resource(&store, args).unwrap();
        assert_eq!((&page["offset"], &page["content"]), (&json!(0), &json!("🦀")));
        assert_eq!(text, "🦀\n[bytes 0 to 4 of 8; continue with offset 4]");
    }
}

#[test]
fn small_text_is_returned_unwrapped() {
    let (fixture, store) = fixture();
    fixture.write("skills/alpha/scripts/run.sh", "echo hi\n");
    let (text, structured) =
        resource(&store, json!({"skill_id": "alpha", "path": "scripts/run.sh"})).unwrap();
    assert_eq!(text, "echo hi\n");
    assert_eq!(
        structured,
        json!({
            "generation": 1, "skill_id": "alpha", "path": "scripts/run.sh", "kind": "code",
            "mime_type": "application/x-sh", "size": 8, "offset": 0, "length": 8,
            "next_offset": null, "encoding": "utf-8", "content": "echo hi\n", "notes": [],
        })
    );
    fixture.write("skills/alpha/empty.txt", "");
    let (text, structured) =
        resource(&store, json!({"skill_id": "alpha", "path": "empty.txt"})).unwrap();
    assert_eq!((text.as_str(), &structured["next_offset"]), ("", &json!(null)));
}

#[test]
fn binary_pages_join_as_base64() {
    let (fixture, store) = fixture();
    let bytes: Vec<u8> = (0..120_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    fixture.write("skills/alpha/assets/logo.png", &bytes);
    let (mut joined, mut offset) = (String::new(), Some(0));
    while let Some(at) = offset {
        let args = json!({"skill_id": "alpha", "path": "assets/logo.png", "offset": at});
        let (text, page) = resource(&store, args).unwrap();
        let head = "Binary resource assets/logo.png (image/png, 120000 bytes), base64:\n";
        assert!(text.starts_with(head), "{text}");
        assert_eq!((&page["encoding"], &page["kind"]), (&json!("base64"), &json!("data")));
        joined.push_str(page["content"].as_str().unwrap());
        offset = page["next_offset"].as_u64();
    }
    use base64::Engine;
    assert_eq!(base64::engine::general_purpose::STANDARD.decode(joined).unwrap(), bytes);
}

#[test]
fn stray_bytes_are_replaced_and_reported() {
    let (fixture, store) = fixture();
    let mut bytes = "line of text\n".repeat(1_000).into_bytes();
    bytes.extend(b"caf\xE9\n");
    fixture.write("skills/alpha/latin.txt", &bytes);
    let (text, page) = resource(&store, json!({"skill_id": "alpha", "path": "latin.txt"})).unwrap();
    assert!(text.ends_with("caf\u{fffd}\n\n[bytes that are not UTF-8 were replaced]"), "{text}");
    assert_eq!(page["length"], bytes.len());
}

#[test]
fn resource_limits_are_reported() {
    let (fixture, store) = fixture();
    let big = fixture.write("skills/alpha/big.bin", "");
    fs::File::options().write(true).open(big).unwrap().set_len((16 << 20) + 1).unwrap();
    let read = |args| resource(&store, args);
    assert_eq!(read(json!({"skill_id": "alpha", "path": "big.bin"})), Err(ErrorKind::TooLarge));
    fixture.write("skills/alpha/small", "12345");
    let at = |offset: u64, limit: u64| {
        read(json!({"skill_id": "alpha", "path": "small", "offset": offset, "limit": limit}))
            .map(|(_, page)| page["content"].as_str().unwrap().to_owned())
    };
    assert_eq!(at(3, 10).as_deref(), Ok("45"));
    assert_eq!(at(5, 10).as_deref(), Ok(""));
    assert_eq!(at(6, 10), Err(ErrorKind::InvalidArgument));
    assert_eq!(at(u64::MAX, u64::MAX), Err(ErrorKind::InvalidArgument));
    assert_eq!(at(0, 0), Err(ErrorKind::InvalidArgument));
    assert_eq!(read(json!({"skill_id": "gamma", "path": "x"})), Err(ErrorKind::Denied));
    assert_eq!(read(json!({"skill_id": "omega", "path": "x"})), Err(ErrorKind::NotFound));
}

#[test]
fn hard_link_is_served_with_warning() {
    let (fixture, store) = fixture();
    let file = fixture.write("skills/alpha/shared.md", "text");
    fs::hard_link(file, fixture.path("elsewhere.md")).unwrap();
    let (text, page) = resource(&store, json!({"skill_id": "alpha", "path": "shared.md"})).unwrap();
    let note = "the file has 2 hard links: it may also be changed elsewhere";
    assert_eq!((text, &page["notes"]), (format!("text\n[{note}]"), &json!([note])));
}

#[test]
fn many_resources_are_counted_only() {
    let (fixture, store) = fixture();
    for at in 0..130 {
        fixture.write(&format!("skills/alpha/data/{at:03}.json"), "{}");
    }
    fixture.write("skills/alpha/.git/config", "");
    let args = ReadSkillArgs { skill_id: "alpha".to_owned() };
    let answer = read_skill(&store, &store.snapshot(), Audience::Model, &args).unwrap();
    assert_eq!(answer.structured["resources"].as_array().unwrap().len(), 100);
    assert_eq!(answer.structured["resources"][99]["path"], "data/099.json");
    assert_eq!(answer.structured["more_resources"], 30);
    assert!(answer.text.contains("\n(30 more)"));
}

#[test]
fn large_skill_carries_note() {
    let (fixture, store) = fixture();
    write_skill(&fixture, "huge", "", &"word ".repeat(8_000));
    store.poll();
    let large: Vec<_> =
        store.snapshot().large_skills().map(|skill| skill.id().to_string()).collect();
    assert_eq!(large, ["huge"]);
    let args = ReadSkillArgs { skill_id: "huge".to_owned() };
    let answer = read_skill(&store, &store.snapshot(), Audience::Model, &args).unwrap();
    assert_eq!(answer.structured["large"], true);
    assert!(answer.text.lines().nth(1).unwrap().contains("large"), "{}", &answer.text[..200]);
}

#[test]
fn models_get_no_cases() {
    let fixture = StoreFixture::new();
    write_skill(&fixture, "alpha", "", "Alpha's body.");
    fixture.write("skills/alpha/evals/triggers.json", "[\"the secret query\"]");
    fixture.write("skills/alpha/evals/files/form.txt", "the secret query");
    fixture.write("skills/alpha/references/evals.md", "About evals.");
    let store = fixture.open_warm();
    let snapshot = store.snapshot();
    let args = ReadSkillArgs { skill_id: "alpha".to_owned() };
    let read = |audience| read_skill(&store, &snapshot, audience, &args).unwrap().text;
    let text = read(Audience::Model);
    assert!(text.contains("references/evals.md") && !text.contains("evals/"), "{text}");
    assert!(read(Audience::Operator).contains("evals/triggers.json"));
    for audience in [Audience::Model, Audience::Agent(AgentScope::default())] {
        for path in ["evals/triggers.json", "evals/files/form.txt", "evals/trigger.json"] {
            let args = ReadResourceArgs {
                skill_id: "alpha".to_owned(),
                path: path.to_owned(),
                offset: None,
                limit: None,
            };
            let error = read_skill_resource(&snapshot, audience, &args).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound);
            // A similar name would reveal that there are cases.
            assert_eq!(error.similar, Vec::<String>::new(), "{path}");
        }
    }
}
