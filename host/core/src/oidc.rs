//! OIDC: named keys, the issuer, and the tokens by which mounts and callers show others who they
//! are.
//!
//! Knows keys, the documents in which their public halves are published, and what a token says.
//! Never knows who may ask for one: that is for grants and policies to say.
//!
//! The attacks this room stops: a private key that leaves the sealed store, a token that outlives
//! the key by which it can be checked, and a mount that speaks as another.

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

pub(crate) use algorithm::Algorithm;
pub(crate) use issuer::{Documents, IssuerConfig};
pub(crate) use named_key::{
    DEFAULT, EXISTENCE, KeySettings, NamedKey, check_named, check_room, delete, names,
};
pub(crate) use plugin_token::Holder;
pub(crate) use provider::Provider;
pub(crate) use role::{ROLE_EXISTENCE, Role, delete_role, role_names, role_with_key};
