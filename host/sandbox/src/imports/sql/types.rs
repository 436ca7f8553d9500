//! The types of the `sql` import, translated to the types of `bulkhead-outbound` and back.

use crate::bindings::database_plugin::bulkhead::plugin::sql as contract;
use bulkhead_outbound::sql::{
    DatabaseEndpoint, DatabaseTarget, DatabaseTls, PoolSettings, SqlFailure, SqlStatement,
};

/// Key in a statement's `ext` that lets the transaction continue if the statement fails.
const MAY_FAIL: &str = "may-fail";

/// Key in a failure's `ext` of the reason why TLS failed.
const TLS: &str = "tls";

impl From<contract::Target> for DatabaseTarget {
    fn from(target: contract::Target) -> Self {
        let endpoint = |contract::Endpoint { host, port }| DatabaseEndpoint { host, port };
        Self {
            driver: target.driver,
            endpoints: target.endpoints.into_iter().map(endpoint).collect(),
            writable: target.writable,
            database: target.database,
            username: target.username,
            password: target.password,
            tls: DatabaseTls {
                mode: target.tls.mode,
                root_certificates: target.tls.root_certificates,
                client_certificate: target.tls.client_certificate,
                client_key: target.tls.client_key,
                server_name: target.tls.server_name,
            },
            pool: PoolSettings {
                max_connections: target.pool.max_connections,
                connect_timeout: target.pool.connect_timeout,
                max_lifetime: target.pool.max_lifetime,
            },
        }
    }
}

impl From<contract::Statement> for SqlStatement {
    fn from(statement: contract::Statement) -> Self {
        let may_fail = statement.ext.iter().any(|(name, _)| name == MAY_FAIL);
        Self { text: statement.text, secret: statement.secret, may_fail }
    }
}

impl From<SqlFailure> for contract::Failure {
    fn from(failure: SqlFailure) -> Self {
        let tls = failure.is_tls.then(|| (TLS.to_owned(), failure.message.clone()));
        Self {
            code: failure.code,
            message: failure.message,
            statement: failure.statement,
            sqlstate: failure.sqlstate,
            ext: tls.into_iter().collect(),
        }
    }
}
