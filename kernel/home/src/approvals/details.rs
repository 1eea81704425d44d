//! The text that a person reads before an extension is approved: its effects, then every file in
//! full. Content that cannot be displayed in full prevents the approval.

use std::fmt::Write as _;
use std::path::Path;

use skillhost_files::{TreeFile, sha256_hex};
use skillhost_manifest::{
    CapabilityMode, EventHandler, ExtensionKind, IntegrationMode, Manifest, ScheduleAction,
};

use super::extension_files::MANIFEST;
use crate::installation::library_file_name;
use crate::reserved_ids::{ADDED, KERNEL_OWNER};

/// The limit of displayed text, in bytes.
const MAX_BYTES: usize = 256 * 1024;
/// The limit of displayed lines.
const MAX_LINES: usize = 8_000;

/// The characters of a digest that are displayed: a review compares files, and the approval itself
/// is bound to whole digests.
const DIGEST_CHARS: usize = 12;

/// Extensions of files without effect, which are displayed last.
const TEXTS: [&str; 5] = ["md", "txt", "rst", "adoc", "license"];

/// The details of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDetails {
    /// The text; untrusted where it displays files.
    pub text: String,
    /// The reasons why some content cannot be displayed, one per line; empty if everything is
    /// displayed.
    pub hidden: Vec<String>,
}

/// Describes the effects of a manifest, then every file: manifest, code, the rest. Lines of files
/// are indented, so that none passes for a heading. The library of the manifest, if it is among the
/// files, is named with its size and sha256. `notes` are further lines about its effect.
#[must_use]
pub fn approval_details(
    manifest: &Manifest,
    files: &[TreeFile],
    notes: &[String],
) -> ApprovalDetails {
    let mut text = describe_effects(manifest);
    for note in notes {
        push_line(&mut text, note);
    }
    let library = manifest.entrypoint().map(library_file_name);
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    push_line(&mut text, &format!("{} files, {bytes} bytes, with their sha256:", files.len()));
    for file in files {
        let mode = if file.executable { " (executable)" } else { "" };
        let digest: String = sha256_hex(&file.bytes).chars().take(DIGEST_CHARS).collect();
        push_line(&mut text, &format!("  {:>8}  {digest}  {}{mode}", file.bytes.len(), file.path));
    }
    let mut ordered: Vec<_> = files.iter().collect();
    ordered.sort_by_key(|file| (display_rank(file), &file.path));
    let mut hidden = Vec::new();
    let (mut shown_bytes, mut shown_lines) = (0, 0);
    let mut sizes = Vec::new();
    for TreeFile { path, bytes, .. } in ordered {
        if Some(path) == library.as_ref() {
            let sha256 = sha256_hex(bytes);
            let size = bytes.len();
            push_line(
                &mut text,
                &format!(
                    "--- {path}: a prebuilt library of {size} bytes, sha256 {sha256}\n\
                     !!! its content cannot be displayed and may not come from the listed sources"
                ),
            );
            continue;
        }
        match std::str::from_utf8(bytes) {
            Ok(content) if !content.contains('\0') => {
                push_line(&mut text, &format!("--- {path}"));
                let before = shown_lines;
                for content in content.lines() {
                    shown_lines += 1;
                    push_line(&mut text, &format!("    {content}"));
                }
                shown_bytes += bytes.len();
                sizes.push((bytes.len(), shown_lines - before, path));
            }
            _ => hidden.push(format!("{path}: not text, {} bytes", bytes.len())),
        }
    }
    if shown_bytes > MAX_BYTES || shown_lines > MAX_LINES {
        sizes.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let largest: Vec<_> = sizes
            .iter()
            .take(3)
            .map(|(bytes, lines, path)| format!("{path}: {bytes} bytes, {lines} lines"))
            .collect();
        hidden.push(format!(
            "{shown_bytes} bytes of text in {shown_lines} lines, more than the {MAX_BYTES} bytes and \
             {MAX_LINES} lines that can be displayed ({})",
            largest.join("; ")
        ));
    }
    ApprovalDetails { text, hidden }
}

/// Returns the position of a file in the order of display.
fn display_rank(file: &TreeFile) -> u8 {
    let path = Path::new(&file.path);
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match () {
        () if file.path == MANIFEST => 0,
        // An executable file is code under any name.
        () if file.executable || file.path == "prompt.jinja2" => 1,
        () if name.starts_with("readme") => 3,
        () if TEXTS.contains(&ending.as_str()) || name == "license" => 2,
        () => 1,
    }
}

/// Describes the effects of an approved manifest.
fn describe_effects(manifest: &Manifest) -> String {
    let mut text = String::new();
    let id = &manifest.id;
    match &manifest.kind {
        ExtensionKind::Library { entrypoint } => push_line(
            &mut text,
            &format!(
                "sandbox/extensions/{id}: a Rust library, {}; it runs inside of this program and \
                 may do whatever the program may",
                library_file_name(entrypoint)
            ),
        ),
        ExtensionKind::Process { command } => push_line(
            &mut text,
            &format!(
                "sandbox/extensions/{id}: a program, started as {command:?}, as a process of its own"
            ),
        ),
        ExtensionKind::Agent(agent) => {
            let how = match agent.integration_mode {
                IntegrationMode::Standalone => "an agent",
                IntegrationMode::Tool => "an agent, which other agents can call as a tool",
            };
            push_line(&mut text, &format!("sandbox/extensions/{id}: {how}"));
            let tools: Vec<_> = agent.uses_tools.iter().map(|tool| tool.value.as_str()).collect();
            let tools = match tools.as_slice() {
                [] => "nothing".to_owned(),
                tools => tools.join(", "),
            };
            push_line(&mut text, &format!("may call: {tools}"));
            for used in &agent.uses_tools {
                let all = match used.value.as_str() {
                    ADDED => "everything in sandbox/extensions, including later additions",
                    KERNEL_OWNER => "all tools of the kernel, which create, build and restart",
                    _ => continue,
                };
                push_line(&mut text, &format!("  {} is {all}", used.value));
            }
            let skills: Vec<_> = agent.uses_skills.iter().map(|s| s.value.as_str()).collect();
            push_names(&mut text, "carries the skills", &skills);
            if agent.capability_mode == Some(CapabilityMode::Off) {
                push_line(&mut text, "may call tools that its skills do not declare, unreported");
            }
        }
    }
    if manifest.is_channel {
        push_line(&mut text, "is a channel: it sees all that paired people write and are sent");
    }
    for subscription in &manifest.events.subscribes {
        let does = match &subscription.handler {
            None => continue,
            Some(EventHandler::NotifyUser { .. }) => "you are notified".to_owned(),
            Some(EventHandler::Custom) => "the library is called".to_owned(),
            Some(EventHandler::InvokeAgent { agent, .. }) => {
                format!("the agent `{}` is given a task", agent.as_ref().unwrap_or(id))
            }
        };
        push_line(&mut text, &format!("on events `{}`: {does}", subscription.topic));
    }
    for schedule in &manifest.schedules {
        let does = match &schedule.action {
            ScheduleAction::Task(task) => format!("the task `{task}` of the library"),
            ScheduleAction::Tool { name, .. } => format!("the tool `{name}` is called"),
            ScheduleAction::Prompt(_) => "the agent is given a task".to_owned(),
        };
        let zone = schedule.timezone.as_deref().unwrap_or("UTC");
        let (name, cron) = (&schedule.name, &schedule.cron);
        push_line(&mut text, &format!("on schedule `{name}`, {cron} ({zone}): {does}"));
    }
    let exports: Vec<_> = manifest.mcp.tools.iter().map(String::as_str).collect();
    push_names(&mut text, "offers to MCP clients the tools", &exports);
    let secrets: Vec<_> = manifest.secrets.iter().map(String::as_str).collect();
    push_names(&mut text, "may ask for the secrets", &secrets);
    let needs: Vec<_> = manifest.depends_on.iter().map(|needed| needed.id.as_str()).collect();
    push_names(&mut text, "needs the extensions", &needs);
    text
}

fn push_names(text: &mut String, what: &str, names: &[&str]) {
    if !names.is_empty() {
        push_line(text, &format!("{what}: {}", names.join(", ")));
    }
}

fn push_line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: &[u8]) -> TreeFile {
        TreeFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
    }

    #[test]
    fn effects_and_code_come_before_texts() {
        let text = "id: tea\nname: Tea\nentrypoint: tea\nsecrets: [KEY]\nmcp: {tools: [brew]}\n";
        let manifest = skillhost_manifest::parse_manifest(text).unwrap();
        let readme = "x\n".repeat(3_000);
        let run = TreeFile { executable: true, ..file("notes.md", b"#!/bin/sh\n") };
        let files = [
            file("README.md", readme.as_bytes()),
            file("docs/a.txt", b"why\n"),
            file("libtea.so", &[0xff, 0]),
            file("manifest.yaml", text.as_bytes()),
            run,
            file("src/lib.rs", "--- manifest.yaml\n\u{1b}[2Jx".as_bytes()),
        ];
        let ApprovalDetails { text, hidden } = approval_details(&manifest, &files, &[]);
        assert_eq!(hidden, Vec::<String>::new());
        let headings: Vec<_> = text.lines().filter(|line| line.starts_with("---")).collect();
        let sha256 = sha256_hex(&[0xff, 0]);
        assert_eq!(
            headings,
            [
                "--- manifest.yaml",
                &format!("--- libtea.so: a prebuilt library of 2 bytes, sha256 {sha256}"),
                "--- notes.md",
                "--- src/lib.rs",
                "--- docs/a.txt",
                "--- README.md",
            ]
        );
        let lines: Vec<_> = text.lines().take(4).collect();
        assert!(lines[0].starts_with("sandbox/extensions/tea: a Rust library, libtea.so"));
        assert_eq!(
            lines[1..],
            [
                "offers to MCP clients the tools: brew",
                "may ask for the secrets: KEY",
                &format!(
                    "6 files, {} bytes, with their sha256:",
                    files.iter().map(|f| f.bytes.len()).sum::<usize>()
                ),
            ]
        );
        let listed = format!("         2  {}  libtea.so", &sha256[..DIGEST_CHARS]);
        assert!(text.lines().any(|line| line == listed), "{text}");
        assert_eq!(text.lines().filter(|line| *line == "    x").count(), 3_000);
    }

    #[test]
    fn hidden_content_names_its_size() {
        let text = "id: tea\nname: Tea\nentrypoint: {command: [./tea]}\n";
        let manifest = skillhost_manifest::parse_manifest(text).unwrap();
        let hidden = |files: &[TreeFile]| approval_details(&manifest, files, &[]).hidden;
        assert_eq!(
            hidden(&[file("a.bin", &[0xff, 0]), file("b", b"a\0b"), file("c.py", b"pass\n")]),
            ["a.bin: not text, 2 bytes", "b: not text, 3 bytes"]
        );
        let many = [file("a.md", "x".repeat(MAX_BYTES).as_bytes()), file("server.py", b"pass\n")];
        let over = hidden(&many);
        assert_eq!(over.len(), 1);
        assert!(over[0].starts_with("262149 bytes of text in 2 lines, more than"), "{}", over[0]);
        assert!(over[0].contains("a.md: 262144 bytes, 1 lines"), "{}", over[0]);
        assert_eq!(hidden(&[file("a.md", "\n".repeat(MAX_LINES + 1).as_bytes())]).len(), 1);
        assert_eq!(hidden(&[file("a.md", "\n".repeat(MAX_LINES).as_bytes())]).len(), 0);
    }

    #[test]
    fn agent_effects_name_its_reach() {
        let manifest = skillhost_manifest::parse_manifest(
            "id: spy\nname: Spy\nagent: {integration_mode: tool, instructions: Watch., uses_tools: \
             [kernel, sandbox, echo]}\nevents: {subscribes: [{topic: '*', handler: invoke_agent, \
             prompt: x}]}\nschedules: [{name: often, cron: '* * * * *', prompt: Go.}]\n",
        )
        .unwrap();
        assert_eq!(
            describe_effects(&manifest),
            "sandbox/extensions/spy: an agent, which other agents can call as a tool\n\
             may call: kernel, sandbox, echo\n  \
             kernel is all tools of the kernel, which create, build and restart\n  \
             sandbox is everything in sandbox/extensions, including later additions\n\
             on events `*`: the agent `spy` is given a task\n\
             on schedule `often`, * * * * * (UTC): the agent is given a task\n"
        );
    }
}
