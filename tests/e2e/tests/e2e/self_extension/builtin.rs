//! Tests of the flow with the built-in script as the model, which requires no key.

use test_support::TestHome;

use super::feed::Feed;
use super::{approve_call, python_is_missing, shipped_home, start_ask, start_supervised};

/// Allows the address of the feed of a test.
const LOCAL_FEED: &str =
    "sandbox: {extensions: {rss_monitor: {network: {allowedDomains: [127.0.0.1]}}}}\n";

/// Creates a home whose monitor reads this feed instead of the one in its manifest.
fn feed_home(feed: &Feed) -> TestHome {
    let feeds = format!("extensions: {{rss_monitor: {{feeds: ['{}']}}}}\n{LOCAL_FEED}", feed.url());
    shipped_home().settings(&feeds).trusted()
}

#[test]
fn builtin_script_builds_and_uses_extension() {
    if python_is_missing() {
        return;
    }
    let feed = Feed::new("First post");
    let home = feed_home(&feed);
    let kernel = start_supervised(&home);
    let mut user = start_ask(&home);
    approve_call(&mut user, "builder_agent", "write_files");
    approve_call(&mut user, "builder_agent", "build_extension");
    approve_call(&mut user, "builder_agent", "request_restart");
    approve_call(&mut user, "orchestrator_agent", "feeds_check");
    user.wait_for("rss_monitor is in use. Its first check:");
    user.wait_for("First post");
    let session = user.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    home.skillhost(["ext", "doctor"]).success();
    let listed = home.skillhost(["schedule", "list"]).success();
    assert!(listed.stdout.contains("rss_monitor/check"), "{listed}");

    // Only the new entry is reported, and the extension is not built a second time.
    feed.publish("Second post");
    let mut user = start_ask(&home);
    approve_call(&mut user, "orchestrator_agent", "feeds_check");
    user.wait_for("1 new entries");
    let output = user.finish().output;
    assert!(
        output.stdout.contains("Second post") && !output.stdout.contains("First post"),
        "{output}"
    );
    assert_eq!(feed.served(), 2);
    kernel.interrupt().success();
}

#[test]
fn unsupervised_kernel_builds_for_next_start() {
    if python_is_missing() {
        return;
    }
    let feed = Feed::new("First post");
    let home = feed_home(&feed);
    let mut user = start_ask(&home);
    approve_call(&mut user, "builder_agent", "write_files");
    approve_call(&mut user, "builder_agent", "build_extension");
    approve_call(&mut user, "builder_agent", "request_restart");
    user.wait_for("It is in use from the next start");
    assert_eq!(user.finish().output.status, 0);
    let checked = home.skillhost(["tool", "call", "feeds_check"]).success();
    assert_eq!(checked.stdout, "1 new entries\n- First post\n");
    let checked = home.skillhost(["tool", "call", "feeds_check"]).success();
    assert_eq!(checked.stdout, "0 new entries\n");

    // A title is one line of limited length, and other feeds than those of the web are not read.
    feed.publish(&format!("Second\n- forged {}", "x".repeat(1000)));
    let feeds = format!("['file:///dev/null', '{}']", feed.url());
    let settings = format!("extensions: {{rss_monitor: {{feeds: {feeds}}}}}\n{LOCAL_FEED}");
    let checked = home.settings(&settings).skillhost(["tool", "call", "feeds_check"]).success();
    let title = format!("Second - forged {}", "x".repeat(184));
    let refused = "file:///dev/null: not an address of the web";
    assert_eq!(checked.stdout, format!("1 new entries\n- {title}\n{refused}\n"));
}

#[test]
fn missing_python_is_reported() {
    let home = shipped_home().trusted();
    let mut command = home.command();
    // No program is in this directory.
    command.env("PATH", home.outside()).args(["ask", super::TASK]);
    let mut user = home.on_terminal(&mut command, (100, 60));
    approve_call(&mut user, "builder_agent", "write_files");
    approve_call(&mut user, "builder_agent", "build_extension");
    user.wait_for("rss_monitor was not built:");
    user.wait_for("must be installed");
    assert_eq!(user.finish().output.status, 0);
    home.skillhost(["ext", "doctor"]).exits(1);
}
