//! Tests of the drawn subjects.

use super::*;

#[test]
fn every_field_is_drawn() {
    let subject = r#"{"tool":"t1","arguments":"{\"a\":\"<b>\",\"n\":[1,{}]}","odd_key":{"deep":["v1"]},
        "call_key":"k1","details":"x\ny","destructive":true,"diff":"@@ -1 +1 @@\n-o1\n+n1\n"}"#;
    let html = draw_subject(subject).into_string();
    for part in ["t1", "&lt;b&gt;", "odd key", "v1", "k1", "x\ny", "May destroy data", "o1", "n1"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(draw_subject("no <json>").into_string().contains("no &lt;json&gt;"));
}

#[test]
fn arguments_are_summarized() {
    assert_eq!(summarize_arguments(r#"{"path":"a.md","lines":[1,2]}"#), "path: a.md, lines: [1,2]");
    assert_eq!(summarize_arguments("{}"), "");
    assert_eq!(summarize_arguments("[1"), "[1");
}

#[test]
fn repeated_keys_are_shown() {
    let html = draw_arguments(r#"{"path":"a","path":"b"}"#).into_string();
    assert!(html.contains("As written"), "{html}");
    let html = draw_arguments("{\"path\": \"a \\\" b\"}").into_string();
    assert!(!html.contains("As written"), "{html}");
}

#[test]
fn deep_values_end_as_json() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let html = draw_arguments(&deep).into_string();
    assert!(html.matches("<ul").count() == MAX_DEPTH + 1, "{html}");
}
