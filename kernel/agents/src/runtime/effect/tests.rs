use skillhost_payload::EffectChange;

use super::*;

fn change(kind: ChangeKind, path: &str, to: Option<&str>) -> EffectChange {
    let to = to.map(str::to_owned);
    EffectChange { path: path.into(), kind, to, diff: "@@ -0,0 +1 @@\n+x\n".into() }
}

#[test]
fn hidden_effect_is_rejected() {
    let mut effect = ToolEffect {
        changes: vec![
            change(ChangeKind::Create, "sandbox/extensions/x/a", None),
            change(ChangeKind::Move, "sandbox/b", Some("sandbox/extensions/b")),
        ],
        ..ToolEffect::default()
    };
    assert_eq!(
        format_details("move_path", "changes these:", &effect).unwrap(),
        "changes these:\n\
         create sandbox/extensions/x/a\n@@ -0,0 +1 @@\n+x\n\
         move sandbox/b to sandbox/extensions/b\n@@ -0,0 +1 @@\n+x\n"
    );
    effect.hidden = Some("`b` is a program or library, not text".into());
    let error = format_details("move_path", "changes these:", &effect).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (
            ErrorKind::Denied,
            "call of `move_path` cannot be shown in full for approval: `b` is a program or \
             library, not text"
        )
    );
}
