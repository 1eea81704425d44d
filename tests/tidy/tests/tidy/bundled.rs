//! The extensions in the program, which are compiled from the sources of the libraries.

use super::imports::packages;

/// The extensions, and the packages that compile their sources for the program.
const BUNDLED: &[(&str, &str)] = &[
    ("core_tools", "bundled-core-tools"),
    ("skillhost-echo", "bundled-echo"),
    ("skillhost-embedding", "bundled-embedding"),
    ("skill-registry", "bundled-skill-registry"),
    ("skillhost-telegram", "bundled-telegram"),
    ("skillhost-web", "bundled-web"),
    ("skillhost-webhook", "bundled-webhook"),
];

/// One source with two lists of dependencies: they differ in the SDK alone.
#[test]
fn bundled_extensions_import_the_same() {
    let packages = packages();
    let imports = |name: &str| {
        let package = packages.iter().find(|package| package["name"] == name).unwrap();
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let mut found: Vec<_> = dependencies
            .filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| {
                let field = |name: &str| dependency[name].to_string();
                let name = dependency["name"].as_str().unwrap();
                let name = name.replace("skillhost-bundled-sdk", "skillhost-sdk");
                (name, field("req"), field("features"), field("target"))
            })
            .collect();
        found.sort();
        (found, package["features"].clone())
    };
    for (extension, bundled) in BUNDLED {
        assert_eq!(imports(extension), imports(bundled), "{extension}");
    }
}
