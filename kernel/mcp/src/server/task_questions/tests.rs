use skillhost_tasks::QuestionState;

use super::*;

fn question(kind: QuestionKind, subject: &Value, options: &[&str]) -> Question {
    Question {
        id: "01q".to_owned(),
        task: None,
        thread: None,
        kind,
        asker: "agent a".to_owned(),
        call: "call".to_owned(),
        title: "Title".to_owned(),
        subject: subject.to_string(),
        digest: "d1".to_owned(),
        options: options.iter().map(ToString::to_string).collect(),
        state: QuestionState::Open,
        choice: None,
        reason: None,
        decider: None,
        opened_ms: 0,
        closed_ms: None,
    }
}

fn accepted(question: &Question, content: &Value) -> Result<UserAnswer, String> {
    parse_answer(question, &json!({ "action": "accept", "content": content }))
}

fn choice(text: &str) -> Result<UserAnswer, String> {
    Ok(UserAnswer::Choice(text.to_owned(), None))
}

fn shown(question: &Question) -> Value {
    serde_json::to_value(to_input_request(question).unwrap()).unwrap()
}

#[test]
fn choice_form_offers_options() {
    let asked = question(
        QuestionKind::Choice,
        &json!({ "question": "Which\u{202e} one?" }),
        &["red", "blue"],
    );
    let form = shown(&asked);
    assert_eq!(form["method"], "elicitation/create");
    assert_eq!(form["params"]["message"], "Which<U+202E> one?");
    let answer = &form["params"]["requestedSchema"]["properties"]["answer"];
    assert_eq!(answer["enum"], json!(["red", "blue"]));
    assert_eq!(accepted(&asked, &json!({ "answer": "red" })), choice("red"));
    assert!(accepted(&asked, &json!({ "answer": "green" })).is_err());
    assert!(accepted(&asked, &json!({})).is_err());
    let open = question(QuestionKind::Choice, &json!({}), &[]);
    assert_eq!(shown(&open)["params"]["message"], "Title");
    assert_eq!(accepted(&open, &json!({ "answer": "any" })), choice("any"));
}

#[test]
fn own_form_defines_the_choice() {
    let form =
        |properties: Value| json!({ "form": { "type": "object", "properties": properties } });
    let one = question(
        QuestionKind::Choice,
        &form(json!({ "confirm": { "type": "boolean" } })),
        &["true", "false"],
    );
    let properties = &shown(&one)["params"]["requestedSchema"]["properties"];
    assert_eq!(properties["confirm"]["type"], "boolean");
    // A client may send more than the form has.
    assert_eq!(accepted(&one, &json!({ "confirm": true, "x": 1 })), choice("true"));
    assert!(accepted(&one, &json!({ "confirm": "yes" })).is_err());
    let two = form(json!({ "name": { "type": "string" }, "age": { "type": "integer" } }));
    let two = question(QuestionKind::Choice, &two, &[]);
    let filled = json!({ "name": "Ada", "age": 36 });
    assert_eq!(accepted(&two, &filled), choice("{\"name\":\"Ada\",\"age\":36}"));
    // A form that no client could show is replaced by a plain one.
    let invalid = question(QuestionKind::Choice, &json!({ "form": { "properties": [] } }), &[]);
    assert_eq!(accepted(&invalid, &json!({ "answer": "any" })), choice("any"));
}

#[test]
fn consent_shows_the_complete_subject() {
    let options = ["approve", "refuse", "edit", "session"];
    let subject = json!({ "tool": "write", "text": "a\u{200b}b" });
    let asked = question(QuestionKind::Consent, &subject, &options);
    let message = shown(&asked)["params"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("a<U+200B>b") && message.ends_with("sha256 d1"), "{message}");
    let approved = accepted(&asked, &json!({ "decision": "approve", "reason": " Fine. " }));
    let expected = UserAnswer::Choice("approve".to_owned(), Some("Fine.".to_owned()));
    assert_eq!(approved, Ok(expected));
    for other in ["edit", "session"] {
        assert!(accepted(&asked, &json!({ "decision": other })).is_err(), "{other}");
    }
    let large = json!({ "text": "x".repeat(MAX_MESSAGE) });
    let large = question(QuestionKind::Consent, &large, &options);
    let form = shown(&large);
    let decisions = &form["params"]["requestedSchema"]["properties"]["decision"]["enum"];
    assert_eq!(decisions, &json!(["refuse"]));
    assert!(accepted(&large, &json!({ "decision": "approve" })).is_err());
    assert!(accepted(&large, &json!({ "decision": "refuse" })).is_ok());
}

#[test]
fn declined_and_dismissed_differ() {
    let asked = question(QuestionKind::Choice, &json!({}), &[]);
    let answer = |action: &str| parse_answer(&asked, &json!({ "action": action }));
    assert_eq!(answer("decline"), Ok(UserAnswer::Declined));
    assert_eq!(answer("cancel"), Ok(UserAnswer::Dismissed));
    assert!(answer("ignored").is_err() && parse_answer(&asked, &json!(1)).is_err());
}

#[test]
fn rights_depend_on_kind() {
    let permits = |has_forms, has_consents, kind| {
        AnswerRights { has_forms, has_consents }.permits(&question(kind, &json!({}), &[]))
    };
    assert!(permits(true, false, QuestionKind::Choice));
    assert!(permits(true, true, QuestionKind::Consent));
    assert!(!permits(true, false, QuestionKind::Consent));
    assert!(!permits(false, true, QuestionKind::Choice));
    for kind in [QuestionKind::Uncertain, QuestionKind::Proposal, QuestionKind::Build] {
        assert!(!permits(true, true, kind), "{kind:?}");
    }
}
