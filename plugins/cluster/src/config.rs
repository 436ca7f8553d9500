//! `config`: the API server and the engine's identity. A read never shows the token.
//!
//! The attack this file prevents: a caller with write access to the configuration who wants the
//! engine's token. The token is never sent to a server other than the server it was written for
//! (decision E1).

use crate::target::{ApiServerTarget, Config};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::kubernetes::is_token;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::trusted_certificates;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use serde_json::json;

const KEY: &str = "config";

/// Prefix of replaced configurations still needed by leases.
const FORMER: &str = "former/";

/// Maximum length of a token and of certificates, in bytes.
const LONGEST: usize = 64 * 1024;

/// The fields of a configuration.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("cluster_host", "URL of the API server; empty: the API server of the server's pod")
        .aliases(&["kubernetes_host"]),
    Field::text("cluster_ca_cert", "accepted authorities of the API server's certificate, in PEM")
        .aliases(&["kubernetes_ca_cert"]),
    Field::text("service_account_jwt", "a token of the engine's service account").secret(),
    Field::flag("disable_local_ca_jwt", "never use the certificate and token of the server's pod"),
];

impl Config {
    /// Returns the configuration, if any.
    pub(crate) fn stored(host: &dyn Host) -> Result<Option<Self>, Failure> {
        host.storage().get(KEY)
    }

    /// Returns the configuration, or a failure if there is none.
    pub(crate) fn needed(host: &dyn Host, mount: &str) -> Result<Self, Failure> {
        let missing =
            || Failure::invalid(format!("there is no configuration; write {mount}config first"));
        Self::stored(host)?.ok_or_else(missing)
    }

    /// Returns the target at `url`, from the present configuration, or else from a configuration
    /// replaced or removed while leases needed the server (decision E4).
    pub(crate) fn target_at(host: &dyn Host, url: &str) -> Result<ApiServerTarget, Failure> {
        for config in [Self::stored(host)?, host.storage().get(&former_key(url))?] {
            match config.map(|config| ApiServerTarget::of(host, &config)) {
                Some(Ok(target)) if target.url == url => return Ok(target),
                _ => {}
            }
        }
        // The revocation is retried, and succeeds once a new configuration names this server.
        let message =
            format!("{url} is in no configuration any more; write config for {url} again");
        Err(Failure::new(FailureKind::Unreachable, message))
    }

    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("cluster_host", &mut self.cluster_host)?;
        call.merge("cluster_ca_cert", &mut self.cluster_ca_cert)?;
        call.merge("service_account_jwt", &mut self.service_account_jwt)?;
        call.merge("disable_local_ca_jwt", &mut self.disable_local_ca_jwt)?;
        // A token read from a file ends with a newline.
        self.service_account_jwt = self.service_account_jwt.trim().to_owned();
        self.cluster_host = self.cluster_host.trim().trim_end_matches('/').to_owned();
        Ok(())
    }

    /// Returns whether the API server is verified with the own pod's certificate.
    fn trusts_its_pod(&self) -> bool {
        self.cluster_ca_cert.is_empty() && !self.disable_local_ca_jwt
    }

    fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        if self.cluster_ca_cert.len() > LONGEST || self.service_account_jwt.len() > LONGEST {
            return Err(Failure::invalid(
                "cluster_ca_cert and service_account_jwt have at most 64 KiB each",
            ));
        }
        trusted_certificates::check(host, "cluster_ca_cert", &self.cluster_ca_cert)?;
        if !self.service_account_jwt.is_empty() && !is_token(&self.service_account_jwt) {
            return Err(Failure::invalid(
                "service_account_jwt is not a JWT: three parts of base64url, joined by dots",
            ));
        }
        Ok(())
    }
}

fn former_key(url: &str) -> String {
    format!("{FORMER}{}", BASE64_URL_SAFE_NO_PAD.encode(url))
}

/// Writes the configuration. If the server changes, the old configuration is kept for existing
/// leases.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let before = Config::stored(host)?;
    let mut config = before.clone().unwrap_or_default();
    config.merge(call)?;
    config.check(host)?;
    let url = ApiServerTarget::of(host, &config)?.url;
    if let Some(before) = before {
        let is_elsewhere = leads_elsewhere(host, &before, &url);
        let places = [
            DestinationField::of("cluster_host", is_elsewhere),
            DestinationField::of(
                "cluster_ca_cert",
                config.cluster_ca_cert != before.cluster_ca_cert,
            ),
            DestinationField::of(
                "disable_local_ca_jwt",
                config.trusts_its_pod() != before.trusts_its_pod(),
            ),
        ];
        let credentials = [CredentialField::of("service_account_jwt", &before.service_account_jwt)];
        destination::check(call, &places, &credentials)?;
        if is_elsewhere {
            keep_for_leases(host, &before)?;
        }
    }
    host.storage().delete(&former_key(&url))?;
    host.storage().put(KEY, &config)?;
    Ok(Answer::nothing())
}

/// Returns whether `config` leads to a server other than `url`, or to no server any more.
fn leads_elsewhere(host: &dyn Host, config: &Config, url: &str) -> bool {
    ApiServerTarget::of(host, config).map_or(true, |target| target.url != url)
}

/// Shows the configuration without its token, with the field names of both vocabularies (decision
/// P2).
pub(crate) fn read(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let config = Config::stored(host)?.ok_or_else(Failure::absent)?;
    Answer::data(&json!({
        "cluster_host": config.cluster_host,
        "kubernetes_host": config.cluster_host,
        "cluster_ca_cert": config.cluster_ca_cert,
        "kubernetes_ca_cert": config.cluster_ca_cert,
        "disable_local_ca_jwt": config.disable_local_ca_jwt,
    }))
}

/// Removes the configuration, but keeps a copy for the revocation of its leases.
pub(crate) fn delete(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let Some(config) = Config::stored(host)? else { return Ok(Answer::nothing()) };
    host.storage().delete(KEY)?;
    let live = keep_for_leases(host, &config)?;
    let warning = (live > 0).then(|| {
        format!(
            "leases that still need this configuration: {live}; a copy is kept for their \
             revocation alone"
        )
    });
    Ok(Answer::nothing().warn(warning))
}

/// Keeps an outgoing configuration if leases need it, and returns the number of such leases.
fn keep_for_leases(host: &dyn Host, config: &Config) -> Result<u32, Failure> {
    let Ok(target) = ApiServerTarget::of(host, config) else { return Ok(0) };
    let live = host.leases().count(&target.url)?;
    if live > 0 {
        host.storage().put(&former_key(&target.url), config)?;
    }
    Ok(live)
}

/// Removes the configuration kept for `url` if the last of its leases is about to end.
pub(crate) fn forget_former(host: &dyn Host, url: &str) -> Result<(), Failure> {
    let key = former_key(url);
    if host.storage().get_bytes(&key)?.is_some() && host.leases().count(url)? <= 1 {
        host.storage().delete(&key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
