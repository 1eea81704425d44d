//! Tests of the edits of configuration texts.

use serde_json::{Value, json};

use super::*;
use crate::client::{ConfigScope, McpClient};
use crate::server_entry::quote_for_shell;

const CLIENTS: [McpClient; 5] =
    [McpClient::Claude, McpClient::Codex, McpClient::Gemini, McpClient::Cursor, McpClient::VsCode];

fn entry(client: McpClient) -> ServerEntry {
    ServerEntry {
        program: "/opt/it's/skillhost".to_owned(),
        arguments: ["--home", "/h \"x\"", "mcp"].map(str::to_owned).to_vec(),
        has_transport: client.has_transport(),
    }
}

fn edit(client: McpClient, text: &str) -> Result<ConfigEdit, ConfigTextError> {
    client.format().edit(text, &entry(client))
}

fn changed(client: McpClient, text: &str) -> String {
    match edit(client, text) {
        Ok(ConfigEdit::Added(text) | ConfigEdit::Updated(text)) => text,
        other => panic!("{client:?} {text}: {other:?}"),
    }
}

#[test]
fn empty_files_get_own_formats() {
    let json = "{\n  \"mcpServers\": {\n    \"skillhost\": {\n      \"type\": \"stdio\",\n      \
                \"command\": \"/opt/it's/skillhost\",\n      \
                \"args\": [\"--home\", \"/h \\\"x\\\"\", \"mcp\"]\n    }\n  }\n}\n";
    assert_eq!(changed(McpClient::Claude, ""), json);
    assert_eq!(changed(McpClient::Cursor, ""), json);
    assert_eq!(changed(McpClient::Gemini, ""), json.replace("      \"type\": \"stdio\",\n", ""));
    assert_eq!(changed(McpClient::VsCode, ""), json.replace("mcpServers", "servers"));
    let toml = "[mcp_servers.skillhost]\ncommand = \"/opt/it's/skillhost\"\nargs = [\"--home\", \
                \"/h \\\"x\\\"\", \"mcp\"]\n";
    assert_eq!(changed(McpClient::Codex, ""), toml);
    for client in CLIENTS {
        let printed = client.format().format_entry(&entry(client));
        assert_eq!(edit(client, &printed), Ok(ConfigEdit::Unchanged), "{printed}");
        let written = changed(client, "");
        assert_eq!(edit(client, &written), Ok(ConfigEdit::Unchanged), "{written}");
    }
}

#[test]
fn other_bytes_stay() {
    let text = "{\r\n\t// mine\r\n\t\"inputs\": [ 1e400, 12345678901234567890 ],\r\n\t\"servers\": {\r\n\
                \t\t\"other\": { \"command\" : \"x\" }, // last\r\n\t},\r\n}";
    let new = changed(McpClient::VsCode, text);
    for part in
        ["\t// mine\r\n", "[ 1e400, 12345678901234567890 ]", "{ \"command\" : \"x\" }, // last"]
    {
        assert!(new.contains(part), "{part} of {new}");
    }
    assert_eq!(edit(McpClient::VsCode, &new), Ok(ConfigEdit::Unchanged), "{new}");
    let text = "\u{feff}{\"z\":1,\"mcpServers\":{\"a\":{}},\"a\":{\"b\":[ ]}}";
    let new = changed(McpClient::Claude, text);
    assert!(new.starts_with("\u{feff}{\"z\":1,"), "{new}");
    let mut value: Value = serde_json::from_str(new.trim_start_matches('\u{feff}')).unwrap();
    let server = value["mcpServers"].as_object_mut().unwrap().remove("skillhost").unwrap();
    assert_eq!(server["command"], json!("/opt/it's/skillhost"));
    assert_eq!(value, json!({"z": 1, "mcpServers": {"a": {}}, "a": {"b": []}}));
    let text = "# mine\nmodel = 'o' # x\n[mcp_servers.other]\ncommand=\"y\"";
    let new = changed(McpClient::Codex, text);
    assert!(new.starts_with(&format!("{text}\n\n[mcp_servers.skillhost]\n")), "{new}");
}

#[test]
fn update_keeps_further_keys() {
    let text =
        r#"{"mcpServers": {"skillhost": {"command": "/old", "env": {"A": "b"}, "x": null}}}"#;
    let value: Value = serde_json::from_str(&changed(McpClient::Claude, text)).unwrap();
    let server = &value["mcpServers"]["skillhost"];
    assert_eq!(server["env"], json!({"A": "b"}));
    assert_eq!(server["command"], json!("/opt/it's/skillhost"));
    assert_eq!(server["args"], json!(["--home", "/h \"x\"", "mcp"]));
    for text in [
        "[mcp_servers.skillhost] # a\nargs = [ 1 ]\ncommand = \"/old\" # b\nenv = { A = \"b\" }\n[x]\n",
        "[mcp_servers.skillhost] # a\ncommand = '/old' # b\n[mcp_servers.skillhost.env]\nA = \"b\"\n",
        "mcp_servers.skillhost = { command = '/old', env = { A = \"b\" } } # a # b\n",
    ] {
        let new = changed(McpClient::Codex, text);
        assert!(new.contains("# a") && new.contains("# b") && !new.contains("/old"), "{new}");
        assert!(new.contains("A = \"b\""), "{new}");
        assert_eq!(edit(McpClient::Codex, &new), Ok(ConfigEdit::Unchanged), "{new}");
    }
}

#[test]
fn unusable_files_are_refused() {
    let syntax = |client, text: &str, part: &str| match edit(client, text) {
        Err(ConfigTextError::Syntax(message)) => assert!(message.contains(part), "{message}"),
        other => panic!("{text}: {other:?}"),
    };
    syntax(McpClient::Claude, "{\"a\": }", "line 1 column");
    syntax(McpClient::Claude, "{\"a\": 1,}", "line 1 column");
    syntax(McpClient::Claude, "// no\n{}", "line 1 column 1");
    syntax(McpClient::Gemini, "{\"a\": 1,}", "line 1 column");
    syntax(McpClient::Claude, "{} x", "line 1 column 4");
    syntax(McpClient::Claude, &"[".repeat(100_000), "line 1 column 100000");
    syntax(McpClient::Gemini, &"[".repeat(100_000), "nesting depth");
    syntax(McpClient::Codex, "a = 1\na = 2\n", "on line 2 column 1");
    syntax(McpClient::Codex, &format!("a = {}", "[".repeat(100_000)), "on line 1");
    let not_table = |name: &str| Err(ConfigTextError::NotTable(name.to_owned()));
    let repeated = |name: &str| Err(ConfigTextError::Repeated(name.to_owned()));
    for (client, text, expected) in [
        (McpClient::Claude, "[]", not_table("the whole file")),
        (McpClient::Claude, r#"{"mcpServers": 1}"#, not_table("mcpServers")),
        (McpClient::Claude, r#"{"mcpServers": {"skillhost": null}}"#, not_table("skillhost")),
        (McpClient::Claude, r#"{"mcpServers": {}, "mcpServers": {}}"#, repeated("mcpServers")),
        (McpClient::Claude, r#"{"mcpServers": {}, "mcp\u0053ervers": {}}"#, repeated("mcpServers")),
        (
            McpClient::Gemini,
            r#"{"mcpServers": {"skillhost": {"httpUrl": "http://x"}}}"#,
            Err(ConfigTextError::OtherTransport),
        ),
        (McpClient::Codex, "mcp_servers = 1\n", not_table("mcp_servers")),
        (McpClient::Codex, "[mcp_servers]\nskillhost = 1\n", not_table("skillhost")),
        (
            McpClient::Codex,
            "[mcp_servers.skillhost]\nurl = 'x'\n",
            Err(ConfigTextError::OtherTransport),
        ),
        (McpClient::Codex, "[mcp_servers.skillhost]\n", Err(ConfigTextError::NotEditable)),
        (
            McpClient::Codex,
            "[mcp_servers]\nskillhost.command = 'x'\n",
            Err(ConfigTextError::NotEditable),
        ),
        // An inline table is closed: no further table can be added below it.
        (McpClient::Codex, "mcp_servers = { a = {} }\n", Err(ConfigTextError::NotEditable)),
    ] {
        assert_eq!(edit(client, text), expected, "{text}");
    }
}

#[test]
fn commands_quote_their_words() {
    let line = |client: McpClient, scope| {
        client.add_command(scope, &entry(client)).map(|command| command.to_line())
    };
    let server = r#"'/opt/it'\''s/skillhost' --home '/h "x"' mcp"#;
    let user = ConfigScope::User;
    assert_eq!(
        line(McpClient::Claude, ConfigScope::Project),
        Some(format!("claude mcp add --transport stdio --scope project skillhost -- {server}"))
    );
    assert_eq!(line(McpClient::Codex, user), Some(format!("codex mcp add skillhost -- {server}")));
    let gemini = line(McpClient::Gemini, user).unwrap();
    assert_eq!(
        gemini,
        format!(
            "gemini mcp add --scope user skillhost {}",
            server.replacen(" --home", " -- --home", 1)
        )
    );
    let code = line(McpClient::VsCode, user).unwrap();
    assert_eq!(
        code,
        r#"code --add-mcp '{"args":["--home","/h \"x\"","mcp"],"command":"/opt/it'\''s/skillhost","name":"skillhost","type":"stdio"}'"#
    );
    for client in [McpClient::Codex, McpClient::VsCode, McpClient::Cursor] {
        assert_eq!(line(client, ConfigScope::Project), None);
    }
    assert_eq!(quote_for_shell(""), "''");
}

#[test]
fn toml_escapes_control_characters() {
    assert_eq!(toml_text::quote("a\n\\\"\u{7f}"), "\"a\\u000A\\\\\\\"\\u007F\"");
}
