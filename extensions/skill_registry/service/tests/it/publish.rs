//! Skills as the Skills extension of MCP publishes them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use skill_catalog::{Audience, Store};
use skill_format::Digest;
use skill_service::{
    ManifestFile, SkillEntry, SkillPublication, SkillPublisher, locate_uri, published_directory,
    read_published,
};
use skillhost_payload::{ErrorKind, PublishedContent, PublishedEntry};

use crate::fixture::{StoreFixture, tick};

fn entry(publisher: &SkillPublisher, store: &Store, id: &str) -> Arc<SkillEntry> {
    let snapshot = store.snapshot();
    publisher.entry(store, &snapshot, snapshot.get(id).unwrap()).unwrap()
}

/// Builds the entry without a cache.
fn fresh(store: &Store, id: &str) -> Arc<SkillEntry> {
    entry(&SkillPublisher::new(), store, id)
}

fn digest(bytes: &[u8]) -> String {
    Digest::compute(bytes).to_string()
}

fn to_json<T: Serialize>(value: T) -> String {
    serde_json::to_string(&value).unwrap()
}

/// Reads the file of a URI.
fn read_uri(store: &Store, uri: &str) -> Result<Vec<u8>, ErrorKind> {
    let snapshot = store.snapshot();
    let place = locate_uri(&snapshot, Audience::Model, uri).map_err(|error| error.kind)?;
    let id = place.skill.id().as_str();
    read_published(store, &snapshot, Audience::Model, id, &place.path).map_err(|error| error.kind)
}

fn list(store: &Store, id: &str, path: &str) -> Result<Vec<PublishedEntry>, ErrorKind> {
    published_directory(&store.snapshot(), Audience::Model, id, path).map_err(|error| error.kind)
}

fn file(entry: &SkillEntry, index: usize) -> &ManifestFile {
    &entry.files.as_ref().unwrap()[index]
}

/// Asserts that every file of a manifest can be read and matches it.
#[track_caller]
fn assert_verified(store: &Store, entry: &SkillEntry) {
    let snapshot = store.snapshot();
    for file in entry.files.as_ref().unwrap() {
        let bytes = read_uri(store, &file.uri).unwrap();
        let found = (Digest::compute(&bytes), bytes.len() as u64);
        assert_eq!(found, (file.digest, file.size), "{file:?}");
        assert_eq!(locate_uri(&snapshot, Audience::Model, &file.uri).unwrap().path, file.path);
    }
}

#[test]
fn details_have_frontmatter_and_all_files() {
    let fixture = StoreFixture::new();
    let text = "---\nname: demo\ndescription: A demo.\nversion: 1.10\nx-own: [a, {b: true}]\n\
                argument-hint: '[file]'\n---\nBody.\r\n";
    fixture.write("skills/demo/SKILL.md", text);
    fixture.write("skills/demo/references/a b/ü.md", "guide");
    fixture.write("skills/demo/assets/logo.png", b"\x89PNG\0");
    fixture.write("skills/demo/LICENSE", "");
    fixture.write("skills/demo/.git/config", "hidden");
    fixture.write("skills/demo/lib/node_modules/x.js", "hidden");
    fixture.write("outside", "secret");
    symlink("../../outside", fixture.path("skills/demo/link.md")).unwrap();
    symlink("..", fixture.path("skills/demo/up")).unwrap();
    let store = Arc::new(fixture.open());
    let expected = json!([{
        "id": "demo",
        "frontmatter": {
            "name": "demo", "description": "A demo.", "version": 1.1,
            "x-own": ["a", {"b": true}], "argument-hint": "[file]",
        },
        "files": [
            {"uri": "skill://demo/SKILL.md", "path": "SKILL.md", "size": text.len(),
             "sha256": digest(text.as_bytes())},
            {"uri": "skill://demo/LICENSE", "path": "LICENSE", "size": 0, "sha256": digest(b"")},
            {"uri": "skill://demo/assets/logo.png", "path": "assets/logo.png", "size": 5,
             "sha256": digest(b"\x89PNG\0")},
            {"uri": "skill://demo/references/a%20b/%C3%BC.md", "path": "references/a b/ü.md",
             "size": 5, "sha256": digest(b"guide")},
        ],
        "arguments": [{"name": "arguments", "description": "[file]", "required": false}],
    }]);
    let published = SkillPublication::new(Arc::clone(&store)).details(Audience::Model, &["demo"]);
    assert_eq!(json!(published.details), expected);
    assert_verified(&store, &fresh(&store, "demo"));
}

#[test]
fn published_values_have_exact_json() {
    let fixture = StoreFixture::new();
    let text =
        "---\nargument-hint: '[file]'\ndescription: A demo.\nname: demo\nversion: 1.10\n---\nDo.\n";
    fixture.write("skills/demo/SKILL.md", text);
    fixture.write("skills/demo/a.bin", b"\0");
    fs::create_dir(fixture.path("skills/demo/empty")).unwrap();
    let store = Arc::new(fixture.open());
    let publication = SkillPublication::new(Arc::clone(&store));
    let (model, own) = (Audience::Model, digest(text.as_bytes()));
    let (generation, size) = (store.snapshot().generation(), text.len());
    assert_eq!(
        to_json(publication.list(model)),
        format!(
            r#"{{"generation":{generation},"skills":[{{"id":"demo","root":"skill://demo","uri":"skill://demo/SKILL.md","name":"demo","description":"A demo.","source":"skills","trusted":true,"model_invocable":true,"user_invocable":true}}]}}"#
        )
    );
    let binary = digest(b"\0");
    assert_eq!(
        to_json(publication.details(model, &["demo"]).details),
        format!(
            r#"[{{"id":"demo","frontmatter":{{"argument-hint":"[file]","description":"A demo.","name":"demo","version":1.1}},"files":[{{"uri":"skill://demo/SKILL.md","path":"SKILL.md","size":{size},"sha256":"{own}"}},{{"uri":"skill://demo/a.bin","path":"a.bin","size":1,"sha256":"{binary}"}}],"arguments":[{{"name":"arguments","description":"[file]","required":false}}]}}]"#
        )
    );
    let read = |uri: &str| to_json(publication.read(model, uri).unwrap().0);
    let quoted = to_json(text);
    assert_eq!(
        read("skill://demo/SKILL.md"),
        format!(r#"{{"mime_type":"text/markdown","content":{{"text":{quoted}}}}}"#)
    );
    assert_eq!(
        read("skill://demo/a.bin"),
        r#"{"mime_type":"application/octet-stream","content":{"base64":"AA=="}}"#
    );
    assert_eq!(
        to_json(publication.directory(model, "skill://demo").unwrap()),
        format!(
            r#"[{{"uri":"skill://demo/SKILL.md","name":"SKILL.md","directory":false,"size":{size},"mime_type":"text/markdown"}},{{"uri":"skill://demo/a.bin","name":"a.bin","directory":false,"size":1}},{{"uri":"skill://demo/empty","name":"empty","directory":true,"mime_type":"inode/directory"}}]"#
        )
    );
    let given = [("arguments".to_owned(), "x".to_owned())].into();
    assert_eq!(
        to_json(publication.prompt(model, "demo", &given).unwrap().0),
        format!(
            r#"{{"text":"<skill_content name=\"demo\" digest=\"{own}\">\nDo.\n\n\nArguments: x\n</skill_content>"}}"#
        )
    );
}

#[test]
fn files_have_bytes_and_type() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "Body.");
    fixture.write("skills/demo/a b.txt", "\u{feff}text\r\n");
    fixture.write("skills/demo/Makefile", "all:");
    fixture.write("skills/demo/nul.txt", "a\0b");
    fixture.write("skills/demo/latin.txt", b"caf\xe9");
    let store = Arc::new(fixture.open());
    let publication = SkillPublication::new(Arc::clone(&store));
    let read = |uri: &str| {
        let (body, read) = publication.read(Audience::Model, uri).unwrap();
        (read.path.unwrap(), body.mime_type, body.content)
    };
    let text = |text: &str| PublishedContent::Text(text.to_owned());
    let found = |path: &str, content| (path.to_owned(), "text/plain".to_owned(), content);
    assert_eq!(read("skill://demo/a%20b.txt"), found("a b.txt", text("\u{feff}text\r\n")));
    assert_eq!(read("skill://demo/Makefile"), found("Makefile", text("all:")));
    let base64 = |text: &str| PublishedContent::Base64(text.to_owned());
    assert_eq!(read("skill://demo/nul.txt"), found("nul.txt", base64("YQBi")));
    assert_eq!(read("skill://demo/latin.txt"), found("latin.txt", base64("Y2Fm6Q==")));
    assert_verified(&store, &fresh(&store, "demo"));
}

#[test]
fn last_uri_segment_is_name() {
    let fixture = StoreFixture::new();
    let with = |name: &str| format!("---\nname: {name}\ndescription: D.\n---\nBody.\n");
    fixture.write("skills/dir/SKILL.md", with("other"));
    fixture.write("skills/dir/x/y.md", "y");
    fixture.write("skills/low/skill.md", with("low"));
    fixture.write("skills/spaced/SKILL.md", with("My Skill"));
    fixture.write("skills/typed/SKILL.md", with("7"));
    fixture.write("skills/nameless/SKILL.md", "---\ndescription: D.\n---\nBody.\n");
    fixture.write("skills/ü b/SKILL.md", with("ü b"));
    let store = fixture.open();
    let seen = |id: &str| {
        let entry = fresh(&store, id);
        assert_verified(&store, &entry);
        let name = entry.frontmatter["name"].clone();
        (entry.files.as_ref().unwrap()[0].uri.clone(), name, entry.unlisted.clone())
    };
    let plain = |uri: &str, name: &str| (uri.to_owned(), json!(name), None);
    assert_eq!(seen("dir"), plain("skill://dir/other/SKILL.md", "other"));
    assert_eq!(seen("low"), plain("skill://low/SKILL.md", "low"));
    let reason = |uri: &str, name: &str, reason: &str| {
        (uri.to_owned(), json!(name), Some(reason.to_owned()))
    };
    let invalid = |name: &str| {
        format!(
            "the name `{name}` is not lower-case letters, digits and single hyphens, at most 64"
        )
    };
    assert_eq!(
        seen("nameless"),
        reason("skill://nameless/SKILL.md", "nameless", "`name` is missing")
    );
    assert_eq!(seen("spaced"), reason("skill://spaced/SKILL.md", "My Skill", &invalid("My Skill")));
    assert_eq!(seen("typed"), reason("skill://typed/7/SKILL.md", "7", "`name` is not a string"));
    assert_eq!(seen("ü b"), reason("skill://%C3%BC%20b/SKILL.md", "ü b", &invalid("ü b")));
    // The directory's own name is no alternative to the skill's name.
    assert_eq!(read_uri(&store, "skill://dir/SKILL.md").unwrap_err(), ErrorKind::NotFound);
    assert_eq!(read_uri(&store, "skill://dir/x/y.md").unwrap_err(), ErrorKind::NotFound);
    let uris = |children: Vec<PublishedEntry>| {
        children.into_iter().map(|child| child.uri).collect::<Vec<_>>()
    };
    assert_eq!(
        uris(list(&store, "dir", "").unwrap()),
        ["skill://dir/other/SKILL.md", "skill://dir/other/x"]
    );
    assert_eq!(uris(list(&store, "low", "").unwrap()), ["skill://low/SKILL.md"]);
}

#[test]
fn directories_list_direct_children() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "Body.");
    fixture.write("skills/demo/templates/b.md", "bb");
    fixture.write("skills/demo/templates/a.bin", "a");
    fixture.write("skills/demo/templates/regional/eu.md", "eu");
    fixture.write("skills/demo/templates/.git/config", "hidden");
    fs::create_dir(fixture.path("skills/demo/empty")).unwrap();
    symlink("templates", fixture.path("skills/demo/link")).unwrap();
    let store = fixture.open();
    let child = |name: &str, mime: Option<&str>, size: Option<u64>| PublishedEntry {
        uri: format!("skill://demo/templates/{name}"),
        name: name.to_owned(),
        directory: size.is_none(),
        size,
        mime_type: mime.map(str::to_owned),
    };
    let expected = vec![
        child("a.bin", None, Some(1)),
        child("b.md", Some("text/markdown"), Some(2)),
        child("regional", Some("inode/directory"), None),
    ];
    assert_eq!(list(&store, "demo", "templates"), Ok(expected));
    assert_eq!(list(&store, "demo", "empty"), Ok(Vec::new()));
    let names: Vec<String> =
        list(&store, "demo", "").unwrap().into_iter().map(|child| child.name).collect();
    assert_eq!(names, ["SKILL.md", "empty", "templates"]);
    let refused = [
        ("SKILL.md", ErrorKind::InvalidArgument),
        ("templates/", ErrorKind::InvalidArgument),
        ("nothing", ErrorKind::NotFound),
        ("templates/.git", ErrorKind::NotFound),
        ("link", ErrorKind::Denied),
        ("..", ErrorKind::Denied),
        ("/", ErrorKind::Denied),
    ];
    for (path, kind) in refused {
        assert_eq!(list(&store, "demo", path), Err(kind), "{path}");
    }
    assert_eq!(list(&store, "nobody", ""), Err(ErrorKind::NotFound));
}

#[test]
fn uris_cannot_escape_skill() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "Body.");
    fixture.skill("skills/other", "CANARY");
    fixture.write("skills/demo/a/b.md", "inside");
    fixture.write("canary", "CANARY");
    symlink("../../canary", fixture.path("skills/demo/link")).unwrap();
    symlink("..", fixture.path("skills/demo/up")).unwrap();
    let store = fixture.open();
    let absolute = fixture.path("canary").display().to_string();
    let mut payloads: Vec<String> = [
        "link",
        "up/other/SKILL.md",
        ".",
        "..",
        "../other/SKILL.md",
        "%2e%2e/other/SKILL.md",
        "%2E%2E/%2E%2E/canary",
        "..%2fother%2fSKILL.md",
        "%2e%2e%2f%2e%2e%2fcanary",
        "..%5c..%5ccanary",
        "a/../../other/SKILL.md",
        "a/%2e%2e/%2e%2e/canary",
        "%252e%252e/canary",
        "..%00/canary",
        "a/b.md%00",
        "a//b.md",
        "a/b.md/",
        "%2fetc/passwd",
        "/etc/passwd",
        "%c0%ae%c0%ae/canary",
        "C:/canary",
        "a/b.md?x",
        "a/b.md#x",
        "a\\b.md",
        "",
        "?",
        "%",
        "a/b.md%",
    ]
    .map(|path| format!("skill://demo/{path}"))
    .into();
    payloads.push(format!("skill://demo/{absolute}"));
    payloads.push(format!("file://{absolute}"));
    payloads.push(absolute);
    for uri in [
        "",
        "skill:",
        "skill://",
        "skill:///",
        "skill:///demo/a/b.md",
        "SKILL://demo/a/b.md",
        "skill://..",
        "skill://../demo/a/b.md",
        "skill://%2e%2e/canary",
        "skill://demo",
        "skill:demo",
        "skill://user@demo/a/b.md",
        "skill://demo:80/a/b.md",
        "skill://DEMO/a/b.md",
        "skill://demo@skills/a/b.md",
        "skill://demo%00/a/b.md",
        "skill://other/../demo/a/b.md",
    ] {
        payloads.push(uri.to_owned());
    }
    for uri in &payloads {
        let error = read_uri(&store, uri).expect_err(uri);
        assert_ne!(error, ErrorKind::Io, "{uri} came as far as the disk");
    }
    assert_eq!(read_uri(&store, "skill://demo/a/b.md").unwrap(), b"inside");
}

#[test]
fn oversized_skill_lacks_manifest_but_reads() {
    let fixture = StoreFixture::new();
    for id in ["fits", "many", "deep"] {
        fixture.skill(&format!("skills/{id}"), "Body.");
    }
    for index in 1..512 {
        fixture.write(&format!("skills/fits/f/{index}"), "x");
        fixture.write(&format!("skills/many/f/{index}"), "x");
    }
    fixture.write("skills/many/f/512", "x");
    fixture.write(&format!("skills/deep/{}x", "d/".repeat(9)), "x");
    let text = fixture.skill("skills/full", "Body.");
    let own = fs::metadata(fixture.path("skills/full/SKILL.md")).unwrap().len();
    // Base64 of six MiB is as much as an answer may have.
    for (name, size) in [("a", 6 << 20), ("b", 6 << 20)] {
        let part = fixture.write(&format!("skills/full/{name}"), "");
        fs::File::options().write(true).open(&part).unwrap().set_len(size).unwrap();
    }
    let big = fixture.write("skills/full/c", "");
    fs::File::options().write(true).open(&big).unwrap().set_len((4 << 20) - own).unwrap();
    fixture.skill("skills/large", "Body.");
    let over = fixture.write("skills/large/big", "");
    fs::File::options().write(true).open(&over).unwrap().set_len((6 << 20) + 1).unwrap();
    fixture.skill("skills/wordy", "Body.");
    fixture.write("skills/wordy/fits.txt", "x".repeat(8 << 20));
    let store = fixture.open();

    let files = |id: &str| fresh(&store, id).files.as_ref().map(Vec::len);
    let counted = ["fits", "many", "deep", "full", "large", "wordy"].map(files);
    assert_eq!(counted, [Some(512), None, None, Some(4), None, Some(2)]);
    assert_eq!(Digest::compute(&read_uri(&store, "skill://full/SKILL.md").unwrap()), text);
    assert!(read_uri(&store, "skill://many/f/512").is_ok());
    assert_eq!(read_uri(&store, "skill://large/big").unwrap_err(), ErrorKind::TooLarge);
    assert!(read_uri(&store, "skill://wordy/fits.txt").is_ok());
    fixture.write("skills/wordy/fits.txt", "\"".repeat((4 << 20) + 1));
    assert_eq!(read_uri(&store, "skill://wordy/fits.txt").unwrap_err(), ErrorKind::TooLarge);
    assert_eq!(files("wordy"), None);
    // One byte more, and the skill that just fitted does not.
    fs::File::options().write(true).open(&big).unwrap().set_len((4 << 20) - own + 1).unwrap();
    assert_eq!(files("full"), None);
}

#[test]
fn unchanged_files_are_not_reread() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "Body.");
    let path = fixture.write("skills/demo/a.md", "one");
    let store = fixture.open();
    let publisher = SkillPublisher::new();
    let first = entry(&publisher, &store, "demo");
    // A rebuilt entry would have another address.
    assert!(Arc::ptr_eq(&first, &entry(&publisher, &store, "demo")));

    tick(&path);
    fs::write(&path, "two").unwrap();
    let second = entry(&publisher, &store, "demo");
    assert_eq!(file(&second, 1).digest, Digest::compute(b"two"));
    assert_eq!(second, fresh(&store, "demo"));
    fixture.write("skills/demo/b.md", "new");
    assert_eq!(file(&entry(&publisher, &store, "demo"), 2).path, "b.md");
    fs::remove_file(&path).unwrap();
    let last = entry(&publisher, &store, "demo");
    assert_eq!(file(&last, 1).path, "b.md");
    assert_verified(&store, &last);
}

#[test]
fn stamp_follows_all_skill_files() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "Body.");
    fixture.skill("skills/other", "Body.");
    let path = fixture.write("skills/demo/a.md", "one");
    let store = Arc::new(fixture.open());
    let publication = SkillPublication::new(Arc::clone(&store));
    let stamp = |ids: &[&str]| publication.stamp(Audience::Model, ids);
    let (both, other) = (stamp(&["demo", "other"]), stamp(&["other"]));
    assert_eq!(stamp(&["demo", "other"]), both);
    assert_ne!(both, other);
    tick(&path);
    fs::write(&path, "two").unwrap();
    let changed = stamp(&["demo", "other"]);
    assert_ne!(changed, both);
    assert_eq!(stamp(&["demo", "other"]), changed);
    assert_eq!(stamp(&["other"]), other);
    fs::remove_dir_all(fixture.path("skills/demo")).unwrap();
    assert_ne!(stamp(&["demo", "other"]), changed);
}

#[test]
fn young_stamp_is_not_trusted() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "Body.");
    fixture.write("skills/demo/a.md", "one");
    let store = fixture.open();
    fixture.clock.set(std::time::SystemTime::now());
    let publisher = SkillPublisher::new();
    let first = entry(&publisher, &store, "demo");
    let again = entry(&publisher, &store, "demo");
    assert!(!Arc::ptr_eq(&first, &again));
    assert_eq!(first, again);
}

#[test]
fn broken_file_publishes_last_good_text() {
    let fixture = StoreFixture::new();
    let digest = fixture.skill("skills/demo", "Body.");
    let store = fixture.open_warm();
    let publisher = SkillPublisher::new();
    let good = entry(&publisher, &store, "demo");
    let path = fixture.path("skills/demo/SKILL.md");
    tick(&path);
    fs::write(&path, "---\nname: demo\n").unwrap();
    let broken = entry(&publisher, &store, "demo");
    assert_eq!(broken, good);
    let text = read_uri(&store, "skill://demo/SKILL.md").unwrap();
    assert_eq!(Digest::compute(&text), digest);
    fs::remove_file(&path).unwrap();
    assert_eq!(entry(&publisher, &store, "demo"), good);
    assert_verified(&store, &broken);
    tick(&fixture.path("skills/demo"));
    let repaired = fixture.skill("skills/demo", "Repaired.");
    let entry = entry(&publisher, &store, "demo");
    assert_eq!(file(&entry, 0).digest, repaired);
}

#[test]
fn unreadable_skill_is_left_out() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "Body.");
    fixture.skill("skills/gone", "Body.");
    let secret = fixture.write("skills/demo/secret.md", "secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let readable = fs::read(&secret).is_ok();
    let store = fixture.open();
    fs::remove_dir_all(fixture.path("skills/gone")).unwrap();
    let snapshot = store.snapshot();
    let published = SkillPublisher::new().entries(&store, &snapshot, snapshot.skills());
    let ids: Vec<&str> = published.entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["demo"]);
    let left: Vec<_> = published.left_out.iter().map(|(id, e)| (id.as_str(), e.kind)).collect();
    assert_eq!(left, [("gone", ErrorKind::NotFound)]);
    // Root reads every file.
    assert_eq!(published.entries[0].files.as_ref().unwrap().len(), if readable { 2 } else { 1 });
}

#[test]
fn user_only_skills_hidden_from_models() {
    let fixture = StoreFixture::new();
    let text = "---\nname: demo\ndescription: D.\ndisable-model-invocation: true\n---\nBody.\n";
    fixture.write("skills/demo/SKILL.md", text);
    let store = Arc::new(fixture.open());
    let published = SkillPublication::new(Arc::clone(&store)).list(Audience::Model);
    assert!(!published.skills[0].model_invocable && published.skills[0].user_invocable);
    assert_eq!(read_uri(&store, "skill://demo/SKILL.md").unwrap_err(), ErrorKind::Denied);
    assert_eq!(list(&store, "demo", ""), Err(ErrorKind::Denied));
    let snapshot = store.snapshot();
    let read = read_published(&store, &snapshot, Audience::Operator, "demo", "SKILL.md").unwrap();
    assert_eq!(read, text.as_bytes());
}
