//! Faults of HTTP requests, in Bulkhead's own words: a peer's text could show a secret of the
//! request.

use crate::addresses::AddressRefusal;
use crate::tls;
use bulkhead_tls::{TlsFault, causes};
use bulkhead_wire::failure::{Failure, FailureKind};
use http_body_util::LengthLimitError;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;

/// A fault between Bulkhead and the server, without any text of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpFault {
    /// The name has no address.
    Unknown,
    /// The name leads to a kind of address that is never dialled.
    Forbidden(&'static str),
    /// The name leads to an address that needs a grant; the text is the kind of address.
    Ungranted(IpAddr, &'static str),
    /// The connection was not made, or broke.
    Broken(io::ErrorKind),
    /// The TLS handshake failed, or the server has another identity.
    Tls(TlsFault),
    /// The answer is not HTTP/1.1, or its head is too large.
    NotHttp,
    /// The connection ended before the answer did.
    CutShort,
    /// The answer's body is too large.
    TooLarge,
    /// The request timed out.
    TimedOut,
    /// The proxy did not connect to the server.
    Proxy(ProxyFault),
    /// All connections of the mount or of the process are in use.
    Busy,
}

/// A fault of a proxy, without any text of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// The proxy's name has no address.
    Unknown,
    /// The connection to the proxy was not made, or broke.
    Broken(io::ErrorKind),
    /// The proxy refused with this status.
    Refused(u16),
    /// The proxy's answer is not HTTP/1.1, or its head is too large.
    NotHttp,
    /// The proxy timed out.
    TimedOut,
}

impl HttpFault {
    /// Converts the fault for the component. `grants` has the text for `MissingGrant`, with the
    /// missing line.
    pub fn failure(&self) -> Failure {
        let kind = match self {
            Self::Forbidden(_) => FailureKind::InvalidRequest,
            Self::Ungranted(..) => FailureKind::PermissionDenied,
            Self::TimedOut => FailureKind::TimedOut,
            Self::Busy => FailureKind::Unavailable,
            _ => FailureKind::Unreachable,
        };
        Failure::new(kind, self.to_string())
    }

    /// Converts an error of a connection. A TLS error takes precedence, then a body over its limit,
    /// then an I/O error.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let causes = || causes(error);
        if let Some(tls) = TlsFault::find(error) {
            return Self::Tls(tls);
        }
        if causes().any(|cause| cause.is::<LengthLimitError>()) {
            return Self::TooLarge;
        }
        if let Some(broken) = causes().find_map(|cause| cause.downcast_ref::<io::Error>()) {
            return match broken.kind() {
                io::ErrorKind::UnexpectedEof => Self::CutShort,
                // hyper reports malformed chunks by these kinds.
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Self::NotHttp,
                kind => Self::Broken(kind),
            };
        }
        match causes().find_map(|cause| cause.downcast_ref::<hyper::Error>()) {
            Some(error) if error.is_incomplete_message() => Self::CutShort,
            _ => Self::NotHttp,
        }
    }
}

impl From<AddressRefusal> for HttpFault {
    fn from(refused: AddressRefusal) -> Self {
        match refused {
            AddressRefusal::Unknown => Self::Unknown,
            AddressRefusal::Forbidden(why) => Self::Forbidden(why),
            AddressRefusal::Ungranted(address, class) => Self::Ungranted(address, class),
        }
    }
}

impl From<ProxyFault> for HttpFault {
    fn from(fault: ProxyFault) -> Self {
        Self::Proxy(fault)
    }
}

impl ProxyFault {
    /// Converts a fault of the connection to a proxy.
    pub(super) fn of(fault: &HttpFault) -> Self {
        match fault {
            HttpFault::Broken(kind) => Self::Broken(*kind),
            HttpFault::CutShort => Self::Broken(io::ErrorKind::UnexpectedEof),
            _ => Self::NotHttp,
        }
    }
}

impl fmt::Display for HttpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the name has no address"),
            Self::Forbidden(why) => write!(f, "the address is {why}, which is never dialled"),
            Self::Ungranted(address, class) => write!(f, "{address} is {class}, and not granted"),
            Self::Broken(kind) => write!(f, "the connection was not made or broke: {kind}"),
            Self::Tls(fault) => f.write_str(&tls::describe(*fault)),
            Self::NotHttp => f.write_str(
                "the answer is not HTTP/1.1, or has more than 100 headers or 64 KiB of headers",
            ),
            Self::CutShort => f.write_str("the connection ended before the answer did"),
            Self::TooLarge => f.write_str("the answer is over the limit of bytes"),
            Self::TimedOut => f.write_str("it took too long"),
            Self::Proxy(fault) => write!(f, "{fault}"),
            Self::Busy => f.write_str("all connections of the mount are in use"),
        }
    }
}

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the name of the proxy has no address"),
            Self::Broken(kind) => {
                write!(f, "the connection with the proxy was not made or broke: {kind}")
            }
            Self::Refused(407) => f.write_str(
                "the proxy refused the credentials, or needs credentials (407): set \
                 http_proxy_credentials_file in the outbound block of the server's configuration",
            ),
            Self::Refused(status) => {
                write!(f, "the proxy refused to connect to the server ({status})")
            }
            Self::NotHttp => {
                f.write_str("the proxy's answer is not HTTP/1.1, or has a head of more than 16 KiB")
            }
            Self::TimedOut => f.write_str("the proxy took too long"),
        }
    }
}
