//! OIDC: named keys, the issuer, and signed identity tokens for mounts and callers.
//!
//! Knows keys, the published documents with the public keys, and the claims of tokens. Does not
//! decide who may request a token; grants and policies decide.
//!
//! This file prevents a private key from leaving the sealed store, a token from outliving the key
//! that verifies it, and a mount from impersonating another mount.

mod algorithm;
mod claims;
mod crypto_provider;
mod introspection;
mod issuer;
mod key_pair;
mod named_key;
mod plugin_token;
mod provider;
mod public_key;
mod role;
mod rotation;
mod signed_token;

pub use algorithm::TokenAlgorithm;
pub use issuer::{DocumentedTokens, IssuerConfig};
pub use named_key::{
    DEFAULT, EXISTENCE, KeySettings, NamedKey, check_named, check_room, delete, names,
};
pub use plugin_token::TokenHolder;
pub use provider::OidcProvider;
pub use role::{ROLE_EXISTENCE, Role, delete_role, role_names, role_with_key};
