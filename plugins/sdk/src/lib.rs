//! What a plugin is written with: the contract of `wit/` as Rust types and traits.
//!
//! # An engine in thirty lines
//!
//! An engine is a table and its handlers. The host has checked policy, folded aliases and checked
//! types before a handler runs; it serves LIST from the table alone, and tells create from update
//! by the row's existence key.
//!
//! ```
//! use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
//! use bulkhead_sdk::{Answer, Call, Failure, Host, SecretsEngine};
//! use serde::{Deserialize, Serialize};
//!
//! struct Notes;
//!
//! impl SecretsEngine for Notes {
//!     const NAME: &'static str = "notes";
//!     const VERSION: &'static str = "0.1.0";
//!     const SCHEMA: u32 = 1;
//!     const ABOUT: &'static str = "Keeps short notes.";
//!     const TABLE: &'static [Row] = &[
//!         read("notes/{name}", show).about("Reads a note.").fields(&[NAME]),
//!         write("notes/{name}", keep)
//!             .about("Writes a note.")
//!             .fields(&[NAME, NOTE])
//!             .existence("note/{name}"),
//!         delete("notes/{name}", forget).about("Removes a note.").fields(&[NAME]),
//!         list("notes", "note/").about("Lists the names of notes."),
//!     ];
//! }
//!
//! const NAME: &[Field] = &[Field::name_of("name", "the note's name")];
//! const NOTE: &[Field] = &[
//!     Field::text("text", "what to remember").required().secret(),
//!     Field::flag("done", "dealt with"),
//! ];
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Note { text: String, done: bool }
//!
//! // Records of earlier versions stand in `fixtures/records/note.jsonl`, and this test reads them.
//! bulkhead_sdk::stored!(Note, "note", reads_stored_notes);
//!
//! fn show(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
//!     let note: Note = host.storage().get(&key(call))?.ok_or_else(Failure::absent)?;
//!     Answer::data(&note)
//! }
//!
//! fn keep(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
//!     let mut note: Note = host.storage().get(&key(call))?.unwrap_or_default();
//!     call.merge("text", &mut note.text)?;
//!     call.merge("done", &mut note.done)?;
//!     host.storage().put(&key(call), &note)?;
//!     Ok(Answer::nothing())
//! }
//!
//! fn forget(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
//!     host.storage().delete(&key(call))?;
//!     Ok(Answer::nothing())
//! }
//!
//! fn key(call: &Call) -> String {
//!     format!("note/{}", call.text("name"))
//! }
//!
//! bulkhead_sdk::export_secrets_engine!(Notes);
//!
//! // The same engine on the test bed, without a component:
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bulkhead_sdk::testbed::TestBed;
//! use serde_json::json;
//!
//! let bed = TestBed::<Notes>::new()?;
//! bed.write("notes/milk", &json!({"text": "two bottles"}))?;
//! bed.write("notes/milk", &json!({"done": "true"}))?;
//! let note = serde_json::Value::Object(bed.read("notes/milk")?.data);
//! assert_eq!(note, json!({"text": "two bottles", "done": true}));
//! assert_eq!(bed.list("notes")?.data["keys"], json!(["milk"]));
//! assert!(bed.write("notes/eggs", &json!({})).is_err(), "a new note needs its text");
//! # Ok(())
//! # }
//! ```
//!
//! # Things that end
//!
//! What an engine makes outside has a lease, and the lease is written down first: see
//! [`Reservation`](reservation::Reservation). The engine then implements [`SecretsEngine::renew`]
//! and [`SecretsEngine::revoke`], and the latter is also what cleans up after a crash.
//!
//! # Things that roll forward
//!
//! A password that is changed, a key that is replaced: the candidate is written down first and
//! guarded, see [`Intent`](intent::Intent). The engine's [`SecretsEngine::wake`] then finishes what
//! a crash left.
//!
//! What comes again by itself has [`rotation::Settings`], with a period or a
//! [`Schedule`](schedule::Schedule) in the words of cron.
//!
//! # Plain HTTP
//!
//! An engine that stands in for another program's API answers its requests by
//! [`RawEngine`](raw::RawEngine), and authenticates their callers itself.
//!
//! # Auth methods
//!
//! They implement [`AuthMethod`]: a table again, of which some rows are marked
//! [`login`](table::Row::login), ask for no token and answer a [`Login`]. The host makes the token,
//! finds the entity behind the alias, and asks [`AuthMethod::renew_login`] before the token lives
//! longer. What roles say of tokens lives in [`token_params`]. One such method is
//! `plugins/examples/passphrase`.
//!
//! # Database plugins
//!
//! They implement [`DatabasePlugin`](database_plugin::DatabasePlugin), with [`statements`] and
//! [`template`] at hand.
//!
//! # Other servers
//!
//! What an engine asks of them is a [`Request`](http::Request) by [`Host::http`], to origins that
//! it names in [`SecretsEngine::ASKS`] and that its mount was granted. What it wants again, such as
//! a token of theirs, it keeps by [`Host::cache`], where one call makes it and others wait.
//!
//! # Directories
//!
//! They are searched and changed by [`Host::ldap`], with an [`ldap::Target`] that says where and as
//! whom; a filter is put together of its parts and never written.
//!
//! # Tokens of others
//!
//! A [`jwt`] is read, proven by a key of its issuer, and held against what is expected of it, in
//! this order; the cryptography is the host's, by [`Host::crypto`].
//!
//! # Clouds
//!
//! An auth method of a cloud asks its [`provider`], keeps the keys of its tokens as [`issuer_keys`]
//! and its own [`access_token`], and holds a login against a role as [`explain`] says.
//!
//! # Figures
//!
//! What an operator should see of a mount over time is a [`Metric`], named in
//! [`SecretsEngine::METRICS`] with the few values of its label, and given by [`Host::metrics`].
//!
//! # What it never knows
//!
//! Tokens, policies, sockets and files. A component has no way to reach them.

pub mod access_token;
pub mod answer;
pub mod auth_method;
pub mod call;
pub mod connection;
pub mod crypto;
pub mod database_plugin;
pub mod destination;
pub mod engine;
pub mod explain;
mod field;
pub mod host;
pub mod http;
pub mod intent;
mod internal;
pub mod issuer_keys;
pub mod jwt;
pub mod ldap;
pub mod login;
pub mod metric;
pub mod provider;
pub mod raw;
mod raw_access;
pub mod refusal_codes;
pub mod reservation;
pub mod rotation;
pub mod schedule;
#[cfg(not(target_family = "wasm"))]
pub mod sql_script;
pub mod statements;
#[cfg(target_family = "wasm")]
mod system;
pub mod table;
pub mod template;
#[cfg(not(target_family = "wasm"))]
pub mod testbed;
pub mod token_params;

#[cfg(all(target_family = "wasm", feature = "auth-method", not(feature = "secrets-engine")))]
#[doc(hidden)]
pub mod auth_component;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod bindings;
#[cfg(all(target_family = "wasm", feature = "database-plugin"))]
#[doc(hidden)]
pub mod database_component;
#[cfg(all(target_family = "wasm", feature = "secrets-engine"))]
#[doc(hidden)]
pub mod engine_component;
#[cfg(all(target_family = "wasm", any(feature = "secrets-engine", feature = "auth-method")))]
mod imports;
#[cfg(all(target_family = "wasm", feature = "raw"))]
mod raw_component;
#[cfg(all(target_family = "wasm", any(feature = "secrets-engine", feature = "auth-method")))]
mod translation;

pub use answer::Answer;
pub use auth_method::{AuthMethod, HeldLogin};
pub use bulkhead_wire as wire;
pub use bulkhead_wire::failure::{Failure, Kind};
pub use bulkhead_wire::stored;
pub use call::{Call, Context, Mount};
pub use engine::{Lease, Reason, Renewal, SecretsEngine};
pub use host::Host;
pub use login::Login;
pub use metric::Metric;
pub use token_params::TokenParams;

/// The allocator that a component has anyway. Said here, its functions become part of those that
/// call them; left unsaid, each piece of memory is asked for through four functions.
#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;

/// Makes the crate a secrets engine: the type is what answers. Does nothing outside a component.
#[macro_export]
macro_rules! export_secrets_engine {
    ($engine:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::engine_component::Component<$engine>;
            $crate::bindings::secrets_engine::export! {
                Exported with_types_in $crate::bindings::secrets_engine
            }
        };
    };
}

/// Makes the crate an auth method: the type is what answers. Does nothing outside a component.
#[macro_export]
macro_rules! export_auth_method {
    ($method:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::auth_component::Component<$method>;
            $crate::bindings::auth_method::export! {
                Exported with_types_in $crate::bindings::auth_method
            }
        };
    };
}

/// Makes the crate a database plugin: the type is what answers. Does nothing outside a component.
#[macro_export]
macro_rules! export_database_plugin {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::database_component::Component<$plugin>;
            $crate::bindings::database_plugin::export! {
                Exported with_types_in $crate::bindings::database_plugin
            }
        };
    };
}
