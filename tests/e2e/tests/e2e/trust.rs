//! Tests of `skillhost trust`: the homes that may load code.

use test_support::TestHome;

use crate::fixtures::untrusted_home;

const KERNEL_COMMANDS: [&[&str]; 9] = [
    &["run"],
    &["ask", "--print-prompt", "hi"],
    &["agent", "list"],
    &["agent", "show", "x"],
    &["ext", "list"],
    &["ext", "doctor"],
    &["ext", "reload", "echo"],
    &["tool", "list"],
    &["tool", "call", "echo", "{}"],
];

#[test]
fn kernel_commands_require_trust() {
    let home = untrusted_home();
    // The way in which the home was found makes no difference.
    for command in KERNEL_COMMANDS {
        let output = home.skillhost(command).exits(5);
        assert_eq!(output.stdout, "", "{command:?}");
        assert!(output.stderr.contains("this home is not trusted"), "{command:?}: {output}");
    }
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 5
    --- stderr
    error: [HOME]: this home is not trusted, so none of its extensions are loaded
    hint: review its manifests and extensions, then: skillhost trust [HOME] (or --trust-home for this call)
    ");
    insta::assert_snapshot!(home.skillhost(["--home", ".", "ext", "list", "--json"]), @r#"
    exit 5
    --- stderr
    {"error":{"hints":["review its manifests and extensions, then: skillhost trust [HOME] (or --trust-home for this call)"],"kind":"io","message":"[HOME]: this home is not trusted, so none of its extensions are loaded"},"schema_version":1}
    "#);
    home.start(home.command().env("SKILLHOST_HOME", home.root()).args(["ext", "list"]))
        .finish()
        .exits(5);
    assert!(!home.path("sandbox/data").exists(), "nothing was loaded, nothing is left");
}

#[test]
fn offline_commands_require_no_trust() {
    let home = untrusted_home();
    let commands: [&[&str]; 5] = [
        &["skill", "list"],
        &["skill", "show", "greet"],
        &["skill", "read", "greet"],
        &["config"],
        &["schema", "manifest"],
    ];
    for command in commands {
        home.skillhost(command).success();
    }
}

#[test]
fn trust_home_option_is_not_recorded() {
    let home = untrusted_home();
    let call = ["--trust-home", "tool", "call", "echo", r#"{"text":"hi"}"#];
    assert_eq!(home.skillhost(call).success().stdout, "hi\n");
    home.skillhost(["ext", "list"]).exits(5);
    assert_eq!(home.skillhost(["trust", "--list"]).success().stdout, "");
}

#[test]
fn trust_records_canonical_path() {
    let home = untrusted_home();
    let link = home.outside().join("link");
    std::os::unix::fs::symlink(home.root(), &link).unwrap();
    insta::assert_snapshot!(home.skillhost(["trust".as_ref(), link.as_os_str()]), @"
    exit 0
    --- stdout
    trusted [HOME]
    ");
    insta::assert_snapshot!(home.skillhost(["trust"]), @"
    exit 0
    --- stdout
    [HOME] was trusted already
    ");
    insta::assert_snapshot!(home.skillhost(["trust", "--json"]), @r#"
    exit 0
    --- stdout
    {"home":"[HOME]","new":false,"schema_version":1}
    "#);
    insta::assert_snapshot!(home.skillhost(["trust", "--list"]), @"
    exit 0
    --- stdout
    [HOME]
    ");
    insta::assert_snapshot!(home.skillhost(["trust", "--list", "--json"]), @r#"
    exit 0
    --- stdout
    {"schema_version":1,"trusted":["[HOME]"]}
    "#);
    home.skillhost(["ext", "list"]).success();
}

#[test]
fn removed_trust_applies_immediately() {
    let home = untrusted_home().trusted();
    home.skillhost(["ext", "list"]).success();
    insta::assert_snapshot!(home.skillhost(["trust", "--remove"]), @"
    exit 0
    --- stdout
    [HOME] is not trusted any longer
    ");
    home.skillhost(["ext", "list"]).exits(5);
    insta::assert_snapshot!(home.skillhost(["trust", "--remove", ".", "--json"]), @r#"
    exit 0
    --- stdout
    {"home":"[HOME]/.","removed":false,"schema_version":1}
    "#);
    assert_eq!(home.skillhost(["trust", "--list"]).success().stdout, "");
}

#[test]
fn replaced_home_is_not_trusted() {
    let home = untrusted_home().trusted();
    std::fs::rename(home.root(), home.outside().join("before")).unwrap();
    std::fs::create_dir_all(home.path("sandbox")).unwrap();
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 5
    --- stderr
    error: [HOME]: this home is not trusted any longer: another directory has taken its place
    hint: review its manifests and extensions again, then: skillhost trust [HOME]; or remove it: skillhost trust --remove [HOME]
    ");
    insta::assert_snapshot!(home.skillhost(["trust", "--list"]), @"
    exit 0
    --- stderr
    note: [HOME] is not trusted any longer: another directory has taken its place
    ");
    home.skillhost(["trust"]).success();
    home.skillhost(["ext", "list"]).success();
}

#[test]
fn world_writable_trust_record_is_rejected() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = untrusted_home().trusted();
    let record = home.outside().join("state/skillhost/trusted-homes");
    std::fs::set_permissions(record, std::fs::Permissions::from_mode(0o666)).unwrap();
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/state/skillhost/trusted-homes: this record of trusted homes does not count: other users may write to it
    hint: check that each line is yours, then: chmod go-w [OUTSIDE]/state/skillhost/trusted-homes; or remove the file and trust each home again
    ");
    home.skillhost(["skill", "list"]).success();
}

#[test]
fn trust_applies_to_one_home() {
    let (one, other) = (untrusted_home().trusted(), untrusted_home());
    // Both homes share one list of trusted homes.
    let list = |home: &TestHome| {
        one.start(one.command().arg("--home").arg(home.root()).args(["ext", "list"])).finish()
    };
    list(&one).success();
    list(&other).exits(5);
}

#[test]
fn default_home_is_trusted() {
    let home = untrusted_home();
    let data = home.outside().join("xdg");
    std::fs::create_dir(&data).unwrap();
    std::fs::rename(home.root(), data.join("skillhost")).unwrap();
    let mut command = home.command();
    command.current_dir(home.outside()).env("XDG_DATA_HOME", &data);
    home.start(command.args(["tool", "call", "echo", r#"{"text":"hi"}"#])).finish().success();
}

#[test]
fn trust_requires_home() {
    let home = TestHome::new();
    insta::assert_snapshot!(home.skillhost(["trust", "nowhere"]), @"
    exit 3
    --- stderr
    error: [HOME]/nowhere: no such directory
    hint: make it one: skillhost init [HOME]/nowhere
    ");
    std::fs::create_dir(home.path("plain")).unwrap();
    insta::assert_snapshot!(home.skillhost(["trust", "plain"]), @"
    exit 3
    --- stderr
    error: [HOME]/plain: not a home, it has no sandbox/ directory
    hint: make it one: skillhost init [HOME]/plain
    ");
    insta::assert_snapshot!(home.skillhost(["trust", "--list", "plain"]), @"
    exit 2
    --- stderr
    error: the argument '--list' cannot be used with '[DIR]'

    Usage: skillhost trust --list [DIR]

    For more information, try '--help'.
    ");
}
