//! Secrets that a person types: at a terminal, unseen.

use mock_model::{MockModel, Step};
use test_support::TestHome;

use crate::agents_scene::{agents, ask};
use crate::scene::shipped;

const VALUE: &str = "s3cret-of-the-feed";
const WANTED: &str = r#"{"name":"SKILLHOST_T_FEED","reason":"for the feed"}"#;

fn scene(answer: &str) -> (MockModel, TestHome) {
    let mock = MockModel::with([Step::calls("request_secure_input", WANTED), Step::text(answer)]);
    let manifest = format!("{}secrets: [SKILLHOST_T_FEED]\n", shipped("echo"));
    let home = agents(&mock).manifest("echo", &manifest);
    (mock, home)
}

#[test]
fn a_secret_is_typed_unseen_and_stored_for_its_owner_only() {
    let (mock, home) = scene("Thank you.");
    let mut ask = home.command();
    let ask = ask.args(["ask", "--agent", "worker", "Set the feed up"]);
    let mut terminal = home.on_terminal(ask, (100, 40));
    terminal.wait_for("worker asks for the secret SKILLHOST_T_FEED");
    terminal.wait_for("it is not shown");
    terminal.send(&format!("{VALUE}\n"));
    terminal.wait_for("Thank you.");
    let left = terminal.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);
    assert!(left.modes_restored);
    assert!(!String::from_utf8_lossy(&left.bytes).contains(VALUE));
    let file = std::fs::read_to_string(home.path(".env")).unwrap();
    assert_eq!(file, format!("SKILLHOST_T_FEED='{VALUE}'\n"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(home.path(".env")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    for asked in mock.requests() {
        for said in asked.messages() {
            assert!(!said.text.contains(VALUE), "{}", said.text);
        }
    }
    for folder in ["sandbox/data/kernel/threads", "sandbox/data/kernel/runs"] {
        for entry in std::fs::read_dir(home.path(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(VALUE), "{}", path.display());
        }
    }
}

#[test]
fn nobody_types_a_secret_into_a_pipe() {
    let (mock, home) = scene("I go on without.");
    let output = ask(&home, "worker", "Set the feed up").success();
    assert!(output.stderr.contains("the secret `SKILLHOST_T_FEED` was not given"), "{output}");
    let told = mock.requests()[1].messages().last().unwrap().text.clone();
    assert!(told.contains("was not given: nobody can be asked here"), "{told}");
    assert!(!home.path(".env").exists());
}
