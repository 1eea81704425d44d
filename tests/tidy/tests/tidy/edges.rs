//! The crates and the edges between them.
//!
//! A crate imports from lower layers only, and only what the table allows.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::layers::LAYERS;
use super::{none, root};

/// The crates that each crate may import.
const ALLOWED: &[(&str, &[&str])] = &[
    ("skillhost-payload", &[]),
    ("yaml-tree", &[]),
    ("skillhost-files", &[]),
    ("skillhost-policy", &[]),
    ("skillhost-budget", &[]),
    ("skillhost-broker", &["skillhost-policy"]),
    ("skillhost-sandbox", &["skillhost-broker", "skillhost-files", "skillhost-policy"]),
    ("skillhost-contract", &["skillhost-payload"]),
    ("skillhost-manifest", &["skillhost-policy", "yaml-tree"]),
    ("skillhost-events", &["skillhost-files", "skillhost-payload", "skillhost-manifest"]),
    ("skillhost-sdk", &["skillhost-contract", "skillhost-payload"]),
    (
        "skillhost-tasks",
        // The settings name the store.
        &["skillhost-events", "skillhost-files", "skillhost-home", "skillhost-payload"],
    ),
    (
        "skillhost-home",
        &[
            "skillhost-files",
            "skillhost-manifest",
            "skillhost-payload",
            // The settings contain what foreign code may do.
            "skillhost-policy",
            "skillhost-sandbox",
        ],
    ),
    (
        "skillhost-conversation",
        &["skillhost-files", "skillhost-home", "skillhost-payload", "skillhost-manifest"],
    ),
    (
        "skillhost-control",
        &[
            "skillhost-conversation",
            "skillhost-home",
            "skillhost-manifest",
            "skillhost-payload",
            "skillhost-files",
            // Which isolation a process has reached.
            "skillhost-sandbox",
        ],
    ),
    (
        "skillhost-core",
        &[
            "skillhost-contract",
            "skillhost-payload",
            "skillhost-manifest",
            "skillhost-home",
            "skillhost-events",
            "skillhost-control",
            "skillhost-files",
            // Which isolation a process has reached.
            "skillhost-sandbox",
        ],
    ),
    (
        "skillhost-agents",
        &[
            "skillhost-budget",
            "skillhost-core",
            "skillhost-conversation",
            "skillhost-control",
            "skillhost-home",
            "skillhost-events",
            "skillhost-manifest",
            "skillhost-payload",
            "skillhost-files",
            // Which directories a run reaches, and which approval a change there requires.
            "skillhost-workspaces",
        ],
    ),
    (
        "skillhost-engine",
        &[
            "skillhost-agents",
            "skillhost-channels",
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-core",
            "skillhost-events",
            "skillhost-files",
            "skillhost-home",
            "skillhost-manifest",
            "skillhost-payload",
            "skillhost-questions",
            "skillhost-tasks",
        ],
    ),
    ("skillhost-workspaces", &["skillhost-home", "skillhost-payload"]),
    (
        "skillhost-command",
        // The tool is the kernel's, because only the sandbox starts programs of others.
        &[
            "skillhost-core",
            "skillhost-sandbox",
            "skillhost-policy",
            "skillhost-home",
            "skillhost-files",
            "skillhost-manifest",
            "skillhost-payload",
        ],
    ),
    (
        "skillhost-scripts",
        // Runs what skills contain: the trees are those that the provider of skills listed.
        &[
            "skillhost-core",
            "skillhost-sandbox",
            "skillhost-policy",
            "skillhost-home",
            "skillhost-files",
            "skillhost-manifest",
            "skillhost-payload",
        ],
    ),
    (
        "skillhost-programs",
        &[
            // Programs call tools through the dispatcher there.
            "skillhost-agents",
            "skillhost-control",
            "skillhost-core",
            "skillhost-handlers",
            "skillhost-home",
            "skillhost-payload",
            "skillhost-policy",
            "skillhost-sandbox",
        ],
    ),
    (
        "skillhost-questions",
        &[
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-home",
            "skillhost-payload",
            "skillhost-tasks",
        ],
    ),
    (
        "skillhost-channels",
        // Calls no extension itself: commands without a kernel use the file of people.
        &[
            "skillhost-control",
            "skillhost-events",
            "skillhost-files",
            "skillhost-home",
            "skillhost-payload",
            "skillhost-questions",
            "skillhost-tasks",
        ],
    ),
    (
        "skillhost-kernel",
        &[
            "skillhost-channels",
            "skillhost-engine",
            "skillhost-tasks",
            "skillhost-programs",
            "skillhost-questions",
            "skillhost-tasks",
            "skillhost-command",
            "skillhost-scripts",
            "skillhost-agents",
            "skillhost-core",
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-events",
            "skillhost-home",
            "skillhost-manifest",
            "skillhost-payload",
            "skillhost-files",
        ],
    ),
    (
        "skillhost-process",
        &[
            "skillhost-core",
            "skillhost-control",
            "skillhost-policy",
            "skillhost-sandbox",
            "skillhost-home",
            "skillhost-files",
            "skillhost-manifest",
            "skillhost-payload",
        ],
    ),
    // Programs of skills are children like process extensions, and are restarted like these.
    (
        "skillhost-handlers",
        &[
            // Programs call tools through the dispatcher there.
            "skillhost-agents",
            "skillhost-control",
            "skillhost-files",
            "skillhost-home",
            "skillhost-payload",
            "skillhost-policy",
            "skillhost-sandbox",
            // The private copy, the interpreter and the grant are those of scripts.
            "skillhost-scripts",
        ],
    ),
    (
        "skillhost-builder",
        &[
            "skillhost-core",
            "skillhost-control",
            "skillhost-policy",
            "skillhost-sandbox",
            "skillhost-home",
            "skillhost-files",
            "skillhost-manifest",
            "skillhost-payload",
        ],
    ),
    (
        "skillhost-models",
        &["skillhost-conversation", "skillhost-home", "skillhost-manifest", "skillhost-payload"],
    ),
    (
        "skillhost-mcp",
        &[
            "skillhost-agents",
            "skillhost-core",
            "skillhost-home",
            "skillhost-events",
            "skillhost-conversation",
            "skillhost-payload",
            "skillhost-questions",
            "skillhost-tasks",
        ],
    ),
    (
        "skillhost-terminal",
        &["skillhost-control", "skillhost-home", "skillhost-payload", "skillhost-conversation"],
    ),
    // Reads the files of a home and runs nothing.
    ("skillhost-backup", &["skillhost-files", "skillhost-home"]),
    // Commands that start no kernel; they need neither the loader nor models.
    (
        "skillhost-operations",
        &[
            "skillhost-backup",
            "skillhost-channels",
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-events",
            "skillhost-files",
            "skillhost-home",
            // The schema that `init` writes.
            "skillhost-manifest",
            "skillhost-payload",
            // The questions about proposals.
            "skillhost-questions",
            "skillhost-tasks",
            "skillhost-terminal",
        ],
    ),
    // The configuration of other programs; the server itself is of no concern to it.
    ("skillhost-clients", &["skillhost-files", "skillhost-home", "skillhost-terminal"]),
    (
        "skillhost-chat",
        &[
            "skillhost-terminal",
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-home",
            "skillhost-payload",
            "skillhost-workspaces",
        ],
    ),
    (
        "skillhost",
        &[
            "skillhost-bundle",
            "skillhost-chat",
            "skillhost-clients",
            "skillhost-console",
            "skillhost-kernel",
            "skillhost-agents",
            "skillhost-core",
            "skillhost-mcp",
            "skillhost-models",
            "skillhost-process",
            "skillhost-builder",
            "skillhost-operations",
            "skillhost-sandbox",
            "skillhost-tasks",
            "skillhost-terminal",
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-events",
            "skillhost-home",
            "skillhost-files",
            "skillhost-manifest",
            "skillhost-payload",
            "skill-commands",
            "skill-service",
            "skill-catalog",
            // Tests of skills with a model start kernels.
            "skill-evals",
            "skill-testing",
            "skillhost-evals",
        ],
    ),
    (
        "skillhost-evals",
        &[
            "skill-catalog",
            "skill-evals",
            "skill-testing",
            "skillhost-agents",
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-core",
            "skillhost-files",
            "skillhost-home",
            "skillhost-kernel",
            "skillhost-payload",
        ],
    ),
    (
        "skillhost-console",
        &[
            // Shows the difference of a proposal, and the findings of a skill.
            "skill-diff",
            "skill-format",
            "skill-rules",
            "skillhost-channels",
            "skillhost-control",
            "skillhost-conversation",
            "skillhost-events",
            "skillhost-files",
            "skillhost-home",
            "skillhost-kernel",
            "skillhost-payload",
            "skillhost-tasks",
        ],
    ),
    ("skill-diff", &[]),
    ("skill-tokens", &[]),
    ("skill-search", &[]),
    ("skill-format", &["skillhost-payload", "yaml-tree"]),
    ("skill-compat", &["skill-format", "yaml-tree"]),
    ("skill-evals", &["skill-compat", "skill-format", "yaml-tree"]),
    (
        "skill-testing",
        &[
            "skill-catalog",
            "skill-compat",
            "skill-evals",
            "skill-format",
            "skill-ledger",
            "skill-search",
            "skill-service",
            "skillhost-files",
        ],
    ),
    (
        "skill-test-command",
        &[
            "skill-catalog",
            "skill-evals",
            "skill-format",
            "skill-testing",
            "skillhost-files",
            "skillhost-terminal",
        ],
    ),
    ("skill-rules", &["skill-compat", "skill-format", "skillhost-payload", "yaml-tree"]),
    ("skill-catalog", &["skill-format", "skillhost-files", "skillhost-payload"]),
    (
        "skill-ledger",
        &[
            "skill-catalog",
            "skill-evals",
            "skill-rules",
            "skill-diff",
            "skill-format",
            "skillhost-files",
            "skillhost-payload",
            "yaml-tree",
        ],
    ),
    ("skill-lsp", &["skill-policy", "skill-catalog", "skill-rules", "skill-format"]),
    (
        "skill-policy",
        // The settings of a home may have the policy.
        &["skill-rules", "skill-format", "skillhost-files", "yaml-tree"],
    ),
    (
        "skill-service",
        &[
            "skill-catalog",
            "skill-ledger",
            "skill-search",
            "skill-format",
            "skill-compat",
            "skillhost-payload",
            "skillhost-files",
            "yaml-tree",
        ],
    ),
    (
        "skill-commands",
        &[
            "skill-service",
            "skill-test-command",
            "skill-testing",
            "skill-ledger",
            "skill-catalog",
            "skill-lsp",
            "skill-policy",
            "skill-rules",
            "skill-compat",
            "skill-format",
            "skill-diff",
            "skill-tokens",
            "skill-search",
            // `skill run` and the approval of scripts.
            "skillhost-policy",
            "skillhost-sandbox",
            "skillhost-scripts",
            "skillhost-terminal",
            "skillhost-control",
            "skillhost-home",
            "skillhost-manifest",
            "skillhost-payload",
            "skillhost-files",
        ],
    ),
    (
        "skill-registry",
        &[
            "skill-service",
            "skill-testing",
            "skill-ledger",
            "skill-catalog",
            "skill-format",
            "skillhost-sdk",
        ],
    ),
    ("core_tools", &["skillhost-sdk", "skillhost-files", "skillhost-payload", "skill-diff"]),
    ("skillhost-echo", &["skillhost-sdk"]),
    ("skillhost-embedding", &["skillhost-sdk", "word-vectors"]),
    // The hidden characters are those of all parts; the policy has the table of private addresses.
    ("skillhost-web", &["skillhost-sdk", "skillhost-payload", "skillhost-policy"]),
    // One process of a home receives messages: a lock of its directory.
    ("skillhost-telegram", &["skillhost-sdk", "skillhost-payload", "skillhost-files"]),
    // The ids that were received are in a file of its own.
    ("skillhost-webhook", &["skillhost-sdk", "skillhost-policy", "skillhost-files"]),
    ("word-vectors", &[]),
    // The table of the extensions that the program contains: only this crate knows all of them.
    (
        "skillhost-bundle",
        &[
            "bundled-core-tools",
            "bundled-echo",
            "bundled-embedding",
            "bundled-skill-registry",
            "bundled-telegram",
            "bundled-web",
            "bundled-webhook",
            "skillhost-core",
            "skillhost-home",
            "skillhost-files",
        ],
    ),
    // The imports of the extensions, with another SDK; `bundled_extensions_import_the_same` compares.
    (
        "bundled-core-tools",
        &["skillhost-bundled-sdk", "skillhost-files", "skillhost-payload", "skill-diff"],
    ),
    ("bundled-echo", &["skillhost-bundled-sdk"]),
    ("bundled-embedding", &["skillhost-bundled-sdk", "word-vectors"]),
    (
        "bundled-skill-registry",
        &[
            "skill-service",
            "skill-testing",
            "skill-ledger",
            "skill-catalog",
            "skill-format",
            "skillhost-bundled-sdk",
        ],
    ),
    ("bundled-web", &["skillhost-bundled-sdk", "skillhost-payload", "skillhost-policy"]),
    ("bundled-telegram", &["skillhost-bundled-sdk", "skillhost-payload", "skillhost-files"]),
    ("bundled-webhook", &["skillhost-bundled-sdk", "skillhost-policy", "skillhost-files"]),
    // The SDK with a macro that exports no symbols.
    ("skillhost-bundled-sdk", &["skillhost-sdk"]),
    ("xtask", &["skill-format", "skill-search", "word-vectors"]),
    (
        "bench",
        &[
            "core_tools",
            "skill-format",
            "skill-rules",
            "skill-search",
            "skill-catalog",
            "skill-ledger",
            "skill-service",
            "skillhost-kernel",
            "skillhost-core",
            "skillhost-control",
            "skillhost-home",
            "skillhost-payload",
            "skillhost-tasks",
            "test-support",
            "word-vectors",
        ],
    ),
    // Test programs are their own sandbox launchers.
    ("test-support", &["skillhost-files", "skillhost-policy", "skillhost-sandbox"]),
    ("mock-model", &[]),
    ("fake-bot-api", &[]),
    ("e2e", &[]),
    ("abi-tests", &[]),
    ("frozen-contract", &[]),
    ("tidy", &[]),
];

/// The packages of the workspace, as cargo describes them.
pub(super) fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The imports of each crate of the workspace, without those of its tests.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let packages = packages().into_iter().map(|package| {
        let dependencies = package["dependencies"].as_array().unwrap();
        // `path` marks our own crates.
        let ours = dependencies
            .iter()
            .filter(|dependency| dependency["path"].is_string() && dependency["kind"] != "dev")
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned());
        (package["name"].as_str().unwrap().to_owned(), ours.collect())
    });
    packages.collect()
}

#[test]
fn crates_import_only_what_is_planned() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut findings = Vec::new();
    let imports = imports();
    for (name, targets) in &imports {
        let Some(planned) = allowed.get(name.as_str()) else {
            findings.push(format!("{name} is not in the plan"));
            continue;
        };
        let unplanned = targets.iter().filter(|target| !planned.contains(&target.as_str()));
        findings.extend(unplanned.map(|target| format!("{name} → {target}")));
    }
    none("crates and edges that are not planned", &findings);
}

#[test]
fn crates_import_from_lower_layers() {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let upward =
        |from: &str, to: &str| layer(from).zip(layer(to)).is_some_and(|(from, to)| from >= to);
    let mut findings = Vec::new();
    for (name, targets) in ALLOWED {
        let others =
            "xtask bench test-support mock-model fake-bot-api e2e abi-tests frozen-contract tidy";
        let is_product = !others.split(' ').any(|other| other == *name);
        if is_product && layer(name).is_none() {
            findings.push(format!("{name} has no layer"));
        }
        let upward = targets.iter().filter(|target| upward(name, target));
        findings.extend(upward.map(|target| format!("{name} → {target}")));
    }
    none("planned edges that lead upward", &findings);
}
