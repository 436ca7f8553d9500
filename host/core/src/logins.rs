//! Logins: from what an auth method proved to a token of ours.
//!
//! [`proven`] holds what the component said against the bounds of a login; [`sign_in`] makes the
//! token of it, in the login's own unit of work, with the mount's limits. Never knows how anything
//! was proven.
//!
//! The attacks these files stop: a component that lets in whom it cannot name, hands out `root`, or
//! takes the host's memory with what a login carries; and a token that is more than its mount
//! allows.

mod proven;
mod sign_in;

pub(crate) use proven::ProvenLogin;
pub(crate) use sign_in::{Origin, SignedIn, kind_of_token, sign_in, sign_in_again};
