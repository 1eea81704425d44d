//! Tests of the settings of contained execution and of the policy file.

use std::fs;

use skillhost_policy::{ComposedPolicy, IsolationLevel, PolicyRequest, PolicyUse};

use super::*;
use crate::home::HomeSource;

struct Fixture {
    directory: tempfile::TempDir,
    home: Home,
}

fn fixture(settings: &str) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("home");
    fs::create_dir_all(root.join("sandbox/data")).unwrap();
    fs::write(root.join("skillhost.yaml"), settings).unwrap();
    let home = Home::open(&root, HomeSource::Argument).unwrap();
    Fixture { directory, home }
}

fn compose(operator: &OperatorPolicy) -> ComposedPolicy {
    let work = Path::new("/work");
    let request = PolicyRequest {
        policy_use: PolicyUse::Script,
        id: None,
        base: PolicyUse::Script.default_policy(work),
        approved_layer: None,
        operator_layer: None,
        layers: &[],
        work,
        aliases: &[],
    };
    operator.compose(request).unwrap()
}

fn parse_settings(text: &str) -> Result<SandboxSettings, String> {
    let parsed = Settings::parse(Path::new("skillhost.yaml"), text);
    parsed.map(|settings| settings.sandbox).map_err(|error| format!("{error} [{}]", error.hint()))
}

#[test]
fn every_key_is_read_and_kept() {
    let text = "sandbox:
  scripts: {filesystem: {allowRead: [/data], allowWrite: [.]}, limits: {seconds: 5}}
  skills: {pdf: {network: {allowedDomains: ['*.example.org']}, minimum: namespaces, require: [domains]}}
  extensions: {clock: {limits: {memoryMib: 64}}}
  policy_file: srt.json
  interpreters: {.py: [python3, -B]}
  unsandboxed: [clock]
";
    let settings = parse_settings(text).unwrap();
    assert_eq!(settings.scripts.limits.unwrap().seconds, Some(5));
    assert_eq!(settings.skills["pdf"].minimum, Some(IsolationLevel::Namespaces));
    assert_eq!(settings.interpreters[".py"], ["python3", "-B"]);
    // The environment is merged over the serialized settings.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("skillhost.yaml");
    std::fs::write(&path, text).unwrap();
    assert_eq!(Settings::load(&path).unwrap().settings.sandbox, settings);
    std::fs::write(&path, "sandbox: off\n").unwrap();
    assert!(Settings::load(&path).unwrap().settings.sandbox.is_off);
    assert_eq!(parse_settings("sandbox:\n").unwrap(), SandboxSettings::default());
}

#[test]
fn errors_have_line_and_column() {
    for (text, expected) in [
        (
            "sandbox: on\n",
            "1:10: sandbox: invalid value: string \"on\", expected `off` or a mapping",
        ),
        ("sandbox: true\n", "1:10: sandbox: invalid type: boolean"),
        (
            "sandbox:\n  scripts:\n    filesytem: {}\n",
            "3:5: sandbox.scripts: unknown field `filesytem`",
        ),
        ("sandbox:\n  comands: {}\n", "[did you mean `commands`?]"),
        ("sandbox:\n  scripts:\n    filesystem:\n      allowRead:\n      - ../x\n", "5:9: "),
        (
            "sandbox: {scripts: {filesystem: {allowRead: [../x]}}}\n",
            "`../x` is not valid: `..` is not allowed",
        ),
        (
            "sandbox:\n  skills:\n    a:\n      network:\n        allowedDomains: [a.org, 'https://b.org']\n",
            "5:33: ",
        ),
        (
            "sandbox: {handlers: {network: {deniedDomains: ['a.org:80']}}}\n",
            "remove the path, port or user",
        ),
        (
            "sandbox: {scripts: {limits: {seconds: -1}}}\n",
            "invalid type: integer `-1`, expected u64",
        ),
        ("sandbox: {scripts: {limits: {seconds: soon}}}\n", "invalid type: string \"soon\""),
        ("sandbox: {scripts: {minimum: strong}}\n", "unknown variant `strong`"),
        ("sandbox:\n  builds: {minimum: none}\n", "2:3: sandbox: `minimum: none` is not a level"),
        ("sandbox: {skills: {a: {minimum: none}}}\n", "`minimum: none` is not a level"),
        ("sandbox: {scripts: {require: [speed]}}\n", "unknown variant `speed`"),
        ("sandbox: {interpreters: {py: [python3]}}\n", "`py` is not a file name extension"),
        ("sandbox: {interpreters: {.py: []}}\n", "`.py` has no program"),
        ("sandbox: {interpreters: {.py: python3}}\n", "expected a sequence"),
        ("sandbox: [off]\n", "invalid type: sequence"),
    ] {
        let error =
            parse_settings(text).map_or_else(|error| error, |settings| format!("{settings:?}"));
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn unusable_policy_files_are_errors() {
    let fixture = fixture("sandbox: {policy_file: srt.json}");
    let file = fixture.home.root().join("srt.json");
    let error = |home: &Home| load_operator_policy(home).unwrap_err().to_string();
    assert!(error(&fixture.home).contains("No such file"), "{}", error(&fixture.home));
    for (text, part) in [
        ("{", "EOF"),
        (r#"{"enableWeakerNestedSandbox": true}"#, "enableWeakerNestedSandbox"),
        (r#"{"filesystem": {"allowRead": ["../x"]}}"#, "`..` is not allowed"),
        ("\u{feff}", "policy_file"),
    ] {
        fs::write(&file, text).unwrap();
        assert!(error(&fixture.home).contains(part), "{}", error(&fixture.home));
    }
    fs::write(&file, vec![b' '; 300 << 10]).unwrap();
    assert!(error(&fixture.home).contains("srt.json"), "{}", error(&fixture.home));
    fs::write(&file, b"\xff").unwrap();
    assert!(error(&fixture.home).contains("not UTF-8"));
    fs::remove_file(&file).unwrap();
    let elsewhere = fixture.directory.path().join("elsewhere.json");
    fs::write(&elsewhere, "{}").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    load_operator_policy(&fixture.home).unwrap();
    let settings = |name: &Path| SandboxSettings {
        policy_file: Some(name.to_owned()),
        ..SandboxSettings::default()
    };
    let untrusted = fixture.home.into_untrusted();
    for name in ["srt.json".as_ref(), &*elsewhere, "../elsewhere.json".as_ref()] {
        let loaded = read_policy(settings(name), &untrusted, Path::new("/"));
        assert!(matches!(loaded, Err(SettingsError::Io { .. })), "{name:?}");
    }
}

#[test]
fn policy_file_is_below_settings() {
    let fixture =
        fixture("sandbox: {policy_file: srt.json, scripts: {network: {allowedDomains: [b.org]}}}");
    let text = r#"{"network": {"allowedDomains": ["a.org"], "httpProxyPort": 8080},
            "filesystem": {"allowWrite": [".", "~/out"], "denyRead": ["./secret"]}, "ripgrep": {}}"#;
    fs::write(fixture.home.root().join("srt.json"), text).unwrap();
    let mut operator = load_operator_policy(&fixture.home).unwrap();
    operator.user_home = "/home/u".into();
    assert_eq!(operator.notes.len(), 2, "{:?}", operator.notes);
    assert!(
        operator.notes[1]
            .ends_with("`network.httpProxyPort` of sandbox-runtime has no effect here")
    );
    let composed = compose(&operator);
    let files = &composed.policy.filesystem;
    assert_eq!(files.allow_write, [Path::new("/work"), Path::new("/home/u/out")]);
    assert_eq!(files.deny_read, [Path::new("/work/secret")]);
    assert!(composed.policy.allows_host("b.org") && !composed.policy.allows_host("a.org"));
}

#[test]
fn changed_settings_are_in_force_for_next_run() {
    let fixture = fixture("");
    let seconds = || {
        let operator = load_operator_policy(&fixture.home).unwrap();
        compose(&operator).policy.limits.seconds
    };
    assert_eq!(seconds(), Some(30));
    let file = fixture.home.settings_file();
    fs::write(&file, "sandbox: {scripts: {limits: {seconds: 7}}}").unwrap();
    assert_eq!(seconds(), Some(7));
    fs::write(&file, "sandbox: {scripts: {limit: {seconds: 7}}}").unwrap();
    assert!(load_operator_policy(&fixture.home).is_err(), "nothing runs with invalid settings");
}

#[test]
fn secrets_of_both_homes_are_found() {
    let fixture = fixture("");
    let user = fs::canonicalize(fixture.directory.path()).unwrap().join("user");
    fs::create_dir_all(user.join(".ssh")).unwrap();
    let operator = read_policy(SandboxSettings::default(), &fixture.home, &user).unwrap();
    let existing = operator.secrets.iter().filter(|secret| secret.exists);
    let existing: Vec<_> = existing.map(|secret| secret.path.clone()).collect();
    let data = fs::canonicalize(fixture.home.root()).unwrap().join("sandbox/data");
    assert_eq!(existing, [user.join(".ssh"), data]);
    assert!(operator.secrets.iter().any(|secret| secret.path == user.join(".netrc")));
}

#[test]
fn linked_secrets_hide_what_they_lead_to() {
    let temp = tempfile::tempdir().unwrap();
    let user = fs::canonicalize(temp.path()).unwrap();
    for directory in ["dotfiles/ssh", ".aws", "store"] {
        fs::create_dir_all(user.join(directory)).unwrap();
    }
    fs::write(user.join("store/credentials"), "key").unwrap();
    for (target, link) in [
        ("dotfiles/ssh", ".ssh"),
        ("../store/credentials", ".aws/credentials"),
        ("/usr/bin", ".aws/system"),
        ("..", ".aws/around"),
    ] {
        std::os::unix::fs::symlink(target, user.join(link)).unwrap();
    }
    let found = find_secrets([".ssh", ".aws", ".gnupg"].map(|name| user.join(name)).into_iter());
    let found: Vec<_> = found.iter().map(|secret| (&*secret.path, secret.exists)).collect();
    let at = |name: &str| user.join(name);
    let paths = [at(".ssh"), at("dotfiles/ssh"), at(".aws"), at("store/credentials"), at(".gnupg")];
    let exist = [true, true, true, true, false];
    assert_eq!(found, paths.iter().map(|path| &**path).zip(exist).collect::<Vec<_>>());
}
