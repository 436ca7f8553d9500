//! Server authentication: the parameter `tls` as in Go's driver, and PEM texts, never files.

use crate::codes::Code;
use bulkhead_sdk::connection::{CONNECTION_URL, ConnectionParameters, Fault, flag, pem, text};
use bulkhead_sdk::database_plugin::{ConnectionSettings, DatabaseTls, Refusal};

/// Returns the connection's TLS settings. By default, TLS is used if the server supports TLS. With
/// a CA, client certificate or server name, the server's certificate is verified unless
/// verification is skipped explicitly.
pub(crate) fn read(
    settings: &ConnectionSettings,
    parameters: &ConnectionParameters,
) -> Result<DatabaseTls, Refusal> {
    let root_certificates = pem(settings, "tls_ca")?;
    let client = pem(settings, "tls_certificate_key")?;
    if let Some(pem) = &client {
        has_both_halves(pem)?;
    }
    let server_name = text(settings, "tls_server_name")?.filter(|name| !name.is_empty());
    let checked = ["tls_ca", "tls_certificate_key", "tls_server_name"];
    let are_given = [root_certificates.is_some(), client.is_some(), server_name.is_some()];
    let named =
        checked.iter().zip(are_given).find(|(_, is_given)| *is_given).map(|(name, _)| *name);
    let skip = flag(settings, "tls_skip_verify")?;
    let mode = match (parameters.plain("tls")?.as_deref(), named) {
        (None | Some("true"), Some(_)) if skip => "require",
        (Some("skip-verify"), _) => "require",
        (Some("true"), None) if skip => "require",
        (Some("true"), _) | (None, Some(_)) => "verify-full",
        (Some("preferred"), None) => "prefer",
        (Some("false"), None) => "disable",
        (None, None) => {
            if skip {
                "require"
            } else {
                "prefer"
            }
        }
        (Some("false" | "preferred"), Some(setting)) => {
            return Err(Code::TlsContradiction.about(setting));
        }
        (Some(_), _) => return Err(Code::TlsMode.about(CONNECTION_URL)),
    };
    Ok(DatabaseTls {
        mode: mode.to_owned(),
        root_certificates,
        client_certificate: client.clone(),
        client_key: client,
        server_name: server_name.map(str::to_owned),
    })
}

fn has_both_halves(pem: &str) -> Result<(), Refusal> {
    if pem.contains("-----BEGIN CERTIFICATE-----") && pem.contains("PRIVATE KEY-----") {
        return Ok(());
    }
    Err(Fault::CertificateWithoutKey.about("tls_certificate_key"))
}
