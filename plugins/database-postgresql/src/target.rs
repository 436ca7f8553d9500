//! Translates `connection_url` into the target that the host dials.

use crate::tls;
use bulkhead_sdk::connection::{
    ConnectionParameters, KnownParameters, UrlCredentials, endpoints, refused_value,
};
use bulkhead_sdk::database_plugin::{ConnectionSettings, DatabaseTarget, PoolLimits, Refusal};

const DEFAULT_PORT: u16 = 5432;

/// Known parameters of `connection_url`: those of libpq 18, pgx 5.10 and lib/pq 1.12, which
/// `fixtures/parameters.tsv` lists.
const KNOWN: KnownParameters = KnownParameters {
    honoured: &[
        "host",
        "port",
        "user",
        "password",
        "dbname",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "connect_timeout",
        "target_session_attrs",
    ],
    indifferent: &[
        "application_name",
        "fallback_application_name",
        "timezone",
        "TimeZone",
        "client_encoding",
        "sslinline",
        "sslsni",
        "sslcompression",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "binary_parameters",
        "default_query_exec_mode",
        "statement_cache_capacity",
        "statement_cache_mode",
        "description_cache_capacity",
        "disable_prepared_binary_result",
        "geqo",
        "pool_max_conns",
        "pool_max_conn_idle_time",
        "pool_max_conn_lifetime",
        "pool_max_conn_lifetime_jitter",
        "pool_min_conns",
        "pool_min_idle_conns",
        "pool_health_check_period",
        "pool_ping_timeout",
    ],
    unsupported: &[
        "hostaddr",
        "database",
        "datestyle",
        "tz",
        "service",
        "servicefile",
        "passfile",
        "options",
        "replication",
        "sslpassword",
        "sslcrl",
        "sslcrldir",
        "sslnegotiation",
        "sslcertmode",
        "sslkeylogfile",
        "ssl_min_protocol_version",
        "ssl_max_protocol_version",
        "channel_binding",
        "require_auth",
        "requirepeer",
        "gssdelegation",
        "gssencmode",
        "krbspn",
        "krbsrvname",
        "gsslib",
        "load_balance_hosts",
        "max_protocol_version",
        "min_protocol_version",
        "oauth_client_id",
        "oauth_client_secret",
        "oauth_issuer",
        "oauth_scope",
        "scram_client_key",
        "scram_server_key",
        "tcp_user_timeout",
        "search_path",
    ],
};

/// Returns the target named by the parameters. The sizes of `pool` come from separate settings.
pub(crate) fn read(
    settings: &ConnectionSettings,
    parameters: &ConnectionParameters,
    credentials: &UrlCredentials<'_>,
    pool: PoolLimits,
) -> Result<DatabaseTarget, Refusal> {
    KNOWN.check(parameters)?;
    let endpoints = endpoints(&parameters.hosts, DEFAULT_PORT)?;
    let username = username(parameters, credentials)?;
    let password = match parameters.last("password") {
        Some(written) => written.fill(credentials)?,
        None => credentials.password.unwrap_or_default().to_owned(),
    };
    let database =
        parameters.last("dbname").map(|written| written.fill(credentials)).transpose()?;
    Ok(DatabaseTarget {
        driver: "postgres".to_owned(),
        endpoints,
        writable: writable(parameters)?,
        database: database.filter(|name| !name.is_empty()).unwrap_or_else(|| username.clone()),
        username,
        password,
        tls: tls::read(settings, parameters)?,
        pool: PoolLimits {
            connect_timeout: connect_timeout(parameters)?.unwrap_or(pool.connect_timeout),
            ..pool
        },
        ext: Vec::new(),
    })
}

fn username(
    parameters: &ConnectionParameters,
    credentials: &UrlCredentials<'_>,
) -> Result<String, Refusal> {
    let written = parameters.last("user").map(|written| written.fill(credentials)).transpose()?;
    let written = written.filter(|name| !name.is_empty());
    Ok(written.unwrap_or_else(|| credentials.username.unwrap_or_default().to_owned()))
}

/// Tells if the target must be writable. Attributes that require a standby are refused, because
/// users can be created only on a writable server.
fn writable(parameters: &ConnectionParameters) -> Result<bool, Refusal> {
    match parameters.plain("target_session_attrs")?.as_deref() {
        None | Some("any") => Ok(false),
        Some("read-write" | "primary") => Ok(true),
        Some(_) => Err(refused_value("target_session_attrs", "any, read-write or primary")),
    }
}

/// Converts libpq's seconds to milliseconds. libpq's 0 means no timeout, which is not allowed here,
/// so the default applies.
fn connect_timeout(parameters: &ConnectionParameters) -> Result<Option<u32>, Refusal> {
    let Some(seconds) = parameters.plain("connect_timeout")? else { return Ok(None) };
    let seconds: u32 = seconds
        .parse()
        .map_err(|_| refused_value("connect_timeout", "a whole number of seconds"))?;
    Ok((seconds > 0).then(|| seconds.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::KNOWN;
    use std::collections::BTreeSet;

    /// Each parameter with the clients that know the parameter: libpq 18.6 (`PQconndefaults`), pgx
    /// 5.10.0 with its pool, and lib/pq 1.12.3. Recorded on 2026-11-27.
    const CLIENTS: &str = include_str!("../fixtures/parameters.tsv");
    /// Names of older clients, and settings of the server that clients pass on.
    const OTHERS: [&str; 4] = ["search_path", "statement_cache_mode", "timezone", "TimeZone"];

    #[test]
    fn every_parameter_of_the_clients_has_one_treatment() {
        let clients = CLIENTS.lines().map(|line| line.split('\t').next().unwrap());
        let parameters = clients.chain(OTHERS).collect::<BTreeSet<_>>();
        let ours = [KNOWN.honoured, KNOWN.indifferent, KNOWN.unsupported].concat();
        assert_eq!(ours.iter().copied().collect::<BTreeSet<_>>(), parameters);
        assert_eq!(ours.len(), parameters.len(), "no parameter has two treatments");
    }
}
