//! The place of the tables on PostgreSQL servers, and the way to the place.
//!
//! This file prevents the password of a database from appearing in a log: neither a password nor a
//! connection URL has a `Debug`.

mod connection_url;
mod keyword_form;
mod parameters;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bulkhead_wire::secret::Secret;

/// Default of [`PostgresPlace::schema`].
const SCHEMA: &str = "public";
/// Default of [`PostgresPlace::table`].
const TABLE: &str = "bulkhead";
/// Default of [`PostgresPlace::connect_timeout`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum of [`PostgresPlace::connect_timeout`], in seconds.
pub const CONNECT_TIMEOUT_MOST: u64 = 300;
/// Value of [`PostgresTls::root_certificates`] for the public authorities.
pub const PUBLIC_AUTHORITIES: &str = "system";
/// Default of [`PostgresPlace::max_parallel`].
const MAX_PARALLEL: u32 = 16;

/// The place of the tables on PostgreSQL servers, and the way to the place.
#[derive(Clone, Debug)]
pub struct PostgresPlace {
    /// The servers, tried in this order; at least one.
    pub servers: Vec<PostgresServer>,
    /// The servers that are accepted.
    pub session_target: SessionTarget,
    /// The user of the database.
    pub user: String,
    /// The password of the user.
    pub password: PasswordSource,
    /// The name of the database.
    pub database: String,
    /// The schema of the tables. The schema exists.
    pub schema: String,
    /// The beginning of the names of tables and indexes, before an underscore.
    pub table: String,
    /// The protection of connections over a network.
    pub tls: PostgresTls,
    /// Maximum time for the name, the connection and the login of each server.
    pub connect_timeout: Duration,
    /// Maximum number of connections that read at the same time. One more connection writes.
    pub max_parallel: u32,
    /// The name of the connections in the tables of the server.
    pub application_name: String,
}

/// A setting beside a connection URL, with the rules of a parameter in the URL. Never a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSetting {
    /// The name of the setting, for messages.
    pub name: &'static str,
    /// The parameter of a connection URL with the same meaning.
    pub parameter: &'static str,
    /// The value, as a connection URL has it without escapes.
    pub value: String,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresServer {
    /// A name, an address, or the absolute path of the folder with the socket.
    pub host: String,
    /// The port; for a socket, a part of its file name.
    pub port: u16,
}

/// The servers that are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionTarget {
    /// The first server that answers. Among several servers or addresses, the sessions must be
    /// able to write in any case, because a standby may lack the last commits.
    #[default]
    Any,
    /// The first server whose sessions may write.
    ReadWrite,
}

/// The source of a password.
#[derive(Clone, Debug, Default)]
pub enum PasswordSource {
    /// No password.
    #[default]
    Missing,
    /// This password.
    Fixed(Secret),
    /// The content of this file without a final line break, read for each connection. Other users
    /// must not have access to the file.
    File(PathBuf),
    /// A line of this password file of PostgreSQL's clients, read for each connection. Other users
    /// must not have access to the file.
    PassFile(PathBuf),
}

/// The protection of connections over a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresTls {
    /// Use and checks of TLS.
    pub mode: PostgresTlsMode,
    /// File of the authorities of the server's certificate. `None`, and the word `system`: the
    /// public authorities.
    pub root_certificates: Option<PathBuf>,
    /// File of the client's certificate and chain.
    pub client_certificate: Option<PathBuf>,
    /// File of the client's key.
    pub client_key: Option<PathBuf>,
}

/// Use and checks of TLS, by the names of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresTlsMode {
    /// No TLS.
    Disable,
    /// TLS without checks if the server has TLS. The default for servers of this machine.
    Prefer,
    /// TLS without checks; with a file of authorities, as [`PostgresTlsMode::VerifyCa`].
    Require,
    /// TLS; the certificate has a chain to an authority.
    VerifyCa,
    /// TLS; the certificate also bears the server's name. The default for other machines.
    VerifyFull,
}

impl PostgresServer {
    /// Returns `true` if the host is the folder of a socket.
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// Returns `true` if connections to the server do not leave this machine.
    pub fn is_local(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.is_socket() || self.host == "localhost" || address.is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Display for PostgresServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// The servers, the database and the schema, for messages.
impl fmt::Display for PostgresPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "postgresql://")?;
        for (index, server) in self.servers.iter().enumerate() {
            write!(out, "{}{server}", if index == 0 { "" } else { "," })?;
        }
        write!(out, "/{} (schema {}, tables {}_*)", self.database, self.schema, self.table)
    }
}
