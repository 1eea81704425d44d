//! The grading of a run: assertions, and sentences by a judge.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use skill_evals::{
    AssertionCheck, AssertionResult, JUDGE_INSTRUCTIONS, JudgedWork, OutputCase, RunObservations,
    SpentAmounts, check_assertion, read_judgment, render_judge_message,
};
use skill_testing::CaseScripts;
use skillhost_conversation::{Message, ModelProvider, ModelRequest};

use crate::spending::{SpendingMeter, SpendingStop};
use crate::watched_model::{MAX_ATTEMPTS, request_metered};

/// The tools whose calls reveal whether a run had a skill.
const SKILL_TOOLS: [&str; 6] = [
    "read_skill",
    "read_skill_resource",
    "list_skills",
    "skills.load",
    "skills.unload",
    "skills.read",
];

/// The grader of runs.
pub(crate) struct RunGrader {
    pub(crate) judge: Option<Arc<dyn ModelProvider>>,
    pub(crate) meter: Arc<SpendingMeter>,
    pub(crate) scripts: Option<Arc<dyn CaseScripts>>,
}

/// The reason why a run cannot be graded.
pub(crate) enum GradingStop {
    /// A limit of the budget.
    Spending(SpendingStop),
    /// No judge replied.
    Judge(String),
}

/// A run that is graded.
pub(crate) struct GradedRun<'a> {
    pub(crate) seen: &'a RunObservations,
    /// The lines of the transcript.
    pub(crate) lines: &'a [Value],
    /// The changed files and their texts.
    pub(crate) files: &'a [(String, String)],
    /// The directory with the files of the run.
    pub(crate) workspace: &'a Path,
}

impl RunGrader {
    /// Checks the assertions of a case. Adds to `spent`.
    pub(crate) async fn grade(
        &self,
        case: &OutputCase,
        run: GradedRun<'_>,
        spent: &mut SpentAmounts,
    ) -> Result<Vec<AssertionResult>, GradingStop> {
        let GradedRun { seen, lines, files, .. } = run;
        // The same for all sentences of the run.
        let transcript = render_blinded(lines);
        let work = JudgedWork {
            task: &case.prompt,
            expected: case.expected_output.as_deref(),
            transcript: &transcript,
            files,
        };
        let mut results = Vec::new();
        for assertion in &case.assertions {
            let text = assertion.text();
            results.push(match check_assertion(assertion, seen) {
                AssertionCheck::Done(result) => result,
                AssertionCheck::Script(path) => self.run_script(&path, text, case, &run).await,
                AssertionCheck::Judge(sentence) => match &self.judge {
                    None => AssertionResult::skipped(text, "a sentence requires --judge"),
                    Some(judge) => {
                        let judged = self.judge_sentence(&**judge, &sentence, &work, spent).await?;
                        AssertionResult { text, ..judged }
                    }
                },
            });
        }
        Ok(results)
    }

    async fn run_script(
        &self,
        path: &str,
        text: String,
        case: &OutputCase,
        run: &GradedRun<'_>,
    ) -> AssertionResult {
        let Some(scripts) = &self.scripts else {
            return AssertionResult::skipped(text, "a script requires --run-scripts");
        };
        let input = json!({
            "case": {
                "id": case.id,
                "prompt": case.prompt,
                "expected_output": case.expected_output,
            },
            "answer": run.seen.answer,
            "created": run.seen.created,
            "modified": run.seen.modified,
            "commands": run.seen.commands,
        });
        match scripts.run_script(path, input.to_string(), run.workspace).await {
            Ok((passed, evidence)) => AssertionResult::checked(text, passed, evidence),
            Err(reason) => AssertionResult::skipped(text, &reason),
        }
    }

    async fn judge_sentence(
        &self,
        judge: &dyn ModelProvider,
        sentence: &str,
        work: &JudgedWork<'_>,
        spent: &mut SpentAmounts,
    ) -> Result<AssertionResult, GradingStop> {
        let request = ModelRequest {
            system: JUDGE_INSTRUCTIONS.to_owned(),
            messages: vec![Message::User { text: render_judge_message(sentence, work) }],
            // A judge without tools cannot be led to use one.
            ..ModelRequest::default()
        };
        let mut reason = String::new();
        for _ in 0..MAX_ATTEMPTS {
            let mut on_spent = |amounts| spent.add(amounts);
            let reply =
                request_metered(&self.meter, judge, &request, &mut |_| (), &mut on_spent).await;
            match reply.map_err(GradingStop::Spending)? {
                Ok(reply) => return Ok(read_judgment(sentence, &reply.text, work)),
                Err(error) => reason = format!("the judge: {error}"),
            }
        }
        // A sentence without a judgment must not count as one that could not be checked.
        Err(GradingStop::Judge(reason))
    }
}

/// Renders the texts and tool calls of a run without those that reveal its arm.
fn render_blinded(lines: &[Value]) -> String {
    let mut text = String::new();
    let is_hidden = |name: &Value| name.as_str().is_some_and(|name| SKILL_TOOLS.contains(&name));
    let mut add = |label: &str, part: &Value| {
        if let Some(part) = part.as_str().filter(|part| !part.is_empty()) {
            text.push_str(&format!("{label}: {part}\n"));
        }
    };
    for line in lines {
        match line["role"].as_str() {
            Some("user") => add("user", &line["text"]),
            Some("assistant") => {
                add("assistant", &line["text"]);
                let calls = line["calls"].as_array().into_iter().flatten();
                for call in calls.filter(|call| !is_hidden(&call["name"])) {
                    add(call["name"].as_str().unwrap_or_default(), &call["arguments"]);
                }
            }
            Some("tool") if !is_hidden(&line["name"]) => add("result", &line["text"]),
            // The instructions have the catalog.
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judge_does_not_learn_arm() {
        let lines = [
            json!({"role": "system", "text": "skills: pdf-forms"}),
            json!({"role": "user", "text": "Fill it in."}),
            json!({"role": "assistant", "text": "", "calls": [
                {"id": "1", "name": "read_skill", "arguments": "{\"skill_id\": \"pdf-forms\"}"},
                {"id": "2", "name": "read_file", "arguments": "{\"path\": \"a\"}"}]}),
            json!({"role": "tool", "call_id": "1", "name": "read_skill", "text": "pdf-forms text"}),
            json!({"role": "tool", "call_id": "2", "name": "read_file", "text": "W-9"}),
            json!({"role": "assistant", "text": "Done."}),
        ];
        assert_eq!(
            render_blinded(&lines),
            "user: Fill it in.\nread_file: {\"path\": \"a\"}\nresult: W-9\nassistant: Done.\n"
        );
    }
}
