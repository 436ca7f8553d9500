//! Generated code of the contract: the only code that reads `wit/`.
//!
//! Each world is behind the cargo feature of its name, so that a plugin sees only the imports of
//! its own world. Plugin authors do not use this module; they use the traits at the crate's root.

#![allow(
    clippy::all,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated from wit/; the calling convention of components needs raw memory"
)]

/// Imports and exports of a secrets engine.
#[cfg(all(feature = "secrets-engine", not(feature = "raw")))]
pub mod secrets_engine {
    wit_bindgen::generate!({
        path: "wit",
        world: "secrets-engine",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::secrets_engine",
    });
}

/// Imports and exports of a secrets engine that answers plain HTTP.
#[cfg(all(feature = "secrets-engine", feature = "raw"))]
pub mod secrets_engine {
    wit_bindgen::generate!({
        path: "wit",
        world: "raw-engine",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::secrets_engine",
    });
}

/// Imports and exports of an auth method.
#[cfg(feature = "auth-method")]
pub mod auth_method {
    wit_bindgen::generate!({
        path: "wit",
        world: "auth-method",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::auth_method",
    });
}

/// Imports and exports of a database plugin.
#[cfg(feature = "database-plugin")]
pub mod database_plugin {
    wit_bindgen::generate!({
        path: "wit",
        world: "accounts-plugin",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::database_plugin",
    });
}

/// Imports and exports of a seal plugin.
#[cfg(feature = "seal-plugin")]
pub mod seal_plugin {
    wit_bindgen::generate!({
        path: "wit",
        world: "seal-plugin",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::seal_plugin",
    });
}
