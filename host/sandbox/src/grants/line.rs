//! A grant as a line of text: operators write lines, components ask for lines, and refusals print
//! lines.
//!
//! Each grant has a single canonical text: a single spelling of a host, always a port, and ranges
//! without bits behind the prefix. Parsing a printed line gives the same grant, so an operator can
//! type a printed remedy unchanged.

use bulkhead_outbound::addresses::{EndpointPattern, HostPattern, forbidden_range, network};

use crate::limits::LimitLine;
use bulkhead_wire::failure::quoted;
use bulkhead_wire::name::is_name;
use bulkhead_wire::spelling;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum length of a line in bytes.
const LONGEST: usize = 512;

/// An act that a mount's plugin may do, with its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Grant {
    /// Requests to an origin, or to all origins below a domain.
    Http {
        /// With TLS.
        tls: bool,
        /// The host.
        host: HostPattern,
        /// The port.
        port: u16,
    },
    /// Sessions with a database server.
    Sql {
        /// The kind of server.
        driver: SqlDriver,
        /// The host.
        host: HostPattern,
        /// The port.
        port: u16,
    },
    /// Sessions with a directory.
    Ldap {
        /// With TLS.
        tls: bool,
        /// The host.
        host: HostPattern,
        /// The port.
        port: u16,
    },
    /// Any server of a kind, for example `http:*`. For a component of this binary, the line also
    /// allows private and loopback addresses.
    Anywhere(OutboundProtocol),
    /// Private or loopback addresses to which names may resolve.
    Address(IpNet),
    /// A value of the process's surroundings.
    Ambient(AmbientValue),
    /// An operation with a private key.
    Crypto(CryptoVerb),
    /// Database plugins that an engine may call.
    Database(DatabasePlugins),
    /// Tokens that prove the mount's identity to others: `identity:token`.
    IdentityToken,
    /// The context of traces in requests to the targets of an `http` line.
    Trace(Box<Grant>),
    /// A limit that replaces the default.
    Limit(LimitLine),
}

/// A kind of SQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDriver {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
}

/// A kind of server that a mount may reach at any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboundProtocol {
    /// Web servers.
    Http,
    /// Directories.
    Ldap,
}

/// A value of the process's surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmbientValue {
    /// A value of the environment.
    Environment(String),
    /// The token of the machine's cloud identity.
    CloudToken,
    /// The token of the pod that contains the process.
    PodIdentity,
}

/// An operation with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CryptoVerb {
    /// Signing.
    Sign,
    /// Signing a certificate.
    IssueCertificate,
    /// Making a key.
    GenerateKey,
}

/// Database plugins by the name under which connections ask for a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabasePlugins {
    /// All plugins: `*`.
    Any,
    /// The plugin of that name.
    Named(String),
}

const ACTS: [&str; 10] = [
    "http", "sql", "ldap", "address", "ambient", "crypto", "database", "identity", "trace", "limit",
];

/// The target that stands for every target of an act.
const ANY: &str = "*";

/// The only target of an `identity` line.
const TOKEN: &str = "token";

/// Prefixes of environment names that belong to the server itself and may hold its secrets.
const RESERVED_PREFIXES: [&str; 3] = ["BULKHEAD_", "VAULT_", "BAO_"];

const VERBS: [(CryptoVerb, &str); 3] = [
    (CryptoVerb::Sign, "sign"),
    (CryptoVerb::IssueCertificate, "issue-certificate"),
    (CryptoVerb::GenerateKey, "generate-key"),
];

impl Grant {
    /// Returns whether both set the same limit, so that the later grant replaces the earlier grant.
    #[must_use]
    pub fn is_of_same_limit(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Limit(one), Self::Limit(other)) => one.is_of_same_limit(other),
            _ => false,
        }
    }

    /// Returns whether the grant covers a target. `wanted` is the grant for that target alone.
    pub(super) fn covers(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (
                Self::Sql { driver, host, port },
                Self::Sql { driver: wanted, host: target, port: at },
            ) => {
                driver == wanted
                    && port == at
                    && target.single().is_some_and(|target| host.covers(&target))
            }
            (
                Self::Http { tls, host, port },
                Self::Http { tls: wanted, host: target, port: at },
            )
            | (
                Self::Ldap { tls, host, port },
                Self::Ldap { tls: wanted, host: target, port: at },
            ) => {
                tls == wanted
                    && port == at
                    && target.single().is_some_and(|target| host.covers(&target))
            }
            (Self::Anywhere(OutboundProtocol::Http), Self::Http { .. })
            | (Self::Anywhere(OutboundProtocol::Ldap), Self::Ldap { .. })
            | (Self::Database(DatabasePlugins::Any), Self::Database(_)) => true,
            (Self::Trace(targets), Self::Trace(wanted)) => targets.covers(wanted),
            _ => self == wanted,
        }
    }

    fn read(text: &str) -> Result<Self, String> {
        let Some((act, target)) = text.split_once(':') else {
            let hint = if ACTS.contains(&text) {
                "; the target is missing".to_owned()
            } else {
                spelling::hint(text, &ACTS)
            };
            return Err(format!(
                "this is not an act and a target, such as sql:postgres://10.1.0.0/16:5432{hint}"
            ));
        };
        match act {
            "http" if target == ANY => Ok(Self::Anywhere(OutboundProtocol::Http)),
            "ldap" if target == ANY => Ok(Self::Anywhere(OutboundProtocol::Ldap)),
            "http" => read_endpoint(target, ["http", "https"], [80, 443])
                .map(|(tls, host, port)| Self::Http { tls: tls == 1, host, port }),
            "ldap" => read_endpoint(target, ["ldap", "ldaps"], [389, 636])
                .map(|(tls, host, port)| Self::Ldap { tls: tls == 1, host, port }),
            "sql" => read_sql(target),
            "address" => read_range(target).map(Self::Address),
            "ambient" => AmbientValue::read(target).map(Self::Ambient),
            "crypto" => read_verb(target).map(Self::Crypto),
            "database" => DatabasePlugins::read(target).map(Self::Database),
            "identity" if target == TOKEN => Ok(Self::IdentityToken),
            "identity" => Err(format!(
                "identity has no {}{}",
                quoted(target),
                spelling::hint(target, &[TOKEN])
            )),
            "trace" => Self::read(&format!("http:{target}")).map(Box::new).map(Self::Trace),
            "limit" => LimitLine::parse(target).map(Self::Limit),
            other => {
                Err(format!("there is no act {}{}", quoted(other), spelling::hint(other, &ACTS)))
            }
        }
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!(
                "{} is not a grant: a line has at most {LONGEST} bytes",
                quoted(text)
            ));
        }
        Self::read(text).map_err(|why| format!("{} is not a grant: {why}", quoted(text)))
    }
}

impl TryFrom<String> for Grant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { tls, host, port } => {
                write!(f, "http:http{}://{host}:{port}", if *tls { "s" } else { "" })
            }
            Self::Sql { driver, host, port } => write!(f, "sql:{}://{host}:{port}", driver.word()),
            Self::Ldap { tls, host, port } => {
                write!(f, "ldap:ldap{}://{host}:{port}", if *tls { "s" } else { "" })
            }
            Self::Anywhere(OutboundProtocol::Http) => write!(f, "http:{ANY}"),
            Self::Anywhere(OutboundProtocol::Ldap) => write!(f, "ldap:{ANY}"),
            Self::Address(range) => write!(f, "address:{range}"),
            Self::Ambient(AmbientValue::Environment(name)) => write!(f, "ambient:env/{name}"),
            Self::Ambient(AmbientValue::CloudToken) => f.write_str("ambient:cloud-token"),
            Self::Ambient(AmbientValue::PodIdentity) => f.write_str("ambient:pod-identity"),
            Self::Crypto(verb) => {
                let named = VERBS.iter().find(|(candidate, _)| candidate == verb);
                write!(f, "crypto:{}", named.map_or("", |(_, word)| word))
            }
            Self::Database(DatabasePlugins::Any) => write!(f, "database:{ANY}"),
            Self::Database(DatabasePlugins::Named(name)) => write!(f, "database:{name}"),
            Self::IdentityToken => write!(f, "identity:{TOKEN}"),
            Self::Trace(targets) => {
                let line = targets.to_string();
                write!(f, "trace:{}", line.strip_prefix("http:").unwrap_or_default())
            }
            Self::Limit(line) => write!(f, "limit:{line}"),
        }
    }
}

impl SqlDriver {
    /// Returns the word for `sql` lines and the `sql` import.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::Mysql => 3306,
        }
    }
}

fn read_sql(target: &str) -> Result<Grant, String> {
    let drivers = [SqlDriver::Postgres, SqlDriver::Mysql];
    let (place, host, port) =
        read_endpoint(target, drivers.map(SqlDriver::word), drivers.map(SqlDriver::port))?;
    let [postgres, mysql] = drivers;
    Ok(Grant::Sql { driver: if place == 0 { postgres } else { mysql }, host, port })
}

/// Parses `scheme://host:port`. Returns the index of the scheme, the host and the port; the default
/// port depends on the scheme.
fn read_endpoint<const N: usize>(
    text: &str,
    schemes: [&str; N],
    ports: [u16; N],
) -> Result<(usize, HostPattern, u16), String> {
    let endpoint = EndpointPattern::parse(text)?;
    let entry =
        schemes.iter().zip(ports).enumerate().find(|(_, (scheme, _))| **scheme == endpoint.scheme);
    let Some((place, (_, port))) = entry else {
        let scheme = endpoint.scheme;
        return Err(format!(
            "there is no scheme {}{}",
            quoted(scheme),
            spelling::hint(scheme, &schemes)
        ));
    };
    Ok((place, endpoint.host, endpoint.port.unwrap_or(port)))
}

fn read_range(text: &str) -> Result<IpNet, String> {
    let range = network(text).ok_or_else(|| {
        format!("{} is not a range of addresses: give a range such as 10.0.0.0/8", quoted(text))
    })?;
    match forbidden_range(&range) {
        Some(why) => Err(format!("{range} is {why}, which no grant opens; leave the range out")),
        None => Ok(range),
    }
}

fn read_verb(text: &str) -> Result<CryptoVerb, String> {
    let found = VERBS.iter().find(|(_, word)| *word == text).map(|(verb, _)| *verb);
    let words = VERBS.map(|(_, word)| word);
    found.ok_or_else(|| format!("crypto has no {}{}", quoted(text), spelling::hint(text, &words)))
}

impl AmbientValue {
    fn read(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("env/")) {
            ("cloud-token", _) => Ok(Self::CloudToken),
            ("pod-identity", _) => Ok(Self::PodIdentity),
            (_, Some(name)) => Self::environment(name),
            _ => Err(format!("{} is none of env/NAME, cloud-token and pod-identity", quoted(text))),
        }
    }
}

impl AmbientValue {
    /// Reads the name of an environment value.
    ///
    /// # Errors
    /// The text is not a name, or belongs to the server's own values, which no grant opens.
    pub(super) fn environment(name: &str) -> Result<Self, String> {
        let upper = name.to_ascii_uppercase();
        if RESERVED_PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) {
            return Err(format!("{} is the server's own, which no grant opens", quoted(name)));
        }
        match is_name(name) {
            true => Ok(Self::Environment(name.to_owned())),
            false => Err(format!("{} is not a name of a value: write env/NAME", quoted(name))),
        }
    }
}

impl DatabasePlugins {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            ANY => Ok(Self::Any),
            name if is_name(name) => Ok(Self::Named(name.to_owned())),
            other => Err(format!(
                "{} is not a name of a database plugin, and not * for all",
                quoted(other)
            )),
        }
    }
}

#[cfg(test)]
mod tests;
