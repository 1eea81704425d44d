//! The messages about invalid manifests.

use std::fmt::Write;

use skillhost_manifest::{ExtensionId, ManifestErrorKind, YamlType, parse_manifest};

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

/// Checks the messages about an agent; its fields begin at 4:3.
fn check_agent(fields: &str, expected: &str) {
    check(&format!("id: a\nname: N\nagent:\n{fields}"), expected);
}

#[test]
fn non_manifest_text_gives_one_error() {
    const EMPTY: &str =
        "1:1: the manifest is empty; it needs at least `id`, `name` and `entrypoint` or `agent`";
    for text in ["", " \n", "# only\n# comments\n", "---\n", "\u{feff}", "--- # nothing\n...\n"] {
        check(text, EMPTY);
    }
    let not_a_mapping = [
        ("~", "1:1: a manifest must consist of lines `field: value`, found no value"),
        ("id", "1:1: a manifest must consist of lines `field: value`, found text"),
        ("\n  - id: a\n", "2:3: a manifest must consist of lines `field: value`, found a list"),
        ("12", "1:1: a manifest must consist of lines `field: value`, found a number"),
        ("true", "1:1: a manifest must consist of lines `field: value`, found a boolean"),
    ];
    for (text, expected) in not_a_mapping {
        check(text, expected);
    }
    check_after_head(
        "---\nid: b\n",
        "4:1: a second document begins here; a manifest is one YAML document",
    );
}

#[test]
fn tab_errors_have_exact_positions() {
    const TAB: &str = "tab in the indentation; YAML allows only spaces there";
    check("id: a\nagent:\n\tmodel: x\n", &format!("3:1: {TAB}"));
    check("id: a\nagent:\n  \tmodel: x\n", &format!("3:3: {TAB}"));
    check("id: a\nname: x\n\n\tentrypoint: y\n", &format!("4:1: {TAB}"));
    check("id: a\nsecrets:\n\t- A\n", &format!("3:1: {TAB}"));
    check("\tid: a\n", &format!("1:1: {TAB}"));
    let text = "id: a\t# comment\nname: N\nentrypoint: a\ndescription: |\n  a:\n  \tb\n";
    assert_eq!(
        parse_manifest(text).map(|manifest| manifest.description),
        Ok("a:\n\tb\n".to_owned())
    );
}

#[test]
fn yaml_errors_name_the_cause() {
    let colon = "not valid YAML: `:` is not allowed here; check the indentation, or put the value \
                 in quotes";
    check("id: a\ndescription: Note: this\n", &format!("2:18: {colon}"));
    check("id: a\n  name: N\n", &format!("2:7: {colon}"));
    check(
        "id: a\nname\nentrypoint: b\n",
        "2:1: not valid YAML: this line is neither `field: value` nor part of a value",
    );
    check(
        "id: a\n# comment\nname\n\n# comment\n",
        "3:1: not valid YAML: this line is neither `field: value` nor part of a value",
    );
    check("id: 'a\n", "1:5: not valid YAML: the quoted text that starts here is not closed");
    check(
        "id: \"a\nname: b\n",
        "1:5: not valid YAML: the quoted text that starts here is not closed, or not all its \
         lines are indented",
    );
    check(
        "agent:\n    model: x\n  limits: {}\n",
        "3:3: not valid YAML: expected a field; check that this line is indented like those above",
    );
    check("id: @a\n", "1:5: not valid YAML: unexpected character: `@'");
    let unprintable = "1:6: not valid YAML: found unprintable character";
    check("id: a\0\n", unprintable);
    check("id: a\0\ndescription: |\n  x\n\ty\n", unprintable);
}

#[test]
fn unsupported_yaml_features_are_rejected() {
    let anchor =
        "anchors and aliases (`&` and `*`) are not supported in manifests; repeat the value";
    check("config: &a {x: 1}\nagent: *a\n", &format!("1:9: {anchor}"));
    check("config:\n  - &a x\n", &format!("2:5: {anchor}"));
    check("config: *a\n", &format!("1:9: {anchor}"));
    check("config: {<<: *a}\n", &format!("1:14: {anchor}"));
    check("id: !!str a\n", "1:5: tags (`!`) are not supported in manifests; remove the tag");
    check("? [a]\n: b\n", "1:3: a key must be text, not a list or a mapping");
}

#[test]
fn command_requires_program_within_reach() {
    let command = |command: &str, expected: &str| {
        check(&format!("id: a\nname: N\nentrypoint: {command}\n"), expected);
    };
    const WORDS: &str = "a list of 1 to 64 words: the program and its arguments";
    const PROGRAM: &str =
        "a program in PATH or a relative path that stays in the manifest's directory";
    command(
        "[python3]",
        "3:13: `entrypoint` must be text or a mapping with `command`, found a list",
    );
    command("{}", "3:13: `entrypoint.command` is missing");
    command("{command: python3}", "3:23: `entrypoint.command` must be a list, found text");
    command(
        "{command: []}",
        &format!("3:23: `entrypoint.command` must be {WORDS}, found `0 words`"),
    );
    command(
        &format!("{{command: [{}]}}", "a, ".repeat(65)),
        &format!("3:23: `entrypoint.command` must be {WORDS}, found `65 words`"),
    );
    command(
        "{command: [python3, 8080]}",
        "3:33: `entrypoint.command[1]` must be text, found a number; put it in quotes",
    );
    for program in ["/bin/sh", "../sh", "bin/../../sh", "bin//sh", ".", "bin/", "' sh'", "''"] {
        let expected = program.trim_matches('\'');
        command(
            &format!("{{command: [{program}]}}"),
            &format!("3:24: `entrypoint.command[0]` must be {PROGRAM}, found `{expected}`"),
        );
    }
    command(
        "{command: [sh, \"a\\nb\"], args: []}",
        "3:28: `entrypoint.command[1]` must be text of at most 4096 bytes without control \
         characters, found `a\\nb`\n3:37: unknown field `args`",
    );
    check_after_head(
        "command: [sh]\n",
        "4:1: `command` does not belong here; move it under `entrypoint`",
    );
    check(
        "id: a\nname: N\nentrypoint: {command: [sh]}\nagent: {}\n",
        "4:1: `entrypoint` and `agent` exclude each other; an extension is one or the other",
    );
}

#[test]
fn unknown_fields_suggest_nearest() {
    let like = |field: &str, known: &str| {
        check_after_head(
            &format!("{field}: x\n"),
            &format!("4:1: unknown field `{field}`; did you mean `{known}`?"),
        );
    };
    like("descripton", "description");
    like("depends-on", "depends_on");
    like("dependencies", "depends_on");
    like("Secrets", "secrets");
    like("setup", "setup_instructions");
    check_after_head("zzz: x\n", "4:1: unknown field `zzz`");
    check_after_head("\"\\e[1m\": x\n", "4:1: unknown field `\\u{1b}[1m`");
    check_after_head(&format!("{}: x\n", "é".repeat(70)), &{
        format!("4:1: unknown field `{}…`", "é".repeat(60))
    });
    check_agent(
        "  use_skills: [x]\n",
        "4:3: unknown field `use_skills`; did you mean `uses_skills`?",
    );
    check_agent("  limits: {turns: 3}\n", "4:12: unknown field `turns`; did you mean `max_turns`?");
    check_agent("  catalog: {only: [x]}\n", "4:13: unknown field `only`");
    check_after_head("events: {publish: []}\n", {
        "4:10: unknown field `publish`; did you mean `publishes`?"
    });
    check_after_head("events: {publishes: [{topics: x}]}\n", {
        "4:23: unknown field `topics`; did you mean `topic`?"
    });
    check_after_head("depends_on: [{id: b, option: true}]\n", {
        "4:22: unknown field `option`; did you mean `optional`?"
    });
}

#[test]
fn misplaced_fields_name_their_section() {
    check_after_head("uses_skills: [x]\n", {
        "4:1: `uses_skills` does not belong here; move it under `agent`"
    });
    check_after_head("max_turns: 3\n", {
        "4:1: `max_turns` does not belong here; move it under `agent.limits`"
    });
    check_agent(
        "  depends_on: [x]\n",
        "4:3: `depends_on` does not belong here; move it to the top level",
    );
}

/// Checks the message about one schedule of a library, whose fields begin at 5:5.
fn check_schedule(fields: &str, expected: &str) {
    check_after_head(&format!("schedules:\n  - {}\n", fields.replace('\n', "\n    ")), expected);
}

#[test]
fn invalid_cron_patterns_give_reason() {
    let cron = |pattern: &str, expected: &str| {
        let message = format!("5:25: `schedules[0].cron`: the pattern `{pattern}` {expected}");
        check_schedule(&format!("{{name: poll1, cron: '{pattern}', task: t}}"), &message);
    };
    const FIVE: &str = "minute, hour, day of the month, month, day of the week";
    cron("* * * * * *", &format!("has seconds or years; a pattern has five fields: {FIVE}"));
    cron("@daily", &format!("has 1 field; a pattern has five: {FIVE}"));
    cron("hourly please", &format!("has 2 fields; a pattern has five: {FIVE}"));
    cron("0 0 30 2 *", "never fires: the day exists in no year");
    cron(
        "0 25 * * *",
        "is not valid: `25` is not a valid hour; write 0-23, `*`, or lists (`1,5`), ranges (`1-5`) \
         and steps (`*/5`) of them",
    );
    cron(
        "*/90 * * * *",
        "is not valid: `*/90` is not a valid minute; write 0-59, `*`, or lists (`1,5`), ranges \
         (`1-5`) and steps (`*/5`) of them",
    );
    check_schedule("{name: a, cron: 5, task: t}", {
        "5:21: `schedules[0].cron` must be text, found a number; put it in quotes"
    });
}

#[test]
fn schedules_require_name_cron_and_action() {
    const NAME: &str = "must be a name of 1 to 64 lower-case letters, digits, `_` and `-`, \
                        beginning with a letter";
    check_schedule("{}", {
        "5:5: `schedules[0].name` is missing\n5:5: `schedules[0].cron` is missing\n\
         5:5: `schedules[0]` has no action: `task` or `tool` is missing"
    });
    check_schedule("name: Poll\ncron: 0 0 * * *\ntask: t", &{
        format!("5:11: `schedules[0].name` {NAME}, found `Poll`")
    });
    check_schedule("name: a\ncron: 0 0 * * *\ntimezone: Berlin\ntask: t", {
        "7:15: `schedules[0].timezone` must be the name of a time zone such as `Europe/Berlin`, \
         found `Berlin`; did you mean `Europe/Berlin`?"
    });
    check_schedule("name: a\ncron: 0 0 * * *\ntool: t\ntask: t", {
        "8:5: `tool` and `task` exclude each other; write two schedules"
    });
    check_schedule("name: a\ncron: 0 0 * * *\ntask: t\narguments: {}", {
        "8:5: `schedules[0].arguments` is for a `tool`"
    });
    check_schedule("name: a\ncron: 0 0 * * *\ntasks: t", {
        "7:5: unknown field `tasks`; did you mean `task`?"
    });
    check_schedule("name: a\ncron: 0 0 * * *\ntask: t\ntimeout_ms: 0", {
        "8:17: `schedules[0].timeout_ms` must be a whole number of milliseconds from 1 to \
         4294967295, found `0`"
    });
    check_after_head(
        "schedules:\n  - {name: a, cron: 0 0 * * *, task: t}\n  - {name: a, cron: 0 1 * * *, task: t}\n",
        "6:12: name `a` is already used in line 5",
    );
}

#[test]
fn schedule_action_fits_extension_kind() {
    check_schedule("name: a\ncron: 0 0 * * *\nprompt: Look.", {
        "7:5: `schedules[0].prompt` is for agents; a library has `task` and `tool`"
    });
    let agent = |action: &str, expected: &str| {
        let text = format!("  model: m\nschedules: [{{name: a, cron: 0 0 * * *, {action}}}]\n");
        check_agent(&text, expected);
    };
    agent("task: t", "5:40: `schedules[0].task` is for libraries; an agent has `prompt`");
    agent("tool: t", {
        "5:40: `schedules[0].tool` is for extensions with tools of their own; an agent has `prompt`"
    });
    agent("prompt: ' '", {
        "5:48: `schedules[0].prompt` must be text that is not blank, found ` `"
    });
}

#[test]
fn handlers_name_missing_fields() {
    let handler = |entry: &str, expected: &str| {
        check_after_head(&format!("events: {{subscribes: [{{{entry}}}]}}\n"), expected);
    };
    handler("topic: a, handler: tell", {
        "4:43: `events.subscribes[0].handler` must be `notify_user`, `invoke_agent` or `custom`, \
         found `tell`"
    });
    handler("topic: a.*, handler: custom", {
        "4:31: `events.subscribes[0].topic` must be a topic without `*`, or `*` alone; `skill` \
         also matches `skill.added`, found `a.*`"
    });
    handler("topic: a, text: b", {
        "4:34: `events.subscribes[0].text` is for `handler: notify_user`"
    });
    handler("topic: a, handler: custom, prompt: b", {
        "4:51: `events.subscribes[0].prompt` is for `handler: invoke_agent`"
    });
    handler("topic: a, timeout_ms: 5", {
        "4:34: `events.subscribes[0].timeout_ms` is for a `handler`"
    });
    handler("topic: a, handler: invoke_agent", {
        "4:23: `events.subscribes[0].prompt` is missing"
    });
    handler("topic: a, handler: invoke_agent, prompt: b", {
        "4:23: `events.subscribes[0].agent` is missing"
    });
    handler("topic: a, handler: notify_user, text: 'a {{ b'", {
        "4:62: `events.subscribes[0].text` is not a valid Jinja template: unexpected end of input, \
         expected end of variable block"
    });
    check_agent("  model: m\nevents: {subscribes: [{topic: a, handler: custom}]}\n", {
        "5:34: `events.subscribes[0].handler` is for libraries if it is `custom`; write \
         `notify_user` or `invoke_agent`"
    });
}

#[test]
fn duplicate_fields_are_errors() {
    check_after_head("id: b\n", "4:1: duplicate field `id`; first used in line 1");
    check_after_head("config: {x: {y: 1, y: 2}}\n", {
        "4:20: duplicate field `y`; first used in line 4"
    });
}

#[test]
fn missing_fields_are_named() {
    check("version: 1\n", {
        "1:1: `id` is missing\n\
         1:1: `name` is missing\n\
         1:1: `entrypoint` (of a library or a process) or `agent` (of a declarative agent) is missing"
    });
    check_after_head("depends_on: [{optional: true}]\n", "4:14: `depends_on[0].id` is missing");
}

#[test]
fn library_and_agent_exclude_each_other() {
    let message = "`entrypoint` and `agent` exclude each other; an extension is one or the other";
    check("id: a\nname: N\nentrypoint: a\nagent: {}\n", &format!("4:1: {message}"));
    check("id: a\nname: N\nagent: {}\nentrypoint: a\n", &format!("4:1: {message}"));
    let hash = "0".repeat(64);
    let tool = "agent: {integration_mode: tool}";
    check(&format!("id: a\nname: N\n{tool}\nmcp: {{tools: [a, read]}}\n"), {
        "4:18: `mcp.tools[1]` must be `a`: an agent exports itself alone"
    });
    check("id: a\nname: N\nagent: {}\nmcp: {tools: [read]}\n", {
        "4:1: `mcp` is for extensions with code and agents with `integration_mode: tool`"
    });
    check(&format!("id: a\nname: N\nagent: {{}}\nsha256: {hash}\n"), {
        "4:1: `sha256` requires a library or a process; this extension is an agent"
    });
}

#[test]
fn wrong_types_name_expected_and_found() {
    let cases = [
        ("description: 12", "4:14: `description` must be text, found a number; put it in quotes"),
        (
            "description: true",
            "4:14: `description` must be text, found a boolean; put it in quotes",
        ),
        ("description:", "4:12: `description` must be text, found no value"),
        ("description: [x]", "4:14: `description` must be text, found a list"),
        ("version: [1]", "4:10: `version` must be text, found a list"),
        ("depends_on: kv", "4:13: `depends_on` must be a list, found text"),
        (
            "depends_on: [1]",
            "4:14: `depends_on[0]` must be text or a mapping with `id` and `optional`, found a \
             number; put it in quotes",
        ),
        ("depends_on: [{id: b, optional: maybe}]", {
            "4:32: `depends_on[0].optional` must be `true` or `false`, found text"
        }),
        ("config: [x]", "4:9: `config` must be a mapping, found a list"),
        ("config: ~", "4:9: `config` must be a mapping, found no value"),
        ("secrets: [A, [b]]", {
            "4:14: `secrets[1]` must be text or a mapping with `name` and `optional`, found a list"
        }),
        ("enabled: yes", "4:10: `enabled` must be `true` or `false`, found text"),
        ("enabled: 1", "4:10: `enabled` must be `true` or `false`, found a number"),
        ("events: [x]", {
            "4:9: `events` must be a mapping with `publishes` and `subscribes`, found a list"
        }),
        ("events: {publishes: x}", "4:21: `events.publishes` must be a list, found text"),
        ("events: {subscribes: [[]]}", {
            "4:23: `events.subscribes[0]` must be text or a mapping with `topic` and \
             `handler`, found a list"
        }),
    ];
    for (line, expected) in cases {
        check_after_head(&format!("{line}\n"), expected);
    }
    check("id: a\nname: N\nagent:\n", "3:6: `agent` must be a mapping, found no value");
    let cases = [
        ("model: 5", "4:10: `agent.model` must be text, found a number; put it in quotes"),
        ("parallel_tool_calls: on", {
            "4:24: `agent.parallel_tool_calls` must be `true` or `false`, found text"
        }),
        ("parameters: x", "4:15: `agent.parameters` must be a mapping, found text"),
        ("uses_skills: x", "4:16: `agent.uses_skills` must be a list, found text"),
        ("uses_skills: [x, 1.0]", {
            "4:20: `agent.uses_skills[1]` must be text, found a number; put it in quotes"
        }),
        ("integration_mode: [tool]", {
            "4:21: `agent.integration_mode` must be `standalone` or `tool`, found a list"
        }),
        ("catalog: 5", {
            "4:12: `agent.catalog` must be `all`, `declared`, `none`, a list of globs or a mapping \
             with `include` and `exclude`, found a number"
        }),
        ("limits: 5", "4:11: `agent.limits` must be a mapping, found a number"),
        ("limits: {max_turns: '5'}", {
            "4:23: `agent.limits.max_turns` must be a whole number from 1 to 4294967295, found text"
        }),
    ];
    for (line, expected) in cases {
        check_agent(&format!("  {line}\n"), expected);
    }
}

#[test]
fn invalid_values_are_quoted_with_rule() {
    check("id: My Ext\nname: N\nentrypoint: a\n", {
        "1:5: `id` must be a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and \
         `-`, found `My Ext`"
    });
    check("id: a\nname: ' '\nentrypoint: a\n", {
        "2:7: `name` must be one line of text that is not blank, found ` `"
    });
    check("id: a\nname: N\nentrypoint: ../a.so\n", {
        "3:13: `entrypoint` must be the library's base name, of letters, digits, `_` and `-`, \
         without `lib` and `.so`, found `../a.so`"
    });
    let cases = [
        ("version: v1", {
            "4:10: `version` must be a version such as `1`, `1.2` or `1.2.3-beta.1+build`, found \
             `v1`"
        }),
        (
            "mcp: {tools: [read skill]}",
            "4:15: `mcp.tools[0]` must be a tool's name, of 1 to 64 letters, digits, `_`, `-` and \
             `.`, found `read skill`",
        ),
        ("sha256: abc", "4:9: `sha256` must be 64 hexadecimal digits, found `abc`"),
        ("secrets: [9A]", {
            "4:11: `secrets[0]` must be the name of a secret, of letters, digits and `_`, not \
             beginning with a digit, found `9A`"
        }),
        ("events: {publishes: [a b]}", {
            "4:22: `events.publishes[0]` must be a topic of letters, digits, `_`, `-`, `.` and \
             `*`, found `a b`"
        }),
    ];
    for (line, expected) in cases {
        check_after_head(&format!("{line}\n"), expected);
    }
    let cases = [
        ("integration_mode: handoff", {
            "4:21: `agent.integration_mode` must be `standalone` or `tool`, found `handoff`"
        }),
        ("capability_mode: strict", {
            "4:20: `agent.capability_mode` must be `off`, `report` or `enforce`, found `strict`"
        }),
        ("allowed_tools_mode: deny", {
            "4:23: `agent.allowed_tools_mode` must be `grant` or `restrict`, found `deny`"
        }),
        ("catalog: some", {
            "4:12: `agent.catalog` must be `all`, `declared`, `none`, a list of globs or a mapping \
             with `include` and `exclude`, found `some`"
        }),
        ("catalog: ['a[']", {
            "4:13: `agent.catalog[0]` must be a glob such as `review-*`, found `a[`"
        }),
        ("catalog: {include: ['a[']}", {
            "4:23: `agent.catalog.include[0]` must be a glob such as `review-*`, found `a[`"
        }),
        ("uses_tools: [a b]", {
            "4:16: `agent.uses_tools[0]` must be a tool's name, of 1 to 64 letters, digits, `_`, `-` \
             and `.`, found `a b`"
        }),
        ("uses_skills: ['']", {
            "4:17: `agent.uses_skills[0]` must be a skill's id: one line of at most 256 bytes, \
             found ``"
        }),
        ("limits: {time_budget_ms: 1.5}", {
            "4:28: `agent.limits.time_budget_ms` must be a whole number from 1 up, found `1.5`"
        }),
    ];
    for (line, expected) in cases {
        check_agent(&format!("  {line}\n"), expected);
    }
    for value in ["0", "-3", "4294967296", "99999999999999999999999", "1e400"] {
        let found = match value {
            "1e400" => "found text".to_owned(),
            number => format!("found `{number}`"),
        };
        check_agent(&format!("  limits:\n    max_turns: {value}\n"), &{
            format!(
                "5:16: `agent.limits.max_turns` must be a whole number from 1 to 4294967295, \
                 {found}"
            )
        });
    }
}

#[test]
fn self_and_duplicate_dependencies_are_errors() {
    check_after_head("depends_on:\n  - b\n  - a\n  - {id: b, optional: true}\n", {
        "6:5: `a` cannot depend on itself\n\
         7:5: `b` is already listed in line 5"
    });
}

#[test]
fn independent_errors_are_sorted_by_position() {
    check(
        "\
id: Bad
nam: N
agent:
  modle: x
  limits: {max_turns: 0, time_budget: 4}
secrets: [ok, 1, not ok]
depends_on: [{id: '1'}, b, b]
enabled: perhaps
enabled: true
",
        "\
1:5: `id` must be a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and `-`, found `Bad`
2:1: unknown field `nam`; did you mean `name`?
4:3: unknown field `modle`; did you mean `model`?
5:23: `agent.limits.max_turns` must be a whole number from 1 to 4294967295, found `0`
5:26: unknown field `time_budget`; did you mean `time_budget_ms`?
6:15: `secrets[1]` must be text or a mapping with `name` and `optional`, found a number; put it in quotes
6:18: `secrets[2]` must be the name of a secret, of letters, digits and `_`, not beginning with a digit, found `not ok`
7:19: `depends_on[0].id` must be a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and `-`, found `1`
7:28: `b` is already listed in line 7
8:10: `enabled` must be `true` or `false`, found text
9:1: duplicate field `enabled`; first used in line 8",
    );
}

#[test]
fn manifest_errors_carry_data() {
    let errors = parse_manifest("id: a\nname: 5\nentrypoint: a\n").unwrap_err();
    let kinds: Vec<_> =
        errors.iter().map(|error| (&error.kind, error.line, error.column)).collect();
    let wrong_type = ManifestErrorKind::WrongType {
        field: "name".to_owned(),
        expected: "text",
        found: YamlType::Number,
    };
    assert_eq!(kinds, [(&wrong_type, 2, 7)]);
    assert_eq!(errors.as_slice().len(), (&errors).into_iter().count());
    assert_eq!(errors.clone().into_iter().collect::<Vec<_>>(), errors.as_slice());
}

#[test]
fn hostile_text_exceeds_limits() {
    let large = format!("# {}\n", "x".repeat(256 * 1024));
    check(&large, "1:1: the manifest has 262147 bytes, the limit is 262144");

    let deep = |depth: usize| {
        format!(
            "id: a\nname: N\nentrypoint: a\nconfig: {}{}\n",
            { "{a: ".repeat(depth) },
            "}".repeat(depth)
        )
    };
    assert_eq!(
        parse_manifest(&deep(31)).map(|manifest| manifest.id),
        Ok(ExtensionId::new("a").unwrap())
    );
    check(&deep(32), "4:133: lists and mappings are nested more than 32 deep");
    check(&"[".repeat(200_000), "1:256: lists and mappings are nested more than 32 deep");
    check(&"- ".repeat(100_000), "1:65: lists and mappings are nested more than 32 deep");

    let mut many = "id: a\nname: N\nentrypoint: a\nconfig:\n".to_owned();
    for number in 0..2_495 {
        writeln!(many, "  k{number}: x").unwrap();
    }
    assert_eq!(
        parse_manifest(&many).map(|manifest| manifest.id),
        Ok(ExtensionId::new("a").unwrap())
    );
    many.push_str("  k: x\n");
    check(&many, "2500:6: the manifest has more than 5000 keys and values");

    let laughs = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n";
    check(laughs, {
        "1:4: anchors and aliases (`&` and `*`) are not supported in manifests; repeat the value"
    });
}
