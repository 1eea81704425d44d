//! `skillhost mcp`: what changes reaches the client.

use serde_json::json;
use test_support::TestHome;

use crate::mcp::{listed_home, named};
use crate::mcp_client::{Client, texts};
use crate::scene::{home, skill};

/// A client of a server that looks at the folders every 20 ms.
fn quick(home: &TestHome) -> Client {
    let interval = "SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS";
    Client::begin(home.command().env(interval, "20").arg("mcp"))
}

#[test]
fn a_new_skill_changes_every_list() {
    let home = listed_home();
    let mut client = quick(&home);
    // Once it answers, it listens.
    client.result("ping", json!({}));
    home.write("sandbox/skills/new/SKILL.md", named("new", "New."));
    for list in ["tools", "resources", "prompts"] {
        client.told(&format!("notifications/{list}/list_changed"));
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
fn a_subscription_is_told_of_what_it_asked_for() {
    let home = home();
    let interval = "SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS";
    let mut client = Client::start(home.command().env(interval, "20").arg("mcp"));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let filter = json!({ "toolsListChanged": true, "resourcesListChanged": true });
    client.ask("subscriptions/listen", json!({ "_meta": meta, "notifications": filter }));
    client.told("notifications/subscriptions/acknowledged");
    home.write("sandbox/skills/new/SKILL.md", skill("New.", "New."));
    client.told("notifications/tools/list_changed");
    client.told("notifications/resources/list_changed");
    // One of prompts would come last of each change, so the next change shows that there was none.
    home.write("sandbox/skills/newer/SKILL.md", skill("Newer.", "Newer."));
    client.told("notifications/resources/list_changed");
    assert!(!client.untold().contains(&"notifications/prompts/list_changed"));
}

#[test]
fn only_watched_resources_are_reported_and_only_when_they_change() {
    let home = home().skill("other", &skill("Other.", "Other."));
    let mut client = quick(&home);
    let uri = json!({ "uri": "skill://greet/SKILL.md" });
    client.result("resources/subscribe", uri.clone());
    assert_eq!(client.refusal("resources/subscribe", json!({ "uri": "skill://no/x" })).0, -32002);
    // What is not watched changes first, so that its news would have come.
    home.write("sandbox/skills/other/SKILL.md", skill("Other.", "Changed."));
    client.told("notifications/resources/list_changed");
    home.write("sandbox/skills/greet/SKILL.md", skill("Greets people.", "Changed."));
    let told = client.told("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], uri["uri"]);
    let read = client.result("resources/read", uri.clone());
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("Changed."));
    assert!(!client.untold().contains(&"notifications/resources/updated"));
    client.result("resources/unsubscribe", uri);
    home.write("sandbox/skills/greet/SKILL.md", skill("Greets people.", "Changed again."));
    home.write("sandbox/skills/last/SKILL.md", named("last", "Last."));
    // The change of the one that was watched is in by the time the later one is seen.
    while !texts(&client.result("skills/list", json!({}))["skills"], "/uri")
        .iter()
        .any(|uri| uri.contains("last"))
    {
        client.told("notifications/resources/list_changed");
    }
    assert!(!client.untold().contains(&"notifications/resources/updated"));
}
