//! Tokens: the callers of the service, with policies and lifetimes.
//!
//! A service token is its own lease: a single row, found by the token and by the accessor
//! ([`keys`]). Child tokens and leases name the row as their owner and end with the token
//! ([`end`]). A batch token has no row: the holder keeps a sealed record ([`batch`]). Tokens of
//! logins end with their auth mount ([`login`]).
//!
//! This file prevents a token from working after its end. A request looks up the caller once, at
//! the beginning ([`authenticate`]); every commit then asserts that the token is still valid
//! ([`assert_valid`]).

mod authenticate;
mod batch;
mod caller;
mod counts;
mod create;
mod end;
mod entity_context;
pub mod keys;
mod lifetime;
mod login;
mod login_mount;
mod lookup;
mod record;
pub mod roles;
pub mod selection;
mod table;
mod tidy;
mod token_lease;
mod uses;
mod wrapping;

pub use authenticate::assert_valid;
pub use caller::Caller;
pub use counts::TokenCounts;
pub use create::{CreatedToken, NewToken, ensure_root, root_token_row};
pub use end::begin_end;
pub use entity_context::read_token_context;
pub use lifetime::bounds;
pub use login::{LoginLifetimes, NewLogin, RenewedLogin, count_of_logins};
pub use login_mount::{begin_serving, end_serving};
pub use lookup::{by_accessor, by_token, find, find_by_accessor};
pub use record::{KeptLogin, TokenEnding, TokenRecord, TokenType, address, read};
pub use table::Tokens;
pub use token_lease::TokenLease;
pub use wrapping::NewWrapping;
