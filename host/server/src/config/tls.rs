//! The `tls_…` settings of `listener "tcp"`, with the names of Vault's listener, and the rule for
//! plain HTTP.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue};
use crate::tls::{self, CERT_FILE, KEY_FILE};
use bulkhead_tls::{
    AllowedSuites, ClientCertificates, NamedFile, ServerTlsSettings, TlsSuite, TlsVersion,
    UnusableVersion, VersionRange,
};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::spelling::hint;
use std::net::IpAddr;
use std::path::PathBuf;

/// The words of these settings.
pub(super) const KEYS: [&str; 9] = [
    "tls_disable",
    CERT_FILE,
    KEY_FILE,
    "tls_min_version",
    "tls_max_version",
    "tls_cipher_suites",
    CLIENT_CA_FILE,
    "tls_require_and_verify_client_cert",
    "tls_disable_client_certs",
];

/// The two settings without which there is no TLS.
const FILES: [&str; 2] = [CERT_FILE, KEY_FILE];

/// Setting that names the file of the authorities of clients.
const CLIENT_CA_FILE: &str = "tls_client_ca_file";

/// The protection of a listener's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenerTransport {
    /// Plain HTTP, on loopback addresses only.
    PlainHere,
    /// Plain HTTP on any address, by explicit setting.
    Plain,
    /// TLS.
    Tls(ServerTlsSettings),
}

/// Error for a plain listener that other machines reach.
pub(crate) fn plain_beyond_loopback(address: &str) -> String {
    format!(
        "{address} can be reached by other machines, and tokens and passwords would pass in the \
         clear; give tls_cert_file and tls_key_file (--dev-tls in dev mode), listen on 127.0.0.1, \
         or say tls_disable = true (--tls-disable)"
    )
}

/// Reads the settings of a listener on `address`; without an address the listener is on loopback.
/// After an error the result has no meaning.
pub(super) fn transport(section: &ConfigSection<'_>, address: Option<&str>) -> ListenerTransport {
    let is_disabled = match section.value("tls_disable") {
        None => false,
        Some(value) => match section.keep(value.flag()) {
            Some(is_disabled) => is_disabled,
            None => return ListenerTransport::Plain,
        },
    };
    if is_disabled {
        let why = "has no effect together with tls_disable = true; leave one of the two out";
        refuse_given(section, why);
        return ListenerTransport::Plain;
    }
    if !FILES.iter().any(|key| section.value(key).is_some()) {
        refuse_given(
            section,
            "has no effect without TLS; give tls_cert_file and tls_key_file, too",
        );
        refuse_reachable(section, address);
        return ListenerTransport::PlainHere;
    }
    tls_settings(section).map_or(ListenerTransport::Plain, ListenerTransport::Tls)
}

fn refuse_reachable(section: &ConfigSection<'_>, address: Option<&str>) {
    let is_reachable = |address: &&str| host(address).is_some_and(|host| !host.is_loopback());
    let reachable = address.filter(is_reachable);
    if let (Some(address), Some(value)) = (reachable, section.value("address")) {
        section.refuse(value.error(plain_beyond_loopback(address)));
    }
}

/// Reads the settings of a listener with a certificate or a key. `None`: one of the two is refused.
fn tls_settings(section: &ConfigSection<'_>) -> Option<ServerTlsSettings> {
    let files = files(section);
    let settings = files.map(|(cert, key)| tls::settings(cert, key));
    let versions = versions(section);
    let suites = section.read("tls_cipher_suites", |value| cipher_suites(value, versions));
    let clients = client_certificates(section);
    Some(ServerTlsSettings {
        versions,
        suites: suites.unwrap_or_default(),
        clients: clients?,
        ..settings?
    })
}

/// Returns the host if it is an IP address. A name is resolved when the server starts to listen.
fn host(address: &str) -> Option<IpAddr> {
    let (host, _) = address.rsplit_once(':')?;
    host.trim_matches(['[', ']']).parse().ok()
}

/// Refuses every TLS setting but `tls_disable`, for the same reason.
fn refuse_given(section: &ConfigSection<'_>, why: &str) {
    let keys = KEYS.into_iter().filter(|key| *key != "tls_disable");
    for value in keys.filter_map(|key| section.value(key)) {
        section.refuse(value.error(why));
    }
}

fn files(section: &ConfigSection<'_>) -> Option<(PathBuf, PathBuf)> {
    let [cert_key, key_key] = FILES;
    let (cert, key) =
        (section.read(cert_key, ConfigValue::path), section.read(key_key, ConfigValue::path));
    match (section.value(cert_key), section.value(key_key)) {
        (Some(cert), None) => {
            section.refuse(cert.error("needs a key; give tls_key_file, too"));
        }
        (None, Some(key)) => {
            section.refuse(key.error("needs a certificate; give tls_cert_file, too"));
        }
        _ => {}
    }
    cert.zip(key)
}

fn versions(section: &ConfigSection<'_>) -> VersionRange {
    let usual = VersionRange::ALL;
    let least = section.read("tls_min_version", version).unwrap_or(usual.least());
    let most = section.read("tls_max_version", version).unwrap_or(usual.most());
    let range = VersionRange::new(least, most);
    if let Some(value) = section.value("tls_max_version").filter(|_| range.is_none()) {
        section.refuse(value.error(format!(
            "{} is less than tls_min_version, which is {}",
            quoted(most.word()),
            quoted(least.word())
        )));
    }
    range.unwrap_or(usual)
}

fn version(value: &ConfigValue<'_>) -> Result<TlsVersion, ConfigError> {
    let word = value.text()?;
    TlsVersion::parse(word).map_err(|fault| {
        let word = quoted(word);
        value.error(match fault {
            UnusableVersion::Broken => format!(
                "{word} is broken and not served (decision D2); write \"tls12\" or \"tls13\""
            ),
            UnusableVersion::Unknown => {
                format!("{word} is not a version; write \"tls12\" or \"tls13\"")
            }
        })
    })
}

/// Reads comma-separated names, as in Vault.
fn cipher_suites(
    value: &ConfigValue<'_>,
    versions: VersionRange,
) -> Result<AllowedSuites, ConfigError> {
    let mut found = Vec::new();
    for name in value.text()?.split(',').map(str::trim) {
        let names = TlsSuite::names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        found.push(TlsSuite::find(name).ok_or_else(|| {
            value.error(format!("unknown suite {}{}", quoted(name), hint(name, &names)))
        })?);
    }
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let is_served = versions.contains(version);
        let is_meant = found.iter().any(|suite| suite.version == version);
        // TLS 1.3 suites need not be named, as in Vault.
        if version == TlsVersion::Tls12 && is_served && !is_meant {
            return Err(value.error(
                "names no suite of TLS 1.2, which is served; add a suite, or write tls_min_version \
                 = \"tls13\"",
            ));
        }
        if is_meant && !is_served {
            return Err(value.error(format!(
                "names a suite of {}, which is not served; leave the suite out",
                version.word()
            )));
        }
    }
    Ok(AllowedSuites::new(found))
}

/// Reads the settings of clients' certificates. `None`: they are refused.
fn client_certificates(section: &ConfigSection<'_>) -> Option<ClientCertificates> {
    let flag = |key| match section.value(key) {
        Some(value) => section.keep(value.flag()),
        None => Some(false),
    };
    let is_required = flag("tls_require_and_verify_client_cert");
    let is_off = flag("tls_disable_client_certs");
    let authorities = section.value(CLIENT_CA_FILE);
    let named = |file: ConfigValue<'_>| Ok(NamedFile::new(CLIENT_CA_FILE, file.path()?));
    let (is_required, is_off) = (is_required?, is_off?);
    let read = match (authorities, section.value("tls_require_and_verify_client_cert")) {
        (_, Some(value)) if is_required && is_off => {
            Err(value
                .error("contradicts tls_disable_client_certs = true; leave one of the two out"))
        }
        (None, Some(value)) if is_required => Err(value.error(
            "needs the authorities of your clients' certificates; give tls_client_ca_file, too",
        )),
        (Some(file), _) if is_off => Err(file.error(
            "has no effect together with tls_disable_client_certs = true; leave one of the two out",
        )),
        (Some(file), _) if is_required => named(file).map(ClientCertificates::Required),
        (Some(file), _) => named(file).map(ClientCertificates::Optional),
        (None, _) => Ok(ClientCertificates::NotAsked),
    };
    section.keep(read)
}
