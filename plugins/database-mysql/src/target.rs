//! Translates `connection_url` into the target that the host dials.
//!
//! This file prevents parameters that seem to work but are ignored, above all the parameters of
//! Go's driver that send files (`allowAllFiles`) or passwords in clear.

use crate::codes::Code;
use crate::{dsn, tls};
use bulkhead_sdk::connection::{
    CONNECTION_URL, ConnectionParameters, KnownParameters, UrlCredentials, endpoints, read_url,
    refused_value,
};
use bulkhead_sdk::database_plugin::{ConnectionSettings, DatabaseTarget, PoolLimits, Refusal};
use bulkhead_sdk::wire::duration;
use serde_json::Value;

const DEFAULT_PORT: u16 = 3306;

/// Known parameters of `connection_url`: those of go-sql-driver/mysql 1.10.
const KNOWN: KnownParameters = KnownParameters {
    honoured: &["user", "password", "dbname", "tls", "timeout"],
    indifferent: &[
        "allowFallbackToPlaintext",
        "allowNativePasswords",
        "charset",
        "checkConnLiveness",
        "clientFoundRows",
        "collation",
        "columnsWithAlias",
        "connectionAttributes",
        "interpolateParams",
        "loc",
        "maxAllowedPacket",
        "multiStatements",
        "parseTime",
        "readTimeout",
        "rejectReadOnly",
        "timeTruncate",
        "writeTimeout",
    ],
    unsupported: &[
        "allowAllFiles",
        "allowCleartextPasswords",
        "allowOldPasswords",
        "compress",
        "serverPubKey",
        "strict",
    ],
};

/// Parses either form of `connection_url` without interpreting the parameters.
pub(crate) fn parameters(connection_url: &str) -> Result<ConnectionParameters, Refusal> {
    let text = connection_url.trim();
    if text.is_empty() {
        let refusal = Code::ConnectionUrlMissing.about(CONNECTION_URL);
        return Err(refusal.with("placeholder", "{{username}}:{{password}}@tcp(host:3306)/"));
    }
    let schemes = ["mysql://", "mariadb://"];
    match schemes.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(after_scheme) => read_url(after_scheme),
        None => dsn::read(text),
    }
}

/// Returns the target named by the parameters. The sizes of `pool` come from separate settings.
pub(crate) fn read(
    settings: &ConnectionSettings,
    parameters: &ConnectionParameters,
    credentials: &UrlCredentials<'_>,
    pool: PoolLimits,
) -> Result<DatabaseTarget, Refusal> {
    KNOWN.check(parameters)?;
    let filled = |keyword: &str| {
        let value = parameters.last(keyword).map(|written| written.fill(credentials)).transpose();
        value.map(|value| value.filter(|value| !value.is_empty()))
    };
    let owned = |value: Option<&str>| value.map(str::to_owned).unwrap_or_default();
    Ok(DatabaseTarget {
        driver: "mysql".to_owned(),
        endpoints: endpoints(&parameters.hosts, DEFAULT_PORT)?,
        writable: false,
        database: filled("dbname")?.unwrap_or_default(),
        username: filled("user")?.unwrap_or_else(|| owned(credentials.username)),
        password: filled("password")?.unwrap_or_else(|| owned(credentials.password)),
        tls: tls::read(settings, parameters)?,
        pool: PoolLimits {
            connect_timeout: timeout(parameters)?.unwrap_or(pool.connect_timeout),
            ..pool
        },
        ext: Vec::new(),
    })
}

/// Returns Go's duration in milliseconds. Go's 0 means no timeout, which is not allowed here, so
/// the default applies.
fn timeout(parameters: &ConnectionParameters) -> Result<Option<u32>, Refusal> {
    let Some(written) = parameters.plain("timeout")? else { return Ok(None) };
    let seconds = duration::seconds(&Value::String(written))
        .map_err(|_| refused_value("timeout", "a duration such as 10s"))?;
    let milliseconds = u32::try_from(seconds.saturating_mul(1000)).unwrap_or(u32::MAX);
    Ok((milliseconds > 0).then_some(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::KNOWN;
    use std::collections::BTreeSet;

    /// Parameters of go-sql-driver/mysql 1.10.0 (`parseDSNParams`). Recorded on 2026-11-27.
    const CLIENT: &[&str] = &[
        "allowAllFiles",
        "allowCleartextPasswords",
        "allowFallbackToPlaintext",
        "allowNativePasswords",
        "allowOldPasswords",
        "charset",
        "checkConnLiveness",
        "clientFoundRows",
        "collation",
        "columnsWithAlias",
        "compress",
        "connectionAttributes",
        "interpolateParams",
        "loc",
        "maxAllowedPacket",
        "multiStatements",
        "parseTime",
        "readTimeout",
        "rejectReadOnly",
        "serverPubKey",
        "strict",
        "timeTruncate",
        "timeout",
        "tls",
        "writeTimeout",
    ];
    /// Login and database, which the client reads from other parts of the text.
    const OTHERS: &[&str] = &["user", "password", "dbname"];

    #[test]
    fn every_parameter_of_the_client_has_one_treatment() {
        let parameters: BTreeSet<&str> = [CLIENT, OTHERS].concat().into_iter().collect();
        let ours = [KNOWN.honoured, KNOWN.indifferent, KNOWN.unsupported].concat();
        assert_eq!(ours.iter().copied().collect::<BTreeSet<_>>(), parameters);
        assert_eq!(ours.len(), parameters.len(), "no parameter has two treatments");
    }
}
