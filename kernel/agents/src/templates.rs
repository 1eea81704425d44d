//! Templates of manifests and prompts, rendered within limits.
//!
//! A template is a program: a nested loop can run for years and print without end. Instructions,
//! output and time are therefore limited, and the work is done on a blocking thread, where it
//! delays no other task.

use std::io::{self, Write};
use std::time::Duration;

use futures::future::BoxFuture;
use minijinja::{Environment, UndefinedBehavior, Value};

/// The limit of executed template instructions.
const FUEL: u64 = 1_000_000;

/// The timeout of a rendering. Its thread ends when the instructions are used up.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A rendered text.
#[derive(Debug, PartialEq, Eq)]
pub struct RenderedTemplate {
    /// The text, cut at the limit.
    pub text: String,
    /// True if the text was cut at the limit.
    pub is_cut: bool,
}

/// A function that reads a template by name; `None` if the file does not exist.
pub type TemplateLoader =
    Box<dyn Fn(&str) -> Result<Option<String>, minijinja::Error> + Send + Sync>;

/// Renders the template `name`, within limits, on a blocking thread.
///
/// # Errors
/// One line with the reason.
pub fn render_template(
    loader: TemplateLoader,
    name: &'static str,
    variables: Value,
    limit: usize,
) -> BoxFuture<'static, Result<RenderedTemplate, String>> {
    Box::pin(async move {
        let work = tokio::task::spawn_blocking(move || {
            render_blocking(loader, name, variables, limit)
                .map_err(|error| describe_template_error(&error))
        });
        match tokio::time::timeout(TIMEOUT, work).await {
            Ok(Ok(rendered)) => rendered,
            Ok(Err(_)) => Err("rendering panicked".to_owned()),
            Err(_) => Err(format!("rendering timed out after {} ms", TIMEOUT.as_millis())),
        }
    })
}

fn render_blocking(
    loader: TemplateLoader,
    name: &str,
    variables: Value,
    limit: usize,
) -> Result<RenderedTemplate, minijinja::Error> {
    let mut environment = Environment::new();
    // A misspelled variable is an error and not an empty text.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_loader(loader);
    let mut output = LimitedOutput { bytes: Vec::new(), limit, is_cut: false };
    let rendered = environment.get_template(name)?.render_captured_to(variables, &mut output);
    match rendered {
        // The sink's own error only marks the cut.
        Err(error) if !output.is_cut => return Err(error),
        Ok(_) | Err(_) => {}
    }
    // The cut can fall inside of a character.
    let text = match String::from_utf8(output.bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
        }
    };
    Ok(RenderedTemplate { text, is_cut: output.is_cut })
}

/// A sink that accepts a limited number of bytes and then fails.
struct LimitedOutput {
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

impl Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            self.is_cut = true;
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "text is too long"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formats a template error on one line: reason and position.
fn describe_template_error(error: &minijinja::Error) -> String {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{}{detail}", error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn render(template: &'static str, limit: usize) -> Result<RenderedTemplate, String> {
        let loader = Box::new(|_: &str| Ok(Some(template.to_owned())));
        render_template(loader, "x", minijinja::context! { text => "ä".repeat(10) }, limit).await
    }

    #[tokio::test]
    async fn nested_loops_run_out_of_fuel() {
        let loops = "{% for a in range(100000) %}{% for b in range(100000) %}\
                     {% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}";
        let error = render(loops, 100).await.unwrap_err();
        assert!(error.ends_with("engine ran out of fuel"), "{error}");
    }

    #[tokio::test]
    async fn long_output_is_cut() {
        let cut = |text: &str| RenderedTemplate { text: text.to_owned(), is_cut: true };
        assert_eq!(render("{{ text }}", 5).await, Ok(cut("ää")));
        let endless = "{% for a in range(100000) %}{{ text }}{% endfor %}";
        assert_eq!(render(endless, 20).await, Ok(cut(&"ä".repeat(10))));
        let complete = RenderedTemplate { text: "ä".repeat(10), is_cut: false };
        assert_eq!(render("{{ text }}", 20).await, Ok(complete));
    }
}
