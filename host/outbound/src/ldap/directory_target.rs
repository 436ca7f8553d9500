//! The servers, the login and the TLS settings of a session with a directory.

/// The servers of a directory, and the login.
#[derive(Clone)]
pub struct DirectoryTarget {
    /// URLs of the servers, tried in this order: `ldap://host:port` or `ldaps://host:port`.
    pub urls: Vec<String>,
    /// TLS settings of the sessions.
    pub tls: DirectoryTls,
    /// Name of the login; empty: an anonymous login.
    pub bind_dn: String,
    /// Password of the login.
    pub password: String,
    /// Timeout of the connection to a server, in milliseconds; 0: the maximum.
    pub connect_timeout: u32,
    /// Timeout of an answer, in milliseconds; 0: the maximum.
    pub request_timeout: u32,
}

/// TLS settings of sessions with a directory. Certificates and keys are PEM.
#[derive(Clone)]
pub struct DirectoryTls {
    /// Secures sessions of `ldap` URLs by StartTLS.
    pub starttls: bool,
    /// Accepts any certificate.
    pub insecure: bool,
    /// Trusted authorities; `None`: the public authorities and the operator's authorities.
    pub root_certificates: Option<String>,
    /// The client's certificate and its chain.
    pub client_certificate: Option<String>,
    /// The client's private key.
    pub client_key: Option<String>,
    /// Expected name in the server's certificate, if different from the host.
    pub server_name: Option<String>,
    /// Minimum version, such as `tls12`.
    pub min_version: String,
    /// Maximum version, such as `tls13`.
    pub max_version: String,
}
