//! Snapshots of lists at several widths of the terminal, with and without colors.

use std::fmt::Write as _;

use test_support::TestHome;

use crate::fixtures::{home, skill_md, start_kernel};

const WIDTHS: [u16; 4] = [60, 80, 120, 200];

/// Runs a command on a terminal and returns what it shows, with control sequences as `\e[…m`.
fn show(home: &TestHome, args: &[&str], width: u16, color: &str) -> String {
    show_with_code(home, args, width, color, 0)
}

fn show_with_code(home: &TestHome, args: &[&str], width: u16, color: &str, code: i32) -> String {
    let mut command = home.command();
    let terminal = home.on_terminal(command.args(["--color", color]).args(args), (width, 100));
    let left = terminal.finish();
    assert_eq!(left.output.status, code, "{}", left.output);
    let shown = String::from_utf8(left.bytes).unwrap().replace("\r\n", "\n");
    let root = home.root().display().to_string();
    shown.replace(&root, "[HOME]").replace('\u{1b}', "\\e")
}

/// Removes the styles from a text.
fn plain(text: &str) -> String {
    let mut parts = text.split("\\e[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// Returns the output at every width, and with colors at one. At each width both show the same, and
/// only a word without a blank may be wider than the terminal.
fn widths(home: &TestHome, args: &[&str]) -> String {
    widths_of(home, args, 0, &str::to_owned)
}

/// Returns the output as [`widths`] does, for a command that ends with an exit code and whose output
/// has parts that `normalize` removes.
fn widths_of(
    home: &TestHome,
    args: &[&str],
    code: i32,
    normalize: &dyn Fn(&str) -> String,
) -> String {
    let mut text = String::new();
    for width in WIDTHS {
        let shown = show_with_code(home, args, width, "never", code);
        let colored = show_with_code(home, args, width, "always", code);
        assert!(!shown.contains("\\e"), "{shown}");
        assert_eq!(normalize(&plain(&colored)), normalize(&shown), "{width}");
        for line in shown.lines().filter(|line| line.chars().count() > usize::from(width)) {
            let words = line.split_whitespace().count();
            assert!(words <= 2, "{width}: {line}");
        }
        let _ = write!(text, "== {width} columns\n{}", normalize(&shown));
        if width == 80 {
            let _ = write!(text, "== {width} columns, with colors\n{}", normalize(&colored));
        }
    }
    text
}

fn filled_home() -> TestHome {
    home()
        .skill(
            "release-notes",
            &skill_md(
                "Writes release notes from merged changes, grouped by what they mean for users. Use \
                 when a release is prepared or a changelog is asked for.",
                "One line per change.",
            ),
        )
        .skill("a-name-of-a-skill-that-is-longer-than-most", &skill_md("Greets loudly.", "Shout."))
        .manifest("plain", "id: plain\nname: Plain\nagent: {instructions: Hi.}\n")
        .settings("extensions:\n  skill_registry: {review: {policy: human}}\n")
}

#[test]
fn unknown_size_counts_as_80_columns() {
    let home = filled_home();
    for args in [&["skill", "list"][..], &["config"], &["ext", "list"]] {
        assert_eq!(show(&home, args, 0, "never"), show(&home, args, 80, "never"));
    }
}

#[test]
fn skill_list_fits_terminal() {
    insta::assert_snapshot!(widths(&filled_home(), &["skill", "list"]), @"
    == 60 columns
    a-name-of-a-skill-that-is-longer-than-most  Greets loudly.
                                      [~2 tokens, sandbox]
    greet                             Greets people. Use when
                                      somebody arrives. [~5
                                      tokens, sandbox]
    release-notes                     Writes release notes from
                                      merged changes, grouped by
                                      what they mean for users.
                                      Use when a release is
                                      prepared or a changelog is
                                      asked for. [~6 tokens,
                                      sandbox]
    note: 3 warnings; `skillhost skill show ID` prints those of
          a skill
    == 80 columns
    a-name-of-a-skill-that-is-longer-than-most  Greets loudly. [~2 tokens, sandbox]
    greet                             Greets people. Use when somebody arrives. [~5
                                      tokens, sandbox]
    release-notes                     Writes release notes from merged changes,
                                      grouped by what they mean for users. Use when
                                      a release is prepared or a changelog is asked
                                      for. [~6 tokens, sandbox]
    note: 3 warnings; `skillhost skill show ID` prints those of a skill
    == 80 columns, with colors
    \\e[1ma-name-of-a-skill-that-is-longer-than-most\\e[0m  Greets loudly. \\e[2m[~2 tokens, sandbox]\\e[0m
    \\e[1mgreet\\e[0m                             Greets people. Use when somebody arrives. \\e[2m[~5
                                      tokens, sandbox]\\e[0m
    \\e[1mrelease-notes\\e[0m                     Writes release notes from merged changes,
                                      grouped by what they mean for users. Use when
                                      a release is prepared or a changelog is asked
                                      for. \\e[2m[~6 tokens, sandbox]\\e[0m
    \\e[33mnote\\e[0m: 3 warnings; `skillhost skill show ID` prints those of a skill
    == 120 columns
    a-name-of-a-skill-that-is-longer-than-most  Greets loudly. [~2 tokens, sandbox]
    greet                             Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    release-notes                     Writes release notes from merged changes, grouped by what they mean for users. Use
                                      when a release is prepared or a changelog is asked for. [~6 tokens, sandbox]
    note: 3 warnings; `skillhost skill show ID` prints those of a skill
    == 200 columns
    a-name-of-a-skill-that-is-longer-than-most  Greets loudly. [~2 tokens, sandbox]
    greet                             Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    release-notes                     Writes release notes from merged changes, grouped by what they mean for users. Use when a release is prepared or a changelog is asked for. [~6 tokens, sandbox]
    note: 3 warnings; `skillhost skill show ID` prints those of a skill
    ");
}

#[test]
fn skill_search_fits_terminal() {
    let home = filled_home();
    insta::assert_snapshot!(widths(&home, &["skill", "search", "notes for a release"]), @"
    == 60 columns
    release-notes   23.53  Writes release notes from merged
                           changes, grouped by what they mean
                           for users. Use when a release is
                           prepared or a changelog is asked for.
                           [name, description]
    note: 3 warnings; `skillhost skill show ID` prints those of
          a skill
    == 80 columns
    release-notes   23.53  Writes release notes from merged changes, grouped by what
                           they mean for users. Use when a release is prepared or a
                           changelog is asked for. [name, description]
    note: 3 warnings; `skillhost skill show ID` prints those of a skill
    == 80 columns, with colors
    \\e[1mrelease-notes\\e[0m   23.53  Writes release notes from merged changes, grouped by what
                           they mean for users. Use when a release is prepared or a
                           changelog is asked for. \\e[2m[name, description]\\e[0m
    \\e[33mnote\\e[0m: 3 warnings; `skillhost skill show ID` prints those of a skill
    == 120 columns
    release-notes   23.53  Writes release notes from merged changes, grouped by what they mean for users. Use when a release
                           is prepared or a changelog is asked for. [name, description]
    note: 3 warnings; `skillhost skill show ID` prints those of a skill
    == 200 columns
    release-notes   23.53  Writes release notes from merged changes, grouped by what they mean for users. Use when a release is prepared or a changelog is asked for. [name, description]
    note: 3 warnings; `skillhost skill show ID` prints those of a skill
    ");
    let shown = show(&home, &["skill", "search", "--explain", "greet release"], 80, "never");
    let (_, explained) = shown.split_once("\n\n").unwrap();
    insta::assert_snapshot!(explained.lines().take(4).collect::<Vec<_>>().join("\n"), @"
    release-notes has \"releas\" in its name and description.
    greet has \"greet\" in its name and description.
    a-name-of-a-skill-that-is-longer-than-most has \"greet\" in its description.
    ");
}

#[test]
fn ext_list_fits_terminal() {
    insta::assert_snapshot!(widths(&filled_home(), &["ext", "list"]), @"
    == 60 columns
    EXTENSION       STATE   VERSION  PROVIDES
    echo            loaded  0.1.0    tools echo, context 200,
                                     service
    skill_registry  loaded  0.1.0    tools list_skills
                                     read_skill
                                     read_skill_resource
                                     skills.load skills.unload
                                     skills.read
                                     propose_skill_update
                                     explain_catalog, context
                                     60, service, skill
    plain           loaded           agent
    note: `skill_registry` optionally depends on `embedding`,
          which does not exist
    == 80 columns
    EXTENSION       STATE   VERSION  PROVIDES
    echo            loaded  0.1.0    tools echo, context 200, service
    skill_registry  loaded  0.1.0    tools list_skills read_skill
                                     read_skill_resource skills.load skills.unload
                                     skills.read propose_skill_update
                                     explain_catalog, context 60, service, skill
    plain           loaded           agent
    note: `skill_registry` optionally depends on `embedding`, which does not exist
    == 80 columns, with colors
    \\e[1mEXTENSION       STATE   VERSION  PROVIDES\\e[0m
    echo            loaded  0.1.0    tools echo, context 200, service
    skill_registry  loaded  0.1.0    tools list_skills read_skill
                                     read_skill_resource skills.load skills.unload
                                     skills.read propose_skill_update
                                     explain_catalog, context 60, service, skill
    plain           loaded           agent
    \\e[33mnote\\e[0m: `skill_registry` optionally depends on `embedding`, which does not exist
    == 120 columns
    EXTENSION       STATE   VERSION  PROVIDES
    echo            loaded  0.1.0    tools echo, context 200, service
    skill_registry  loaded  0.1.0    tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read
                                     propose_skill_update explain_catalog, context 60, service, skill
    plain           loaded           agent
    note: `skill_registry` optionally depends on `embedding`, which does not exist
    == 200 columns
    EXTENSION       STATE   VERSION  PROVIDES
    echo            loaded  0.1.0    tools echo, context 200, service
    skill_registry  loaded  0.1.0    tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill
    plain           loaded           agent
    note: `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn config_fits_terminal() {
    let shown = widths(&filled_home(), &["config"]);
    // The place of the sources depends on the machine.
    let sdk = crate::fixtures::repository_root().join("kernel/sdk").display().to_string();
    let lines: Vec<&str> =
        shown.lines().filter(|line| !line.contains("build.sdk") && !line.contains(&sdk)).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    == 60 columns
    home  [HOME] (ancestor, trusted)
    allow_shadowing
      VALUE []  SOURCE default
    build.allow
      VALUE []  SOURCE default
    build.memory_limit_mib
      VALUE 4096  SOURCE default
    build.time_limit_ms
      VALUE 600000  SOURCE default
    events.retry_ms
      VALUE [1000, 5000, 25000]  SOURCE default
    extensions.echo.greeting
      VALUE \"\"  SOURCE manifests/echo/manifest.yaml
    extensions.skill_registry.ignore
      VALUE []  SOURCE default
    extensions.skill_registry.l1_budget_chars
      VALUE 8000  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.l1_full_limit
      VALUE 40  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.poll_interval_ms
      VALUE 5000  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.review
      VALUE {\"policy\": \"human\"}  SOURCE skillhost.yaml
    extensions.skill_registry.review.agent
      VALUE \"reviewer_agent\"  SOURCE default
    extensions.skill_registry.review.checks
      VALUE {\"routing\": \"require\"}  SOURCE default
    extensions.skill_registry.review.timeout_ms
      VALUE 300000  SOURCE default
    extensions.skill_registry.roots
      VALUE   [{\"label\": \"sandbox\", \"path\": \"sandbox/skills\",
              \"trust\": \"operator\"}]
      SOURCE  manifests/skill_registry/manifest.yaml
    extensions.skill_registry.search_embeddings
      VALUE \"off\"  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.skills
      VALUE {}  SOURCE default
    mcp.catalog
      VALUE \"all\"  SOURCE default
    mcp.consent
      VALUE \"off\"  SOURCE default
    mcp.review
      VALUE \"off\"  SOURCE default
    models.default
      VALUE \"script/demo\"  SOURCE default
    processes.memory_limit_mib
      VALUE 1024  SOURCE default
    sandbox.unsandboxed
      VALUE []  SOURCE default
    supervisor.crashes
      VALUE 5  SOURCE default
    supervisor.delay_ms
      VALUE 1000  SOURCE default
    supervisor.silence_ms
      VALUE 30000  SOURCE default
    supervisor.within_ms
      VALUE 300000  SOURCE default
    workspaces
      VALUE []  SOURCE default
    == 80 columns
    home  [HOME] (ancestor, trusted)
    allow_shadowing
      VALUE []  SOURCE default
    build.allow
      VALUE []  SOURCE default
    build.memory_limit_mib
      VALUE 4096  SOURCE default
    build.time_limit_ms
      VALUE 600000  SOURCE default
    events.retry_ms
      VALUE [1000, 5000, 25000]  SOURCE default
    extensions.echo.greeting
      VALUE \"\"  SOURCE manifests/echo/manifest.yaml
    extensions.skill_registry.ignore
      VALUE []  SOURCE default
    extensions.skill_registry.l1_budget_chars
      VALUE 8000  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.l1_full_limit
      VALUE 40  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.poll_interval_ms
      VALUE 5000  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.review
      VALUE {\"policy\": \"human\"}  SOURCE skillhost.yaml
    extensions.skill_registry.review.agent
      VALUE \"reviewer_agent\"  SOURCE default
    extensions.skill_registry.review.checks
      VALUE {\"routing\": \"require\"}  SOURCE default
    extensions.skill_registry.review.timeout_ms
      VALUE 300000  SOURCE default
    extensions.skill_registry.roots
      VALUE   [{\"label\": \"sandbox\", \"path\": \"sandbox/skills\", \"trust\": \"operator\"}]
      SOURCE  manifests/skill_registry/manifest.yaml
    extensions.skill_registry.search_embeddings
      VALUE \"off\"  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.skills
      VALUE {}  SOURCE default
    mcp.catalog
      VALUE \"all\"  SOURCE default
    mcp.consent
      VALUE \"off\"  SOURCE default
    mcp.review
      VALUE \"off\"  SOURCE default
    models.default
      VALUE \"script/demo\"  SOURCE default
    processes.memory_limit_mib
      VALUE 1024  SOURCE default
    sandbox.unsandboxed
      VALUE []  SOURCE default
    supervisor.crashes
      VALUE 5  SOURCE default
    supervisor.delay_ms
      VALUE 1000  SOURCE default
    supervisor.silence_ms
      VALUE 30000  SOURCE default
    supervisor.within_ms
      VALUE 300000  SOURCE default
    workspaces
      VALUE []  SOURCE default
    == 80 columns, with colors
    home  [HOME] \\e[2m(ancestor, trusted)\\e[0m
    allow_shadowing
      VALUE []  SOURCE default
    build.allow
      VALUE []  SOURCE default
    build.memory_limit_mib
      VALUE 4096  SOURCE default
    build.time_limit_ms
      VALUE 600000  SOURCE default
    events.retry_ms
      VALUE [1000, 5000, 25000]  SOURCE default
    extensions.echo.greeting
      VALUE \"\"  SOURCE manifests/echo/manifest.yaml
    extensions.skill_registry.ignore
      VALUE []  SOURCE default
    extensions.skill_registry.l1_budget_chars
      VALUE 8000  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.l1_full_limit
      VALUE 40  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.poll_interval_ms
      VALUE 5000  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.review
      VALUE {\"policy\": \"human\"}  SOURCE skillhost.yaml
    extensions.skill_registry.review.agent
      VALUE \"reviewer_agent\"  SOURCE default
    extensions.skill_registry.review.checks
      VALUE {\"routing\": \"require\"}  SOURCE default
    extensions.skill_registry.review.timeout_ms
      VALUE 300000  SOURCE default
    extensions.skill_registry.roots
      VALUE   [{\"label\": \"sandbox\", \"path\": \"sandbox/skills\", \"trust\": \"operator\"}]
      SOURCE  manifests/skill_registry/manifest.yaml
    extensions.skill_registry.search_embeddings
      VALUE \"off\"  SOURCE manifests/skill_registry/manifest.yaml
    extensions.skill_registry.skills
      VALUE {}  SOURCE default
    mcp.catalog
      VALUE \"all\"  SOURCE default
    mcp.consent
      VALUE \"off\"  SOURCE default
    mcp.review
      VALUE \"off\"  SOURCE default
    models.default
      VALUE \"script/demo\"  SOURCE default
    processes.memory_limit_mib
      VALUE 1024  SOURCE default
    sandbox.unsandboxed
      VALUE []  SOURCE default
    supervisor.crashes
      VALUE 5  SOURCE default
    supervisor.delay_ms
      VALUE 1000  SOURCE default
    supervisor.silence_ms
      VALUE 30000  SOURCE default
    supervisor.within_ms
      VALUE 300000  SOURCE default
    workspaces
      VALUE []  SOURCE default
    == 120 columns
    home  [HOME] (ancestor, trusted)
    KEY                                          VALUE                                SOURCE
    allow_shadowing                              []                                   default
    build.allow                                  []                                   default
    build.memory_limit_mib                       4096                                 default
    build.time_limit_ms                          600000                               default
    events.retry_ms                              [1000, 5000, 25000]                  default
    extensions.echo.greeting                     \"\"                                   manifests/echo/manifest.yaml
    extensions.skill_registry.ignore             []                                   default
    extensions.skill_registry.l1_budget_chars    8000                                 manifests/skill_registry/manifest.yaml
    extensions.skill_registry.l1_full_limit      40                                   manifests/skill_registry/manifest.yaml
    extensions.skill_registry.poll_interval_ms   5000                                 manifests/skill_registry/manifest.yaml
    extensions.skill_registry.review             {\"policy\": \"human\"}                  skillhost.yaml
    extensions.skill_registry.review.agent       \"reviewer_agent\"                     default
    extensions.skill_registry.review.checks      {\"routing\": \"require\"}               default
    extensions.skill_registry.review.timeout_ms  300000                               default
    extensions.skill_registry.roots              [{\"label\": \"sandbox\", \"path\":        manifests/skill_registry/manifest.yaml
                                                 \"sandbox/skills\", \"trust\":
                                                 \"operator\"}]
    extensions.skill_registry.search_embeddings  \"off\"                                manifests/skill_registry/manifest.yaml
    extensions.skill_registry.skills             {}                                   default
    mcp.catalog                                  \"all\"                                default
    mcp.consent                                  \"off\"                                default
    mcp.review                                   \"off\"                                default
    models.default                               \"script/demo\"                        default
    processes.memory_limit_mib                   1024                                 default
    sandbox.unsandboxed                          []                                   default
    supervisor.crashes                           5                                    default
    supervisor.delay_ms                          1000                                 default
    supervisor.silence_ms                        30000                                default
    supervisor.within_ms                         300000                               default
    workspaces                                   []                                   default
    == 200 columns
    home  [HOME] (ancestor, trusted)
    KEY                                          VALUE                                                                  SOURCE
    allow_shadowing                              []                                                                     default
    build.allow                                  []                                                                     default
    build.memory_limit_mib                       4096                                                                   default
    build.time_limit_ms                          600000                                                                 default
    events.retry_ms                              [1000, 5000, 25000]                                                    default
    extensions.echo.greeting                     \"\"                                                                     manifests/echo/manifest.yaml
    extensions.skill_registry.ignore             []                                                                     default
    extensions.skill_registry.l1_budget_chars    8000                                                                   manifests/skill_registry/manifest.yaml
    extensions.skill_registry.l1_full_limit      40                                                                     manifests/skill_registry/manifest.yaml
    extensions.skill_registry.poll_interval_ms   5000                                                                   manifests/skill_registry/manifest.yaml
    extensions.skill_registry.review             {\"policy\": \"human\"}                                                    skillhost.yaml
    extensions.skill_registry.review.agent       \"reviewer_agent\"                                                       default
    extensions.skill_registry.review.checks      {\"routing\": \"require\"}                                                 default
    extensions.skill_registry.review.timeout_ms  300000                                                                 default
    extensions.skill_registry.roots              [{\"label\": \"sandbox\", \"path\": \"sandbox/skills\", \"trust\": \"operator\"}]  manifests/skill_registry/manifest.yaml
    extensions.skill_registry.search_embeddings  \"off\"                                                                  manifests/skill_registry/manifest.yaml
    extensions.skill_registry.skills             {}                                                                     default
    mcp.catalog                                  \"all\"                                                                  default
    mcp.consent                                  \"off\"                                                                  default
    mcp.review                                   \"off\"                                                                  default
    models.default                               \"script/demo\"                                                          default
    processes.memory_limit_mib                   1024                                                                   default
    sandbox.unsandboxed                          []                                                                     default
    supervisor.crashes                           5                                                                      default
    supervisor.delay_ms                          1000                                                                   default
    supervisor.silence_ms                        30000                                                                  default
    supervisor.within_ms                         300000                                                                 default
    workspaces                                   []                                                                     default
    ");
}

/// Removes the paths of the home and of its log, which are of another length on other machines.
fn without_paths(shown: &str) -> String {
    let is_kept = |line: &&str| {
        let is_path = line.contains("[HOME]");
        let name = plain(line);
        !is_path && !matches!(name.trim(), "home" | "log")
    };
    shown.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

/// Joins the lines of the first field and replaces its numbers, whose lengths decide where it is
/// wrapped.
fn normalize_kernel_field(shown: &str) -> String {
    let shown = without_paths(shown);
    let at = shown.find("\nmodel").or_else(|| shown.find("\n\\e[1mmodel")).unwrap();
    let (field, rest) = shown.split_at(at);
    let field = field.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = field.split(' ').map(|word| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let is_version = word.matches('.').count() == 2;
        if is_number && !is_version { "N" } else { word }
    });
    let field = words.collect::<Vec<_>>().join(" ");
    field + rest
}

#[test]
fn status_fits_terminal() {
    let home = filled_home()
        .manifest("broken", "id: broken\nname: [\n")
        .extension("new", "id: new\nname: New\nagent:\n  instructions: Wait.\n");
    insta::assert_snapshot!(widths_of(&home, &["status"], 3, &without_paths), @r#"
    == 60 columns
    kernel      not running; start it: skillhost run
    model       script/demo
    manifests   echo, plain, skill_registry
    waiting     approval of the extension `new`: skillhost ext
                approve new
    == 80 columns
    kernel      not running; start it: skillhost run
    model       script/demo
    manifests   echo, plain, skill_registry
    waiting     approval of the extension `new`: skillhost ext approve new
    == 80 columns, with colors
    \e[1mkernel     \e[0m \e[33mnot running\e[0m; start it: skillhost run
    \e[1mmodel      \e[0m script/demo
    \e[1mmanifests  \e[0m echo, plain, skill_registry
    \e[1mwaiting    \e[0m approval of the extension `new`: skillhost ext approve new
    == 120 columns
    kernel      not running; start it: skillhost run
    model       script/demo
    manifests   echo, plain, skill_registry
    waiting     approval of the extension `new`: skillhost ext approve new
    == 200 columns
    kernel      not running; start it: skillhost run
    model       script/demo
    manifests   echo, plain, skill_registry
    waiting     approval of the extension `new`: skillhost ext approve new
    "#);
    let kernel = start_kernel(&home);
    insta::assert_snapshot!(widths_of(&home, &["status"], 0, &normalize_kernel_field), @r#"
    == 60 columns
    kernel running, process N for N s, version 0.1.0
    model       script/demo
    extensions  echo 0.1.0, skill_registry 0.1.0
                rejected broken, new; see: skillhost ext doctor
    agents      plain
    runs        0 active
    waiting     approval of the extension `new`: skillhost ext
                approve new
    == 80 columns
    kernel running, process N for N s, version 0.1.0
    model       script/demo
    extensions  echo 0.1.0, skill_registry 0.1.0
                rejected broken, new; see: skillhost ext doctor
    agents      plain
    runs        0 active
    waiting     approval of the extension `new`: skillhost ext approve new
    == 80 columns, with colors
    \e[1mkernel \e[0m \e[32mrunning\e[0m, process N for N s, version 0.1.0
    \e[1mmodel      \e[0m script/demo
    \e[1mextensions \e[0m echo 0.1.0, skill_registry 0.1.0
    \e[1m           \e[0m \e[1m\e[31mrejected\e[0m broken, new; see: skillhost ext doctor
    \e[1magents     \e[0m plain
    \e[1mruns       \e[0m 0 active
    \e[1mwaiting    \e[0m approval of the extension `new`: skillhost ext approve new
    == 120 columns
    kernel running, process N for N s, version 0.1.0
    model       script/demo
    extensions  echo 0.1.0, skill_registry 0.1.0
                rejected broken, new; see: skillhost ext doctor
    agents      plain
    runs        0 active
    waiting     approval of the extension `new`: skillhost ext approve new
    == 200 columns
    kernel running, process N for N s, version 0.1.0
    model       script/demo
    extensions  echo 0.1.0, skill_registry 0.1.0
                rejected broken, new; see: skillhost ext doctor
    agents      plain
    runs        0 active
    waiting     approval of the extension `new`: skillhost ext approve new
    "#);
    kernel.interrupt().success();
}
