//! Tokens: the callers of the service, with policies and lifetimes.
//!
//! A service token is its own lease: a single row, found by the token and by the accessor
//! ([`keys`]). Child tokens and leases name the row as their owner and end with the token
//! ([`end`]). A batch token has no row: the holder keeps a sealed record ([`batch`]). Tokens of
//! logins end with their auth mount ([`login`]).
//!
//! Prevents a token from working after its end. A request looks up the caller once, at the
//! beginning ([`authenticate`]); every commit then asserts that the token is still valid
//! ([`assert_valid`]).

mod authenticate;
mod batch;
mod caller;
mod create;
mod end;
pub(crate) mod keys;
mod lifetime;
mod login;
mod login_mount;
mod lookup;
mod record;
pub(crate) mod roles;
pub(crate) mod selection;
mod standing;
mod table;
mod tidy;
mod uses;
mod wrapping;

pub(crate) use authenticate::assert_valid;
pub(crate) use caller::Caller;
pub(crate) use create::{Made, NewToken, ensure_root, root_token_row};
pub(crate) use end::begin_end;
pub(crate) use lifetime::bounds;
pub(crate) use login::{NewLogin, RenewedLogin, Times, count_of_logins};
pub(crate) use login_mount::{begin_serving, end_serving};
pub(crate) use lookup::{by_accessor, by_token, find, find_by_accessor};
pub(crate) use record::{Ending, KeptLogin, TokenRecord, TokenType, address, read};
pub(crate) use standing::standing;
pub(crate) use table::Tokens;
pub(crate) use wrapping::NewWrapping;
