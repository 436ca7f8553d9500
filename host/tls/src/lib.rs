//! TLS for listeners and clients: PEM files, trusted authorities, verification of certificates,
//! the faults of handshakes, and local sockets for libraries that cannot take a TLS stream.
//!
//! Every other crate of the host gets TLS from this crate, so that each rule of trust has one
//! place. Versions are TLS 1.2 and 1.3. The certificate store of the operating system is never
//! used. The crate knows no HTTP, no components and no syntax of a configuration: the caller gives
//! the names of settings for messages, and the names of the application protocols.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! authorities → machine_clock → issuing → pem → server_name → verifiers → fault → versions
//! → files → suites → chain → client → server → renewal → local_socket
//! ```

mod authorities;
mod chain;
mod client;
mod fault;
mod files;
pub mod issuing;
mod local_socket;
mod machine_clock;
pub mod pem;
mod renewal;
mod server;
mod server_name;
mod suites;
mod verifiers;
mod versions;

pub use authorities::{Authorities, NotAnAuthority};
pub use client::{ClientConfigFault, ClientIdentity, ClientSettings, PeerVerification, TlsClient};
pub use fault::{TlsFailure, TlsFault, causes};
pub use files::NamedFile;
pub use local_socket::LocalSocket;
pub use machine_clock::machine_time;
pub use renewal::{CertificateEvents, ListenerTls};
pub use server::{ClientCertificates, ServerTlsSettings};
pub use server_name::{InvalidServerName, server_name};
pub use suites::{AllowedSuites, TlsSuite};
pub use versions::{TlsVersion, UnusableVersion, VersionRange};

pub use rustls::pki_types::{CertificateDer, ServerName};
pub use tokio_rustls::client::TlsStream as ClientStream;
pub use tokio_rustls::server::TlsStream as ServerStream;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
