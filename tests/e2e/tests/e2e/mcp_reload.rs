//! Tests of `skillhost mcp`: change notifications.

use serde_json::json;
use test_support::TestHome;

use crate::fixtures::{home, skill_md};
use crate::mcp::{listed_home, named_skill};
use crate::mcp_client::{Client, texts};

/// Connects to a server with a poll interval of 20 ms.
fn connect_with_fast_poll(home: &TestHome) -> Client {
    let interval = "SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS";
    Client::connect_with(home.command().env(interval, "20").arg("mcp"))
}

#[test]
fn new_skill_changes_every_list() {
    let home = listed_home();
    let mut client = connect_with_fast_poll(&home);
    // The server subscribes before it responds.
    client.result("ping", json!({}));
    home.write("sandbox/skills/new/SKILL.md", named_skill("new", "New."));
    for list in ["tools", "resources", "prompts"] {
        client.notification(&format!("notifications/{list}/list_changed"));
    }
    let listed = client.result("skills/list", json!({}));
    assert_eq!(
        texts(&listed["skills"], "/uri"),
        ["skill://greet/SKILL.md", "skill://new/SKILL.md"]
    );
    let listed = client.result("tools/list", json!({}));
    let ids = listed["tools"][2]["inputSchema"]["properties"]["skill_id"]["enum"].clone();
    assert_eq!(ids, json!(["greet", "new"]));
    let answer = client.call("read_skill", json!({ "skill_id": "new" }));
    assert_eq!(answer["isError"], false);
}

#[test]
fn subscription_receives_only_requested_notifications() {
    let home = home();
    let interval = "SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS";
    let mut client = Client::spawn(home.command().env(interval, "20").arg("mcp"));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let filter = json!({ "toolsListChanged": true, "resourcesListChanged": true });
    client.send_request("subscriptions/listen", json!({ "_meta": meta, "notifications": filter }));
    client.notification("notifications/subscriptions/acknowledged");
    home.write("sandbox/skills/new/SKILL.md", skill_md("New.", "New."));
    client.notification("notifications/tools/list_changed");
    client.notification("notifications/resources/list_changed");
    // A prompt notification would be the last of each change, so the next change proves its
    // absence.
    home.write("sandbox/skills/newer/SKILL.md", skill_md("Newer.", "Newer."));
    client.notification("notifications/resources/list_changed");
    assert!(!client.unread_methods().contains(&"notifications/prompts/list_changed"));
}

#[test]
fn only_watched_resource_changes_are_reported() {
    let home = home().skill("other", &skill_md("Other.", "Other."));
    let mut client = connect_with_fast_poll(&home);
    let uri = json!({ "uri": "skill://greet/SKILL.md" });
    client.result("resources/subscribe", uri.clone());
    assert_eq!(
        client.expect_error("resources/subscribe", json!({ "uri": "skill://no/x" })).0,
        -32002
    );
    // The unwatched resource changes first, so its notification would arrive earlier.
    home.write("sandbox/skills/other/SKILL.md", skill_md("Other.", "Changed."));
    client.notification("notifications/resources/list_changed");
    home.write("sandbox/skills/greet/SKILL.md", skill_md("Greets people.", "Changed."));
    let updated = client.notification("notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], uri["uri"]);
    let read = client.result("resources/read", uri.clone());
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("Changed."));
    assert!(!client.unread_methods().contains(&"notifications/resources/updated"));
    client.result("resources/unsubscribe", uri);
    home.write("sandbox/skills/greet/SKILL.md", skill_md("Greets people.", "Changed again."));
    home.write("sandbox/skills/last/SKILL.md", named_skill("last", "Last."));
    // The later change proves that the watched resource was checked before.
    while !texts(&client.result("skills/list", json!({}))["skills"], "/uri")
        .iter()
        .any(|uri| uri.contains("last"))
    {
        client.notification("notifications/resources/list_changed");
    }
    assert!(!client.unread_methods().contains(&"notifications/resources/updated"));
}
