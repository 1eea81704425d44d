//! The uses of the README, typed in order in one session, with an installed copy.

use std::fs;

use mock_model::{MockModel, Step, Wire};
use test_support::Terminal;

use crate::builds::toolchain;
use crate::documentation::{PageStep, page_script, page_steps, without_optimization};
use crate::fixtures::repository_root;
use crate::install::Installation;
use crate::self_extension::feed::Feed;
use crate::self_extension::{approve_call, python_is_missing};

/// Waits for the end of a block and returns its output.
#[track_caller]
fn finish_use(terminal: &mut Terminal, number: usize) -> String {
    terminal.read_until(&format!("end-of-{number}"))
}

#[test]
fn readme_uses_work_in_one_session() {
    if python_is_missing() {
        return;
    }
    let readme = fs::read_to_string(repository_root().join("README.md")).unwrap();
    let (_, uses) = readme.split_once("## Six uses\n").unwrap();
    let (uses, _) = uses.split_once("\n## ").unwrap();
    let steps = page_steps(uses);
    let is_script = |step: &PageStep| matches!(step, PageStep::Commands { fails: false, .. });
    assert!(steps.len() == 6 && steps.iter().all(is_script), "{steps:?}");

    let installed = Installation::new();
    let user = installed.outside().join("user");
    fs::create_dir_all(&user).unwrap();
    let script = installed.outside().join("readme.sh");
    // The reader types a key in place of the ellipsis.
    // The feed of the test is on this machine, which no manifest of the script requests.
    let local = "&& cd ~/agents && echo 'sandbox: {extensions: {rss_monitor: {network: \
                 {allowedDomains: [127.0.0.1]}}}}' >> skillhost.yaml ";
    let text = page_script(&steps).replace("KEY=…", "KEY=example");
    let text = text.replace("&& cd ~/agents ", local);
    fs::write(&script, without_optimization(&text, "weather")).unwrap();
    let mock = MockModel::with([Step::text("Good morning from the model.")]);
    let feed = Feed::new("First post");

    let mut command = installed.command("bash".as_ref());
    let path = std::env::var("PATH").expect("a PATH");
    let programs = installed.prefix().join("bin");
    let rustup = toolchain().into_iter().filter(|(name, _)| name.starts_with("RUSTUP"));
    command
        .arg(&script)
        .current_dir(&user)
        .envs(rustup)
        .env("PATH", format!("{}:{path}", programs.display()))
        // There is no network, and no crate but those of the installation.
        .env("CARGO_HOME", installed.outside().join("cargo"))
        .env("CARGO_NET_OFFLINE", "true")
        .env("SKILLHOST_MODELS__PROVIDERS__ANTHROPIC__BASE_URL", mock.base_url(Wire::Anthropic))
        .env("SKILLHOST_EXTENSIONS__RSS_MONITOR__FEEDS", format!("[\"{}\"]", feed.url()));
    let mut terminal = installed.on_terminal(&mut command, (120, 50));

    let first = finish_use(&mut terminal, 0);
    assert!(first.contains("`release-notes` — Writes release notes."), "{first}");
    let second = finish_use(&mut terminal, 1);
    assert!(second.contains("code-review") && second.contains("claude mcp add"), "{second}");
    let third = finish_use(&mut terminal, 2);
    assert!(third.contains("valid") && !third.contains("error"), "{third}");

    terminal.wait_for("## Review of the echo extension");
    terminal.wait_for("talking to orchestrator_agent");
    terminal.wait_for("> ");
    terminal.send("Good morning\r");
    terminal.wait_for("Good morning from the model.");
    terminal.wait_for("> ");
    terminal.send("\u{4}");
    finish_use(&mut terminal, 3);
    assert_eq!(mock.left(), 0);

    terminal.wait_for("[y]es, [N]o");
    terminal.send("y\r");
    let fifth = finish_use(&mut terminal, 4);
    assert!(fifth.contains("Hello, Ada!"), "{fifth}");

    approve_call(&mut terminal, "builder_agent", "write_files");
    approve_call(&mut terminal, "builder_agent", "build_extension");
    approve_call(&mut terminal, "builder_agent", "request_restart");
    approve_call(&mut terminal, "orchestrator_agent", "feeds_check");
    terminal.wait_for("First post");
    let sixth = finish_use(&mut terminal, 5);
    assert!(sixth.contains("rss_monitor/check"), "{sixth}");
    // The last kernel has the terminal open.
    let stop = installed.run(["--home", "user/agents", "stop"]);
    assert_eq!(stop.status, 0, "{stop}");
    let left = terminal.finish();
    assert_eq!(left.output.status, 0, "{}", left.output.stdout);
}
