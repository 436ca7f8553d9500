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
            "bulkhead:plugin/storage.scan": async | trappable,
            "bulkhead:plugin/storage.checkpoint": async | trappable,
            "bulkhead:plugin/leases.amend": async | trappable,
            "bulkhead:plugin/leases.count": async | trappable,
            "bulkhead:plugin/passwords.generate": async | trappable,
            "bulkhead:plugin/crypto.pbkdf2-sha256": async | trappable,
            "bulkhead:plugin/crypto.sign": async | trappable,
            "bulkhead:plugin/crypto.generate-key": async | trappable,
            "bulkhead:plugin/crypto.verify-chain": async | trappable,
            "bulkhead:plugin/crypto.issue-certificate": async | trappable,
            "bulkhead:plugin/crypto.hash-password": async | trappable,
            "bulkhead:plugin/crypto.verify-password": async | trappable,
            "bulkhead:plugin/http.send": async | trappable,
            "bulkhead:plugin/ldap.bind": async | trappable,
            "bulkhead:plugin/ldap.search": async | trappable,
            "bulkhead:plugin/ldap.modify": async | trappable,
            "bulkhead:plugin/ldap.change-password": async | trappable,
            "bulkhead:plugin/identity.token": async | trappable,
            "bulkhead:plugin/identity.find-entity": async | trappable,
            "bulkhead:plugin/ambient.cloud-token": async | trappable,
            "bulkhead:plugin/ambient.find-pod": async | trappable,
            "bulkhead:plugin/cache.get-or-lead": async | trappable,
            "bulkhead:plugin/database.resolve": trappable,
            "bulkhead:plugin/database.close": trappable,
            "bulkhead:plugin/database.choose": async | trappable,
            "bulkhead:plugin/database.running": async | trappable,
            "bulkhead:plugin/database.configure": async | trappable,
            "bulkhead:plugin/database.check-statements": async | trappable,
            "bulkhead:plugin/database.verify": async | trappable,
            "bulkhead:plugin/database.plan-username": async | trappable,
            "bulkhead:plugin/database.create-user": async | trappable,
            "bulkhead:plugin/database.change-credential": async | trappable,
            "bulkhead:plugin/database.set-expiration": async | trappable,
            "bulkhead:plugin/database.delete-user": async | trappable,
            "bulkhead:plugin/database.check-credential": async | trappable,
            "bulkhead:plugin/database.plan-accounts": async | trappable,
            "bulkhead:plugin/database.create-accounts": async | trappable,
            "bulkhead:plugin/database.prolong-accounts": async | trappable,
            "bulkhead:plugin/database.remove-accounts": async | trappable,
            default: trappable,
        },
        exports: { default: async },
    });
}

/// The optional export of a secrets engine.
pub(crate) mod raw_engine {
    use crate::bindings::secrets_engine::bulkhead::plugin as engine_world;

    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "raw-engine",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "bulkhead:plugin/types": engine_world::types,
            "bulkhead:plugin/storage": engine_world::storage,
            "bulkhead:plugin/leases": engine_world::leases,
            "bulkhead:plugin/clock": engine_world::clock,
            "bulkhead:plugin/database-types": engine_world::database_types,
            "bulkhead:plugin/database": engine_world::database,
            "bulkhead:plugin/crypto": engine_world::crypto,
            "bulkhead:plugin/passwords": engine_world::passwords,
            "bulkhead:plugin/http": engine_world::http,
            "bulkhead:plugin/ldap": engine_world::ldap,
            "bulkhead:plugin/cache": engine_world::cache,
            "bulkhead:plugin/identity": engine_world::identity,
            "bulkhead:plugin/ambient": engine_world::ambient,
            "bulkhead:plugin/log": engine_world::log,
            "bulkhead:plugin/metrics": engine_world::metrics,
            "bulkhead:plugin/migration": engine_world::migration,
        },
    });
}

pub(crate) mod auth_method {
    use crate::bindings::secrets_engine::bulkhead::plugin as engine_world;

    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "auth-method",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "bulkhead:plugin/types": engine_world::types,
            "bulkhead:plugin/storage": engine_world::storage,
            "bulkhead:plugin/clock": engine_world::clock,
            "bulkhead:plugin/crypto": engine_world::crypto,
            "bulkhead:plugin/passwords": engine_world::passwords,
            "bulkhead:plugin/http": engine_world::http,
            "bulkhead:plugin/ldap": engine_world::ldap,
            "bulkhead:plugin/cache": engine_world::cache,
            "bulkhead:plugin/identity": engine_world::identity,
            "bulkhead:plugin/ambient": engine_world::ambient,
            "bulkhead:plugin/log": engine_world::log,
            "bulkhead:plugin/metrics": engine_world::metrics,
            "bulkhead:plugin/migration": engine_world::migration,
        },
    });
}

pub(crate) mod database_plugin {
    use crate::bindings::secrets_engine::bulkhead::plugin as engine_world;

    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "database-plugin",
        imports: {
            "bulkhead:plugin/sql": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        with: {
            "bulkhead:plugin/types": engine_world::types,
            "bulkhead:plugin/database-types": engine_world::database_types,
            "bulkhead:plugin/clock": engine_world::clock,
            "bulkhead:plugin/crypto": engine_world::crypto,
            "bulkhead:plugin/log": engine_world::log,
        },
    });
}

/// The optional export of a database plugin.
pub(crate) mod accounts_plugin {
    use crate::bindings::database_plugin::bulkhead::plugin as plugin_world;
    use crate::bindings::secrets_engine::bulkhead::plugin as engine_world;

    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "accounts-plugin",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "bulkhead:plugin/types": engine_world::types,
            "bulkhead:plugin/database-types": engine_world::database_types,
            "bulkhead:plugin/clock": engine_world::clock,
            "bulkhead:plugin/crypto": engine_world::crypto,
            "bulkhead:plugin/log": engine_world::log,
            "bulkhead:plugin/sql": plugin_world::sql,
        },
    });
}

pub(crate) mod seal_plugin {
    use crate::bindings::secrets_engine::bulkhead::plugin as engine_world;

    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "seal-plugin",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "bulkhead:plugin/types": engine_world::types,
            "bulkhead:plugin/clock": engine_world::clock,
            "bulkhead:plugin/crypto": engine_world::crypto,
            "bulkhead:plugin/http": engine_world::http,
            "bulkhead:plugin/log": engine_world::log,
        },
    });
}
