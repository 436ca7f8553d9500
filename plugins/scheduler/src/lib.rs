//! The scheduler's ACL API: roles, and the policies, tokens and bootstrap that clients need to use
//! them.
//!
//! The component answers plain HTTP and authenticates its callers by tokens of its own: no token of
//! the server is asked for here, and none is seen.

pub mod api;
mod body;
mod bootstrap;
mod caller;
mod content_hash;
mod given_token;
mod index;
mod names;
mod policies;
mod policy;
mod policy_rules;
mod query;
mod refusal;
pub mod reply;
pub mod request;
mod role;
mod roles;
mod token;
mod tokens;
