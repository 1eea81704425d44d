//! The page of channels in the web console: codes, people, test messages and deliveries.

use mock_model::{MockModel, Step};
use serde_json::json;

use crate::console::{HOSTILE, assert_own_elements, wait_for_text};
use crate::console_client::{ConsoleClient, value_after};
use crate::fixtures::start_kernel;
use crate::mailbox::Mailbox;

const PAGE: &str = "/channels";

/// Makes a code with the form of the page.
fn make_code(client: &ConsoleClient, fields: &[(&str, &str)]) -> String {
    let fields = [&[("channel", "mailbox")], fields].concat();
    let page = client.post("/channels/pair", &fields).expect(200).body;
    let code = page.split_once("<code class=\"pairing\">").expect(&page).1;
    code.split('<').next().unwrap().to_owned()
}

#[test]
fn paired_person_is_revoked() {
    let mock = MockModel::new();
    mock.answer_with(|request| Some(Step::text(&format!("Echo: {}", request.last_text()))));
    let mailbox = Mailbox::new(&mock, "");
    let _kernel = start_kernel(&mailbox.home);
    let client = ConsoleClient::log_in(&mailbox.home);
    let page = client.get(PAGE).expect(200).body;
    for part in ["mailbox", "loaded", "No person is paired", "worker", "No message was sent yet"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let code = make_code(&client, &[("role", "owner")]);
    assert!(!client.get(PAGE).body.contains(&code));
    let mut message =
        crate::mailbox::direct_message("a", "p<b>\u{202e}", &format!("/start {code}"));
    message["peer"]["name"] = json!(HOSTILE);
    mailbox.put(1, &message);
    mailbox.wait_for_text("You are paired");
    let page = client.get(PAGE).expect(200).body;
    assert!(page.contains("&lt;script&gt;alert(2)") && page.contains("p&lt;b&gt;"), "{page}");
    assert_own_elements(&page);
    let fields = [("channel", "mailbox"), ("text", "Does it <i>work</i>?")];
    client.post("/channels/test", &fields).expect(303);
    mailbox.wait_for_text("Does it <i>work</i>?");
    let page = wait_for_text(&client, PAGE, "message to mailbox");
    let task = value_after(&page, "href=\"/tasks/");
    wait_for_text(&client, &format!("/tasks/{task}"), "completed");
    // A code works once.
    message["peer"]["id"] = json!("second");
    message["external_id"] = json!("b");
    mailbox.put(2, &message);
    assert_eq!(mailbox.wait_for_outcome(2), "refused");
    let person = value_after(&page, "name=\"person\" value=\"");
    let fields = [("channel", "mailbox"), ("person", &*person)];
    client.post("/channels/revoke", &fields).expect(303);
    assert!(client.get(PAGE).body.contains("No person is paired"));
    client.post("/channels/revoke", &fields).expect(404);
    client.post("/channels/test", &[("channel", "mailbox"), ("text", "x")]).expect(404);
}

#[test]
fn channel_forms_check_fields() {
    let mailbox = Mailbox::new(&MockModel::new(), "");
    let _kernel = start_kernel(&mailbox.home);
    let client = ConsoleClient::log_in(&mailbox.home);
    let pair = |fields: &[(&str, &str)]| client.post("/channels/pair", fields);
    pair(&[("channel", "mailbx"), ("role", "owner")]).expect(404);
    pair(&[("channel", "mailbox")]).expect(400);
    pair(&[("channel", "mailbox"), ("role", "admin")]).expect(400);
    pair(&[("channel", "mailbox"), ("role", "owner"), ("agent", "worker")]).expect(400);
    pair(&[("channel", "mailbox"), ("role", "guest")]).expect(400);
    pair(&[("channel", "mailbox"), ("role", "guest"), ("agent", "missing")]).expect(404);
    let code = make_code(
        &client,
        &[("role", "guest"), ("agent", "worker"), ("agent", "orchestrator_agent")],
    );
    mailbox.write(1, "a", "7", &format!("/start {code}"));
    mailbox.wait_for_text("You are paired");
    let peers = mailbox.home.skillhost(["channel", "peers", "--json"]).success().json();
    assert_eq!(peers["peers"][0]["role"], "guest");
    assert_eq!(peers["peers"][0]["agents"], json!(["worker", "orchestrator_agent"]));
    client.post("/channels/test", &[("channel", "mailbox"), ("text", " ")]).expect(400);
    // Guests get no test messages.
    client.post("/channels/test", &[("channel", "mailbox"), ("text", "x")]).expect(404);
}

#[test]
fn failed_delivery_shows_error() {
    let mailbox = Mailbox::new(&MockModel::new(), "");
    let home = &mailbox.home;
    let _kernel = start_kernel(home);
    mailbox.pair(1, "1", &[]);
    home.write("gone", "");
    home.skillhost(["channel", "test", "mailbox"]).exits(1);
    let client = ConsoleClient::log_in(home);
    let page = client.get(PAGE).expect(200).body;
    let row = page.split("<tr>").find(|row| row.contains("is-bad")).expect(&page);
    let error = row.split_once("data-label=\"Error\">").unwrap().1;
    assert!(!error.starts_with('–') && error.len() > 10, "{row}");
    client.get("/channels/pair").expect(405);
}
