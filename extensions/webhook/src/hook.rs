//! The hooks of the settings, and their secrets.

use std::collections::BTreeMap;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use url::Url;

use crate::hook_kernel::HookKernel;
use crate::signature::SigningSecret;

/// The hooks of one home.
const MAX_HOOKS: usize = 100;
/// The longest name of a hook, in bytes.
const NAME_LIMIT: usize = 64;
/// The secrets of one hook, during a change.
const MAX_SECRETS: usize = 4;

/// A hook in the settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub(crate) struct HookConfig {
    /// The name of the secret.
    pub(crate) secret: String,
    /// The address of deliveries.
    pub(crate) url: Option<String>,
}

/// A hook.
#[derive(Debug, Clone)]
pub(crate) struct HookEntry {
    pub(crate) secret: String,
    pub(crate) url: Option<Url>,
}

/// The hooks by name.
#[derive(Debug, Default)]
pub(crate) struct HookTable {
    hooks: BTreeMap<String, HookEntry>,
}

/// The secrets of each hook, or the reason why it has none.
pub(crate) type HookSecrets<'a> = Vec<(&'a str, Result<Vec<SigningSecret>, String>)>;

impl HookTable {
    /// Checks the hooks of the settings.
    ///
    /// # Errors
    /// The first defect.
    pub(crate) fn parse(configs: &BTreeMap<String, HookConfig>) -> Result<Self, String> {
        if configs.len() > MAX_HOOKS {
            return Err(format!("hooks: more than {MAX_HOOKS} hooks"));
        }
        let mut hooks = BTreeMap::new();
        for (name, config) in configs {
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
            if !(1..=NAME_LIMIT).contains(&name.len()) || !name.chars().all(is_plain) {
                return Err(format!(
                    "hooks: `{name}` is not a name of 1 to {NAME_LIMIT} characters of a–z 0–9 - _"
                ));
            }
            let url = config.url.as_deref().map(parse_url).transpose();
            let url = url.map_err(|reason| format!("hooks.{name}.url: {reason}"))?;
            hooks.insert(name.clone(), HookEntry { secret: config.secret.clone(), url });
        }
        Ok(Self { hooks })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&HookEntry> {
        self.hooks.get(name)
    }

    /// Loads the secrets of all hooks, in the order of their names. The work is the same whichever hook
    /// is wanted.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while the kernel shuts down.
    pub(crate) async fn load_secrets(&self, kernel: &dyn HookKernel) -> Result<HookSecrets<'_>> {
        let mut values: BTreeMap<&str, Result<Vec<SigningSecret>, String>> = BTreeMap::new();
        for hook in self.hooks.values() {
            if values.contains_key(hook.secret.as_str()) {
                continue;
            }
            let parsed = match kernel.read_secret(&hook.secret).await {
                Ok(Some(text)) => parse_secrets(&hook.secret, &text),
                Ok(None) => Err(format!("the secret `{}` is not set", hook.secret)),
                // The manifest does not list the name.
                Err(error) if error.kind() == ErrorKind::Denied => Err(error.message().to_owned()),
                Err(error) => return Err(error),
            };
            values.insert(&hook.secret, parsed);
        }
        let secrets = self.hooks.iter().map(|(name, hook)| {
            (name.as_str(), values.get(hook.secret.as_str()).cloned().unwrap_or(Ok(Vec::new())))
        });
        Ok(secrets.collect())
    }
}

/// Parses the value of a secret: one or, during a change, several.
fn parse_secrets(name: &str, text: &str) -> Result<Vec<SigningSecret>, String> {
    let parts: Vec<_> = text.split_whitespace().collect();
    let secrets: Option<Vec<_>> = parts.iter().map(|part| SigningSecret::parse(part)).collect();
    match secrets {
        Some(secrets) if (1..=MAX_SECRETS).contains(&secrets.len()) => Ok(secrets),
        // The value itself is not quoted.
        _ => Err(format!("the secret `{name}` is not whsec_ and 24 to 64 bytes in base64")),
    }
}

/// Parses the address of deliveries.
fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return Err("only https, or http to listed addresses, is supported".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user name is not supported".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kernel::{SECRET, TestKernel};

    fn config(secret: &str, url: Option<&str>) -> HookConfig {
        HookConfig { secret: secret.to_owned(), url: url.map(str::to_owned) }
    }

    fn parse(name: &str, url: Option<&str>) -> Result<HookTable, String> {
        HookTable::parse(&BTreeMap::from([(name.to_owned(), config("A", url))]))
    }

    #[test]
    fn hooks_of_settings_are_checked() {
        assert!(parse("ci-builds_2", Some("https://example.com/hook?token=1")).is_ok());
        for name in ["", "CI", "a/b", "a b", "é", &"a".repeat(65)] {
            assert!(parse(name, None).is_err(), "{name}");
        }
        for url in ["", "example.com", "ftp://example.com", "https://u:p@example.com"] {
            assert!(parse("ci", Some(url)).is_err(), "{url}");
        }
        let many = (0..=MAX_HOOKS).map(|number| (format!("h{number}"), config("A", None)));
        assert!(HookTable::parse(&many.collect()).is_err());
    }

    #[tokio::test]
    async fn secrets_are_loaded_by_name() {
        let configs = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D"), ("e", "A")];
        let configs = configs.map(|(name, secret)| (name.to_owned(), config(secret, None)));
        let hooks = HookTable::parse(&configs.into()).unwrap();
        let kernel = TestKernel::default();
        kernel.set_secret("A", SECRET);
        kernel.set_secret("B", &format!("{SECRET}\n {SECRET}"));
        kernel.set_secret("C", "whsec_short");
        let loaded = hooks.load_secrets(&kernel).await.unwrap();
        let found = |loaded: &Result<Vec<SigningSecret>, String>| match loaded {
            Ok(secrets) => secrets.len().to_string(),
            Err(reason) => reason.clone(),
        };
        let found: Vec<_> =
            loaded.iter().map(|(name, one)| format!("{name} {}", found(one))).collect();
        assert_eq!(
            found,
            [
                "a 1",
                "b 2",
                "c the secret `C` is not whsec_ and 24 to 64 bytes in base64",
                "d the secret `D` is not set",
                "e 1",
            ]
        );
        kernel.set_secret("A", &[SECRET; 5].join(" "));
        assert!(hooks.load_secrets(&kernel).await.unwrap()[0].1.is_err());
    }
}
