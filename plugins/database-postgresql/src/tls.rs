//! Server authentication: `sslmode` as in libpq, and PEM texts, never files.
//!
//! This file prevents `sslrootcert=/etc/shadow`, which would make the host open a local file.

use crate::codes::Code;
use bulkhead_sdk::connection as shared;
use bulkhead_sdk::connection::{CONNECTION_URL, ConnectionParameters, Fault};
use bulkhead_sdk::database_plugin::{ConnectionSettings, DatabaseTls, Refusal};

/// A certificate or key, and the setting that contained it.
struct PemSetting {
    setting: &'static str,
    text: String,
}

/// Returns the connection's TLS settings. Settings take precedence over `connection_url`.
pub(crate) fn read(
    settings: &ConnectionSettings,
    parameters: &ConnectionParameters,
) -> Result<DatabaseTls, Refusal> {
    let roots = pem(settings, parameters, "tls_ca", "sslrootcert")?;
    let certificate = pem(settings, parameters, "tls_certificate", "sslcert")?;
    let key = pem(settings, parameters, "private_key", "sslkey")?;
    if let (Some(alone), None) | (None, Some(alone)) = (&certificate, &key) {
        return Err(Fault::CertificateWithoutKey.about(alone.setting));
    }
    let public_roots = roots.as_ref().is_some_and(|roots| roots.text == "system");
    let mode = mode(parameters, roots.as_ref())?;
    Ok(DatabaseTls {
        mode,
        root_certificates: roots.filter(|_| !public_roots).map(|roots| roots.text),
        client_certificate: certificate.map(|certificate| certificate.text),
        client_key: key.map(|key| key.text),
        server_name: None,
    })
}

/// Returns the TLS mode by libpq's rules. `allow` counts as `prefer`, because `allow` would first
/// try without TLS. With trusted roots, `require` verifies the certificate, and the default is
/// `verify-full`.
fn mode(parameters: &ConnectionParameters, roots: Option<&PemSetting>) -> Result<String, Refusal> {
    let written = parameters.plain("sslmode")?;
    let mode = match (written.as_deref(), roots) {
        (None, None) | (Some("allow" | "prefer"), None) => "prefer",
        (None, Some(_)) | (Some("verify-full"), _) => "verify-full",
        (Some("require"), Some(_)) | (Some("verify-ca"), _) => "verify-ca",
        (Some("require"), None) => "require",
        (Some("disable"), None) => "disable",
        (Some("disable" | "allow" | "prefer"), Some(roots)) => {
            return Err(Code::TlsContradiction.about(roots.setting));
        }
        (Some(_), _) => return Err(Code::SslMode.about(CONNECTION_URL)),
    };
    Ok(mode.to_owned())
}

fn pem(
    settings: &ConnectionSettings,
    parameters: &ConnectionParameters,
    setting: &'static str,
    parameter: &str,
) -> Result<Option<PemSetting>, Refusal> {
    if let Some(text) = shared::pem(settings, setting)? {
        return Ok(Some(PemSetting { setting, text }));
    }
    let Some(text) = parameters.plain(parameter)? else { return Ok(None) };
    if is_pem(&text) || parameter == "sslrootcert" && text == "system" {
        return Ok(Some(PemSetting { setting: CONNECTION_URL, text }));
    }
    Err(Code::FilePath.about(CONNECTION_URL).with("parameter", parameter))
}

fn is_pem(text: &str) -> bool {
    text.trim_start().starts_with("-----BEGIN ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

    fn tls(url: &str, options: &[(&str, &str)]) -> Result<DatabaseTls, String> {
        let settings: ConnectionSettings =
            options.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
        let parameters = crate::connection_url::read(url).map_err(|refusal| refusal.code)?;
        read(&settings, &parameters).map_err(|refusal| refusal.code)
    }

    #[test]
    fn every_sslmode_has_meaning_with_and_without_roots() {
        for (written, alone, with_roots) in [
            ("", Ok("prefer"), Ok("verify-full")),
            ("sslmode=disable", Ok("disable"), Err("tls-contradiction")),
            ("sslmode=allow", Ok("prefer"), Err("tls-contradiction")),
            ("sslmode=prefer", Ok("prefer"), Err("tls-contradiction")),
            ("sslmode=require", Ok("require"), Ok("verify-ca")),
            ("sslmode=verify-ca", Ok("verify-ca"), Ok("verify-ca")),
            ("sslmode=verify-full", Ok("verify-full"), Ok("verify-full")),
            ("sslmode=Require", Err("sslmode"), Err("sslmode")),
        ] {
            let url = format!("postgres://u@db/x?{written}");
            let mode = |options: &[(&str, &str)]| tls(&url, options).map(|tls| tls.mode);
            assert_eq!(mode(&[]).as_deref().map_err(String::as_str), alone, "{written}");
            assert_eq!(
                mode(&[("tls_ca", PEM)]).as_deref().map_err(String::as_str),
                with_roots,
                "{written}"
            );
        }
    }

    #[test]
    fn files_are_never_named_to_the_host() {
        for parameter in ["sslrootcert", "sslcert", "sslkey"] {
            for path in ["/etc/shadow", "root.crt", "~/.postgresql/root.crt", "%2Fetc%2Fshadow"] {
                let url = format!("postgres://u@db/x?{parameter}={path}");
                assert_eq!(tls(&url, &[]).err().as_deref(), Some("file-path"), "{url}");
            }
        }
        assert_eq!(
            tls("postgres://u@db/x", &[("tls_ca", "/etc/shadow")]).err().as_deref(),
            Some("pem-expected")
        );
    }

    #[test]
    fn sslrootcert_accepts_pem_and_system_means_public_roots() {
        let url = format!("host=db user=u sslrootcert='{PEM}'");
        assert_eq!(tls(&url, &[]).unwrap().root_certificates.as_deref(), Some(PEM));
        let system = tls("host=db user=u sslrootcert=system", &[]).unwrap();
        assert_eq!((system.mode.as_str(), system.root_certificates), ("verify-full", None));
    }

    #[test]
    fn a_certificate_and_its_key_come_together() {
        let url = "postgres://u@db/x";
        assert_eq!(
            tls(url, &[("tls_certificate", PEM)]).err().as_deref(),
            Some("certificate-without-key")
        );
        assert_eq!(
            tls(url, &[("private_key", PEM)]).err().as_deref(),
            Some("certificate-without-key")
        );
        let both = tls(url, &[("tls_certificate", PEM), ("private_key", PEM)]).unwrap();
        assert!(both.client_certificate.is_some() && both.client_key.is_some());
    }
}
