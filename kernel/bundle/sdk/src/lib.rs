//! The SDK under which the shipped extensions are compiled into the program.
//!
//! The packages next to this one compile the unchanged sources of the extensions with this crate in
//! the place of `skillhost-sdk`. It differs in one macro: [`export_extension!`] defines a function
//! instead of the two symbols of a library, which only one extension in a program could export.

pub use skillhost_sdk::*;

/// The names that most extensions need, for one `use`.
pub mod prelude {
    pub use crate::export_extension;
    pub use skillhost_sdk::prelude::*;
}

/// Defines `extension_module`, which returns the root module of the extension.
///
/// Takes the arguments of the macro of the same name in `skillhost-sdk`.
#[macro_export]
macro_rules! export_extension {
    ($extension:ty $(: $($capability:ident),+ $(,)?)?) => {
        /// Returns the root module of the extension.
        #[must_use]
        pub fn extension_module() -> $crate::__private::ExtensionModuleRef {
            $crate::__define_module!(
                $crate::__private::Linkage::Bundled, $extension $(: $($capability),+)?
            );
            module()
        }
    };
}
