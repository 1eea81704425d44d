//! Invariants of ARCHITECTURE.md that hold where something may be named.

use std::path::Path;

use super::{in_any, none, rust_files};

/// Sources of the product: no tests, no tools of this repository.
fn product_files() -> impl Iterator<Item = std::path::PathBuf> {
    rust_files()
        .filter(|path| in_any(path, &["kernel", "extensions"]))
        .filter(|path| !path.components().any(|part| part.as_os_str() == "tests"))
        .filter(|path| !path.ends_with("tests.rs"))
}

/// The code of a product file: before its tests, however those are called, and without the names of
/// crates whose `fs` opens nothing by its path.
fn code(path: &Path) -> String {
    let code = super::code(path);
    // A module of tests in a file of its own ends nothing.
    let is_inline = |start: &usize| {
        let line = code[*start..].lines().find(|line| line.starts_with("mod "));
        line.is_some_and(|line| line.ends_with('{'))
    };
    let starts = ["#[cfg(test)]\nmod ", "#[cfg(all(test"];
    let tests = starts.iter().flat_map(|start| code.match_indices(start)).map(|(start, _)| start);
    let end = tests.filter(is_inline).min().unwrap_or(code.len());
    code[..end].replace("cap_std::fs", "").replace("rustix::fs", "")
}

/// The files below some folders whose code has one of the words, unless they are exempt.
fn naming(words: &[&str], folders: &[&str], exempt: &[&str]) -> Vec<String> {
    let files = product_files().filter(|path| in_any(path, folders) && !in_any(path, exempt));
    let mut findings = Vec::new();
    for path in files {
        let code = code(&path);
        let named = words.iter().filter(|word| code.contains(**word));
        findings.extend(named.map(|word| format!("{} has {word}", path.display())));
    }
    findings
}

/// Each exempt file is needed, so that no list outlives its reason.
fn assert_exact(what: &str, words: &[&str], folders: &[&str], exempt: &[&str]) {
    none(what, &naming(words, folders, exempt));
    let unneeded: Vec<_> = exempt
        .iter()
        .filter(|path| naming(words, &[path], &[]).is_empty())
        .map(|path| (*path).to_owned())
        .collect();
    none(&format!("{what}: these exemptions are not needed"), &unneeded);
}

#[test]
fn kernel_has_no_skill_knowledge() {
    let words = ["SKILL.md", "frontmatter", "read_skill\"", "list_skills"];
    let folders = [
        "kernel/home/src",
        "kernel/conversation/src",
        "kernel/control/src",
        "kernel/core/src",
        "kernel/agents/src",
        "kernel/host/src",
        "kernel/manifest/src",
        "kernel/events/src",
        "kernel/process/src",
        "kernel/builder/src",
        "kernel/sandbox/src",
        "kernel/models/src",
        "kernel/sdk/src",
        "kernel/contract/src",
        "kernel/files/src",
    ];
    // A file name that scripts may not write.
    let exempt = ["kernel/sandbox/src/launcher/found_names.rs"];
    none("skill knowledge in the kernel", &naming(&words, &folders, &exempt));
    // These pass on the content that a provider publishes, and describe it to clients.
    assert_exact(
        "skill knowledge at the kernel's border",
        &words,
        &["kernel/payload/src", "kernel/mcp/src"],
        &[
            "kernel/payload/src/published.rs",
            "kernel/mcp/src/backend/kernel.rs",
            "kernel/mcp/src/server.rs",
            "kernel/mcp/src/server/resources.rs",
            "kernel/mcp/src/server/skills.rs",
            "kernel/mcp/src/stub.rs",
        ],
    );
}

#[test]
fn tools_are_called_in_one_place() {
    let host = ["kernel/core/src", "kernel/agents/src", "kernel/host/src", "kernel/process/src"];
    let dispatch = ["kernel/agents/src/runtime/dispatch.rs"];
    assert_exact("tools called past the dispatcher", &["instance.invoke("], &host, &dispatch);
    let bodies = ["plugin.invoke(", "process.invoke(", "tools.invoke("];
    let below = [
        // The tools of the kernel and of agents have no instance.
        "kernel/agents/src/runtime/dispatch.rs",
        "kernel/core/src/instance.rs",
        "kernel/core/src/abi.rs",
        "kernel/process/src/loader.rs",
    ];
    assert_exact("tools called past their instance", &bodies, &host, &below);
}

/// Durations and limits of runs are measured with a clock that is never set.
#[test]
fn time_of_day_decides_no_run() {
    let runs = [
        "kernel/evals/src",
        "extensions/skill_registry/evals/src",
        "extensions/skill_registry/testing/src",
        "extensions/skill_registry/test_command/src",
    ];
    let what = "the time of day in runs of tests";
    none(what, &naming(&["SystemTime", "Clock::system", "now_ms", "Zoned::"], &runs, &[]));
    // The timestamp of `benchmark.json`.
    let runner = "kernel/evals/src/runner.rs";
    assert_exact(what, &["Timestamp::"], &runs, &[runner]);
    // A catalog is opened with a clock.
    let catalogs = [runner, "extensions/skill_registry/testing/src/harness.rs"];
    assert_exact(what, &["SystemClock"], &runs, &catalogs);
}

/// The body of an async function is compiled again in every crate that awaits it; a boxed future is
/// compiled once, where it is made.
#[test]
fn kernel_futures_are_compiled_once() {
    let folders = ["kernel/core/src", "kernel/agents/src", "kernel/host/src", "kernel/mcp/src"];
    none("public async functions of the kernel", &naming(&["pub async fn"], &folders, &[]));
}

#[test]
fn offline_commands_boot_no_kernel() {
    let commands = [
        "kernel/cli/src",
        "kernel/terminal/src",
        "kernel/operations/src",
        "kernel/clients/src",
        "extensions/skill_registry/commands/src",
    ];
    assert_exact(
        "commands that boot a kernel",
        &["Kernel::boot(", "with_kernel("],
        &commands,
        &[
            "kernel/cli/src/kernel_session.rs",
            "kernel/cli/src/commands/ext_build.rs",
            "kernel/cli/src/commands/mcp.rs",
            "kernel/cli/src/commands/run.rs",
            "kernel/cli/src/in_process.rs",
        ],
    );
    assert_exact(
        "commands that a kernel answers",
        &["request_from_kernel("],
        &commands,
        &[
            "kernel/cli/src/commands/agent.rs",
            "kernel/cli/src/commands/ask.rs",
            "kernel/cli/src/commands/ext.rs",
            "kernel/cli/src/commands/ext_build.rs",
            "kernel/cli/src/commands/schedule.rs",
            "kernel/cli/src/commands/tool.rs",
            // The catalog of a prompt, for `skill explain` alone.
            "kernel/cli/src/commands.rs",
        ],
    );
}

/// The pages of the console have no markup but that of its templates: all other text is escaped.
#[test]
fn console_escapes_every_text() {
    let words = ["PreEscaped", "response::Html", "format!(\"<", "push_str(\"<"];
    none("markup outside of templates", &naming(&words, &["kernel/console/src"], &[]));
}

#[test]
fn kernel_opens_its_own_data_only() {
    let crates = [
        "kernel/home/src",
        "kernel/core/src",
        "kernel/agents/src",
        "kernel/host/src",
        "kernel/builder/src",
        "kernel/process/src",
        "kernel/mcp/src",
    ];
    let mut findings = Vec::new();
    for path in product_files().filter(|path| in_any(path, &crates)) {
        let code = code(&path);
        // `secure_data_dir` closes the directory to other users and opens no file in it.
        let others = code.lines().filter(|line| {
            line.replace("secure_data_dir(", "").contains("data_dir(")
                && !line.contains("data_dir(\"kernel\")")
        });
        findings.extend(others.map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    // The directory that an extension gets, its path in a review, and the definition.
    assert_eq!(
        findings,
        [
            "kernel/builder/src/containment.rs: writable: vec![home.data_dir(id), home.process_home(id)],",
            "kernel/core/src/extension_host.rs: data_dir: self.home.data_dir(manifest.id.as_str()),",
            "kernel/home/src/home.rs: pub fn data_dir(&self, extension: &str) -> PathBuf {",
        ]
    );
}

#[test]
fn children_are_started_in_one_place() {
    assert_exact(
        "programs started outside of the sandbox",
        &["Command::new("],
        &["kernel", "extensions"],
        &[
            "kernel/sandbox/src/launch.rs",
            "kernel/sandbox/src/launcher/setup.rs",
            "kernel/sandbox/src/sandboxed_child.rs",
            // The editor and the pager of the person at the terminal, the program of an MCP client
            // whose command line that person has seen, and the kernel itself.
            "extensions/skill_registry/commands/src/review/editor.rs",
            "kernel/clients/src/client_program.rs",
            // The browser of the person at the terminal.
            "kernel/cli/src/commands/console.rs",
            "kernel/cli/src/commands/supervise.rs",
            "kernel/terminal/src/output/paging.rs",
        ],
    );
}

#[test]
fn files_are_renamed_in_few_places() {
    assert_exact(
        "renames outside of the crates for files and for the ledger",
        &["fs::rename(", "renameat", "dir.rename(", "parent.rename("],
        &["kernel", "extensions"],
        &[
            "kernel/files/src",
            "extensions/skill_registry/ledger/src",
            // Entries of the sandbox, through its jail.
            "extensions/core_tools/src/change.rs",
            "extensions/core_tools/src/relocate.rs",
            // Protected files that a run has moved, through descriptors.
            "kernel/sandbox/src/launcher/open_directory.rs",
            // A damaged journal and a record of an earlier version are set aside.
            "kernel/events/src/journal_file.rs",
            "kernel/home/src/approvals.rs",
            // A directory that is complete before it gets its name.
            "kernel/conversation/src/thread/store.rs",
            "extensions/skill_registry/commands/src/export/folder.rs",
            "extensions/skill_registry/commands/src/new.rs",
        ],
    );
}

#[test]
fn nothing_is_written_in_place() {
    assert_exact(
        "files written in place",
        &["fs::write(", "File::create(", ".truncate(true)"],
        &["kernel", "extensions"],
        &[
            // Its own temporary file, before it is renamed.
            "extensions/skill_registry/ledger/src/files/data_file.rs",
            // A temporary directory that one process creates for a test of skills.
            "extensions/skill_registry/testing/src/harness.rs",
            "extensions/skill_registry/testing/src/distractor_files.rs",
            // The build directory, which cargo gives to one build script at a time.
            "kernel/bundle/build.rs",
            // Files of the kernel for a new process, control group and root directory.
            "kernel/sandbox/src/launcher/attempt.rs",
            "kernel/sandbox/src/launcher/cgroup.rs",
            "kernel/sandbox/src/launcher/mounts.rs",
            // Renews the documentation in this repository.
        ],
    );
}

#[test]
fn paths_of_others_are_opened_in_jails() {
    // These receive paths from agents, models and peers, and open them relative to a directory.
    let receivers = [
        "extensions/core_tools/src",
        "extensions/skill_registry/service/src/tools",
        "extensions/skill_registry/service/src/tools.rs",
        "extensions/skill_registry/service/src/publish",
        "extensions/skill_registry/service/src/publish.rs",
        "extensions/skill_registry/plugin/src",
        "kernel/agents/src/runtime",
        "kernel/mcp/src",
    ];
    // It makes the folder of an id.
    let exempt = ["kernel/agents/src/runtime/create_agent.rs"];
    assert_exact("files opened by their path", &["std::fs", "tokio::fs"], &receivers, &exempt);
    let opens = naming(&["ambient_authority"], &["kernel", "extensions"], &[]);
    let allowed = [
        // Directories that commands name, and roots.
        "extensions/skill_registry/catalog/src/collect",
        "extensions/skill_registry/catalog/src/disk",
        "extensions/skill_registry/catalog/src/skill_yaml.rs",
        "extensions/skill_registry/ledger/src/changes/apply.rs",
        "kernel/builder/src/files.rs",
        "kernel/files/src",
        "kernel/agents/src/agent_files.rs",
    ];
    let is_jail = |finding: &String| {
        finding.split(' ').next().is_some_and(|path| in_any(Path::new(path), &allowed))
    };
    let findings: Vec<_> = opens.into_iter().filter(|finding| !is_jail(finding)).collect();
    none("directories opened outside of the jails", &findings);
}

#[test]
fn files_are_synced_in_one_place() {
    // `assert_may_block` is there as well: a thread that runs async tasks must not wait for a disk.
    assert_exact(
        "files synced past `skillhost_files`, which checks the thread",
        &[".sync_all()", ".sync_data()", "fsync("],
        &["kernel", "extensions"],
        &["kernel/files/src/synced.rs"],
    );
}

#[test]
fn runtimes_are_built_in_few_places() {
    assert_exact(
        "async runtimes other than that of the process and those of extensions",
        &["new_multi_thread()", "new_current_thread()", "Runtime::new()"],
        &["kernel", "extensions"],
        &[
            // The process and each extension.
            "kernel/terminal/src/context.rs",
            "kernel/sdk/src/guard.rs",
            // Ends the process where tasks of its runtime do not.
            "kernel/cli/src/commands/run.rs",
            // Asks an interpreter for its directories, on a thread that may block.
            "kernel/scripts/src/interpreter_query.rs",
            // Asks the operator's version manager for the program of a placeholder.
            "kernel/sandbox/src/program_files.rs",
            // Drives connections of a database for callers on any runtime.
            "kernel/tasks/src/postgres.rs",
        ],
    );
    assert_exact(
        "threads that wait for async work",
        &["runtime.block_on(", "runtime()?.block_on(", "futures::executor"],
        &["kernel", "extensions"],
        &[
            "kernel/terminal/src/context.rs",
            "kernel/cli/src/commands/run.rs",
            "kernel/scripts/src/interpreter_query.rs",
            "kernel/sandbox/src/program_files.rs",
        ],
    );
}

/// The sources that name a decider: the surfaces of people, and the table with its stores. None is
/// part of a tool, and extensions cannot import the table.
const DECIDERS: &[&str] = &[
    "kernel/channels/src/chat_commands.rs",
    "kernel/channels/src/question_events.rs",
    "kernel/host/src/conversations.rs",
    "kernel/mcp/src/backend/tasks.rs",
    "kernel/mcp/src/server/call_consents.rs",
    "kernel/operations/src/build_consent.rs",
    "kernel/operations/src/inbox/decision.rs",
    "kernel/questions/src/question_table.rs",
    "kernel/questions/src/review_mirror.rs",
    "kernel/tasks/src",
];

#[test]
fn only_surfaces_of_people_decide() {
    let words = ["Decider {", "Decider::", "decide_for_operator("];
    // The control socket and the web console are the operator's.
    let own = ["kernel/host/src/control.rs", "kernel/host/src/console.rs"];
    let exempt = [DECIDERS, &own].concat();
    let mut findings = naming(&words, &["kernel", "extensions"], &exempt);
    let decides = |known: &&&str| !naming(&words, &[**known], &[]).is_empty();
    let gone = DECIDERS.iter().filter(|known| !decides(known));
    findings.extend(gone.map(|known| format!("{known} decides none any more")));
    none("deciders", &findings);
}
