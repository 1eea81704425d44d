//! Errors in the fields of process extensions and in tool names.

use skillhost_manifest::parse_manifest;

/// Checks the messages about a manifest, one per line.
fn check(text: &str, expected: &str) {
    match parse_manifest(text) {
        Ok(manifest) => panic!("{text:?} was accepted: {manifest:#?}"),
        Err(errors) => assert_eq!(errors.to_string(), expected, "about {text:?}"),
    }
}

/// Checks the messages about a manifest that begins with three correct lines.
fn check_after_head(text: &str, expected: &str) {
    check(&format!("id: a\nname: N\nentrypoint: a\n{text}"), expected);
}

#[test]
fn process_fields_require_a_process() {
    check("id: a\nname: N\nagent: {}\ntools: {prefix: a_}\n", {
        "4:1: `tools` requires a library or a process; this extension is an agent"
    });
    let owner = "is for process extensions (`entrypoint: {command: […]}`)";
    check_after_head("env: {A: b}\n", &format!("4:1: `env` {owner}"));
    check_after_head("sandbox: {}\n", &format!("4:1: `sandbox` {owner}"));
    check_after_head("channel: true\n", &format!("4:1: `channel` {owner}"));
    check_after_head("start_timeout_ms: 2000\n", &format!("4:1: `start_timeout_ms` {owner}"));
}

#[test]
fn process_field_errors_have_positions() {
    let head = "id: a\nname: N\nentrypoint: {command: [s]}\n";
    let variable = "must be the name of a variable, of letters, digits and `_`, not beginning with a \
                    digit, and none of PATH, SKILLHOST_…, LD_… and DYLD_…";
    let timeout = "`start_timeout_ms` must be a whole number of milliseconds from 1000 to 300000";
    let cases = [
        ("env: {9A: b}", format!("4:7: `env` {variable}, found `9A`")),
        ("env: {LD_PRELOAD: b}", format!("4:7: `env` {variable}, found `LD_PRELOAD`")),
        (
            "env: {A: ~}",
            "4:10: `env.A` must be text, a number or a boolean, found no value".to_owned(),
        ),
        ("env: {A: [b]}", "4:10: `env.A` must be text, found a list".to_owned()),
        (
            "secrets: [A]\nenv: {A: b}",
            "5:7: `env` must be a variable that is not in `secrets`, found `A`".to_owned(),
        ),
        ("channel: 'yes'", "4:10: `channel` must be `true` or `false`, found text".to_owned()),
        ("start_timeout_ms: 999", format!("4:19: {timeout}, found `999`")),
        ("start_timeout_ms: 300001", format!("4:19: {timeout}, found `300001`")),
        (
            "tools: {prefix: a b}",
            "4:17: `tools.prefix` must be 1 to 32 letters, digits, `_`, `-` and `.`, found `a b`"
                .to_owned(),
        ),
        (
            "tools: {rename: {a: b c}}",
            "4:21: `tools.rename.a` must be a tool's name, of 1 to 64 letters, digits, `_`, `-` \
             and `.`, found `b c`"
                .to_owned(),
        ),
        ("tools: {rename: {a: c, b: c}}", "4:27: name `c` is already used in line 4".to_owned()),
        (
            "tools: {include: ['[']}",
            "4:19: `tools.include[0]` must be a glob such as `review-*`, found `[`".to_owned(),
        ),
    ];
    for (line, expected) in cases {
        check(&format!("{head}{line}\n"), &expected);
    }
}

#[test]
fn sandbox_errors_have_positions() {
    let path = "must be an absolute path, or one that begins with `~/`, without `..` and patterns";
    let host = "must be a host name, or `*.` and a domain of two labels, without scheme, port and \
                path";
    let mut many = "sandbox: {network: {allowedDomains: [".to_owned();
    many.push_str(&"a.org, ".repeat(65));
    many.push_str("]}}");
    let cases = [
        (
            "sandbox: off",
            "4:10: `sandbox` must be a mapping with `filesystem`, `network`, `limits`, `minimum` \
             and `require`, found text"
                .to_owned(),
        ),
        (
            "sandbox: {filesystem: {allowRead: [wiki, ~other/x, /a/../b, '/a/*', ~/a]}}",
            [
                "4:36: `sandbox.filesystem.allowRead[0]` P, found `wiki`",
                "4:42: `sandbox.filesystem.allowRead[1]` P, found `~other/x`",
                "4:52: `sandbox.filesystem.allowRead[2]` P, found `/a/../b`",
                "4:61: `sandbox.filesystem.allowRead[3]` P, found `/a/*`",
            ]
            .join("\n")
            .replace(" P,", &format!(" {path},")),
        ),
        (
            "sandbox: {network: {allowedDomains: ['https://a.org', '*.com']}}",
            format!(
                "4:38: `sandbox.network.allowedDomains[0]` {host}, found `https://a.org`\n4:55: \
                 `sandbox.network.allowedDomains[1]` {host}, found `*.com`"
            ),
        ),
        (
            "sandbox: {network: {allowDomains: []}}",
            "4:21: unknown field `allowDomains`; did you mean `allowedDomains`?".to_owned(),
        ),
        (
            "sandbox: {limits: {memoryMib: 0, seconds: 5}}",
            "4:31: `sandbox.limits.memoryMib` must be a whole number of at least 1, found `0`\n\
             4:34: unknown field `seconds`"
                .to_owned(),
        ),
        (
            "sandbox: {minimum: none}",
            "4:20: `sandbox.minimum` must be text, `landlock` or `namespaces`, found `none`"
                .to_owned(),
        ),
        (
            &many,
            "4:37: `sandbox.network.allowedDomains` must be a list of at most 64 entries, found \
             `65 entries`"
                .to_owned(),
        ),
        ("network: {}", "4:1: `network` does not belong here; move it under `sandbox`".to_owned()),
    ];
    for (line, expected) in cases {
        let head = "id: a\nname: N\nentrypoint: {command: [s]}\n";
        check(&format!("{head}{line}\n"), &expected);
    }
}
