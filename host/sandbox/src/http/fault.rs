//! Why there is no answer: in our words alone, because a peer's own could show what it was sent.

use crate::grants::Refused;
use bulkhead_wire::failure::{Failure, Kind};
use http_body_util::LengthLimitError;
use rustls::{AlertDescription, CertificateError};
use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;

/// What went wrong between us and the server. Nothing of it is the server's own text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HttpFault {
    /// The name has no address.
    Unknown,
    /// The name leads to an address that is never dialled: what it is.
    Forbidden(&'static str),
    /// The name leads to an address that needs a grant, with what it is.
    Ungranted(IpAddr, &'static str),
    /// The connection was not made, or broke.
    Broken(io::ErrorKind),
    /// The server is not the one that was meant, or there is no TLS with it.
    Tls(TlsFault),
    /// The answer is no HTTP/1.1, or its head is too large.
    NotHttp,
    /// The connection ended before the answer did.
    CutShort,
    /// The answer's body is too large.
    TooLarge,
    /// It took too long.
    TimedOut,
    /// The proxy through which it was to be reached did not connect.
    Proxy(ProxyFault),
    /// The connections that the mount, or the process, may have are all in use.
    Busy,
}

/// Why a proxy did not connect. Never its own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyFault {
    /// Its name has no address.
    Unknown,
    /// The connection with it was not made, or broke.
    Broken(io::ErrorKind),
    /// It refused, with that status.
    Refused(u16),
    /// Its answer is none, or its head is too large.
    NotHttp,
    /// It took too long.
    TimedOut,
}

/// Why TLS did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsFault {
    /// The certificate is past its end.
    Expired,
    /// The certificate is not valid yet.
    NotYet,
    /// No authority that we trust signed the certificate.
    UnknownIssuer,
    /// The certificate is for another name.
    WrongName,
    /// The certificate is wrong in another way.
    Certificate,
    /// There is no version or method that both sides speak.
    NothingInCommon,
    /// The server ended the handshake, as one does that misses a client certificate.
    Rejected,
    /// What the server said is no TLS.
    NotTls,
    /// Something else.
    Failed,
}

impl HttpFault {
    /// As the component sees it. The words for `Ungranted` are the grants', which know the line to
    /// print.
    pub(crate) fn failure(&self) -> Failure {
        let kind = match self {
            Self::Forbidden(_) => Kind::InvalidRequest,
            Self::Ungranted(..) => Kind::PermissionDenied,
            Self::TimedOut => Kind::TimedOut,
            Self::Busy => Kind::Unavailable,
            _ => Kind::Unreachable,
        };
        Failure::new(kind, self.to_string())
    }

    /// What broke a connection, read from the innermost error outwards.
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
                // So hyper calls chunks that are none.
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

/// An error, and those inside of it, from the outermost.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| inner(*error))
}

/// The error inside of another. An I/O error shows what it holds by itself, and only the source of
/// that as its source.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(held) => Some(held),
        None => error.source(),
    }
}

impl From<Refused> for HttpFault {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown => Self::Unknown,
            Refused::Forbidden(why) => Self::Forbidden(why),
            Refused::Ungranted(address, what) => Self::Ungranted(address, what),
        }
    }
}

impl From<ProxyFault> for HttpFault {
    fn from(fault: ProxyFault) -> Self {
        Self::Proxy(fault)
    }
}

impl ProxyFault {
    /// What a broken conversation with a proxy is.
    pub(super) fn of(fault: &HttpFault) -> Self {
        match fault {
            HttpFault::Broken(kind) => Self::Broken(*kind),
            HttpFault::CutShort => Self::Broken(io::ErrorKind::UnexpectedEof),
            _ => Self::NotHttp,
        }
    }
}

impl TlsFault {
    /// Why TLS did not come about, where that is what broke a connection.
    pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()).map(Self::of)
    }

    fn of(error: &rustls::Error) -> Self {
        use rustls::Error as Tls;
        match error {
            Tls::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => Self::Expired,
            Tls::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => Self::NotYet,
            Tls::InvalidCertificate(CertificateError::UnknownIssuer) => Self::UnknownIssuer,
            Tls::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => Self::WrongName,
            Tls::InvalidCertificate(_) | Tls::NoCertificatesPresented => Self::Certificate,
            Tls::PeerIncompatible(_) | Tls::AlertReceived(AlertDescription::ProtocolVersion) => {
                Self::NothingInCommon
            }
            Tls::AlertReceived(_) => Self::Rejected,
            Tls::InvalidMessage(_) => Self::NotTls,
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for HttpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the name has no address"),
            Self::Forbidden(why) => write!(f, "it is {why}, which is never dialled"),
            Self::Ungranted(address, what) => write!(f, "{address} is {what}, and not granted"),
            Self::Broken(kind) => write!(f, "the connection was not made or broke: {kind}"),
            Self::Tls(fault) => write!(f, "{fault}"),
            Self::NotHttp => f.write_str(
                "the answer is no HTTP/1.1, or has more than 100 headers or 64 KiB of them",
            ),
            Self::CutShort => f.write_str("the connection ended before the answer did"),
            Self::TooLarge => f.write_str("the answer has more bytes than it may have"),
            Self::TimedOut => f.write_str("it took too long"),
            Self::Proxy(fault) => write!(f, "{fault}"),
            Self::Busy => f.write_str("all connections that the mount may have are in use"),
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
                "the proxy wants credentials, or others than it was shown (407): the server's \
                 configuration names them by http_proxy_credentials_file of its outbound block",
            ),
            Self::Refused(status) => {
                write!(f, "the proxy was asked to connect to it and refused ({status})")
            }
            Self::NotHttp => f.write_str(
                "what the proxy answered is no HTTP/1.1, or has a head of more than 16 KiB",
            ),
            Self::TimedOut => f.write_str("the proxy took too long"),
        }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its certificate has expired",
            Self::NotYet => "its certificate is not valid yet",
            Self::UnknownIssuer => {
                "nobody who is trusted signed its certificate; give root-certificates if it is its \
                 own"
            }
            Self::WrongName => "its certificate is for another name",
            Self::Certificate => "its certificate is not acceptable",
            Self::NothingInCommon => "it speaks neither TLS 1.2 nor TLS 1.3 in a way that we do",
            Self::Rejected => {
                "it ended the TLS handshake, as a server does that wants another client \
                 certificate"
            }
            Self::NotTls => "it does not speak TLS on that port",
            Self::Failed => "TLS with it failed",
        })
    }
}
