//! Packages of the product: archives, a Debian package, a container image and a bill of materials.
//!
//! Their bytes are determined by an installed prefix and one time. Only the base layer of the image
//! also depends on the machine.

pub mod archive;
pub mod checksums;
pub mod chroot;
pub mod debian;
pub mod debian_root;
pub mod image;
pub mod libraries;
pub mod licenses;
pub mod materials;
pub mod product;
#[cfg(test)]
mod sample;
pub mod shipped;
pub mod time;
pub mod tree;
pub mod trial;
pub mod unit;

/// The result of an operation; the error is printed for the user as it is.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
