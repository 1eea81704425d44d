//! Templates of manifests and prompts, rendered within limits.
//!
//! Who writes a template writes a program: a nested loop can run for years and print without end.
//! Instructions, output and time are therefore limited, and the work is done on a thread where it
//! keeps nothing else waiting.

use std::io::{self, Write};
use std::time::Duration;

use minijinja::{Environment, UndefinedBehavior, Value};

/// Instructions of a template that are run.
const FUEL: u64 = 1_000_000;

/// Time until a rendering is given up. Its thread ends when the instructions do.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A rendered text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// There was more of it than the limit.
    pub(crate) is_cut: bool,
}

/// Reads a template of a name; `None` where there is no such file.
pub(crate) type TemplateLoader =
    Box<dyn Fn(&str) -> Result<Option<String>, minijinja::Error> + Send + Sync>;

/// Renders the template `name`, within limits, on a thread for blocking work.
///
/// # Errors
/// One line about the reason.
pub(crate) async fn render_template(
    loader: TemplateLoader,
    name: &'static str,
    variables: Value,
    limit: usize,
) -> Result<Rendered, String> {
    let work = tokio::task::spawn_blocking(move || {
        render_now(loader, name, variables, limit).map_err(|error| describe(&error))
    });
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(Ok(rendered)) => rendered,
        Ok(Err(_)) => Err("rendering it panicked".to_owned()),
        Err(_) => Err(format!("rendering it took longer than {} ms", TIMEOUT.as_millis())),
    }
}

fn render_now(
    loader: TemplateLoader,
    name: &str,
    variables: Value,
    limit: usize,
) -> Result<Rendered, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_loader(loader);
    let mut output = LimitedOutput { bytes: Vec::new(), limit, is_cut: false };
    let rendered = environment.get_template(name)?.render_captured_to(variables, &mut output);
    match rendered {
        Err(error) if !output.is_cut => return Err(error),
        Ok(_) | Err(_) => {}
    }
    // A cut can fall into the middle of a character.
    let text = match String::from_utf8(output.bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
        }
    };
    Ok(Rendered { text, is_cut: output.is_cut })
}

/// A sink that takes so many bytes and fails with the next.
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
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the text is too long"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One line of a template error: what and where.
fn describe(error: &minijinja::Error) -> String {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{}{detail}", error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn render(template: &'static str, limit: usize) -> Result<Rendered, String> {
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
        let cut = |text: &str| Rendered { text: text.to_owned(), is_cut: true };
        assert_eq!(render("{{ text }}", 5).await, Ok(cut("ää")));
        let endless = "{% for a in range(100000) %}{{ text }}{% endfor %}";
        assert_eq!(render(endless, 20).await, Ok(cut(&"ä".repeat(10))));
        let whole = Rendered { text: "ä".repeat(10), is_cut: false };
        assert_eq!(render("{{ text }}", 20).await, Ok(whole));
    }
}
