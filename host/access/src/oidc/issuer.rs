//! The issuer of tokens, and the public documents below the issuer's address.

use super::algorithm::TokenAlgorithm;
use super::named_key::{self, NamedKey};
use super::provider::OidcProvider;
use bulkhead_store::{Address, IndexColumns, Space, Unit};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::Ipv6Addr;

/// The operator's issuer configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerConfig {
    /// Scheme, host and port; empty for the server's own address.
    pub issuer: String,
}

stored!(IssuerConfig, "oidc-config", reads_stored_oidc_configs);

/// Returns whether the text is a scheme, a host and optionally a port. Stricter than URL parsers,
/// because verifiers compare the issuer as text.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else { return false };
    let (is_host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port),
        None => {
            let end = rest.find(':').unwrap_or(rest.len());
            let (host, port) = rest.split_at(end);
            (host.split('.').all(is_label), port)
        }
    };
    let is_port = |digits: &str| digits.parse::<u16>().is_ok() && !digits.starts_with('+');
    is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Returns whether the text is a valid label of a host name.
fn is_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(is_inner)
}

impl IssuerConfig {
    /// Parses an issuer. An empty issuer means the server's own address.
    ///
    /// # Errors
    /// 400 unless the text consists of scheme, host and optional port.
    pub fn of(text: &str) -> Result<Self, Failure> {
        let issuer = text.trim_end_matches('/').to_owned();
        if issuer.is_empty() || is_address(&issuer) {
            return Ok(Self { issuer });
        }
        Err(Failure::invalid(format!(
            "issuer {} is not scheme, host and port alone; write for example \
             \"https://bulkhead.example.com:8200\"",
            quoted(text)
        )))
    }

    /// Reads the stored configuration, or returns the default.
    pub async fn read(unit: &mut Unit) -> Result<Self, Failure> {
        let Some(record) = unit.get(&address()).await? else { return Ok(Self::default()) };
        Self::from_bytes(&record.body)
            .map_err(|unreadable| unreadable.of(format_args!("the stored OIDC issuer")))
    }

    /// Writes the configuration into the unit.
    pub fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        unit.put(address(), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }
}

fn address() -> Address {
    Address::new(Space::Core, "oidc-config")
}

/// The kind of tokens that the documents describe.
#[derive(Clone, Copy, Debug)]
pub enum DocumentedTokens {
    /// Documents for tokens of mounts.
    Plugins,
    /// Documents for all other tokens.
    General,
}

impl DocumentedTokens {
    /// Returns the path of an issuer after the server's address.
    fn path(self) -> &'static str {
        match self {
            Self::Plugins => "/v1/identity/oidc/plugins",
            Self::General => "/v1/identity/oidc",
        }
    }
}

impl OidcProvider {
    /// Returns the issuer as tokens name it.
    ///
    /// # Errors
    /// 412 if neither the configuration nor the listener gives the address of this server.
    pub(crate) async fn issuer(&self, whose: DocumentedTokens) -> Result<String, Failure> {
        let config = IssuerConfig::read(&mut self.store.begin()).await?;
        let base = Some(config.issuer).filter(|issuer| !issuer.is_empty());
        let base = base.or_else(|| self.address.clone()).ok_or_else(|| {
            Failure::new(
                FailureKind::PreconditionFailed,
                "nothing says how others reach this server; set issuer at identity/oidc/config, \
                 or api_addr in the server's configuration",
            )
        })?;
        Ok(base + whose.path())
    }

    /// Returns the discovery document, `openid-configuration`, which verifiers request first.
    ///
    /// # Errors
    /// Errors of [`OidcProvider::issuer`].
    pub async fn discovery(&self, whose: DocumentedTokens) -> Result<Value, Failure> {
        let issuer = self.issuer(whose).await?;
        Ok(json!({
            "jwks_uri": format!("{issuer}/.well-known/keys"),
            "issuer": issuer,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": TokenAlgorithm::ALL.map(TokenAlgorithm::word),
        }))
    }

    /// Returns all public keys that verify a token now. The issuer in a token decides which keys
    /// are acceptable, not the location of the key.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub async fn public_keys(&self) -> Result<Value, Failure> {
        let (mut unit, now) = (self.store.begin(), self.store.now());
        let mut keys = Vec::new();
        for name in named_key::names(&mut unit).await? {
            let Some(key) = NamedKey::read(&mut unit, &name).await? else { continue };
            for one in key.published(now) {
                let mut member = serde_json::to_value(one)
                    .map_err(|error| Failure::internal(error.to_string()))?;
                if let Value::Object(members) = &mut member {
                    members.insert("use".to_owned(), json!("sig"));
                }
                keys.push(member);
            }
        }
        Ok(json!({ "keys": keys }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_is_only_scheme_host_and_port() {
        for (text, issuer) in [
            ("https://a.example", "https://a.example"),
            ("https://a.example:8200/", "https://a.example:8200"),
            ("http://127.0.0.1:8200", "http://127.0.0.1:8200"),
            ("http://[::1]:8200", "http://[::1]:8200"),
            ("", ""),
        ] {
            assert_eq!(IssuerConfig::of(text).unwrap().issuer, issuer);
        }
        for wrong in [
            "a.example",
            "ftp://a.example",
            "https://",
            "https://a.example/v1",
            "https://a.example?x",
            "https://a.example#x",
            "https://user@a.example",
            "https://user:c4n4ry@a.example",
            "https://a example",
            "https:\\\\a.example",
            "https://a.example\n",
            "https://a.example:99999",
            "https://a.example:+1",
            "https://a.example:",
            "https://a..example",
            "https://-a.example",
            "https://[::1",
            "https://[::g]",
            "https://[::1]x",
        ] {
            let refused = IssuerConfig::of(wrong).unwrap_err();
            assert!(refused.message.contains("scheme, host and port"), "{wrong}: {refused}");
        }
    }
}
