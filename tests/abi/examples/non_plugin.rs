//! A shared library that is not an extension: it exports no symbol of the contract.
