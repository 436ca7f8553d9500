//! SDK for plugins: the contract of `wit/` as Rust types and traits.
//!
//! # An engine in thirty lines
//!
//! An engine is a table of rows with their handlers. Before a handler runs, the host has checked
//! the policy, resolved field aliases and checked the field types. The host serves LIST without the
//! engine, and tells create from update by the row's existence key.
//!
//! ```
//! use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
//! use bulkhead_sdk::{Answer, Call, Failure, Host, MountedPlugin, SecretsEngine};
//! use serde::{Deserialize, Serialize};
//!
//! struct Notes;
//!
//! impl MountedPlugin for Notes {
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
//! // Without leases, an engine adds nothing to a mounted plugin.
//! impl SecretsEngine for Notes {}
//!
//! const NAME: &[Field] = &[Field::name_of("name", "the note's name")];
//! const NOTE: &[Field] = &[
//!     Field::text("text", "text to remember").required().secret(),
//!     Field::flag("done", "dealt with"),
//! ];
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Note { text: String, done: bool }
//!
//! // This test reads the records of earlier versions in `fixtures/records/note.jsonl`.
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
//! # Leases
//!
//! A credential that an engine creates outside Bulkhead has a lease, and the lease is stored before
//! the credential exists: see [`Reservation`](reservation::Reservation). The engine then implements
//! [`SecretsEngine::renew`] and [`SecretsEngine::revoke`]; `revoke` also cleans up after a crash.
//!
//! # Rotations
//!
//! Before an engine changes a password or replaces a key, the engine stores the candidate under a
//! guard: see [`Intent`](intent::Intent). After a crash, [`MountedPlugin::wake`] completes the
//! change.
//!
//! Automatic rotation has [`rotation::RotationSettings`], with a period or a cron expression
//! ([`Schedule`](schedule::Schedule)).
//!
//! # Plain HTTP
//!
//! An engine that replaces the API of another product answers the requests to that API by
//! [`RawEngine`](raw::RawEngine), and authenticates the callers.
//!
//! # Auth methods
//!
//! Auth methods implement [`MountedPlugin`] with a table, and [`AuthMethod`]. Rows marked
//! [`login`](table::Row::login) need no token and answer a [`Login`]. The host makes the token,
//! finds the entity of the alias, and calls [`AuthMethod::renew_login`] before a renewal.
//! [`token_params`] holds the token settings of roles. `plugins/examples/passphrase` is an example.
//!
//! # Database plugins
//!
//! Database plugins implement [`DatabasePlugin`](database_plugin::DatabasePlugin), with the help of
//! [`statements`], [`user_statements`], [`connection`] and [`template`].
//!
//! # Seals
//!
//! The client of a service that keeps the key of an automatic seal implements
//! [`SealPlugin`](seal_plugin::SealPlugin). The server loads only the seal plugins of its binary.
//!
//! # Other servers
//!
//! An engine sends a [`Request`](http::Request) by [`Host::http`], only to origins that
//! [`MountedPlugin::ASKS`] names and the mount's grants allow. An answer that is needed again, such
//! as an access token, is kept in [`Host::cache`]: one call fetches the answer while others wait.
//!
//! # Directories
//!
//! [`Host::ldap`] searches and changes directories. An [`ldap::LdapTarget`] holds servers and
//! login. Filters are built from parts and never parsed from text.
//!
//! # JSON Web Tokens
//!
//! A [`jwt`] is parsed, then verified with a key of its issuer, then checked against the expected
//! claims. The host does the cryptography ([`Host::crypto`]).
//!
//! # Kubernetes
//!
//! [`kubernetes`] normalises the URLs of API servers, so that no other spelling of a URL leads a
//! token to another server, checks names, and compares labels with a
//! [`LabelSelector`](kubernetes::LabelSelector). [`document`] parses the YAML or JSON of operators
//! within limits.
//!
//! # Another schema
//!
//! An engine that changes the shape of its stored data increases [`MountedPlugin::SCHEMA`] and
//! implements [`MountedPlugin::migrate`], with [`migration::MigrationSteps`] for any number of
//! records.
//!
//! # Clouds
//!
//! An auth method of a cloud calls the API of its [`provider`], caches the provider's token keys as
//! [`issuer_keys`] and the method's own [`access_token`], and checks a login against a role as in
//! [`explain`].
//!
//! # Metrics
//!
//! An engine declares each [`Metric`] in [`MountedPlugin::METRICS`] with the few values of its
//! label, and reports values by [`Host::metrics`].
//!
//! # Out of reach
//!
//! Tokens, policies, sockets and files: a component has no access to these.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! accounts → crypto → database_plugin → field → http → internal → ldap → metric → raw_access
//! → system → bindings → call → host → seal_plugin → seal_component → refusal_codes → schedule
//! → sql_script → statements → template → database_component → connection → destination → document
//! → intent → jwt → only_copy → kept_secrets → kubernetes → migration → provider → token_params
//! → trusted_certificates → unproven_requests → user_statements → imports → translation
//! → access_token → issuer_keys → login → answer → explain → reservation → table → mounted_plugin
//! → auth_method → engine → rotation → raw → auth_component → engine_component → testbed
//! → raw_component
//! ```

pub mod access_token;
mod accounts;
pub mod answer;
pub mod auth_method;
pub mod call;
pub mod connection;
pub mod crypto;
pub mod database_plugin;
pub mod destination;
pub mod document;
pub mod engine;
pub mod explain;
mod field;
pub mod host;
pub mod http;
pub mod intent;
mod internal;
pub mod issuer_keys;
pub mod jwt;
pub mod kept_secrets;
pub mod kubernetes;
pub mod ldap;
pub mod login;
pub mod metric;
pub mod migration;
pub mod mounted_plugin;
pub mod only_copy;
pub mod provider;
pub mod raw;
mod raw_access;
pub mod refusal_codes;
pub mod reservation;
pub mod rotation;
pub mod schedule;
pub mod seal_plugin;
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
pub mod trusted_certificates;
pub mod unproven_requests;
pub mod user_statements;

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
#[cfg(all(target_family = "wasm", feature = "seal-plugin"))]
#[doc(hidden)]
pub mod seal_component;
#[cfg(all(target_family = "wasm", any(feature = "secrets-engine", feature = "auth-method")))]
mod translation;

pub use answer::Answer;
pub use auth_method::{AuthMethod, HeldLogin};
pub use bulkhead_wire as wire;
pub use bulkhead_wire::failure::{Failure, FailureKind};
pub use bulkhead_wire::stored;
pub use call::{Call, Context, Mount};
pub use engine::{Lease, Renewal, RevocationReason, SecretsEngine};
pub use host::Host;
pub use login::Login;
pub use metric::Metric;
pub use mounted_plugin::MountedPlugin;
pub use token_params::TokenParams;

/// The default allocator of the target. Naming the allocator here lets the compiler inline its
/// functions; otherwise each allocation passes through four functions.
#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;

/// Exports the given type as the crate's secrets engine. Does nothing outside a component.
#[macro_export]
macro_rules! export_secrets_engine {
    ($engine:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::engine_component::EngineComponent<$engine>;
            $crate::bindings::secrets_engine::export! {
                Exported with_types_in $crate::bindings::secrets_engine
            }
        };
    };
}

/// Exports the given type as the crate's auth method. Does nothing outside a component.
#[macro_export]
macro_rules! export_auth_method {
    ($method:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::auth_component::AuthComponent<$method>;
            $crate::bindings::auth_method::export! {
                Exported with_types_in $crate::bindings::auth_method
            }
        };
    };
}

/// Exports the given type as the crate's database plugin. Does nothing outside a component.
#[macro_export]
macro_rules! export_database_plugin {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::database_component::DatabaseComponent<$plugin>;
            $crate::bindings::database_plugin::export! {
                Exported with_types_in $crate::bindings::database_plugin
            }
        };
    };
}

/// Exports the given type as the crate's seal plugin. Does nothing outside a component.
#[macro_export]
macro_rules! export_seal_plugin {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::seal_component::SealComponent<$plugin>;
            $crate::bindings::seal_plugin::export! {
                Exported with_types_in $crate::bindings::seal_plugin
            }
        };
    };
}
