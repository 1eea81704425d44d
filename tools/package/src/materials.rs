//! The bill of materials in the format CycloneDX 1.5.

use std::fs;
use std::path::Path;

use cyclonedx_bom::models::component::{Classification, Scope};
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::hash::{Hash, HashAlgorithm, HashValue, Hashes};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::property::{Properties, Property};
use cyclonedx_bom::prelude::{
    Bom, Component, Components, DateTime, Metadata, NormalizedString, Purl, SpdxExpression,
    SpecVersion, UrnUuid, Validate as _,
};

use crate::Result;
use crate::checksums::sha256_hex;
use crate::shipped::ShippedCrate;
use crate::time::format_rfc3339;

/// The reference of the product in the document.
const PRODUCT: &str = "skillhost";
/// The license expression of the product.
const LICENSE: &str = "MIT OR Apache-2.0";

/// Formats the bill of materials of a version with its crates.
///
/// The identity of the document is derived from its contents.
///
/// # Errors
/// The document does not follow the specification.
pub fn format_materials(version: &str, crates: &[ShippedCrate], time: u64) -> Result<Vec<u8>> {
    let mut product =
        Component::new(Classification::Application, PRODUCT, version, Some(PRODUCT.to_owned()));
    product.licenses = Some(licenses(Some(LICENSE)));
    let mut components = Vec::new();
    let mut dependencies = vec![Dependency {
        dependency_ref: PRODUCT.to_owned(),
        dependencies: crates.iter().filter(|it| it.checksum.is_none()).map(reference).collect(),
    }];
    for shipped in crates {
        components.push(crate_component(shipped)?);
        let mut needed: Vec<String> = crates
            .iter()
            .filter(|it| shipped.dependencies.contains(&(it.name.clone(), it.version.clone())))
            .map(reference)
            .collect();
        if let Some(sqlite) = bundled_sqlite(shipped)? {
            needed.extend(sqlite.bom_ref.clone());
            components.push(sqlite);
        }
        dependencies.push(Dependency { dependency_ref: reference(shipped), dependencies: needed });
    }
    components.push(vocabulary_component());
    let mut document = Bom {
        version: 1,
        serial_number: None,
        metadata: Some(Metadata {
            timestamp: Some(DateTime::try_from(format_rfc3339(time)?)?),
            component: Some(product),
            ..Metadata::default()
        }),
        components: Some(Components(components)),
        services: None,
        external_references: None,
        dependencies: Some(Dependencies(dependencies)),
        compositions: None,
        properties: None,
        vulnerabilities: None,
        signature: None,
        annotations: None,
        formulation: None,
        spec_version: SpecVersion::V1_5,
    };
    let text = to_json(&document)?;
    document.serial_number = Some(serial_number(&sha256_hex(&text))?);
    let result = document.validate_version(SpecVersion::V1_5);
    if !result.passed() {
        let errors: Vec<_> = result.errors().collect();
        return Err(format!("the bill of materials is not valid: {errors:?}").into());
    }
    to_json(&document)
}

fn to_json(document: &Bom) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    document.clone().output_as_json_v1_5(&mut text)?;
    text.push(b'\n');
    Ok(text)
}

/// Returns a UUID of version 8, whose bits are free, with the digits of a digest.
fn serial_number(digest: &str) -> Result<UrnUuid> {
    let part = |from: usize, to: usize| &digest[from..to];
    let text = format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 15),
        part(15, 18),
        part(18, 30)
    );
    UrnUuid::new(text.clone()).map_err(|_| format!("{text}: not a UUID").into())
}

/// Returns the reference of a crate in the document: its package URL if it is published.
fn reference(shipped: &ShippedCrate) -> String {
    let kind = if shipped.checksum.is_some() { "pkg:cargo/" } else { "crate:" };
    format!("{kind}{}@{}", shipped.name, shipped.version)
}

fn crate_component(shipped: &ShippedCrate) -> Result<Component> {
    let mut component = Component::new(
        Classification::Library,
        &shipped.name,
        &shipped.version,
        Some(reference(shipped)),
    );
    component.scope = Some(Scope::Required);
    component.description = shipped.description.as_deref().map(NormalizedString::new);
    component.licenses = Some(licenses(shipped.license.as_deref()));
    if let Some(checksum) = &shipped.checksum {
        // A crate of the product is not published: a URL would name another author's crate.
        component.purl = Some(Purl::new("cargo", &shipped.name, &shipped.version)?);
        let hash = Hash { alg: HashAlgorithm::SHA_256, content: HashValue(checksum.clone()) };
        component.hashes = Some(Hashes(vec![hash]));
    }
    let forms = [("linked", shipped.is_linked), ("sources", shipped.is_source)];
    let forms = forms.into_iter().filter(|(_, is_shipped)| *is_shipped);
    let properties = forms.map(|(form, _)| Property::new("skillhost:shipped-as", form));
    component.properties = Some(Properties(properties.collect()));
    Ok(component)
}

/// Returns the licenses of a component; an expression that SPDX does not know is a name.
fn licenses(expression: Option<&str>) -> Licenses {
    Licenses(vec![match expression {
        None => LicenseChoice::license("see the license files of the crate"),
        Some(text) => match SpdxExpression::parse_lax(text.to_owned()) {
            Ok(expression) => LicenseChoice::Expression(expression),
            Err(_) => LicenseChoice::license(text),
        },
    }])
}

/// Returns the C library whose sources are part of a crate.
fn bundled_sqlite(shipped: &ShippedCrate) -> Result<Option<Component>> {
    if shipped.name != "libsqlite3-sys" {
        return Ok(None);
    }
    let version = sqlite_version(&shipped.directory.join("sqlite3/sqlite3.h"))?;
    let purl = Purl::new("generic", "sqlite", &version)?;
    let mut component =
        Component::new(Classification::Library, "sqlite", &version, Some(purl.to_string()));
    component.scope = Some(Scope::Required);
    component.purl = Some(purl);
    component.licenses = Some(licenses(Some("blessing")));
    Ok(Some(component))
}

fn sqlite_version(header: &Path) -> Result<String> {
    let text =
        fs::read_to_string(header).map_err(|error| format!("{}: {error}", header.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    let version = line.map(|line| line.trim().trim_matches('"').to_owned());
    Ok(version.ok_or_else(|| format!("{}: no SQLITE_VERSION", header.display()))?)
}

/// Returns the vocabulary that the program and the registry's library contain.
fn vocabulary_component() -> Component {
    let reference = Some("data:o200k_base".to_owned());
    let mut component = Component::new(Classification::Data, "o200k_base", "1", reference);
    component.description = Some(NormalizedString::new("Vocabulary of a tokenizer by OpenAI"));
    component.licenses = Some(licenses(Some("MIT")));
    component
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::shipped::tests::own_crates;

    #[test]
    fn materials_have_required_fields() {
        let text = format_materials("0.2.0", &own_crates(), 1_700_000_000).unwrap();
        let document: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(document["bomFormat"], "CycloneDX");
        assert_eq!(document["specVersion"], "1.5");
        assert_eq!(document["metadata"]["component"]["version"], "0.2.0");
        assert_eq!(document["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let components = document["components"].as_array().unwrap();
        let mut references = vec!["skillhost"];
        for component in components {
            for field in ["type", "name", "version", "bom-ref", "licenses"] {
                assert!(!component[field].is_null(), "{field} of {component}");
            }
            references.push(component["bom-ref"].as_str().unwrap());
        }
        let tar = components.iter().find(|component| component["name"] == "tar").unwrap();
        assert!(tar["purl"].as_str().unwrap().starts_with("pkg:cargo/tar@0.4."));
        assert_eq!(tar["hashes"][0]["alg"], "SHA-256");
        assert_eq!(tar["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let own = components.iter().find(|it| it["name"] == "skillhost-package").unwrap();
        assert!(own["purl"].is_null());
        for dependency in document["dependencies"].as_array().unwrap() {
            let all = dependency["dependsOn"].as_array().into_iter().flatten();
            for reference in all.chain([&dependency["ref"]]) {
                assert!(references.contains(&reference.as_str().unwrap()), "{reference}");
            }
        }
    }

    #[test]
    fn materials_of_one_build_are_identical() {
        let crates = own_crates();
        let format = |version| format_materials(version, &crates, 5).unwrap();
        assert_eq!(format("0.2.0"), format("0.2.0"));
        let serial = |text: &[u8]| -> Value {
            serde_json::from_slice::<Value>(text).unwrap()["serialNumber"].clone()
        };
        assert_ne!(serial(&format("0.2.0")), serial(&format("0.2.1")));
    }

    #[test]
    fn license_that_spdx_lacks_is_named() {
        let choice = |text| licenses(text).0.remove(0);
        let expression = |text: &str| LicenseChoice::Expression(SpdxExpression::new(text));
        assert_eq!(choice(Some("MIT/Apache-2.0")), expression("MIT OR Apache-2.0"));
        assert_eq!(choice(Some("own terms")), LicenseChoice::license("own terms"));
        assert!(choice(None).is_license());
    }
}
