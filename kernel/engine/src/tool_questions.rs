//! Questions with which the call of a task's tool ends, and the answers for its repetition.

use serde_json::{Map, Value, json};
use skillhost_payload::{InputAnswer, InputQuestion, InputRequest, InputResponse};
use skillhost_tasks::{
    FailureReason, NewQuestion, NewWait, Question, QuestionKind, QuestionState, TaskOutcome,
    TaskQuery, generate_question_id,
};

use crate::task_run::{RunEnd, TaskRun};

/// The maximum number of calls of one task that end with questions.
const MAX_ROUNDS: usize = 32;

/// The number of questions of a task that are read.
const MAX_QUESTIONS: usize = 1_000;

/// The length limit of a title, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// The pause before a call that ended without a question, in milliseconds.
const NO_QUESTION_PAUSE_MS: u64 = 1_000;

/// Returns the end of a run whose call ended with questions, the `round`-th such call.
pub(crate) async fn ask_questions(run: &TaskRun, round: usize, request: &InputRequest) -> RunEnd {
    if round > MAX_ROUNDS {
        let message = format!("the tool asked more than {MAX_ROUNDS} times");
        return RunEnd::Finish(TaskOutcome::failed(FailureReason::Error, message));
    }
    let asked = request.questions.iter();
    let questions = asked.map(|question| to_new_question(run, round, 0, question, None));
    park(run, questions.collect()).await
}

/// Returns the answers to the last questions of a tool, or the end of the run that waits for them.
pub(crate) async fn resolve_input(
    run: &TaskRun,
    asked: &[&InputRequest],
) -> Result<InputResponse, RunEnd> {
    let Some(request) = asked.last() else { return Ok(InputResponse::default()) };
    let query = TaskQuery::Questions {
        state: None,
        kind: Some(QuestionKind::Choice),
        task: Some(run.task.id.clone()),
        thread: None,
        limit: MAX_QUESTIONS,
    };
    // The engine reports the error of the store with its next operation.
    let known = run.queue.questions(query).await.map_err(|_| RunEnd::Stop)?;
    let mut open = Vec::new();
    let mut response = InputResponse { state: request.state.clone(), ..InputResponse::default() };
    for question in &request.questions {
        match find_answer(run, asked.len(), question, &known) {
            Ok(answer) => {
                response.answers.insert(question.key.clone(), answer);
            }
            Err(again) => open.push(*again),
        }
    }
    match open.is_empty() {
        true => Ok(response),
        false => Err(park(run, open).await),
    }
}

/// Returns the answer to a question, or the question to ask: the same one while it is open, the next
/// one after an answer that does not fit.
fn find_answer(
    run: &TaskRun,
    round: usize,
    question: &InputQuestion,
    known: &[Question],
) -> Result<InputAnswer, Box<NewQuestion>> {
    let mut attempt = 0;
    let mut wrong = None;
    loop {
        let new = to_new_question(run, round, attempt, question, wrong.as_deref());
        let Some(found) = known.iter().rev().find(|found| found.call == new.call) else {
            return Err(Box::new(new));
        };
        match (found.state, &found.choice) {
            (QuestionState::Open, _) => return Err(Box::new(new)),
            (QuestionState::Decided, Some(choice)) => match parse_choice(&question.form, choice) {
                Ok(content) => return Ok(InputAnswer::Accepted(content)),
                Err(reason) => wrong = Some(reason),
            },
            (QuestionState::Decided | QuestionState::Expired, _) => {
                return Ok(InputAnswer::Expired);
            }
            (QuestionState::Withdrawn, _) => return Ok(InputAnswer::Declined),
        }
        attempt += 1;
    }
}

/// Returns the wait for questions; without any, the wait for the next call.
async fn park(run: &TaskRun, questions: Vec<NewQuestion>) -> RunEnd {
    let mut wait = NewWait { questions, ..NewWait::default() };
    if wait.questions.is_empty() {
        let Ok(now_ms) = run.queue.store().now_ms().await else { return RunEnd::Stop };
        wait.until_ms = Some(now_ms + NO_QUESTION_PAUSE_MS);
    }
    RunEnd::Park(wait)
}

fn to_new_question(
    run: &TaskRun,
    round: usize,
    attempt: usize,
    question: &InputQuestion,
    wrong: Option<&str>,
) -> NewQuestion {
    let InputQuestion { key, text, form } = question;
    let text = match wrong {
        Some(reason) => format!("The answer does not fit: {reason}.\n{text}"),
        None => text.clone(),
    };
    let (tool, task) = (&run.task.target, &run.task.id);
    let subject = json!({ "question": text, "form": form, "tool": tool, "task": task });
    NewQuestion {
        id: generate_question_id(),
        thread: None,
        kind: QuestionKind::Choice,
        asker: tool.clone(),
        call: format!("input:{round}:{attempt}:{key}"),
        title: text.chars().take(MAX_TITLE_CHARS).collect(),
        subject: subject.to_string(),
        options: options(form),
    }
}

/// Returns the only property of a form with one.
fn only_property(form: &Value) -> Option<(&String, &Value)> {
    let properties = form.get("properties")?.as_object()?;
    properties.iter().next().filter(|_| properties.len() == 1)
}

/// Returns the permitted choices of a form; empty permits any text.
fn options(form: &Value) -> Vec<String> {
    let Some((_, property)) = only_property(form) else { return Vec::new() };
    match property["type"].as_str() {
        Some("boolean") => vec!["true".to_owned(), "false".to_owned()],
        Some("string") => {
            let texts = property["enum"].as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the content of a form from the choice: the value of its only property, or a JSON object.
fn parse_choice(form: &Value, choice: &str) -> Result<Map<String, Value>, String> {
    let Some((name, property)) = only_property(form) else {
        let content = serde_json::from_str::<Map<String, Value>>(choice);
        let content = content.map_err(|_| "the form requires a JSON object".to_owned())?;
        let required = form["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.into_iter().find(|name| !content.contains_key(*name)) {
            return Err(format!("`{missing}` is missing"));
        }
        let wrong = content.iter().find(|(name, value)| !fits(&form["properties"][*name], value));
        return match wrong {
            Some((name, _)) => Err(format!("`{name}` has another type")),
            None => Ok(content),
        };
    };
    let value = match property["type"].as_str() {
        Some("string") => Value::from(choice),
        _ => serde_json::from_str(choice).unwrap_or_else(|_| Value::from(choice)),
    };
    match fits(property, &value) {
        true => Ok(Map::from_iter([(name.clone(), value)])),
        false => Err(format!("`{name}` has another type")),
    }
}

/// Returns whether a value has the type of its property.
fn fits(property: &Value, value: &Value) -> bool {
    match property["type"].as_str() {
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &Value) -> Value {
        json!({ "type": "object", "properties": properties })
    }

    #[test]
    fn only_property_takes_text() {
        let parse = |kind: &str, choice: &str| {
            let form = form(&json!({ "v": { "type": kind } }));
            parse_choice(&form, choice).map(|content| Value::Object(content)["v"].clone())
        };
        assert_eq!(parse("string", "12"), Ok(json!("12")));
        assert_eq!(parse("boolean", "true"), Ok(json!(true)));
        assert_eq!(parse("integer", "12"), Ok(json!(12)));
        assert_eq!(parse("number", "1.5"), Ok(json!(1.5)));
        for (kind, choice) in
            [("boolean", "yes"), ("integer", "1.5"), ("number", ""), ("array", "{")]
        {
            assert_eq!(parse(kind, choice), Err("`v` has another type".to_owned()), "{kind}");
        }
    }

    #[test]
    fn several_properties_take_object() {
        let mut form = form(&json!({ "a": { "type": "string" }, "b": { "type": "boolean" } }));
        form["required"] = json!(["a"]);
        let parse = |choice: &str| parse_choice(&form, choice);
        assert_eq!(parse(r#"{"a":"x"}"#).unwrap().len(), 1);
        assert_eq!(parse("x"), Err("the form requires a JSON object".to_owned()));
        assert_eq!(parse(r#"{"b":true}"#), Err("`a` is missing".to_owned()));
        assert_eq!(parse(r#"{"a":"x","b":1}"#), Err("`b` has another type".to_owned()));
        assert_eq!(parse(r#"{"a":"x","c":1}"#), Err("`c` has another type".to_owned()));
    }

    #[test]
    fn choices_follow_form() {
        assert_eq!(options(&form(&json!({ "v": { "type": "boolean" } }))), ["true", "false"]);
        let colors = json!({ "v": { "type": "string", "enum": ["red", "blue"] } });
        assert_eq!(options(&form(&colors)), ["red", "blue"]);
        let two = json!({ "v": { "type": "boolean" }, "w": { "type": "boolean" } });
        assert!(options(&form(&two)).is_empty());
    }
}
