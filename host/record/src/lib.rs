//! Sealed records: addresses, bodies and errors, the encryption of records, the shares of the
//! unseal key, and automatic seals.
//!
//! Every record is encrypted and bound to its place. The unseal key, the key of an automatic seal,
//! or both seal the root key; the root key seals the keyring, and the keyring seals records. The
//! unseal key may be split into shares, of which a threshold suffices.
//!
//! The types in which a database reads and writes records (`rows`, `due`, `raw_record`,
//! `committed_state`) and the file format of snapshots (`archive`, `row_format`,
//! `snapshot_manifest`) are here as well. This crate knows neither a database nor a unit of work.
//!
//! The modules in order: a module imports only from modules to its left. `tests/tidy` reads the
//! order from this page.
//!
//! ```text
//! body → failpoint → meta_rows → record → fault → stored_limit → range → cipher → shamir
//! → keyring → root_seals → seal → rows → due → raw_record → committed_state → archive
//! → archive_reader → row_format → snapshot_manifest
//! ```

pub mod archive;
pub mod archive_reader;
pub mod body;
pub mod cipher;
pub mod committed_state;
pub mod due;
pub mod failpoint;
pub mod fault;
pub mod keyring;
pub mod meta_rows;
pub mod range;
pub mod raw_record;
pub mod record;
pub mod root_seals;
pub mod row_format;
pub mod rows;
pub mod seal;
pub mod shamir;
pub mod snapshot_manifest;
pub mod stored_limit;
