//! The named parameters of a connection, from a URL or the keyword form.
//!
//! This file prevents a parameter without effect, and a session with another server or user than
//! meant: unknown parameters and two values of a parameter are refused. No message repeats a value,
//! because the value may be a password, and an unknown name is repeated only if the name is known
//! to be a parameter of PostgreSQL's clients: a password with an unescaped `&` looks like a name.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use bulkhead_wire::secret::Secret;

use bulkhead_record::fault::StoreFault;

use super::{
    CONNECT_TIMEOUT, CONNECT_TIMEOUT_MOST, MAX_PARALLEL, PUBLIC_AUTHORITIES, PasswordSource,
    PostgresPlace, PostgresServer, PostgresSetting, PostgresTls, PostgresTlsMode, SCHEMA,
    SessionTarget, TABLE,
};

const FORM: &str = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE";
/// Default port of a server.
const PORT: u16 = 5432;

/// The parameters that have a meaning here.
const SERVED: [&str; 14] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "passfile",
    "password",
    "port",
    "search_path",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "user",
];

/// Parameters of PostgreSQL's clients without a meaning here.
const UNSERVED: [&str; 34] = [
    "channel_binding",
    "client_encoding",
    "fallback_application_name",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "max_protocol_version",
    "min_protocol_version",
    "oauth_client_id",
    "oauth_client_secret",
    "oauth_issuer",
    "replication",
    "require_auth",
    "requirepeer",
    "requiressl",
    "scram_client_key",
    "scram_server_key",
    "service",
    "servicefile",
    "ssl",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcertmode",
    "sslcrl",
    "sslnegotiation",
    "sslpassword",
    "tcp_user_timeout",
];

/// The parameters with a value. There is no `Debug`, because one may be a password.
#[derive(Default)]
pub(super) struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Sets a parameter. An empty value means the default.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for an unknown parameter, and for a second value.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<(), StoreFault> {
        if name == "options" {
            return match value.is_empty() {
                true => Ok(()),
                false => self.set("search_path", search_path_of(&value)?),
            };
        }
        let Some(served) = SERVED.iter().copied().find(|served| *served == name) else {
            return Err(match UNSERVED.contains(&name) {
                true => refused(&format!("the parameter {name} is not supported")),
                false => {
                    refused("it has an unknown parameter; is a character of a value unescaped?")
                }
            });
        };
        if value.is_empty() {
            return Ok(());
        }
        match self.0.insert(served, value.clone()) {
            Some(earlier) if earlier != value => {
                Err(refused(&format!("it gives {served} twice, with different values")))
            }
            _ => Ok(()),
        }
    }

    /// Sets the parameter of a setting beside the connection URL.
    ///
    /// # Errors
    /// As [`Parameters::set`]; [`StoreFault::Refused`] if the URL has the parameter, too.
    pub(super) fn set_beside(&mut self, setting: &PostgresSetting) -> Result<(), StoreFault> {
        let PostgresSetting { name, parameter, value } = setting;
        if self.0.contains_key(parameter) {
            return Err(StoreFault::Refused(format!(
                "the connection URL has {parameter}, and {name} is given, too; leave one of the \
                 two out"
            )));
        }
        self.set(parameter, value.clone())
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Returns the place that the parameters describe.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for a value that cannot be read, and for parameters that contradict
    /// each other.
    pub(super) fn into_place(mut self) -> Result<PostgresPlace, StoreFault> {
        let user = self.take("user").ok_or_else(|| refused("it names no user"))?;
        let servers = self.servers()?;
        Ok(PostgresPlace {
            session_target: self.session_target(servers.len())?,
            database: self.take("dbname").unwrap_or_else(|| user.clone()),
            user,
            password: self.password()?,
            schema: self.schema()?,
            table: TABLE.to_owned(),
            tls: self.tls(&servers)?,
            servers,
            connect_timeout: self.connect_timeout()?,
            max_parallel: MAX_PARALLEL,
            application_name: self
                .take("application_name")
                .unwrap_or_else(|| "bulkhead".to_owned()),
        })
    }

    fn servers(&mut self) -> Result<Vec<PostgresServer>, StoreFault> {
        let (hosts, ports) = (self.take("host").unwrap_or_default(), self.take("port"));
        let ports = ports.unwrap_or_default();
        let (hosts, ports): (Vec<_>, Vec<_>) =
            (hosts.split(',').collect(), ports.split(',').collect());
        if ports.len() > 1 && ports.len() != hosts.len() {
            return Err(refused("it gives other numbers of hosts and ports"));
        }
        let each = hosts.iter().zip(ports.iter().cycle());
        let servers = each.map(|(host, port)| {
            let host = if host.is_empty() { "localhost" } else { host };
            let port = match port.is_empty() {
                true => PORT,
                false => port
                    .parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| refused("a port is not a number from 1 to 65535"))?,
            };
            Ok(PostgresServer { host: host.to_owned(), port })
        });
        servers.collect()
    }

    fn session_target(&mut self, servers: usize) -> Result<SessionTarget, StoreFault> {
        match self.take("target_session_attrs").as_deref() {
            None if servers > 1 => Ok(SessionTarget::ReadWrite),
            None => Ok(SessionTarget::Any),
            Some("any") if servers > 1 => Err(unusable(
                "target_session_attrs=any with several servers could read from a standby without \
                 the last commits; give read-write",
            )),
            Some("any") => Ok(SessionTarget::Any),
            Some("read-write" | "primary") => Ok(SessionTarget::ReadWrite),
            Some(_) => Err(unusable(
                "target_session_attrs is not any, read-write or primary; the store writes",
            )),
        }
    }

    fn password(&mut self) -> Result<PasswordSource, StoreFault> {
        match (self.take("password"), self.take("passfile")) {
            (None, None) => Ok(PasswordSource::Missing),
            (Some(password), None) => Ok(PasswordSource::Fixed(Secret::new(password))),
            (None, Some(file)) => Ok(PasswordSource::PassFile(file.into())),
            (Some(_), Some(_)) => {
                Err(unusable("the URL has a password and a passfile; leave one of the two out"))
            }
        }
    }

    fn schema(&mut self) -> Result<String, StoreFault> {
        let schema = self.take("search_path").unwrap_or_else(|| SCHEMA.to_owned());
        match schema.contains([',', '"']) {
            true => Err(unusable("search_path is not the plain name of a single schema")),
            false => Ok(schema),
        }
    }

    fn connect_timeout(&mut self) -> Result<Duration, StoreFault> {
        let Some(seconds) = self.take("connect_timeout") else { return Ok(CONNECT_TIMEOUT) };
        match seconds.parse() {
            Ok(seconds @ 1..=CONNECT_TIMEOUT_MOST) => Ok(Duration::from_secs(seconds)),
            _ => Err(unusable(&format!(
                "connect_timeout is not a number of seconds from 1 to {CONNECT_TIMEOUT_MOST}"
            ))),
        }
    }

    fn tls(&mut self, servers: &[PostgresServer]) -> Result<PostgresTls, StoreFault> {
        let root = self.take("sslrootcert");
        let mode = match self.take("sslmode") {
            Some(mode) => tls_mode(&mode)?,
            None if root.is_none() && servers.iter().all(PostgresServer::is_local) => {
                PostgresTlsMode::Prefer
            }
            None => PostgresTlsMode::VerifyFull,
        };
        let (certificate, key) = (self.take("sslcert"), self.take("sslkey"));
        let is_unchecked = matches!(mode, PostgresTlsMode::Disable | PostgresTlsMode::Prefer);
        if certificate.is_some() != key.is_some() {
            return Err(unusable("sslcert and sslkey are given together, or neither"));
        }
        if is_unchecked && root.is_some() {
            return Err(unusable(
                "sslrootcert has no effect with sslmode=disable or prefer; give verify-full",
            ));
        }
        if mode == PostgresTlsMode::Disable && key.is_some() {
            return Err(unusable("sslcert and sslkey have no effect with sslmode=disable"));
        }
        if root.as_deref() == Some(PUBLIC_AUTHORITIES) && mode != PostgresTlsMode::VerifyFull {
            return Err(unusable(
                "sslrootcert=system needs sslmode=verify-full: anybody has a certificate of a \
                 public authority",
            ));
        }
        Ok(PostgresTls {
            mode,
            root_certificates: root.map(Into::into),
            client_certificate: certificate.map(Into::into),
            client_key: key.map(Into::into),
        })
    }
}

/// Returns the refusal of a connection URL.
pub(super) fn refused(why: &str) -> StoreFault {
    StoreFault::Refused(format!("the connection URL of the database: {why}; give {FORM}"))
}

/// Returns the refusal of parameters of a connection, from the URL or from settings beside the URL.
fn unusable(why: &str) -> StoreFault {
    StoreFault::Refused(format!("the parameters of the database connection: {why}"))
}

/// Returns the schema of the parameter `options`, which may set nothing else.
fn search_path_of(options: &str) -> Result<String, StoreFault> {
    let options = options.trim();
    let setting = options
        .strip_prefix("-c")
        .map(str::trim_start)
        .or_else(|| options.strip_prefix("--"))
        .and_then(|setting| setting.strip_prefix("search_path="));
    match setting {
        Some(schema) if !schema.contains(|c: char| c == '\\' || c.is_whitespace()) => {
            Ok(schema.to_owned())
        }
        _ => Err(refused("options contains more than -c search_path=SCHEMA")),
    }
}

fn tls_mode(value: &str) -> Result<PostgresTlsMode, StoreFault> {
    Ok(match value {
        "disable" => PostgresTlsMode::Disable,
        "prefer" => PostgresTlsMode::Prefer,
        "require" => PostgresTlsMode::Require,
        "verify-ca" => PostgresTlsMode::VerifyCa,
        "verify-full" => PostgresTlsMode::VerifyFull,
        "allow" => {
            return Err(unusable(
                "sslmode=allow would log in without TLS first; give prefer or verify-full",
            ));
        }
        _ => {
            return Err(unusable(
                "sslmode is not disable, prefer, require, verify-ca or verify-full",
            ));
        }
    })
}
