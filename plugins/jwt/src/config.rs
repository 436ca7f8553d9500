//! `config`: the source of keys, the issuer and the algorithms of accepted tokens.
//!
//! This file prevents a configuration that fails at the first login: each write asks the source
//! once.

use crate::source::KeySource;
use bulkhead_sdk::jwt::Claims;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Storage key of the configuration.
const KEY: &str = "config";
/// Signature algorithms with a public and a private key: those of the JOSE registry that clients of
/// this field use (hashicorp/cap, July 2026).
const ALGORITHMS: [&str; 10] =
    ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"];

/// Fields of a configuration.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("oidc_discovery_url", "issuer with a discovery document"),
    Field::text("oidc_discovery_ca_pem", "root certificates for the issuer's server, in PEM"),
    Field::text("jwks_url", "URL of a set of keys (JWKS)"),
    Field::text("jwks_ca_pem", "root certificates for the server of jwks_url, in PEM"),
    Field::any("jwks_pairs", "several sets: a list of objects with jwks_url and jwks_ca_pem"),
    Field::words("jwt_validation_pubkeys", "public keys or certificates, in PEM"),
    Field::text("bound_issuer", "the required issuer (iss) of tokens"),
    Field::words("jwt_supported_algs", "accepted algorithms; default: all asymmetric algorithms"),
    Field::text("default_role", "the default role of logins"),
];

/// Fields of browser logins, which are not served: they may only be empty.
pub(crate) const BROWSER_FIELDS: &[Field] = &[
    Field::text("oidc_client_id", "for browser logins, which are not served; may only be empty"),
    Field::text(
        "oidc_client_secret",
        "for browser logins, which are not served; may only be empty",
    )
    .secret(),
    Field::text(
        "oidc_response_mode",
        "for browser logins, which are not served; may only be empty",
    ),
    Field::words(
        "oidc_response_types",
        "for browser logins, which are not served; may only be empty",
    ),
    Field::any("provider_config", "for browser logins, which are not served; may only be empty"),
    Field::flag(
        "namespace_in_state",
        "for browser logins, which are not served; may only be empty",
    ),
];

/// The configuration of a mount.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(crate) source: KeySource,
    bound_issuer: String,
    jwt_supported_algs: Vec<String>,
    /// The role's name, in lower case.
    pub(crate) default_role: String,
    /// Counter incremented at each write. Keys cached before a write are not used afterwards.
    pub(crate) writes: u64,
}

stored!(Config, "config", reads_stored_configurations);

impl Config {
    fn find(host: &dyn Host) -> Result<Option<Self>, Failure> {
        host.storage().get(KEY)
    }

    /// Returns the stored configuration.
    ///
    /// # Errors
    /// Invalid request if there is none.
    pub(crate) fn stored(host: &dyn Host) -> Result<Self, Failure> {
        Self::find(host)?.ok_or_else(|| {
            Failure::invalid("this auth method has no configuration; write config first")
        })
    }

    /// Applies the fields of the call, and keeps the rest.
    fn merged(host: &dyn Host, call: &Call, before: Option<Self>) -> Result<Self, Failure> {
        let source = before.as_ref().map(|config| config.source.clone());
        let source = KeySource::read(host, call, source)?;
        let mut config = match before {
            Some(before) => Self { source, ..before },
            None => Self {
                source,
                bound_issuer: String::new(),
                jwt_supported_algs: Vec::new(),
                default_role: String::new(),
                writes: 0,
            },
        };
        call.merge("bound_issuer", &mut config.bound_issuer)?;
        call.merge("jwt_supported_algs", &mut config.jwt_supported_algs)?;
        call.merge("default_role", &mut config.default_role)?;
        config.default_role.make_ascii_lowercase();
        config.writes = config.writes.saturating_add(1);
        config.check_algorithms()?;
        Ok(config)
    }

    fn check_algorithms(&self) -> Result<(), Failure> {
        let is_unknown = |name: &&String| !ALGORITHMS.contains(&name.as_str());
        match self.jwt_supported_algs.iter().find(is_unknown) {
            None => Ok(()),
            Some(name) => Err(Failure::invalid(format!(
                "jwt_supported_algs {} is not supported; there are {}",
                quoted(name),
                ALGORITHMS.join(", ")
            ))),
        }
    }

    /// Returns the accepted algorithms.
    pub(crate) fn algorithms(&self) -> Vec<&str> {
        match self.jwt_supported_algs.as_slice() {
            [] => ALGORITHMS.to_vec(),
            names => names.iter().map(String::as_str).collect(),
        }
    }

    /// Checks the issuer of a token: `bound_issuer`, or the issuer of the discovery document.
    ///
    /// # Errors
    /// Invalid request that shows no claim.
    pub(crate) fn check_issuer(&self, claims: &Claims) -> Result<(), Failure> {
        let bound = Some(self.bound_issuer.as_str()).filter(|bound| !bound.is_empty());
        match bound.or_else(|| self.source.issuer()) {
            Some(expected) if claims.issuer() != Some(expected) => Err(Failure::invalid(
                "the token is of another issuer (iss) than the configured issuer",
            )),
            _ => Ok(()),
        }
    }

    fn shown(&self) -> Map<String, Value> {
        let fields = [
            ("oidc_discovery_url", json!("")),
            ("oidc_discovery_ca_pem", json!("")),
            ("jwks_url", json!("")),
            ("jwks_ca_pem", json!("")),
            ("jwks_pairs", json!([])),
            ("jwt_validation_pubkeys", json!([])),
            ("bound_issuer", json!(self.bound_issuer)),
            ("jwt_supported_algs", json!(self.jwt_supported_algs)),
            ("default_role", json!(self.default_role)),
            ("oidc_client_id", json!("")),
            ("oidc_response_mode", json!("")),
            ("oidc_response_types", json!([])),
            ("provider_config", json!({})),
            ("namespace_in_state", json!(false)),
        ];
        let mut shown: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.source.show(&mut shown);
        shown
    }
}

/// Writes the configuration; absent fields keep their values.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    refuse_filled(call, BROWSER_FIELDS.iter().map(Field::name))?;
    let config = Config::merged(host, call, Config::find(host)?)?;
    config.source.check(host, call.deadline)?;
    host.storage().put(KEY, &config)?;
    Ok(Answer::nothing())
}

/// Shows the configuration.
pub(crate) fn read(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let config = Config::find(host)?.ok_or_else(Failure::absent)?;
    Answer::data(&config.shown())
}

/// Refuses fields of browser logins that are not empty.
///
/// # Errors
/// Invalid request with the field.
pub(crate) fn refuse_filled<'a>(
    call: &Call,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), Failure> {
    let is_filled = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Bool(true) => true,
    };
    match names.into_iter().find(|name| call.fields.get(*name).is_some_and(is_filled)) {
        None => Ok(()),
        Some(name) => Err(Failure::invalid(format!(
            "{name} belongs to browser logins (OIDC), which are not served; leave {name} out, and \
             log in with a signed token"
        ))),
    }
}

#[cfg(test)]
mod tests;
