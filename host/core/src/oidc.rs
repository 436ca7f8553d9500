//! OIDC: named keys, the issuer, and the tokens by which a mount shows others who it is.
//!
//! Knows keys, the documents in which their public halves are published, and what a token says.
//! Never knows who may ask for one: that is a mount's, and its grants'.
//!
//! The attacks this room stops: a private key that leaves the sealed store, a token that outlives
//! the key by which it can be checked, and a mount that speaks as another.

mod algorithm;
mod issuer;
mod key_pair;
mod named_key;
mod plugin_token;
mod provider;
mod public_key;
mod rotation;

pub(crate) use algorithm::Algorithm;
pub(crate) use issuer::{Documents, IssuerConfig};
pub(crate) use named_key::{
    DEFAULT, EXISTENCE, KeySettings, NamedKey, check_named, check_room, delete, names,
};
pub(crate) use plugin_token::Holder;
pub(crate) use provider::Provider;
