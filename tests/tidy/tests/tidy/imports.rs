//! The imports of the crates, compared with the planned edges and layers.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::edges::ALLOWED;
use super::layers::LAYERS;
use super::{none, root};

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
