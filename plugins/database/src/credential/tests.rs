//! Credential types and their options.
