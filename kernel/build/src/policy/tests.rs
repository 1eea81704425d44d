use super::*;

const FINE: &str = r#"
[package]
name = "skillhost-ext-tea"
version = "0.2.0"
edition = "2024"
publish = false
description = "Makes tea."

[lib]
name = "tea"
crate-type = ["cdylib"]

[dependencies]
skillhost-sdk = { path = "/somewhere/else" }
feed-rs = { version = "2.1", default-features = false, features = ["sanitize"] }
url = "2"

[profile.release]
panic = "unwind"
strip = "symbols"
codegen-units = 1
lto = true

[workspace]
"#;

fn allow() -> Vec<String> {
    vec!["feed-rs".to_owned(), "url".to_owned()]
}

fn file(path: &str, text: &str) -> PlannedFile {
    PlannedFile { path: path.to_owned(), bytes: text.into(), executable: false }
}

fn refusals(files: &[PlannedFile]) -> Vec<String> {
    match check_crate(files, "tea", &allow()) {
        Ok(_) => Vec::new(),
        Err(BuildError::PolicyViolations(refusals)) => {
            refusals.iter().map(ToString::to_string).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

fn refused_text(cargo_toml: &str) -> Vec<String> {
    refusals(&[file("Cargo.toml", cargo_toml), file("src/lib.rs", "")])
}

#[test]
fn what_is_built_from_says_what_was_allowed_and_no_more() {
    let recipe = check_crate(&[file("Cargo.toml", FINE), file("src/lib.rs", "")], "tea", &allow());
    let text = recipe.unwrap().manifest(Path::new("/opt/a \"quoted\" sdk"));
    assert_eq!(
        text,
        r#"[package]
name = "skillhost-ext-tea"
version = "0.2.0"
edition = "2024"
publish = false
build = false
autobins = false
autoexamples = false
autotests = false
autobenches = false

[lib]
name = "tea"
crate-type = ["cdylib"]
path = "src/lib.rs"

[dependencies]
skillhost-sdk = { path = "/opt/a \"quoted\" sdk" }
feed-rs = { version = "2.1", default-features = false, features = ["sanitize"] }
url = { version = "2", default-features = true, features = [] }

[profile.release]
codegen-units = 1
lto = true
strip = "symbols"
panic = "unwind"

[workspace]
"#
    );
}

#[test]
fn each_thing_that_could_steer_the_build_is_refused_with_its_line() {
    let with = |line: &str| FINE.replace("[workspace]\n", line);
    let replaced = |from: &str, to: &str| {
        assert!(FINE.contains(from), "{from}");
        FINE.replace(from, to)
    };
    let cases = [
        (
            replaced("publish = false", "build = \"make.rs\""),
            "Cargo.toml:6: `build` is about a build script, and none may run",
        ),
        (
            replaced("publish = false", "links = \"z\""),
            "Cargo.toml:6: `links` is about a build script, and none may run",
        ),
        (
            with("[build-dependencies]\ncc = \"1\"\n"),
            "Cargo.toml:24: [build-dependencies] are those of a build script, and none may run",
        ),
        (
            replaced("url = \"2\"", "url = { path = \"../../../../url\" }"),
            "Cargo.toml:16: `path` is not allowed in a dependency",
        ),
        (
            replaced("url = \"2\"", "mine = { path = \"../mine\" }"),
            "Cargo.toml:16: `mine` is a path dependency",
        ),
        (
            replaced("url = \"2\"", "evil = { git = \"https://example.org/evil\" }"),
            "Cargo.toml:16: `evil` is a git dependency",
        ),
        (
            replaced("url = \"2\"", "evil = { version = \"1\", registry = \"mine\" }"),
            "Cargo.toml:16: `evil` is a private registry's dependency",
        ),
        (
            replaced("url = \"2\"", "url = { version = \"2\", package = \"evil\" }"),
            "Cargo.toml:16: `package` is not allowed in a dependency",
        ),
        (
            replaced("url = \"2\"", "serde = \"1\""),
            "Cargo.toml:16: `serde` is not in the list of allowed crates",
        ),
        (replaced("url = \"2\"", "url = {}"), "Cargo.toml:16: a version is missing"),
        (
            replaced("{ path = \"/somewhere/else\" }", "{ git = \"https://example.org/sdk\" }"),
            "Cargo.toml:14: skillhost-sdk is that of the installation, as it is",
        ),
        (
            replaced("skillhost-sdk = { path = \"/somewhere/else\" }\n", ""),
            "Cargo.toml: [dependencies] lacks skillhost-sdk",
        ),
        (
            replaced("name = \"tea\"", "name = \"tea\"\nproc-macro = true"),
            "Cargo.toml:11: a procedural macro runs inside the compiler, and none of its own may",
        ),
        (
            replaced("[\"cdylib\"]", "[\"cdylib\", \"rlib\"]"),
            "Cargo.toml:11: `crate-type` must be [\"cdylib\"] and nothing else",
        ),
        (
            replaced("crate-type = [\"cdylib\"]\n", ""),
            "Cargo.toml: [lib] lacks `crate-type`, without which it is no library to load",
        ),
        (
            replaced("name = \"tea\"", "name = \"coffee\""),
            "Cargo.toml:10: the library is called `coffee`, and the manifest's entrypoint is `tea`",
        ),
        (
            replaced("name = \"tea\"", "name = \"tea\"\npath = \"../../elsewhere.rs\""),
            "Cargo.toml:11: `path` must be \"src/lib.rs\"",
        ),
        (
            replaced("panic = \"unwind\"", "panic = \"abort\""),
            "Cargo.toml:19: `panic` must be \"unwind\": a panic is caught and becomes an error",
        ),
        (
            replaced("strip = \"symbols\"", "rustflags = [\"-Clinker=/tmp/x\"]"),
            "Cargo.toml:20: `rustflags` is not allowed in a profile",
        ),
        (
            with("[profile.release.build-override]\nopt-level = 3\n"),
            "Cargo.toml:24: `build-override` is not allowed in a profile",
        ),
        (
            with("[profile.mine]\ninherits = \"release\"\n"),
            "Cargo.toml:24: [profile.mine] is not allowed",
        ),
        (
            with("[workspace]\nmembers = [\"other\"]\n"),
            "Cargo.toml:24: a workspace with members or settings of its own",
        ),
        (
            replaced("publish = false", "workspace = \"../..\""),
            "Cargo.toml:6: `workspace` makes it a member of a workspace",
        ),
        (
            with("[patch.crates-io]\nurl = { path = \"../url\" }\n"),
            "Cargo.toml:24: [patch] puts other sources in the place of crates",
        ),
        (
            with("[replace]\n\"url:2.0.0\" = { path = \"../url\" }\n"),
            "Cargo.toml:24: [replace] puts other sources in the place of crates",
        ),
        (
            with("[target.'cfg(unix)'.dependencies]\nevil = \"1\"\n"),
            "Cargo.toml:24: [target] makes the build differ from system to system",
        ),
        (with("[features]\nx = []\n"), "Cargo.toml:24: [features] is not allowed"),
        (with("[[bin]]\nname = \"x\"\n"), "Cargo.toml:24: [bin] is not allowed"),
        (
            with("cargo-features = []\n"),
            "Cargo.toml:24: `cargo-features` is not allowed in a profile",
        ),
        (
            replaced("name = \"skillhost-ext-tea\"", "name = \"../evil\""),
            "Cargo.toml:3: `name` must be a letter followed by letters, digits, `_` and `-`",
        ),
        (
            replaced("version = \"0.2.0\"", "version = { workspace = true }"),
            "Cargo.toml:4: `version` must be three numbers",
        ),
        (
            replaced("edition = \"2024\"", "edition = \"2015\""),
            "Cargo.toml:5: `edition` must be \"2021\" or \"2024\"",
        ),
    ];
    assert!(cases.iter().all(|(text, _)| text != FINE));
    for (text, expected) in &cases {
        assert_eq!(refused_text(text), [*expected], "{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_broken_text_names_its_line() {
    let text = FINE.replace("unwind", "abort").replace("[\"cdylib\"]", "[\"dylib\"]");
    assert_eq!(refused_text(&text).len(), 2);
    let broken = refused_text("[package]\nname = \n");
    assert!(broken.len() == 1 && broken[0].starts_with("Cargo.toml:2: "), "{broken:?}");
    assert_eq!(
        refused_text(""),
        [
            "Cargo.toml: [package] is missing",
            "Cargo.toml: [lib] is missing",
            "Cargo.toml: [dependencies] lacks skillhost-sdk"
        ]
    );
    assert_eq!(
        refusals(&[]),
        ["Cargo.toml: is not there, or is not text", "src/lib.rs: is not there"]
    );
}

#[test]
fn sources_take_nothing_in_from_elsewhere() {
    let source = |line: &str| {
        refusals(&[file("Cargo.toml", FINE), file("src/lib.rs", &format!("// one\n{line}\n"))])
    };
    for line in [
        "const KEY: &str = include_str!(\"/etc/passwd\");",
        "use core::include_bytes as harmless;",
        "include ! (\"../../../other.rs\");",
        "use std::include as x;",
        "#[path = \"/tmp/x.rs\"] mod x;",
        "#[cfg_attr(all(), path=r\"../x.rs\")] mod x;",
    ] {
        let found = source(line);
        assert!(found.len() == 1 && found[0].starts_with("src/lib.rs:2: `"), "{line}: {found:?}");
    }
    for line in [
        "let include = filter.include.clone();",
        "let path = args[\"path\"].as_str();",
        "if path == \"a\" { reinclude_str() }",
    ] {
        assert_eq!(source(line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn a_script_or_a_second_crate_among_the_files_is_refused() {
    let files = [
        file("Cargo.toml", FINE),
        file("build.rs", "fn main() {}"),
        file("macros/Cargo.toml", ""),
        file("src/lib.rs", ""),
        PlannedFile { path: "src/x.rs".into(), bytes: vec![0xff], executable: false },
    ];
    assert_eq!(
        refusals(&files),
        [
            "build.rs: a build script runs while it is built, and none may",
            "macros/Cargo.toml: a second crate, or a member of a workspace",
            "src/x.rs: is not UTF-8 text",
        ]
    );
}
