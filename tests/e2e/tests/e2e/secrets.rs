//! Tests of secrets that a person types at a terminal without echo.

use mock_model::{MockModel, Step};
use test_support::TestHome;

use crate::agents_scene::{agents_home, ask_agent};
use crate::fixtures::shipped_manifest;

const VALUE: &str = "s3cret-of-the-feed";
const REQUEST: &str = r#"{"name":"SKILLHOST_T_FEED","reason":"for the feed"}"#;

fn secret_home(answer: &str) -> (MockModel, TestHome) {
    let mock = MockModel::with([Step::calls("request_secure_input", REQUEST), Step::text(answer)]);
    let manifest = format!("{}secrets: [SKILLHOST_T_FEED]\n", shipped_manifest("echo"));
    let home = agents_home(&mock).manifest("echo", &manifest);
    (mock, home)
}

#[test]
fn secret_input_is_hidden_and_private() {
    let (mock, home) = secret_home("Thank you.");
    let mut command = home.command();
    let command = command.args(["ask", "--agent", "worker", "Set the feed up"]);
    let mut terminal = home.on_terminal(command, (100, 40));
    terminal.wait_for("worker asks for the secret SKILLHOST_T_FEED");
    terminal.wait_for("it is not shown");
    terminal.send(&format!("{VALUE}\n"));
    terminal.wait_for("Thank you.");
    let session = terminal.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    assert!(session.modes_restored);
    assert!(!String::from_utf8_lossy(&session.bytes).contains(VALUE));
    let file = std::fs::read_to_string(home.path(".env")).unwrap();
    assert_eq!(file, format!("SKILLHOST_T_FEED='{VALUE}'\n"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(home.path(".env")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    for request in mock.requests() {
        for message in request.messages() {
            assert!(!message.text.contains(VALUE), "{}", message.text);
        }
    }
    for directory in ["sandbox/data/kernel/threads", "sandbox/data/kernel/runs"] {
        for entry in std::fs::read_dir(home.path(directory)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(VALUE), "{}", path.display());
        }
    }
}

#[test]
fn secret_prompt_requires_terminal() {
    let (mock, home) = secret_home("I go on without.");
    let output = ask_agent(&home, "worker", "Set the feed up").success();
    assert!(output.stderr.contains("the secret `SKILLHOST_T_FEED` was not given"), "{output}");
    let result = mock.requests()[1].messages().last().unwrap().text.clone();
    assert!(result.contains("was not provided: no terminal is available"), "{result}");
    assert!(!home.path(".env").exists());
}
