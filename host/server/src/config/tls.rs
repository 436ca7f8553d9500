//! The `tls_…` settings of `listener "tcp"`, with the names of Vault's listener, and the rule for
//! plain HTTP.

use super::section::{ConfigError, ConfigSection, ConfigValue};
use crate::tls::{ClientCertificates, TlsSettings, TlsVersion, find_suite, known_suites};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::spelling::hint;
use rustls::CipherSuite;
use std::net::IpAddr;
use std::path::PathBuf;

/// The words of these settings.
pub(super) const KEYS: [&str; 9] = [
    "tls_disable",
    "tls_cert_file",
    "tls_key_file",
    "tls_min_version",
    "tls_max_version",
    "tls_cipher_suites",
    "tls_client_ca_file",
    "tls_require_and_verify_client_cert",
    "tls_disable_client_certs",
];

/// The protection of a listener's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenerTransport {
    /// Plain HTTP, on loopback addresses only.
    PlainHere,
    /// Plain HTTP on any address, by explicit setting.
    Plain,
    /// TLS.
    Tls(TlsSettings),
}

/// Error for a plain listener that other machines reach.
pub(crate) fn plain_beyond_loopback(address: &str) -> String {
    format!(
        "{address} can be reached by other machines, and tokens and passwords would pass in the \
         clear; give tls_cert_file and tls_key_file (--dev-tls in dev mode), listen on 127.0.0.1, \
         or say tls_disable = true (--tls-disable)"
    )
}

/// Reads the settings of a listener on `address`.
pub(super) fn transport(
    section: &ConfigSection<'_>,
    address: &str,
) -> Result<ListenerTransport, ConfigError> {
    let is_disabled = section.value("tls_disable").map_or(Ok(false), |value| value.flag())?;
    if is_disabled {
        refuse_beside_disabled(section)?;
        return Ok(ListenerTransport::Plain);
    }
    let Some((cert_file, key_file)) = files(section)? else {
        refuse_without_files(section)?;
        if host(address).is_some_and(|host| !host.is_loopback()) {
            let message = plain_beyond_loopback(address);
            return Err(match section.value("address") {
                Some(value) => value.error(message),
                None => section.error(message),
            });
        }
        return Ok(ListenerTransport::PlainHere);
    };
    let settings = TlsSettings::of(cert_file, key_file);
    let (min_version, max_version) = versions(section, &settings)?;
    let settings = TlsSettings { min_version, max_version, ..settings };
    let cipher_suites = section
        .value("tls_cipher_suites")
        .map_or(Ok(Vec::new()), |value| cipher_suites(&value, &settings))?;
    Ok(ListenerTransport::Tls(TlsSettings {
        cipher_suites,
        clients: client_certificates(section)?,
        ..settings
    }))
}

/// Returns the host if it is an IP address. A name is resolved when the server starts to listen.
fn host(address: &str) -> Option<IpAddr> {
    let (host, _) = address.rsplit_once(':')?;
    host.trim_matches(['[', ']']).parse().ok()
}

fn given_values<'a>(
    section: &ConfigSection<'a>,
) -> impl Iterator<Item = (&'static str, ConfigValue<'a>)> {
    KEYS.into_iter()
        .filter(|key| *key != "tls_disable")
        .filter_map(|key| Some((key, section.value(key)?)))
}

/// Refuses TLS settings next to `tls_disable`, because they contradict each other.
fn refuse_beside_disabled(section: &ConfigSection<'_>) -> Result<(), ConfigError> {
    given_values(section).next().map_or(Ok(()), |(_, value)| {
        Err(value.error("has no effect beside tls_disable = true; leave one of the two out"))
    })
}

fn refuse_without_files(section: &ConfigSection<'_>) -> Result<(), ConfigError> {
    given_values(section).next().map_or(Ok(()), |(_, value)| {
        Err(value.error("has no effect without TLS; give tls_cert_file and tls_key_file, too"))
    })
}

fn files(section: &ConfigSection<'_>) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
    match (section.value("tls_cert_file"), section.value("tls_key_file")) {
        (Some(cert), Some(key)) => Ok(Some((cert.path()?, key.path()?))),
        (Some(cert), None) => Err(cert.error("needs its key; give tls_key_file, too")),
        (None, Some(key)) => Err(key.error("needs its certificate; give tls_cert_file, too")),
        (None, None) => Ok(None),
    }
}

fn versions(
    section: &ConfigSection<'_>,
    settings: &TlsSettings,
) -> Result<(TlsVersion, TlsVersion), ConfigError> {
    let read = |key, default| {
        section.value(key).map_or(Ok(default), |value: ConfigValue<'_>| version(&value))
    };
    let min = read("tls_min_version", settings.min_version)?;
    let max = read("tls_max_version", settings.max_version)?;
    match section.value("tls_max_version") {
        Some(value) if max < min => Err(value.error(format!(
            "{} is less than tls_min_version, which is {}",
            quoted(max.word()),
            quoted(min.word())
        ))),
        _ => Ok((min, max)),
    }
}

fn version(value: &ConfigValue<'_>) -> Result<TlsVersion, ConfigError> {
    match value.text()? {
        "tls12" => Ok(TlsVersion::Tls12),
        "tls13" => Ok(TlsVersion::Tls13),
        old @ ("tls10" | "tls11") => Err(value.error(format!(
            "{} is broken and not served (decision D2); write \"tls12\" or \"tls13\"",
            quoted(old)
        ))),
        other => {
            Err(value
                .error(format!("{} is no version; write \"tls12\" or \"tls13\"", quoted(other))))
        }
    }
}

/// Reads comma-separated names, as in Vault.
fn cipher_suites(
    value: &ConfigValue<'_>,
    settings: &TlsSettings,
) -> Result<Vec<CipherSuite>, ConfigError> {
    let mut found = Vec::new();
    for name in value.text()?.split(',').map(str::trim) {
        let known = known_suites();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        found.push(find_suite(name).ok_or_else(|| {
            value.error(format!("unknown suite {}{}", quoted(name), hint(name, &known)))
        })?);
    }
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let is_served = (settings.min_version..=settings.max_version).contains(&version);
        let is_meant = found.iter().any(|(_, of)| *of == version);
        // TLS 1.3 suites need not be named, as in Vault.
        if version == TlsVersion::Tls12 && is_served && !is_meant {
            return Err(value.error(
                "names no suite of TLS 1.2, which is served; name one, \
                 or write tls_min_version = \"tls13\"",
            ));
        }
        if is_meant && !is_served {
            return Err(value.error(format!(
                "names a suite of {}, which is not served; leave it out",
                version.word()
            )));
        }
    }
    Ok(found.into_iter().map(|(suite, _)| suite).collect())
}

fn client_certificates(section: &ConfigSection<'_>) -> Result<ClientCertificates, ConfigError> {
    let flag = |key| section.value(key).map_or(Ok(false), |value: ConfigValue<'_>| value.flag());
    let is_required = flag("tls_require_and_verify_client_cert")?;
    let is_off = flag("tls_disable_client_certs")?;
    let authorities = section.value("tls_client_ca_file");
    match (authorities, section.value("tls_require_and_verify_client_cert")) {
        (_, Some(value)) if is_required && is_off => {
            Err(value
                .error("contradicts tls_disable_client_certs = true; leave one of the two out"))
        }
        (None, Some(value)) if is_required => Err(value.error(
            "needs the authorities that sign your clients' certificates; \
             give tls_client_ca_file, too",
        )),
        (Some(file), _) if is_off => Err(file.error(
            "has no effect beside tls_disable_client_certs = true; leave one of the two out",
        )),
        (Some(file), _) if is_required => Ok(ClientCertificates::Required(file.path()?)),
        (Some(file), _) => Ok(ClientCertificates::Optional(file.path()?)),
        (None, _) => Ok(ClientCertificates::NotAsked),
    }
}
