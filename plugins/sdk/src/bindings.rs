//! The contract as generated code: the only place that reads `wit/`.
//!
//! Each world stands behind the cargo feature of its name, so that a plugin sees the imports of its
//! own world and no others. Nothing here is for plugin authors: they use the traits at the crate's
//! root.

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

/// What a secrets engine imports and exports.
#[cfg(all(feature = "secrets-engine", not(feature = "raw")))]
pub mod secrets_engine {
    wit_bindgen::generate!({
        path: "wit",
        world: "secrets-engine",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::secrets_engine",
    });
}

/// What a secrets engine that answers plain HTTP imports and exports.
#[cfg(all(feature = "secrets-engine", feature = "raw"))]
pub mod secrets_engine {
    wit_bindgen::generate!({
        path: "wit",
        world: "raw-engine",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::secrets_engine",
    });
}

/// What an auth method imports and exports.
#[cfg(feature = "auth-method")]
pub mod auth_method {
    wit_bindgen::generate!({
        path: "wit",
        world: "auth-method",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::auth_method",
    });
}

/// What a database plugin imports and exports.
#[cfg(feature = "database-plugin")]
pub mod database_plugin {
    wit_bindgen::generate!({
        path: "wit",
        world: "database-plugin",
        pub_export_macro: true,
        default_bindings_module: "bulkhead_sdk::bindings::database_plugin",
    });
}
