//! The clients: their names, programs and configuration files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use skillhost_home::Environment;

use crate::config_text::ConfigFormat;

/// A client that can use an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum McpClient {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(name = "vscode")]
    VsCode,
}

/// The reach of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigScope {
    /// All projects of the user
    User,
    /// The project in the working directory
    Project,
}

impl ConfigScope {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// The directories and variables that decide where clients and their files are.
pub(crate) struct ClientEnvironment {
    pub(crate) project: PathBuf,
    pub(crate) user_home: Option<PathBuf>,
    /// `PATH`.
    pub(crate) program_path: Option<OsString>,
    /// `CLAUDE_CONFIG_DIR`.
    claude_dir: Option<PathBuf>,
    /// `CODEX_HOME`.
    codex_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    config_dir: Option<PathBuf>,
}

impl ClientEnvironment {
    /// Reads the variables of the process that the clients also read.
    pub(crate) fn new(environment: &Environment) -> Self {
        let dir = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            project: environment.current_dir.clone(),
            user_home: environment.user_home.as_ref().map(PathBuf::from),
            program_path: dir("PATH"),
            claude_dir: dir("CLAUDE_CONFIG_DIR").map(PathBuf::from),
            codex_dir: dir("CODEX_HOME").map(PathBuf::from),
            config_dir: dir("XDG_CONFIG_HOME").map(PathBuf::from),
        }
    }
}

impl McpClient {
    /// Returns the name in commands and in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    /// Returns the name of the product.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
        }
    }

    /// Returns the configuration file in a project, relative to it.
    pub(crate) const fn project_file(self) -> &'static str {
        match self {
            Self::Claude => ".mcp.json",
            Self::Codex => ".codex/config.toml",
            Self::Gemini => ".gemini/settings.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::VsCode => ".vscode/mcp.json",
        }
    }

    /// Returns the user's configuration file as documentation names it, without variables.
    pub(crate) const fn user_file_text(self) -> &'static str {
        match self {
            Self::Claude => "~/.claude.json",
            Self::Codex => "~/.codex/config.toml",
            Self::Gemini => "~/.gemini/settings.json",
            Self::Cursor => "~/.cursor/mcp.json",
            Self::VsCode if cfg!(target_os = "macos") => {
                "~/Library/Application Support/Code/User/mcp.json"
            }
            Self::VsCode => "~/.config/Code/User/mcp.json",
        }
    }

    /// Returns the configuration file of a scope; `None` without a home directory of the user.
    pub(crate) fn config_file(
        self,
        scope: ConfigScope,
        environment: &ClientEnvironment,
    ) -> Option<PathBuf> {
        if scope == ConfigScope::Project {
            return Some(environment.project.join(self.project_file()));
        }
        let below = |dir: &Path, file: &str| dir.join(file);
        let moved = match self {
            Self::Claude => environment.claude_dir.as_deref().map(|it| below(it, ".claude.json")),
            Self::Codex => environment.codex_dir.as_deref().map(|it| below(it, "config.toml")),
            Self::VsCode if !cfg!(target_os = "macos") => {
                environment.config_dir.as_deref().map(|it| below(it, "Code/User/mcp.json"))
            }
            _ => None,
        };
        let usual = || {
            let relative = self.user_file_text().trim_start_matches("~/");
            environment.user_home.as_deref().map(|home| home.join(relative))
        };
        moved.or_else(usual)
    }

    /// Returns the syntax of the configuration files.
    pub(crate) const fn format(self) -> ConfigFormat {
        match self {
            Self::Codex => ConfigFormat::Toml,
            Self::VsCode => {
                ConfigFormat::Json { table: "servers", comments: true, trailing_commas: true }
            }
            Self::Gemini | Self::Cursor => {
                ConfigFormat::Json { table: "mcpServers", comments: true, trailing_commas: false }
            }
            Self::Claude => {
                ConfigFormat::Json { table: "mcpServers", comments: false, trailing_commas: false }
            }
        }
    }

    /// Returns `true` if an entry names the transport.
    pub(crate) const fn has_transport(self) -> bool {
        !matches!(self, Self::Codex | Self::Gemini)
    }

    /// Returns the command, or the steps, by which a user sees that the server is connected.
    pub(crate) const fn check_text(self) -> &'static str {
        match self {
            Self::Claude => "claude mcp list",
            Self::Codex => "codex mcp list",
            Self::Gemini => "gemini mcp list",
            Self::Cursor => "the MCP page of Cursor's settings",
            Self::VsCode => "`MCP: List Servers` in the command palette",
        }
    }
}
