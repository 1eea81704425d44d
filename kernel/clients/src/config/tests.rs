//! Tests of the configuration of clients.

use super::*;

#[test]
fn clients_get_own_formats() {
    let of = |client| {
        let lines = lines(client, "/opt/it's/skillhost", &["--home", "/h \"x\"", "mcp"]);
        (lines.text, lines.command.unwrap_or_default())
    };
    let object = |kind: &str| {
        format!(
            "{{\n  \"mcpServers\": {{\n    \"skillhost\": {{\n      \"args\": [\n        \
             \"--home\",\n        \"/h \\\"x\\\"\",\n        \"mcp\"\n      ],\n      \
             \"command\": \"/opt/it's/skillhost\"{kind}\n    }}\n  }}\n}}"
        )
    };
    let line = r#"'/opt/it'\''s/skillhost' --home '/h "x"' mcp"#;
    let stdio = object(",\n      \"type\": \"stdio\"");
    assert_eq!(
        of(McpClient::Claude),
        (stdio.clone(), format!("claude mcp add --transport stdio skillhost -- {line}"))
    );
    assert_eq!(of(McpClient::Cursor), (stdio, String::new()));
    assert_eq!(of(McpClient::Gemini), (object(""), format!("gemini mcp add skillhost {line}")));
    let toml = "[mcp_servers.skillhost]\ncommand = \"/opt/it's/skillhost\"\nargs = [\"--home\", \
                \"/h \\\"x\\\"\", \"mcp\"]";
    assert_eq!(
        of(McpClient::Codex),
        (toml.to_owned(), format!("codex mcp add skillhost -- {line}"))
    );
}

#[test]
fn toml_escapes_control_characters() {
    assert_eq!(toml("a\n\\\"\u{7f}"), "\"a\\u000A\\\\\\\"\\u007F\"");
}
