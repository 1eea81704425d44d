//! Gives the copy the name of the original, which is part of every layout.

fn main() {
    println!("cargo::rustc-env=CARGO_PKG_NAME=skillhost-contract");
    println!("cargo::rerun-if-changed=build.rs");
}
