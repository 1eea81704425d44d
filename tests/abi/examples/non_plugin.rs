//! A shared library that is no extension: it exports nothing of the contract.
