//! The WIT contract as Rust: generated, once a world, with the shared interfaces generated once.
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "generated from wit/, which holds the documentation"
)]

pub(crate) mod secrets_engine {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "secrets-engine",
        imports: {
            "bulkhead:plugin/storage.get": async | trappable,
            "bulkhead:plugin/storage.keys": async | trappable,
            "bulkhead:plugin/storage.checkpoint": async | trappable,
            "bulkhead:plugin/leases.count": async | trappable,
            "bulkhead:plugin/passwords.generate": async | trappable,
            "bulkhead:plugin/crypto.pbkdf2-sha256": async | trappable,
            "bulkhead:plugin/http.send": async | trappable,
            "bulkhead:plugin/cache.get-or-lead": async | trappable,
            "bulkhead:plugin/database.resolve": trappable,
            "bulkhead:plugin/database.close": trappable,
            "bulkhead:plugin/database.configure": async | trappable,
            "bulkhead:plugin/database.check-statements": async | trappable,
            "bulkhead:plugin/database.verify": async | trappable,
            "bulkhead:plugin/database.plan-username": async | trappable,
            "bulkhead:plugin/database.create-user": async | trappable,
            "bulkhead:plugin/database.change-credential": async | trappable,
            "bulkhead:plugin/database.set-expiration": async | trappable,
            "bulkhead:plugin/database.delete-user": async | trappable,
            "bulkhead:plugin/database.check-credential": async | trappable,
            default: trappable,
        },
        exports: { default: async },
    });
}

pub(crate) mod database_plugin {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "database-plugin",
        imports: {
            "bulkhead:plugin/sql": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        with: {
            "bulkhead:plugin/types": crate::bindings::secrets_engine::bulkhead::plugin::types,
            "bulkhead:plugin/database-types": crate::bindings::secrets_engine::bulkhead::plugin::database_types,
            "bulkhead:plugin/clock": crate::bindings::secrets_engine::bulkhead::plugin::clock,
            "bulkhead:plugin/crypto": crate::bindings::secrets_engine::bulkhead::plugin::crypto,
            "bulkhead:plugin/log": crate::bindings::secrets_engine::bulkhead::plugin::log,
        },
    });
}

/// The words of `wit/types.wit`, plain data that the layers above use too.
pub mod contract {
    pub use super::secrets_engine::bulkhead::plugin::types::{
        Answer, Call, Caller, Failure, Lease, Mount, Outcome, RawAnswer, Secret,
    };
    pub use super::secrets_engine::exports::bulkhead::plugin::leased::Renewal;
}
