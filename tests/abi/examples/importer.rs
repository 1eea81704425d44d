//! An extension whose tasks import pages, and fail as their input says.
//!
//! Each page that is imported is a line in the file `PAGE N` of the home, with the key of the step.

use std::io::Write as _;
use std::path::PathBuf;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::tokio;

/// The input of a task.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct ImportInput {
    pages: u32,
    /// The first import of this page never ends.
    hang: Option<u32>,
    /// The question behind the last page.
    ask: Option<String>,
    fault: Option<Fault>,
}

/// A way to fail behind the last page.
#[derive(Clone, Copy, Deserialize)]
#[serde(crate = "serde", rename_all = "snake_case")]
enum Fault {
    Fail,
    Panic,
    /// A transient error.
    Unavailable,
    /// Uses a name twice.
    Twice,
    /// Stores too much.
    Large,
    /// Asks without a text.
    Blank,
}

struct Importer {
    home: PathBuf,
}

#[async_trait]
impl Extension for Importer {
    fn new(cx: ExtensionContext) -> Result<Self> {
        Ok(Self { home: cx.home().to_owned() })
    }
}

#[async_trait]
impl TaskProvider for Importer {
    fn kinds(&self) -> Vec<TaskKindSpec> {
        let schema = || {
            json!({
                "type": "object",
                "properties": {"pages": {"type": "integer", "minimum": 0}},
                "required": ["pages"]
            })
        };
        vec![
            TaskKindSpec::new("import", "Imports pages.", schema()),
            TaskKindSpec::new("publish", "Imports pages for everyone.", schema()).needs_approval(),
        ]
    }

    async fn prepare(&self, _: &CallContext, _: &str, input: ToolArgs<'_>) -> Result<String> {
        match input.parse::<ImportInput>()?.pages {
            0 => Err(ExtensionError::invalid_argument("no pages").with_hint("name at least one")),
            pages => Ok(format!("{pages} pages")),
        }
    }

    async fn run(&self, _: &CallContext, run: &TaskRun) -> Result<TaskResult> {
        let input: ImportInput = run.input().parse()?;
        let mut bytes = 0;
        for page in 1..=input.pages {
            let name = format!("page {page}");
            // The number of the attempt would not do: one that an orderly stop ends is not counted.
            let is_first = !self.home.join(name.to_uppercase()).exists();
            let hangs = input.hang == Some(page) && is_first;
            bytes += run.step(&name, self.import_page(&name, run, hangs)).await?;
            run.progress(f64::from(page), Some(f64::from(input.pages)), &name).await?;
        }
        match input.fault {
            None => {}
            Some(Fault::Fail) => return Err(ExtensionError::failed("no pages are left")),
            Some(Fault::Panic) => panic!("the task panicked"),
            Some(Fault::Unavailable) => {
                return Err(ExtensionError::new(ErrorKind::Unavailable, "the server is busy"));
            }
            Some(Fault::Twice) => {
                run.step("page 1", async { Ok(1) }).await?;
            }
            Some(Fault::Large) => {
                run.step("large", async { Ok("x".repeat(2 << 20)) }).await?;
            }
            Some(Fault::Blank) => {
                run.ask("blank", "", &[])?;
            }
        }
        let answer = match &input.ask {
            Some(question) => run.ask("publish", question, &["yes", "no"])?,
            None => "unasked".to_owned(),
        };
        let value = json!({"pages": input.pages, "bytes": bytes, "attempt": run.attempt()});
        TaskResult::text(format!("{} pages, {answer}", input.pages)).with_structured(&value)
    }
}

impl Importer {
    async fn import_page(&self, name: &str, run: &TaskRun, hangs: bool) -> Result<u64> {
        let path = self.home.join(name.to_uppercase());
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{}", run.idempotency_key(name))?;
        if hangs {
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
        Ok(100)
    }
}

export_extension!(Importer: tasks);
