//! From the words of `connection_url` to what the host dials.
//!
//! The attack this file stops: an address that reaches the host itself through its file system
//! (Unix sockets), and parameters that look honoured and are not. Which networks may be reached is
//! the host's to decide, from the grants of the mount.

use crate::parameters::{CONNECTION_URL, Credentials, Parameters, Text, in_place};
use crate::refusal::{Code, with};
use crate::tls;
use bulkhead_sdk::database_plugin::{Endpoint, Pool, Refusal, Settings, Target};
use std::net::Ipv6Addr;

const DEFAULT_PORT: u16 = 5432;

const MOST_HOSTS: usize = 16;

/// Parameters that this plugin reads.
const HONOURED: [&str; 11] = [
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
];

/// Parameters that clients of this field write and that change nothing here: the host chooses them
/// itself.
const INDIFFERENT: [&str; 18] = [
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
    "pool_max_conns",
    "pool_max_conn_lifetime",
];

/// Parameters that exist and ask for something that would not happen.
const UNSUPPORTED: [&str; 22] = [
    "hostaddr",
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
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "channel_binding",
    "require_auth",
    "requirepeer",
    "gssencmode",
    "krbsrvname",
    "gsslib",
    "load_balance_hosts",
    "tcp_user_timeout",
    "search_path",
];

/// The target that the parameters name; the sizes of its `pool` are settings of their own.
pub(crate) fn read(
    settings: &Settings,
    parameters: &Parameters,
    credentials: &Credentials<'_>,
    pool: Pool,
) -> Result<Target, Refusal> {
    refuse_unknown(parameters)?;
    let endpoints = endpoints(&parameters.hosts)?;
    let username = username(parameters, credentials)?;
    let password = match parameters.last("password") {
        Some(written) => written.fill(credentials)?,
        None => credentials.password.unwrap_or_default().to_owned(),
    };
    let database =
        parameters.last("dbname").map(|written| written.fill(credentials)).transpose()?;
    Ok(Target {
        driver: "postgres".to_owned(),
        endpoints,
        writable: writable(parameters)?,
        database: database.filter(|name| !name.is_empty()).unwrap_or_else(|| username.clone()),
        username,
        password,
        tls: tls::read(settings, parameters)?,
        pool: Pool {
            connect_timeout: connect_timeout(parameters)?.unwrap_or(pool.connect_timeout),
            ..pool
        },
        ext: Vec::new(),
    })
}

/// The addresses of a target, as grants name them: `postgres://db.example:5432`.
pub(crate) fn addresses(target: &Target) -> Vec<String> {
    let mut addresses = Vec::new();
    for Endpoint { host, port } in &target.endpoints {
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let address = format!("postgres://{host}:{port}");
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

fn refuse_unknown(parameters: &Parameters) -> Result<(), Refusal> {
    for (place, (keyword, _)) in parameters.named.iter().enumerate() {
        if let Some(known) = UNSUPPORTED.iter().find(|known| *known == keyword) {
            return Err(with(
                Code::ParameterUnsupported.about(CONNECTION_URL),
                "parameter",
                *known,
            ));
        }
        if !HONOURED.iter().chain(&INDIFFERENT).any(|known| known == keyword) {
            return Err(in_place(Code::ParameterUnknown, place));
        }
    }
    Ok(())
}

fn username(parameters: &Parameters, credentials: &Credentials<'_>) -> Result<String, Refusal> {
    let written = parameters.last("user").map(|written| written.fill(credentials)).transpose()?;
    let username =
        written.filter(|name| !name.is_empty()).or_else(|| credentials.username.map(str::to_owned));
    username
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Code::CredentialMissing.about("username"))
}

fn endpoints(hosts: &[(Text, Option<Text>)]) -> Result<Vec<Endpoint>, Refusal> {
    match hosts.len() {
        0 => Err(Code::UrlHost.about(CONNECTION_URL)),
        count if count > MOST_HOSTS => Err(Code::TooManyHosts.about(CONNECTION_URL)),
        _ => hosts
            .iter()
            .map(|(host, port)| Ok(Endpoint { host: self::host(host)?, port: self::port(port)? }))
            .collect(),
    }
}

fn host(written: &Text) -> Result<String, Refusal> {
    let host = written.plain()?;
    if host.starts_with(['/', '@', '\\']) {
        return Err(Code::UnixSocket.about(CONNECTION_URL));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fits = host.contains(|c: char| c.is_ascii_alphanumeric())
        && host.len() <= 253
        && host.chars().all(is_name);
    if fits || host.parse::<Ipv6Addr>().is_ok() {
        Ok(host)
    } else {
        Err(Code::UrlHost.about(CONNECTION_URL))
    }
}

fn port(written: &Option<Text>) -> Result<u16, Refusal> {
    let Some(written) = written else { return Ok(DEFAULT_PORT) };
    let port = written.plain()?;
    if port.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    let number =
        port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    number.filter(|port| *port != 0).ok_or_else(|| Code::UrlPort.about(CONNECTION_URL))
}

/// Users can be made only where writes are, so the attributes that ask for a standby are refused.
fn writable(parameters: &Parameters) -> Result<bool, Refusal> {
    match parameters.plain("target_session_attrs")?.as_deref() {
        None | Some("any") => Ok(false),
        Some("read-write" | "primary") => Ok(true),
        Some(_) => Err(refused_value("target_session_attrs", "any, read-write or primary")),
    }
}

/// libpq's seconds, in milliseconds; 0 is its word for no bound, which no connection gets.
fn connect_timeout(parameters: &Parameters) -> Result<Option<u32>, Refusal> {
    let Some(seconds) = parameters.plain("connect_timeout")? else { return Ok(None) };
    let seconds: u32 = seconds
        .parse()
        .map_err(|_| refused_value("connect_timeout", "a whole number of seconds"))?;
    Ok((seconds > 0).then(|| seconds.saturating_mul(1000)))
}

fn refused_value(parameter: &str, accepted: &str) -> Refusal {
    let refusal = with(Code::ParameterValue.about(CONNECTION_URL), "parameter", parameter);
    with(refusal, "accepted", accepted)
}
