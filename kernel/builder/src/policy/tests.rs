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

fn file(path: &str, text: &str) -> TreeFile {
    TreeFile { path: path.to_owned(), bytes: text.into(), executable: false }
}

fn violations(files: &[TreeFile]) -> Vec<String> {
    match check_crate(files, "tea", &allow()) {
        Ok(_) => Vec::new(),
        Err(BuildError::PolicyViolations(violations)) => {
            violations.iter().map(ToString::to_string).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

fn cargo_toml_violations(cargo_toml: &str) -> Vec<String> {
    violations(&[file("Cargo.toml", cargo_toml), file("src/lib.rs", "")])
}

#[test]
fn recipe_contains_only_allowed_parts() {
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
fn build_settings_are_restricted() {
    let with = |line: &str| FINE.replace("[workspace]\n", line);
    let replaced = |from: &str, to: &str| {
        assert!(FINE.contains(from), "{from}");
        FINE.replace(from, to)
    };
    let cases = [
        (
            replaced("publish = false", "build = \"make.rs\""),
            "Cargo.toml:6: `build` requires a build script, which is not allowed",
        ),
        (
            replaced("publish = false", "links = \"z\""),
            "Cargo.toml:6: `links` requires a build script, which is not allowed",
        ),
        (
            with("[build-dependencies]\ncc = \"1\"\n"),
            "Cargo.toml:24: [build-dependencies] requires a build script, which is not allowed",
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
        (replaced("url = \"2\"", "url = {}"), "Cargo.toml:16: a version is required"),
        (
            replaced("{ path = \"/somewhere/else\" }", "{ git = \"https://example.org/sdk\" }"),
            "Cargo.toml:14: skillhost-sdk allows only a path or a version",
        ),
        (
            replaced("skillhost-sdk = { path = \"/somewhere/else\" }\n", ""),
            "Cargo.toml: [dependencies] requires skillhost-sdk",
        ),
        (
            replaced("name = \"tea\"", "name = \"tea\"\nproc-macro = true"),
            "Cargo.toml:11: a procedural macro runs inside the compiler and is not allowed",
        ),
        (
            replaced("[\"cdylib\"]", "[\"cdylib\", \"rlib\"]"),
            "Cargo.toml:11: `crate-type` must be [\"cdylib\"] only",
        ),
        (replaced("crate-type = [\"cdylib\"]\n", ""), "Cargo.toml: [lib] requires `crate-type`"),
        (
            replaced("name = \"tea\"", "name = \"coffee\""),
            "Cargo.toml:10: the library is named `coffee`, but the manifest's entrypoint is `tea`",
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
            "Cargo.toml:24: a workspace with members or settings is not allowed",
        ),
        (
            replaced("publish = false", "workspace = \"../..\""),
            "Cargo.toml:6: `workspace` is not allowed in [package]",
        ),
        (
            with("[patch.crates-io]\nurl = { path = \"../url\" }\n"),
            "Cargo.toml:24: [patch] replaces the sources of crates",
        ),
        (
            with("[replace]\n\"url:2.0.0\" = { path = \"../url\" }\n"),
            "Cargo.toml:24: [replace] replaces the sources of crates",
        ),
        (
            with("[target.'cfg(unix)'.dependencies]\nevil = \"1\"\n"),
            "Cargo.toml:24: [target] makes the build depend on the system",
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
        assert_eq!(cargo_toml_violations(text), [*expected], "{text}");
    }
}

#[test]
fn all_violations_are_reported() {
    let text = FINE.replace("unwind", "abort").replace("[\"cdylib\"]", "[\"dylib\"]");
    assert_eq!(cargo_toml_violations(&text).len(), 2);
    let broken = cargo_toml_violations("[package]\nname = \n");
    assert!(broken.len() == 1 && broken[0].starts_with("Cargo.toml:2: "), "{broken:?}");
    assert_eq!(
        cargo_toml_violations(""),
        [
            "Cargo.toml: [package] is required",
            "Cargo.toml: [lib] is required",
            "Cargo.toml: [dependencies] requires skillhost-sdk"
        ]
    );
    assert_eq!(violations(&[]), ["Cargo.toml: not found or not text", "src/lib.rs: not found"]);
}

#[test]
fn sources_include_no_unreviewed_files() {
    let source = |line: &str| {
        violations(&[file("Cargo.toml", FINE), file("src/lib.rs", &format!("// one\n{line}\n"))])
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
fn build_script_and_second_crate_rejected() {
    let files = [
        file("Cargo.toml", FINE),
        file("build.rs", "fn main() {}"),
        file("macros/Cargo.toml", ""),
        file("src/lib.rs", ""),
        TreeFile { path: "src/x.rs".into(), bytes: vec![0xff], executable: false },
    ];
    assert_eq!(
        violations(&files),
        [
            "build.rs: a build script is not allowed",
            "macros/Cargo.toml: a second crate or workspace member is not allowed",
            "src/x.rs: is not UTF-8 text",
        ]
    );
}
