//! Tests of printed values.

use super::*;

#[test]
fn values_have_blanks_to_wrap_at() {
    let value = json!([{ "label": "a", "list": [1, 2] }, null]);
    assert_eq!(format_value(&value), r#"[{"label": "a", "list": [1, 2]}, null]"#);
}
