//! TLS to other servers: the settings of a component, and the operator's authorities.
//!
//! A connection trusts either the given authorities alone, or the public authorities and the
//! authorities of the server's configuration. `bulkhead_tls` has the rules of verification.

mod configs;

use crate::addresses::ServerHost;
use crate::limits;
use bulkhead_tls::{
    Authorities, CertificateDer, ClientConfigFault, ClientIdentity, ClientSettings,
    PeerVerification, ServerName, TlsClient, TlsFault, TlsVersion, UnusableVersion, VersionRange,
    pem,
};

pub use configs::TlsConfigs;

/// Names of the settings, for messages.
const ROOT_CERTIFICATES: &str = "tls.root-certificates";
const CLIENT_CERTIFICATE: &str = "tls.client-certificate";
const CLIENT_KEY: &str = "tls.client-key";

/// The trusted authorities and the client identity of a connection.
pub(crate) struct TrustSettings<'a> {
    /// PEM. `None`: the public authorities and the operator's authorities.
    pub(crate) root_certificates: Option<&'a str>,
    /// PEM; requires `client_key`.
    pub(crate) client_certificate: Option<&'a str>,
    /// PEM.
    pub(crate) client_key: Option<&'a str>,
    /// Offered versions.
    pub(crate) versions: VersionRange,
    /// Accepts any certificate for any name. The peer must still prove possession of the key.
    pub(crate) insecure: bool,
    /// Accepts a certificate of a trusted authority for any name.
    pub(crate) any_name: bool,
    /// Application protocols (ALPN) from which the server chooses. Empty: no ALPN.
    pub(crate) protocols: &'static [&'static [u8]],
}

impl Default for TrustSettings<'_> {
    fn default() -> Self {
        Self {
            root_certificates: None,
            client_certificate: None,
            client_key: None,
            versions: VersionRange::ALL,
            insecure: false,
            any_name: false,
            protocols: &[],
        }
    }
}

/// Returns the name that the certificate must bear: `named`, or else the host.
///
/// # Errors
/// No certificate can bear the name.
pub(crate) fn server_name(
    host: &ServerHost,
    named: Option<&str>,
) -> Result<ServerName<'static>, String> {
    let host = match named {
        Some(name) => ServerHost::parse(name)
            .ok_or_else(|| "tls.server-name is not a name of a host".to_owned())?,
        None => host.clone(),
    };
    bulkhead_tls::server_name(&host.to_string())
        .map_err(|_| "no certificate can have this name".to_owned())
}

/// Describes a fault for a component, with the setting that may repair it.
pub(crate) fn describe(fault: TlsFault) -> String {
    match fault {
        TlsFault::UnknownIssuer => {
            format!("{fault}; give root-certificates for a private authority")
        }
        fault => fault.to_string(),
    }
}

/// Builds a client with the settings of a component. `operators` are the authorities of the
/// server's configuration.
///
/// # Errors
/// The fault of the settings, without quoting a certificate or key.
fn client(
    trust: &TrustSettings<'_>,
    operators: &[CertificateDer<'static>],
) -> Result<TlsClient, String> {
    let authorities = authorities(trust, operators)?;
    let verification = match (trust.insecure, trust.any_name) {
        (true, _) => PeerVerification::AnyCertificate,
        (false, true) => PeerVerification::AnyName(authorities),
        (false, false) => PeerVerification::Full(authorities),
    };
    let settings = ClientSettings {
        verification,
        identity: identity(trust)?,
        versions: trust.versions,
        protocols: trust.protocols.to_vec(),
    };
    settings.client().map_err(|fault| match fault {
        ClientConfigFault::OtherKey => {
            format!("{CLIENT_CERTIFICATE} and {CLIENT_KEY} do not belong together")
        }
        fault => fault.to_string(),
    })
}

/// Returns the versions from `least` to `most`, as `tls12` or `tls13`. Empty: no bound.
///
/// # Errors
/// The fault of a version or of the range.
pub(crate) fn versions(least: &str, most: &str) -> Result<VersionRange, String> {
    let usual = VersionRange::ALL;
    let (least, most) = (version(least, usual.least())?, version(most, usual.most())?);
    VersionRange::new(least, most)
        .ok_or_else(|| "tls.min-version is above tls.max-version".to_owned())
}

fn version(word: &str, usual: TlsVersion) -> Result<TlsVersion, String> {
    if word.is_empty() {
        return Ok(usual);
    }
    TlsVersion::parse(word).map_err(|fault| {
        let why = match fault {
            UnusableVersion::Broken => {
                "TLS 1.0 and 1.1 are broken and not spoken; use tls12 or tls13"
            }
            UnusableVersion::Unknown => "a version of TLS is tls12 or tls13",
        };
        why.to_owned()
    })
}

/// Returns the given authorities alone, or else the public authorities and the operator's
/// authorities.
///
/// # Errors
/// The fault of the PEM text.
fn authorities(
    trust: &TrustSettings<'_>,
    operators: &[CertificateDer<'static>],
) -> Result<Authorities, String> {
    let authorities = match trust.root_certificates {
        None => Authorities::public_and(operators),
        Some(text) => {
            let certificates = pem::certificates(check_length(ROOT_CERTIFICATES, text)?);
            let certificates =
                certificates.map_err(|fault| format!("{ROOT_CERTIFICATES} {fault}"))?;
            Authorities::only(&certificates)
        }
    };
    authorities.map_err(|fault| format!("{ROOT_CERTIFICATES}: {fault}"))
}

fn identity(trust: &TrustSettings<'_>) -> Result<Option<ClientIdentity>, String> {
    match (trust.client_certificate, trust.client_key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            let chain = check_length(CLIENT_CERTIFICATE, chain)?;
            let key = check_length(CLIENT_KEY, key)?;
            ClientIdentity::parse(chain, key, [CLIENT_CERTIFICATE, CLIENT_KEY]).map(Some)
        }
        _ => Err(format!("{CLIENT_CERTIFICATE} and {CLIENT_KEY} are given together, or neither")),
    }
}

fn check_length<'a>(name: &str, pem: &'a str) -> Result<&'a [u8], String> {
    if pem.len() > limits::PEM_BYTES {
        return Err(format!("{name} is longer than 64 KiB"));
    }
    Ok(pem.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_bounds_only_where_they_are_given() {
        let only = |version| VersionRange::new(version, version).unwrap();
        assert_eq!(versions("", ""), Ok(VersionRange::ALL));
        assert_eq!(versions("tls13", ""), Ok(only(TlsVersion::Tls13)));
        assert_eq!(versions("", "tls12"), Ok(only(TlsVersion::Tls12)));
        for (least, most, says) in [
            ("tls13", "tls12", "above tls.max-version"),
            ("tls10", "", "broken"),
            ("", "1.3", "tls12 or tls13"),
        ] {
            let why = versions(least, most).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn unknown_authority_error_names_setting() {
        assert!(describe(TlsFault::UnknownIssuer).contains("give root-certificates"));
        assert_eq!(describe(TlsFault::Expired), TlsFault::Expired.to_string());
    }
}
