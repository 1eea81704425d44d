//! The settings of the export of telemetry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The export of runs and calls of tools as OpenTelemetry traces. Off by default: without `otlp`
/// no connection is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, try_from = "TelemetryForm")]
#[schemars(!try_from)]
pub struct TelemetrySettings {
    /// The base URL of a collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`;
    /// spans are sent to `v1/traces` below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,
    /// The names of the attributes: `off` exports none of the GenAI conventions, which are not stable
    /// yet. Without this key, `OTEL_SEMCONV_STABILITY_OPT_IN` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gen_ai: Option<GenAiConventions>,
    /// Spans have the descriptions and the addresses of skills, too; default: false. Prompts, replies,
    /// arguments and results are never exported.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub content: bool,
}

/// A version of OpenTelemetry's semantic conventions for generative AI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GenAiConventions {
    /// None.
    #[serde(rename = "off")]
    Off,
    /// The conventions in development, as of November 2026.
    #[serde(rename = "development-2026-11")]
    Development202611,
}

/// The keys as written, before they are checked together.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TelemetryForm {
    otlp: Option<String>,
    gen_ai: Option<GenAiConventions>,
    content: bool,
}

impl TryFrom<TelemetryForm> for TelemetrySettings {
    type Error = String;

    fn try_from(form: TelemetryForm) -> Result<Self, String> {
        let TelemetryForm { otlp, gen_ai, content } = form;
        match &otlp {
            Some(url) => check_collector_url(url)?,
            None if gen_ai.is_some() || content => {
                return Err("telemetry.gen_ai and telemetry.content have no effect without \
                            telemetry.otlp, the URL of a collector"
                    .to_owned());
            }
            None => {}
        }
        Ok(Self { otlp, gen_ai, content })
    }
}

/// Checks the base URL of a collector. It is shown by `config` and in messages, so it has no
/// credentials.
fn check_collector_url(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\\".contains(&byte));
    match host {
        Some(host) if host.contains('@') => {
            Err("telemetry.otlp has a user name or a password; set the headers of requests in the \
                 environment variable OTEL_EXPORTER_OTLP_HEADERS instead"
                .to_owned())
        }
        Some(host) if is_plain && !host.is_empty() && !host.starts_with(':') => Ok(()),
        _ => Err(format!(
            "telemetry.otlp `{}` is not the base URL of a collector, as `http://127.0.0.1:4318`",
            url.escape_debug()
        )),
    }
}

impl TelemetrySettings {
    /// Returns whether no key is set.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TelemetrySettings, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn export_is_off_by_default() {
        let settings = parse("{}").unwrap();
        assert!(settings.is_default() && settings.otlp.is_none() && !settings.content);
    }

    #[test]
    fn collector_url_and_conventions_are_read() {
        let text = "{otlp: 'https://otel.example.org/team', gen_ai: development-2026-11}";
        let settings = parse(text).unwrap();
        assert_eq!(settings.otlp.as_deref(), Some("https://otel.example.org/team"));
        assert_eq!(settings.gen_ai, Some(GenAiConventions::Development202611));
        assert_eq!(parse("{otlp: 'http://[::1]:4318', gen_ai: off}").unwrap().gen_ai, {
            Some(GenAiConventions::Off)
        });
    }

    #[test]
    fn wrong_settings_name_the_correction() {
        for (text, message) in [
            ("{otlp: 'localhost:4318'}", "is not the base URL"),
            ("{otlp: 'ftp://a.org'}", "is not the base URL"),
            ("{otlp: 'http://'}", "is not the base URL"),
            ("{otlp: 'http:///x'}", "is not the base URL"),
            ("{otlp: 'http://:4318'}", "is not the base URL"),
            ("{otlp: 'http://a b'}", "is not the base URL"),
            ("{otlp: 'http://a.org/?key=1'}", "is not the base URL"),
            ("{otlp: \"http://a\\e[2J\"}", "is not the base URL"),
            ("{otlp: 'http://me:secret@a.org'}", "OTEL_EXPORTER_OTLP_HEADERS"),
            ("{gen_ai: development-2026-11}", "without telemetry.otlp"),
            ("{content: true}", "without telemetry.otlp"),
            ("{otlp: 'http://a.org', gen_ai: latest}", "unknown variant"),
            ("{url: 'http://a.org'}", "unknown field"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
            assert!(!error.contains("secret") && !error.contains('\u{1b}'), "{error}");
        }
    }
}
