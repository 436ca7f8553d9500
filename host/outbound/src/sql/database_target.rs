//! The servers, the login and the TLS settings of a database session.

/// The servers of a database, and the login.
#[derive(Clone)]
pub struct DatabaseTarget {
    /// `postgres` or `mysql`.
    pub driver: String,
    /// Servers, tried in this order.
    pub endpoints: Vec<DatabaseEndpoint>,
    /// Skips servers that accept no writes.
    pub writable: bool,
    /// Name of the database; empty: the server's default.
    pub database: String,
    /// User of the login.
    pub username: String,
    /// Password of the login.
    pub password: String,
    /// TLS settings of the sessions.
    pub tls: DatabaseTls,
    /// Bounds of the pool.
    pub pool: PoolSettings,
}

/// A server of a database.
#[derive(Clone)]
pub struct DatabaseEndpoint {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// TLS settings of database sessions. Certificates and keys are PEM.
#[derive(Clone)]
pub struct DatabaseTls {
    /// `disable`, `prefer`, `require`, `verify-ca` or `verify-full`.
    pub mode: String,
    /// Trusted authorities; `None`: the public authorities and the operator's authorities.
    pub root_certificates: Option<String>,
    /// The client's certificate and its chain.
    pub client_certificate: Option<String>,
    /// The client's private key.
    pub client_key: Option<String>,
    /// Expected name in the server's certificate, if different from the host.
    pub server_name: Option<String>,
}

/// Bounds of a pool of sessions.
#[derive(Clone)]
pub struct PoolSettings {
    /// Maximum number of sessions; 0: the default.
    pub max_connections: u32,
    /// Timeout of a login, in milliseconds; 0: the default.
    pub connect_timeout: u32,
    /// Maximum age of a session, in milliseconds; 0: no maximum.
    pub max_lifetime: u64,
}
