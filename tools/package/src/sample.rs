//! A small product for tests.

use crate::tree::{EXECUTABLE_MODE, FILE_MODE, PackageTree};

/// Returns the files of a prefix, as `cargo xtask install` lays them out.
pub(crate) fn sample_prefix() -> PackageTree {
    let mut tree = PackageTree::default();
    tree.insert_file("bin/skillhost", EXECUTABLE_MODE, "#!/bin/sh\n");
    for (path, text) in [
        ("lib/skillhost/libecho.so", "library"),
        ("share/man/man1/skillhost.1", ".TH skillhost 1\n"),
        ("share/zsh/site-functions/_skillhost", "#compdef skillhost\n"),
        ("share/skillhost/CHANGELOG.md", "# Changelog\n"),
        ("share/skillhost/docs/cli.md", "# Commands\n"),
        (
            "share/skillhost/LICENSE-MIT",
            "MIT License\n\nCopyright (c) The authors\n\nPermission is granted.\n",
        ),
        (
            "share/skillhost/LICENSE-o200k_base",
            "MIT License\n\nCopyright (c) 2022 The authors of the vocabulary\n\nPermission.\n",
        ),
    ] {
        tree.insert_file(path, FILE_MODE, text);
    }
    tree
}
