//! Faults of connections, in Bulkhead's own words: a peer's text could show a secret.

use crate::verifiers::EndedAuthority;
use rustls::{AlertDescription, CertificateError, Error};
use std::error;
use std::fmt;
use std::io;

/// The reason for a failed handshake or a broken connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYet,
    /// No trusted authority signed the certificate.
    UnknownIssuer,
    /// The trusted authority that signed the certificate has ended.
    EndedAuthority,
    /// The certificate is for another name.
    WrongName,
    /// The certificate has another fault.
    Certificate,
    /// Both sides have no common version or method.
    NothingInCommon,
    /// The peer ended the handshake, as a peer does that requires a certificate.
    CertificateRequired,
    /// The peer ended the handshake and rejects the certificate shown.
    CertificateRejected,
    /// The peer ended the handshake for another reason.
    Rejected,
    /// The peer's bytes are not TLS.
    NotTls,
    /// Another fault.
    Failed,
}

/// A failure of TLS within another error.
#[derive(Clone, Copy, Debug)]
pub struct TlsFailure<'a> {
    /// The reason.
    pub fault: TlsFault,
    error: &'a Error,
}

impl TlsFailure<'_> {
    /// Returns the library's own text, which may repeat names that the peer sent.
    #[must_use]
    pub fn library_text(&self) -> String {
        self.error.to_string()
    }
}

impl TlsFault {
    /// Returns the fault that broke a connection, if `error` contains an error of TLS.
    #[must_use]
    pub fn find(error: &(dyn error::Error + 'static)) -> Option<Self> {
        TlsFailure::find(error).map(|failure| failure.fault)
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(certificate) => Self::of_certificate(certificate),
            Error::NoCertificatesPresented => Self::Certificate,
            Error::PeerIncompatible(_) => Self::NothingInCommon,
            Error::AlertReceived(alert) => Self::of_alert(*alert),
            Error::InvalidMessage(_) => Self::NotTls,
            _ => Self::Failed,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYet
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName
            }
            CertificateError::Other(other) if other.0.is::<EndedAuthority>() => {
                Self::EndedAuthority
            }
            _ => Self::Certificate,
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::ProtocolVersion => Self::NothingInCommon,
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure => {
                Self::CertificateRequired
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError => Self::CertificateRejected,
            _ => Self::Rejected,
        }
    }
}

impl<'a> TlsFailure<'a> {
    /// Returns the failure that broke a connection, if `error` contains an error of TLS.
    #[must_use]
    pub fn find(error: &'a (dyn error::Error + 'static)) -> Option<Self> {
        let error = causes(error).find_map(|cause| cause.downcast_ref::<Error>())?;
        Some(Self { fault: TlsFault::of(error), error })
    }
}

/// Returns an error and all errors inside, outermost first.
pub fn causes<'a>(
    error: &'a (dyn error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn error::Error + 'static)> {
    std::iter::successors(Some(error), |error| inner(*error))
}

/// Returns the error inside another error. The `source` of an I/O error skips the error that the
/// I/O error holds.
fn inner<'a>(error: &'a (dyn error::Error + 'static)) -> Option<&'a (dyn error::Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(cause) => Some(cause),
        None => error.source(),
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the server's certificate has expired",
            Self::NotYet => "the server's certificate is not valid yet",
            Self::UnknownIssuer => "no trusted authority signed the server's certificate",
            Self::EndedAuthority => {
                "the authority of the server's certificate has expired; trust the successor"
            }
            Self::WrongName => "the server's certificate is for another name",
            Self::Certificate => "the server's certificate is not acceptable",
            Self::NothingInCommon => {
                "the server shares no TLS version or cipher suite with us; we speak TLS 1.2 and \
                 TLS 1.3"
            }
            Self::CertificateRequired | Self::CertificateRejected | Self::Rejected => {
                "the server ended the TLS handshake; perhaps another client certificate is needed"
            }
            Self::NotTls => "the server does not speak TLS on this port",
            Self::Failed => "TLS with the server failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_found_inside_wrapping_errors() {
        let wrong = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert_eq!(TlsFault::find(&wrong), Some(TlsFault::UnknownIssuer));
        let within = io::Error::other(io::Error::other(wrong));
        assert_eq!(TlsFault::find(&within), Some(TlsFault::UnknownIssuer));
        assert_eq!(TlsFault::find(&io::Error::other("canary")), None);
    }

    #[test]
    fn every_alert_has_fault_without_peer_text() {
        for (alert, fault) in [
            (AlertDescription::ProtocolVersion, TlsFault::NothingInCommon),
            (AlertDescription::CertificateRequired, TlsFault::CertificateRequired),
            (AlertDescription::UnknownCA, TlsFault::CertificateRejected),
            (AlertDescription::InternalError, TlsFault::Rejected),
        ] {
            assert_eq!(TlsFault::of(&Error::AlertReceived(alert)), fault);
        }
        let peers = Error::General("canary".to_owned());
        let failure = TlsFailure::find(&peers).unwrap();
        assert!(failure.library_text().contains("canary"));
        assert_eq!(failure.fault.to_string(), "TLS with the server failed");
    }
}
