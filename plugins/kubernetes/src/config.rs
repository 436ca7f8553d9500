//! `config`: the API server that reviews tokens, and the reviewer. A read never shows the token.
//!
//! The attack this file prevents: a caller with write access to the configuration who wants the
//! reviewer's token. The token is never sent to a server other than the server it was written for
//! (decision P22).

use crate::token::TokenClaims;
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::kubernetes::{is_token, read_url};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::trusted_certificates;
use bulkhead_sdk::{Answer, Call, Failure, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "config";

/// Maximum length of a token, of certificates and of a key, in bytes.
const LONGEST: usize = 64 * 1024;

/// Maximum number of keys.
const MOST_KEYS: usize = 16;

/// Issuer of the tokens in Secrets, expected where no other issuer is configured.
const USUAL_ISSUER: &str = "kubernetes/serviceaccount";

/// The fields of a configuration.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("kubernetes_host", "the URL of the API server").required(),
    Field::text(
        "kubernetes_ca_cert",
        "accepted authorities of the API server's certificate, in PEM",
    ),
    Field::text("token_reviewer_jwt", "token of the reviewer's account; never shown").secret(),
    Field::words(
        "pem_keys",
        "public keys or certificates; a token must be signed by one of these keys",
    ),
    Field::text("issuer", "issuer of tokens, if disable_iss_validation is false"),
    Field::flag("disable_iss_validation", "leave the issuer to the API server").or_flag(true),
    Field::flag("disable_local_ca_jwt", "never use the certificate and token of the server's pod"),
    Field::flag("use_annotations_as_alias_metadata", "not supported; only false is accepted"),
];

/// The configured API server. No `Debug`: the configuration contains a token.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct ReviewConfig {
    /// URL as written.
    pub(crate) kubernetes_host: String,
    pub(crate) kubernetes_ca_cert: String,
    pub(crate) token_reviewer_jwt: String,
    pub(crate) pem_keys: Vec<String>,
    pub(crate) issuer: String,
    pub(crate) disable_iss_validation: bool,
    pub(crate) disable_local_ca_jwt: bool,
}

stored!(ReviewConfig, "config", reads_stored_configurations);

impl ReviewConfig {
    fn stored(host: &dyn Host) -> Result<Option<Self>, Failure> {
        host.storage().get(KEY)
    }

    /// Returns the configuration, or a failure if there is none.
    pub(crate) fn needed(host: &dyn Host, mount: &str) -> Result<Self, Failure> {
        let missing =
            || Failure::invalid(format!("there is no configuration; write {mount}config first"));
        Self::stored(host)?.ok_or_else(missing)
    }

    /// Refuses a token of another issuer, if the configuration asks for an issuer.
    ///
    /// # Errors
    /// Permission denied.
    pub(crate) fn admit_issuer(&self, claims: &TokenClaims) -> Result<(), Failure> {
        let expected = if self.issuer.is_empty() { USUAL_ISSUER } else { &self.issuer };
        match self.disable_iss_validation || claims.issuer == expected {
            true => Ok(()),
            false => Err(Failure::denied("the token is of another issuer")),
        }
    }

    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("kubernetes_host", &mut self.kubernetes_host)?;
        call.merge("kubernetes_ca_cert", &mut self.kubernetes_ca_cert)?;
        call.merge("token_reviewer_jwt", &mut self.token_reviewer_jwt)?;
        call.merge("pem_keys", &mut self.pem_keys)?;
        call.merge("issuer", &mut self.issuer)?;
        call.merge("disable_iss_validation", &mut self.disable_iss_validation)?;
        call.merge("disable_local_ca_jwt", &mut self.disable_local_ca_jwt)?;
        // A token read from a file ends with a newline.
        self.token_reviewer_jwt = self.token_reviewer_jwt.trim().to_owned();
        self.kubernetes_host = self.kubernetes_host.trim().trim_end_matches('/').to_owned();
        Ok(())
    }

    /// Returns whether the API server is verified with the own pod's certificate.
    fn trusts_its_pod(&self) -> bool {
        self.kubernetes_ca_cert.is_empty() && !self.disable_local_ca_jwt
    }

    fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        let texts = [&self.kubernetes_ca_cert, &self.token_reviewer_jwt, &self.issuer];
        if texts.into_iter().chain(&self.pem_keys).any(|text| text.len() > LONGEST) {
            return Err(Failure::invalid(
                "kubernetes_ca_cert, token_reviewer_jwt, issuer and each of pem_keys have at most \
                 64 KiB",
            ));
        }
        trusted_certificates::check(host, "kubernetes_ca_cert", &self.kubernetes_ca_cert)?;
        if !self.token_reviewer_jwt.is_empty() && !is_token(&self.token_reviewer_jwt) {
            return Err(Failure::invalid(
                "token_reviewer_jwt is not a JWT: three parts of base64url, joined by dots",
            ));
        }
        self.check_keys(host)
    }

    fn check_keys(&self, host: &dyn Host) -> Result<(), Failure> {
        if self.pem_keys.len() > MOST_KEYS {
            let count = self.pem_keys.len();
            return Err(Failure::invalid(format!(
                "pem_keys has {count} keys; there may be {MOST_KEYS}"
            )));
        }
        for key in &self.pem_keys {
            // A private key would be shown by each read.
            if key.contains("PRIVATE KEY") || !key.contains("-----BEGIN") {
                return Err(Failure::invalid(
                    "pem_keys has a text that is neither a public key nor a certificate in PEM",
                ));
            }
            host.crypto().read_key(key).map_err(|why| about("pem_keys", why))?;
        }
        Ok(())
    }
}

fn about(field: &str, why: Failure) -> Failure {
    Failure { message: format!("{field}: {}", why.message), ..why }
}

/// Writes the configuration. The write sends no request: the API server may start later.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    if call.flag("use_annotations_as_alias_metadata") {
        return Err(Failure::invalid(
            "use_annotations_as_alias_metadata is not supported: everybody with write access to a \
             service account can write annotations, and policy templates trust the metadata of an \
             alias; leave the field out or set it to false",
        ));
    }
    let before = ReviewConfig::stored(host)?;
    let mut config = before.clone().unwrap_or_default();
    config.merge(call)?;
    config.check(host)?;
    let url = read_url("kubernetes_host", &config.kubernetes_host)?;
    if let Some(before) = before {
        let was = read_url("kubernetes_host", &before.kubernetes_host);
        let places = [
            DestinationField::of("kubernetes_host", was.map_or(true, |was| was != url)),
            DestinationField::of(
                "kubernetes_ca_cert",
                config.kubernetes_ca_cert != before.kubernetes_ca_cert,
            ),
            DestinationField::of(
                "disable_local_ca_jwt",
                config.trusts_its_pod() != before.trusts_its_pod(),
            ),
        ];
        let credentials = [CredentialField::of("token_reviewer_jwt", &before.token_reviewer_jwt)];
        destination::check(call, &places, &credentials)?;
    }
    host.storage().put(KEY, &config)?;
    Ok(Answer::nothing())
}

/// Shows the configuration without the reviewer's token.
pub(crate) fn read(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let config = ReviewConfig::stored(host)?.ok_or_else(Failure::absent)?;
    Answer::data(&json!({
        "kubernetes_host": config.kubernetes_host,
        "kubernetes_ca_cert": config.kubernetes_ca_cert,
        "token_reviewer_jwt_set": !config.token_reviewer_jwt.is_empty(),
        "pem_keys": config.pem_keys,
        "issuer": config.issuer,
        "disable_iss_validation": config.disable_iss_validation,
        "disable_local_ca_jwt": config.disable_local_ca_jwt,
        "use_annotations_as_alias_metadata": false,
    }))
}

#[cfg(test)]
mod tests;
