//! The script, the stylesheet and the icon, compiled in.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use skillhost_files::sha256_hex;

/// A file that pages load.
struct StaticAsset {
    name: &'static str,
    mime: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [StaticAsset; 3] = [
    StaticAsset {
        name: "console.css",
        mime: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/console.css"),
    },
    StaticAsset {
        name: "console.js",
        mime: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/console.js"),
    },
    StaticAsset {
        name: "icon.svg",
        mime: "image/svg+xml",
        bytes: include_bytes!("../assets/icon.svg"),
    },
];

/// The digest of all assets: another build has other paths, so a browser may keep each forever.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let bytes: Vec<u8> = ASSETS.iter().flat_map(|asset| asset.bytes.iter().copied()).collect();
    sha256_hex(&bytes).chars().take(12).collect()
});

/// Returns the path of an asset.
pub(crate) fn asset_path(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// Serves an asset.
pub(crate) async fn serve_asset(Path((version, name)): Path<(String, String)>) -> Response {
    let found = ASSETS.iter().find(|asset| asset.name == name && version == *VERSION);
    let Some(asset) = found else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [
        (header::CONTENT_TYPE, asset.mime),
        (header::CACHE_CONTROL, "private, max-age=31536000, immutable"),
    ];
    (headers, asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_small_and_has_no_sinks() {
        let script = std::str::from_utf8(ASSETS[1].bytes).unwrap();
        assert!(script.len() <= 8 * 1024, "{} bytes", script.len());
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "DOMParser",
            "srcdoc",
            "new Function",
            "setAttribute(\"on",
            "javascript:",
        ] {
            assert!(!script.contains(sink), "{sink}");
        }
    }
}
