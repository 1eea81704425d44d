//! Tests of behavior that all commands share: help, streams, color, pipes, usage errors.

use std::process::Stdio;

use test_support::{Output, TestHome};

use crate::fixtures::{home, skill_md, untrusted_home};

const COMMANDS: [&[&str]; 58] = [
    &[],
    &["run"],
    &["ask"],
    &["chat"],
    &["thread", "list"],
    &["thread", "show"],
    &["agent"],
    &["agent", "list"],
    &["agent", "show"],
    &["extension"],
    &["extension", "list"],
    &["extension", "doctor"],
    &["extension", "reload"],
    &["extension", "new"],
    &["event", "tail"],
    &["event", "dead-letters"],
    &["event", "retry"],
    &["schedule", "list"],
    &["schedule", "run"],
    &["tool"],
    &["tool", "list"],
    &["tool", "show"],
    &["tool", "call"],
    &["skill"],
    &["skill", "list"],
    &["skill", "show"],
    &["skill", "read"],
    &["skill", "validate"],
    &["skill", "lint"],
    &["skill", "fmt"],
    &["skill", "new"],
    &["skill", "rules"],
    &["skill", "cost"],
    &["skill", "doctor"],
    &["skill", "explain"],
    &["skill", "graph"],
    &["skill", "render"],
    &["skill", "roles"],
    &["skill", "export"],
    &["skill", "proposal", "list"],
    &["skill", "proposal", "review"],
    &["skill", "proposal", "approve"],
    &["skill", "proposal", "reject"],
    &["skill", "proposal", "rebase"],
    &["skill", "read-properties"],
    &["skill", "to-prompt"],
    &["model", "list"],
    &["model", "check"],
    &["mcp"],
    &["mcp", "serve"],
    &["mcp", "config"],
    &["config"],
    &["config", "show"],
    &["schema"],
    &["init"],
    &["trust"],
    &["completions"],
    &["man"],
];

#[test]
fn help_requires_no_home() {
    let home = TestHome::new();
    for command in COMMANDS {
        let mut started = home.command();
        let output = home.start(started.current_dir("/").args(command).arg("--help")).finish();
        assert_eq!((output.status, &*output.stderr), (0, ""), "{command:?}");
        let words: Vec<_> = ["skillhost"].iter().chain(command).copied().collect();
        let usage = format!("Usage: {}", words.join(" "));
        assert!(output.stdout.contains(&usage), "{command:?}: {output}");
        assert!(output.stdout.contains("      --json"), "{command:?}: {output}");
    }
    insta::assert_snapshot!(home.skillhost(["--help"]), @"
    exit 0
    --- stdout
    A nano-kernel for AI agents and a registry for Agent Skills.

    Exit codes: 0 success, 1 findings, 2 usage error, 3 not found, 4 conflict, 5 I/O or permission
    error, 70 crash limit of a supervised kernel reached, 75 restart requested, 130 interrupted.

    Usage: skillhost [OPTIONS] <COMMAND>

    Commands:
      run          Run all services until interrupted, one line per event
      status       Print the state of the kernel and what waits for you
      stop         Stop the running kernel and wait for its end
      console      Print an address that logs in to the web console
      logs         Print the log of the kernel
      backup       Write a backup of the home; a kernel may run
      restore      Restore a backup to a home
      service      Define a service that runs the kernel
      ask          Send one message to an agent and print the reply
      chat         Chat with an agent
      thread       List and show stored threads
      task         Submit, list, cancel and retry background tasks
      inbox        List and decide the questions that wait for you
      channel      List channels and the people who may write on them
      event        Show events and retry failed deliveries
      agent        List and show agents
      extension    Create, build, approve, reload and inspect extensions [alias: ext]
      schedule     List schedules and run them on demand
      tool         List and call tools
      skill        Search, check, format and review skills; loads no extension
      mcp          Serve the registry with the Model Context Protocol
      model        List models and check whether they answer
      config       Print the settings in force and their sources
      schema       Print the JSON Schema of a file
      init         Create a home with the shipped skills and manifests
      trust        Trust a home, so that its extensions are loaded
      completions  Print a completion script
      man          Write manual pages, one per command
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Global options:
          --home <DIR>
              Home directory, which has a sandbox/ [env: SKILLHOST_HOME] [default: the nearest parent
              directory with a sandbox/, else the user's data directory]

          --trust-home
              Load extensions of an untrusted home, for this call only

          --json
              Print one JSON object instead of text

          --color <WHEN>
              Use of colors in the output; `auto` respects NO_COLOR and CLICOLOR_FORCE

              Possible values:
              - auto:   Where the output is a terminal that shows them
              - always: Always
              - never:  Never
              
              [default: auto]

      -q, --quiet
              Print no notes and log errors only

      -v, --verbose...
              Log more; `-vv` for debug events

          --log <FILTER>
              Filter for log events on stderr, such as `info` or `extension=debug` [default: warn]
              
              [env: SKILLHOST_LOG=]

          --log-format <FORMAT>
              Format of log events

              Possible values:
              - text: Lines of text
              - json: JSON lines
              
              [default: text]
    ");
    insta::assert_snapshot!(home.skillhost(["-V"]), @"
    exit 0
    --- stdout
    skillhost 0.1.0
    ");
    // The second line is that of a program with bundled extensions.
    let version = home.skillhost(["--version"]).success().stdout;
    let ids =
        "bundled: core_tools, echo, embedding, skill_registry, telegram, web_search, webhook\n";
    assert_eq!(version.replace(ids, ""), "skillhost 0.1.0\n");
}

#[test]
fn usage_error_exits_with_two() {
    let home = home();
    insta::assert_snapshot!(home.skillhost(["skil", "list"]), @"
    exit 2
    --- stderr
    error: unrecognized subcommand 'skil'

      tip: some similar subcommands exist: 'ask', 'skill'

    Usage: skillhost [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    let wrong: [&[&str]; 7] = [
        &[],
        &["skill"],
        &["ask"],
        &["tool", "call"],
        &["agent", "show"],
        &["skill", "list", "--tag"],
        &["--nonsense", "run"],
    ];
    for command in wrong {
        let output = home.skillhost(command).exits(2);
        assert_eq!(output.stdout, "", "{command:?}");
        let has_usage_hint =
            output.stderr.contains("Usage: skillhost") || output.stderr.contains("--help");
        assert!(has_usage_hint, "{command:?}: {output}");
    }
    insta::assert_snapshot!(home.skillhost(["--log", "a=b=c", "skill", "list"]), @r#"
    exit 2
    --- stderr
    error: --log a=b=c: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5
    hint: such as `info`, or `warn,extension=debug`
    "#);
}

#[test]
fn usage_error_as_json() {
    let output = TestHome::new().skillhost(["skil", "--json"]).exits(2);
    assert_eq!(output.stdout, "");
    let error: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
    assert_eq!(error["schema_version"], 1);
    assert_eq!(error["error"]["kind"], "usage");
    assert_eq!(error["error"]["message"], "unrecognized subcommand 'skil'");
}

#[test]
fn completions_cover_every_shell() {
    let home = TestHome::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = home.skillhost(["completions", shell]).success();
        assert!(
            output.stdout.contains("skillhost") && output.stdout.contains("SKILLHOST_COMPLETE"),
            "{shell}"
        );
        assert_eq!(output.stderr, "");
    }
    // bash is installed wherever the tests run; it only parses the script.
    let script = home.outside().join("completions.bash");
    std::fs::write(&script, home.skillhost(["completions", "bash"]).stdout).unwrap();
    let bash = std::path::Path::new("/bin/bash");
    if bash.exists() {
        let mut command = home.command_of(bash);
        let output = home.start(command.arg("-n").arg(&script)).finish();
        assert_eq!(output.success().stderr, "");
    }
    home.skillhost(["completions", "tcsh"]).exits(2);
}

#[test]
fn color_requires_terminal_or_force() {
    let home = home();
    let run = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = home.command();
        command.env_remove("NO_COLOR").envs(variables.iter().copied()).args(args);
        home.start(&mut command).finish()
    };
    for args in [&["skill", "list"][..], &["ext", "doctor"], &["skill", "read", "gret"]] {
        let colored = |variables: &[(&str, &str)]| {
            let output = run(variables, args);
            output.stdout.contains('\u{1b}') || output.stderr.contains('\u{1b}')
        };
        assert!(!colored(&[]), "a pipe is no terminal: {args:?}");
        assert!(colored(&[("CLICOLOR_FORCE", "1")]), "{args:?}");
        assert!(!colored(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "{args:?}");
    }
    // Data has no colors, even where they are forced.
    let json = run(&[("CLICOLOR_FORCE", "1")], &["skill", "list", "--json"]).success();
    assert!(!json.stdout.contains('\u{1b}'));
}

#[test]
fn color_option_beats_variables() {
    let home = home();
    let run = |variable: &str, args: &[&str]| {
        let mut command = home.command();
        command.env_remove("NO_COLOR").env(variable, "1").args(args).args(["skill", "list"]);
        home.start(&mut command).finish()
    };
    let colored = |output: &Output| output.stdout.contains('\u{1b}');
    assert!(colored(&run("NO_COLOR", &["--color", "always"]).success()));
    assert!(!colored(&run("CLICOLOR_FORCE", &["--color", "never"]).success()));
    assert!(colored(&run("CLICOLOR_FORCE", &["--color=auto"]).success()));
    for wrong in ["--color=sometimes", "--color=", "--colour=never"] {
        let output = run("NO_COLOR", &[wrong]).exits(2);
        assert!(output.stdout.is_empty() && output.stderr.starts_with("error: "), "{output}");
    }
}

#[test]
fn quiet_leaves_errors_only() {
    let home = home().skill("mute", "---\nname: mute\n---\nNothing.\n");
    let loud = home.skillhost(["skill", "list"]).success();
    assert!(loud.stderr.starts_with("note: skipped "), "{loud}");
    let quiet = home.skillhost(["-q", "skill", "list"]).success();
    assert_eq!((quiet.stdout, &*quiet.stderr), (loud.stdout, ""));
    assert!(
        home.skillhost(["skill", "show", "x", "--quiet"]).exits(3).stderr.starts_with("error: ")
    );
    let call = ["tool", "call", "echo", r#"{"text":"hi"}"#, "-vv"];
    assert!(home.skillhost(call).success().stderr.contains("DEBUG"));
}

#[test]
fn lists_have_short_name() {
    let home = home();
    let lists: [&[&str]; 7] = [
        &["skill", "list"],
        &["skill", "proposal", "list"],
        &["ext", "list"],
        &["agent", "list"],
        &["tool", "list"],
        &["model", "list"],
        &["thread", "list"],
    ];
    for list in lists {
        let short: Vec<&str> =
            list.iter().map(|word| if *word == "list" { "ls" } else { word }).collect();
        assert_eq!(home.skillhost(&short).success(), home.skillhost(list).success());
    }
}

#[test]
fn working_directory_replaces_missing_home() {
    let home = home();
    let skills = home.outside().join("user/repository/skills");
    for (name, about) in [("tea", "Brews tea. Use when thirsty."), ("rice", "Cooks rice.")] {
        std::fs::create_dir_all(skills.join(name)).unwrap();
        std::fs::write(skills.join(name).join("SKILL.md"), skill_md(about, "Boil water.")).unwrap();
    }
    let run = |directory: &std::path::Path, args: &[&str]| {
        let mut command = home.command();
        home.start(command.current_dir(directory).args(args)).finish()
    };
    let repository = skills.parent().unwrap();
    for args in [&["skill", "list"][..], &["skill", "search", "tea"], &["skill", "show", "tea"]] {
        let output = run(repository, args).success();
        assert!(output.stdout.contains("Brews tea."), "{output}");
        let note = "note: no home here: these are the skills in ";
        assert!(output.stderr.starts_with(note), "{output}");
        let json = run(repository, &[args, &["--json"]].concat()).success();
        assert!(json.json().is_object() && json.stdout.contains("tea"), "{json}");
    }
    assert_eq!(
        run(repository, &["skill", "read", "te"]).success().stdout.matches("Boil").count(),
        1
    );
    // The directory of a skill shows it with those next to it.
    assert!(run(&skills.join("tea"), &["skill", "list"]).success().stdout.contains("rice"));
    // Commands that change something, and a home that is named, are not replaced.
    run(repository, &["skill", "enable", "tea"]).exits(3);
    run(repository, &["skill", "history", "tea"]).exits(3);
    run(repository, &["skill", "list", "--home", "/nonexistent"]).exits(3);
}

#[test]
fn closed_stdout_is_not_an_error() {
    let home = home().file("sandbox/skills/greet/long.txt", "line\n".repeat(100_000));
    let commands: [&[&str]; 6] = [
        &["skill", "list"],
        &["skill", "list", "--json"],
        &["skill", "resource", "greet", "long.txt"],
        &["ext", "list"],
        &["tool", "call", "list_skills"],
        &["completions", "bash"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = home.command();
        let child = command.args(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        // `command` holds a write end of the pipe as well.
        drop(command);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn json_output_is_one_versioned_object() {
    let home = home().manifest("plain", "id: plain\nname: Plain\nagent: {instructions: Hi.}\n");
    let good: [&[&str]; 16] = [
        &["ask", "--agent", "plain", "hi"],
        &["threads", "list"],
        &["ask", "--print-prompt", "--agent", "plain", "hi"],
        &["agent", "list"],
        &["agent", "show", "plain"],
        &["ext", "list"],
        &["ext", "doctor"],
        &["tool", "list"],
        &["tool", "call", "list_skills"],
        &["skill", "list"],
        &["skill", "read", "greet"],
        &["models", "list"],
        &["models", "check"],
        &["config"],
        &["config", "show"],
        &["trust", "--list"],
    ];
    for args in good {
        let output = home.skillhost(args.iter().chain(&["--json"])).success();
        assert_eq!(output.json()["schema_version"], 1, "{args:?}: {output}");
        assert_eq!((output.stdout.lines().count(), &*output.stderr), (1, ""), "{args:?}");
    }
    let bad: [(&[&str], i32); 6] = [
        (&["ask", "hi"], 3),
        (&["agent", "show", "x"], 3),
        (&["tool", "call", "x"], 3),
        (&["tool", "call", "echo", "["], 2),
        (&["skill", "read", "x"], 3),
        (&["ext", "reload", "echo"], 3),
    ];
    for (args, code) in bad {
        let output = home.skillhost(args.iter().chain(&["--json"])).exits(code);
        assert_eq!(output.stdout, "", "{args:?}");
        let error: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
        assert_eq!(error["schema_version"], 1, "{args:?}");
        assert!(error["error"]["message"].is_string(), "{args:?}: {output}");
    }
}

#[test]
fn logs_are_off_by_default() {
    let home = home();
    let call = ["tool", "call", "echo", r#"{"text":"hi"}"#];
    assert_eq!(home.skillhost(call).success().stderr, "");
    let plain = home.skillhost(["--log", "debug"].iter().chain(&call)).success();
    assert_eq!(plain.stdout, "hi\n");
    assert!(plain.stderr.contains("DEBUG"), "{plain}");
    for format in [&["--log-format", "json"][..], &["--log-json"]] {
        let args = ["--log", "debug"].iter().chain(format).chain(&call);
        let json = home.skillhost(args).success();
        for line in json.stderr.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(event["level"].is_string(), "{format:?}: {line}");
        }
        assert!(json.stderr.contains("\"echo\""), "the extension's own event: {json}");
    }
    let variable = home.start(home.command().env("SKILLHOST_LOG", "debug").args(call)).finish();
    assert!(variable.success().stderr.contains("DEBUG"));
}

#[test]
fn untrusted_home_reads_no_stdin() {
    // A prompt would block on standard input that stays open.
    let home = untrusted_home();
    let (_writer, reader) = {
        let (reader, writer) = std::io::pipe().unwrap();
        (writer, reader)
    };
    let output = home.start(home.command().args(["ext", "list"]).stdin(reader)).finish();
    output.exits(5);
}
