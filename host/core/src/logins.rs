//! Logins: from an auth method's proof to a token of Bulkhead.
//!
//! [`proven`] checks the component's answer against the bounds of a login. [`sign_in`] creates the
//! token in the login's own unit of work, within the mount's limits. The proof itself is the auth
//! method's business.
//!
//! This file prevents a component from letting in a caller without a name, from issuing `root`, and
//! from filling the host's memory with a login's data. This file also prevents a token with more
//! rights than its mount allows.

mod proven;
mod sign_in;

pub use proven::ProvenLogin;
pub(crate) use sign_in::sign_in_again;
pub use sign_in::{LoginOrigin, LoginToken, kind_of_token, sign_in};
