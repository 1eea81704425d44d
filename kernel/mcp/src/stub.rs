//! A stub backend for tests that counts its calls.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skillhost_payload::{
    PublishedBody, PublishedContent, PublishedDetails, PublishedEntry, PublishedFile,
    PublishedSkill, PublishedSkills, ToolOutput, ToolSpec,
};
use tokio::sync::watch;

use crate::backend::{
    Backend, BackendError, ChangeCounter, ClientSession, ClientTasks, PromptArguments,
};

/// A backend with generated skills and one tool that has an argument in a header.
pub(crate) struct StubBackend {
    pub(crate) skills: usize,
    pub(crate) generation: AtomicU64,
    /// The stamp of all details; zero for a backend without stamps.
    pub(crate) stamp: AtomicU64,
    pub(crate) details: AtomicUsize,
    pub(crate) calls: Mutex<Vec<Value>>,
    pub(crate) change: watch::Sender<ChangeCounter>,
    pub(crate) tasks: Option<ClientTasks>,
}

impl StubBackend {
    pub(crate) fn new(skills: usize) -> Self {
        Self {
            skills,
            generation: AtomicU64::new(1),
            stamp: AtomicU64::new(1),
            details: AtomicUsize::new(0),
            calls: Mutex::default(),
            change: watch::Sender::default(),
            tasks: None,
        }
    }
}

#[async_trait]
impl Backend for StubBackend {
    fn instructions(&self) -> String {
        String::new()
    }

    async fn tools(&self, _: &ClientSession) -> Result<Vec<ToolSpec>, BackendError> {
        let spec = json!({
            "name": "route", "description": "Routes.",
            "input_schema": {
                "type": "object",
                "properties": {
                    "region": { "type": "string", "x-mcp-header": "Region" },
                    "text": { "type": "string" },
                },
            },
        });
        let tool = |name: &str, task: &str| {
            json!({
                "name": name, "description": "", "input_schema": { "type": "object" },
                "task": task,
            })
        };
        let mut asks = tool("asks", "may");
        asks["input_schema"]["properties"] =
            json!({ "name": { "type": "string", "x-skillhost-ask": "Your name?" } });
        let all = [spec, tool("may_wait", "may"), tool("must_wait", "must"), asks];
        Ok(all.into_iter().map(|spec| serde_json::from_value(spec).unwrap()).collect())
    }

    async fn call(
        &self,
        _: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, BackendError> {
        if !["route", "may_wait", "must_wait"].contains(&name) {
            return Ok(None);
        }
        self.calls.lock().unwrap().push(Value::Object(arguments.clone()));
        let text = "routed".to_owned();
        Ok(Some(ToolOutput { text, ..ToolOutput::default() }))
    }

    async fn generation(&self, _: &ClientSession) -> Result<(u64, u64), BackendError> {
        Ok((1, self.generation.load(Ordering::Relaxed)))
    }

    async fn skills(&self, _: &ClientSession) -> Result<PublishedSkills, BackendError> {
        let skill = |number: usize| PublishedSkill {
            id: format!("s{number:04}"),
            root: format!("skill://s{number:04}"),
            uri: format!("skill://s{number:04}/SKILL.md"),
            name: format!("s{number:04}"),
            description: "D.".to_owned(),
            model_invocable: true,
            ..PublishedSkill::default()
        };
        let generation = self.generation.load(Ordering::Relaxed);
        Ok(PublishedSkills { generation, skills: (0..self.skills).map(skill).collect() })
    }

    async fn details(
        &self,
        _: &ClientSession,
        skill_ids: &[&str],
    ) -> Result<Vec<PublishedDetails>, BackendError> {
        self.details.fetch_add(1, Ordering::Relaxed);
        let stamp = self.stamp.load(Ordering::Relaxed);
        let details = |id: &&str| {
            let frontmatter = json!({ "name": id, "description": "D.", "stamp": stamp });
            let file = PublishedFile {
                uri: format!("skill://{id}/SKILL.md"),
                path: "SKILL.md".to_owned(),
                size: 1,
                sha256: "0".repeat(64),
            };
            PublishedDetails {
                id: (*id).to_owned(),
                frontmatter: frontmatter.as_object().cloned().unwrap_or_default(),
                files: Some(vec![file]),
                arguments: Vec::new(),
                unlisted: None,
            }
        };
        Ok(skill_ids.iter().map(details).collect())
    }

    async fn stamp(&self, _: &ClientSession, _: &[&str]) -> Option<u64> {
        Some(self.stamp.load(Ordering::Relaxed)).filter(|stamp| *stamp != 0)
    }

    async fn read(&self, _: &ClientSession, uri: &str) -> Result<PublishedBody, BackendError> {
        match uri.rsplit('/').next() {
            Some("large") => {
                let content = PublishedContent::Text("x".repeat((8 << 20) + 1));
                Ok(PublishedBody { mime_type: "text/plain".to_owned(), content })
            }
            Some("fits") => {
                let content = PublishedContent::Text("x".repeat(8 << 20));
                Ok(PublishedBody { mime_type: "text/plain".to_owned(), content })
            }
            _ => Err(BackendError::not_found(format!("file {uri} not found"))),
        }
    }

    async fn directory(
        &self,
        _: &ClientSession,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>, BackendError> {
        Err(BackendError::not_found(format!("directory {uri} not found")))
    }

    async fn prompt(
        &self,
        _: &ClientSession,
        skill_id: &str,
        _: PromptArguments,
    ) -> Result<String, BackendError> {
        Err(BackendError::not_found(skill_id))
    }

    fn tasks(&self) -> Option<&ClientTasks> {
        self.tasks.as_ref()
    }

    fn changes(&self) -> watch::Receiver<ChangeCounter> {
        self.change.subscribe()
    }
}
