//! Tokens: who calls, with which policies, until when.
//!
//! A service token is its own lease: one row, found by the token and by its accessor ([`keys`]).
//! Its children and leases name that row as their owner, so that they end with it ([`end`]). A
//! batch token has no row at all: it is a sealed record that its holder keeps ([`batch`]). Those
//! of logins end with their mount ([`login`]).
//!
//! The attack these files stop: a token that goes on working. The caller is looked up once, at
//! the beginning ([`authenticate`]); what is then stored asserts in its commit that the token
//! still holds ([`assert_valid`]).

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

pub(crate) use authenticate::assert_valid;
pub(crate) use caller::Caller;
pub(crate) use create::{Made, NewToken, ensure_root, first_root};
pub(crate) use end::begin_end;
pub(crate) use lifetime::bounds;
pub(crate) use login::{NewLogin, RenewedLogin, Times, count_of_logins};
pub(crate) use login_mount::{begin_serving, end_serving};
pub(crate) use lookup::{by_accessor, by_token, find, find_by_accessor};
pub(crate) use record::{Ending, KeptLogin, TokenRecord, TokenType, address, read};
pub(crate) use standing::standing;
pub(crate) use table::Tokens;
