//! The files of new extensions, from templates.
//!
//! The templates of the skill `extension-development`, which agents start from, are those of the
//! command line as well, with another id.

use serde_json::json;
use skillhost_manifest::ExtensionId;

/// Includes a file of a template of the skill `extension-development`.
macro_rules! skill_template {
    ($path:literal) => {
        include_str!(concat!("../../../sandbox/skills/extension-development/templates/", $path))
    };
}

const CARGO_TOML: &str = include_str!("../templates/Cargo.toml.in");

/// A template of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtensionTemplate {
    /// A library in Rust with a tool.
    Native,
    /// A process in Python with a tool.
    ProcessPython,
    /// A process in JavaScript with a tool.
    ProcessNode,
    /// A library in Rust with a block in every prompt.
    Context,
    /// A library in Rust with a background service.
    Service,
    /// An existing MCP server, which is started with a command.
    Mcp,
}

/// The inputs of a template.
#[derive(Debug, Clone, Copy)]
pub struct ScaffoldRequest<'a> {
    /// The id of the new extension.
    pub id: &'a ExtensionId,
    /// The path of the sources of skillhost-sdk; empty for templates that do not use it.
    pub sdk: &'a str,
    /// The command of the MCP server; empty for other templates.
    pub command: &'a [String],
}

/// An error of a request for the files of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScaffoldError {
    /// The template requires the command of a server.
    #[error("template `mcp` requires the command of the server")]
    CommandMissing,
    /// The template has a program of its own.
    #[error("template `{}` has its own program; only `mcp` takes a command", .0.as_str())]
    CommandUnexpected(ExtensionTemplate),
}

impl ExtensionTemplate {
    /// Every template, the default first.
    pub const ALL: [Self; 6] = [
        Self::Native,
        Self::ProcessPython,
        Self::ProcessNode,
        Self::Context,
        Self::Service,
        Self::Mcp,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::ProcessPython => "process-python",
            Self::ProcessNode => "process-node",
            Self::Context => "context",
            Self::Service => "service",
            Self::Mcp => "mcp",
        }
    }

    /// Returns the template with a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|template| template.as_str() == name)
    }

    /// Returns whether the extension is a crate that is built with skillhost-sdk.
    #[must_use]
    pub const fn uses_sdk(self) -> bool {
        matches!(self, Self::Native | Self::Context | Self::Service)
    }

    /// Returns the tool of the new extension with arguments for a first call, or `None` if it has
    /// none of its own.
    #[must_use]
    pub fn first_call(self, id: &ExtensionId) -> Option<(String, &'static str)> {
        let name = |tool: &str| format!("{}_{tool}", library_name(id));
        match self {
            Self::Native => Some((name("greet"), r#"{"name": "Ada"}"#)),
            Self::ProcessPython => Some((name("count_words"), r#"{"text": "one two"}"#)),
            Self::ProcessNode => Some((name("count_lines"), r#"{"text": "one two"}"#)),
            Self::Context | Self::Service | Self::Mcp => None,
        }
    }

    /// Returns the files of a new extension, by path.
    ///
    /// # Errors
    /// [`ScaffoldError`] for a missing command, and one that the template does not use.
    pub fn files(
        self,
        request: &ScaffoldRequest<'_>,
    ) -> Result<Vec<(&'static str, String)>, ScaffoldError> {
        if self != Self::Mcp && !request.command.is_empty() {
            return Err(ScaffoldError::CommandUnexpected(self));
        }
        let ScaffoldRequest { id, sdk, .. } = *request;
        let library = library_name(id);
        let fill = |template: &str| {
            template
                .replace("{{id}}", id.as_str())
                .replace("{{lib}}", &library)
                .replace("{{tool}}", &library)
                .replace("{{crate}}", &format!("skillhost-ext-{id}"))
                .replace("{{name}}", &title(id))
                // TOML basic strings and JSON strings share the escapes of all characters that a
                // path can hold.
                .replace("{{sdk}}", &json!(sdk).to_string())
        };
        // The id of a template is also the name of its library; only the id may have hyphens. Each
        // line is adapted once, because a new id may contain that of the template.
        let adapt = |text: &str, own: &str, name: &str| {
            let adapt_line = |line: &str| match line.split_once(": ") {
                Some(("id", value)) if value.trim_end() == own => format!("id: {id}\n"),
                Some(("name", value)) if value.trim_end() == name => {
                    format!("name: {}\n", title(id))
                }
                _ => line.replace(own, &library),
            };
            text.split_inclusive('\n').map(adapt_line).collect()
        };
        // Tool names are global, so two extensions of one template need different ones.
        let own_tool = |text: &str, tool: &str| text.replace(tool, &format!("{library}_{tool}"));
        Ok(match self {
            Self::Native => vec![
                ("manifest.yaml", fill(include_str!("../templates/manifest.yaml.in"))),
                ("Cargo.toml", fill(CARGO_TOML)),
                ("src/lib.rs", fill(include_str!("../templates/lib.rs.in"))),
            ],
            Self::Context => vec![
                (
                    "manifest.yaml",
                    adapt(
                        skill_template!("context-provider/manifest.yaml"),
                        "house_rules",
                        "House rules",
                    ),
                ),
                ("Cargo.toml", fill(CARGO_TOML)),
                ("src/lib.rs", skill_template!("context-provider/src/lib.rs").to_owned()),
            ],
            Self::Service => vec![
                (
                    "manifest.yaml",
                    adapt(
                        skill_template!("service-provider/manifest.yaml"),
                        "skill_watch",
                        "Skill watch",
                    ),
                ),
                ("Cargo.toml", fill(CARGO_TOML)),
                ("src/lib.rs", skill_template!("service-provider/src/lib.rs").to_owned()),
            ],
            Self::ProcessPython => vec![
                (
                    "manifest.yaml",
                    adapt(
                        skill_template!("process-python/manifest.yaml"),
                        "word_count",
                        "Word count",
                    ),
                ),
                ("server.py", own_tool(skill_template!("process-python/server.py"), "count_words")),
            ],
            Self::ProcessNode => vec![
                (
                    "manifest.yaml",
                    adapt(
                        skill_template!("process-node/manifest.yaml"),
                        "line_count",
                        "Line count",
                    ),
                ),
                ("server.mjs", own_tool(skill_template!("process-node/server.mjs"), "count_lines")),
            ],
            Self::Mcp => {
                if request.command.is_empty() {
                    return Err(ScaffoldError::CommandMissing);
                }
                // A JSON array is a YAML sequence for arguments with any characters.
                let command = json!(request.command).to_string();
                let text = fill(include_str!("../templates/mcp-manifest.yaml.in"));
                let sandbox = describe_requests(request.command);
                let text = text.replace("{{sandbox}}", sandbox.trim_end());
                vec![("manifest.yaml", text.replace("{{command}}", &command))]
            }
        })
    }
}

/// Returns the field `sandbox` with the requests that follow from the command of a server: the
/// registry of the package that it fetches, and the paths among its arguments.
fn describe_requests(command: &[String]) -> String {
    let program = command.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let hosts: &[&str] = match program {
        "npx" | "npm" | "pnpm" | "pnpx" | "yarn" | "bunx" => &["registry.npmjs.org"],
        "uvx" | "uv" | "pipx" | "pip" => &["pypi.org", "files.pythonhosted.org"],
        _ => &[],
    };
    // Others could not be part of a policy, and would make the manifest invalid.
    let is_path = |word: &&String| {
        let is_rooted = word.starts_with('/') || word.starts_with("~/");
        is_rooted && !word.contains(['*', '?', '[']) && word.split('/').all(|part| part != "..")
    };
    let paths: Vec<_> = command.iter().skip(1).filter(is_path).collect();
    let mut text = match hosts.is_empty() && paths.is_empty() {
        true => {
            return "# sandbox:\n#   network: {allowedDomains: [api.example.org]}\n#   \
                        filesystem: {allowRead: [/srv/data], allowWrite: []}\n"
                .to_owned();
        }
        false => "sandbox:\n".to_owned(),
    };
    if !hosts.is_empty() {
        text.push_str(&format!("  network: {{allowedDomains: [{}]}}\n", hosts.join(", ")));
    }
    if !paths.is_empty() {
        text.push_str(&format!("  filesystem: {{allowRead: {}}}\n", json!(paths)));
    }
    text
}

/// Returns the name of an extension's library, which also begins the names of its tools.
fn library_name(id: &ExtensionId) -> String {
    id.as_str().replace('-', "_")
}

/// Converts an id to a title: `rss_reader` → `Rss reader`.
fn title(id: &ExtensionId) -> String {
    let words = id.as_str().replace(['_', '-'], " ");
    let mut characters = words.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use skillhost_manifest::parse_manifest;

    use super::*;

    fn files(template: ExtensionTemplate, id: &str) -> Vec<(&'static str, String)> {
        let id = ExtensionId::new(id).unwrap();
        let command = ["npx", "-y", "a: \"b\"@1.2.3"].map(str::to_owned);
        let command = if template == ExtensionTemplate::Mcp { &command[..] } else { &[] };
        let request = ScaffoldRequest { id: &id, sdk: "/opt/a \"b\"/sdk", command };
        template.files(&request).unwrap()
    }

    #[test]
    fn templates_have_valid_manifests() {
        for template in ExtensionTemplate::ALL {
            assert_eq!(ExtensionTemplate::find(template.as_str()), Some(template));
            let files = files(template, "tea-time");
            let (path, text) = &files[0];
            assert_eq!(*path, "manifest.yaml");
            let manifest = parse_manifest(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
            assert_eq!((manifest.id.as_str(), &*manifest.name), ("tea-time", "Tea time"));
            assert!(text.contains("$schema=../../../docs/schema/manifest.json"), "{text}");
            let all: String = files.iter().map(|(_, text)| text.as_str()).collect();
            for rest in ["{{", "house_rules", "skill_watch", "word_count", "line_count", "SDK_PATH"]
            {
                assert!(!all.contains(rest), "{rest} in {}", template.as_str());
            }
            if let Some((tool, _)) = template.first_call(&manifest.id) {
                assert!(tool.starts_with("tea_time_"), "{tool}");
                let quoted = format!("\"{tool}\"");
                let shown = all.contains(&quoted) || template == ExtensionTemplate::Native;
                assert!(shown, "{tool} in {}", template.as_str());
            }
            let has_crate = files.iter().any(|(path, _)| *path == "Cargo.toml");
            assert_eq!(has_crate, template.uses_sdk(), "{}", template.as_str());
        }
        assert_eq!(ExtensionTemplate::find("rust"), None);
    }

    #[test]
    fn id_may_contain_that_of_template() {
        for (template, id) in [
            (ExtensionTemplate::Context, "my-house_rules"),
            (ExtensionTemplate::Service, "skill_watch2"),
            (ExtensionTemplate::ProcessPython, "word_count_de"),
            (ExtensionTemplate::ProcessNode, "line_count"),
        ] {
            let files = files(template, id);
            let manifest = parse_manifest(&files[0].1).unwrap();
            assert_eq!(manifest.id.as_str(), id);
            let all: String = files.iter().map(|(_, text)| text.as_str()).collect();
            let tool = template.first_call(&manifest.id).map(|(tool, _)| format!("\"{tool}\""));
            assert!(tool.is_none_or(|tool| all.contains(&tool)), "{all}");
        }
    }

    #[test]
    fn mcp_manifest_requests_what_the_command_shows() {
        let requests = |command: &[&str]| {
            let id = ExtensionId::new("x").unwrap();
            let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
            let request = ScaffoldRequest { id: &id, sdk: "", command: &command };
            let text = ExtensionTemplate::Mcp.files(&request).unwrap().remove(0).1;
            parse_manifest(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}")).sandbox
        };
        let wiki = requests(&["npx", "-y", "@a/server@1.0.0", "/srv/wiki", "https://a.org"]);
        let wiki = wiki.unwrap();
        let hosts = wiki.network.and_then(|network| network.allowed_domains);
        assert_eq!(hosts.unwrap(), ["registry.npmjs.org"]);
        let paths = wiki.filesystem.and_then(|files| files.allow_read);
        assert_eq!(paths.unwrap(), ["/srv/wiki"]);
        let python = requests(&["uvx", "server==1.0"]).unwrap();
        assert_eq!(python.network.and_then(|network| network.allowed_domains).unwrap().len(), 2);
        assert_eq!(requests(&["server", "../x", "/a/*"]), None);
    }

    #[test]
    fn command_belongs_to_mcp_alone() {
        let id = ExtensionId::new("x").unwrap();
        let request = |command| ScaffoldRequest { id: &id, sdk: "", command };
        let command = ["true".to_owned()];
        assert_eq!(ExtensionTemplate::Mcp.files(&request(&[])), Err(ScaffoldError::CommandMissing));
        assert_eq!(
            ExtensionTemplate::Native.files(&request(&command)),
            Err(ScaffoldError::CommandUnexpected(ExtensionTemplate::Native))
        );
        let text = &files(ExtensionTemplate::Mcp, "tea-time")[0].1;
        assert!(text.contains(r#"command: ["npx","-y","a: \"b\"@1.2.3"]"#), "{text}");
    }
}
