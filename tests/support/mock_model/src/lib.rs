//! A server that plays models.
