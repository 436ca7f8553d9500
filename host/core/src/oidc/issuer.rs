//! The issuer: who signs, and where readers find its documents.

use super::algorithm::Algorithm;
use super::named_key::{self, NamedKey};
use super::provider::Provider;
use bulkhead_store::{Address, Index, Space, Unit};
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::SocketAddr;
use url::Url;

/// What an operator says of the issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IssuerConfig {
    /// Scheme, host and port; empty for the server's own address.
    pub(crate) issuer: String,
}

stored!(IssuerConfig, "oidc-config", reads_stored_oidc_configs);

impl IssuerConfig {
    /// Reads an issuer as it is written; an empty one is the server's own address.
    ///
    /// # Errors
    /// 400 for what is more or less than scheme, host and port.
    pub(crate) fn of(text: &str) -> Result<Self, Failure> {
        let issuer = text.trim_end_matches('/').to_owned();
        let is_alone = |url: Url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.path() == "/"
                && url.query().is_none()
                && url.fragment().is_none()
        };
        // A reader compares the text, and the parser would take more than one spelling.
        let is_clean = issuer.chars().all(|one| one.is_ascii_graphic() && !"\\@#?".contains(one));
        if issuer.is_empty() || (is_clean && Url::parse(&issuer).is_ok_and(is_alone)) {
            return Ok(Self { issuer });
        }
        Err(Failure::invalid(format!(
            "issuer {} is not scheme, host and port alone; write such as \
             \"https://bulkhead.example.com:8200\"",
            quoted(text)
        )))
    }

    /// As it is stored, or as it comes.
    pub(crate) async fn read(unit: &mut Unit) -> Result<Self, Failure> {
        let Some(record) = unit.get(&address()).await? else { return Ok(Self::default()) };
        Self::from_bytes(&record.body)
            .map_err(|unreadable| unreadable.of(format_args!("the stored OIDC issuer")))
    }

    /// Writes it into the unit.
    pub(crate) fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        unit.put(address(), self.to_bytes()?, Index::default());
        Ok(())
    }
}

fn address() -> Address {
    Address::new(Space::Core, "oidc-config")
}

/// Whose documents are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Documents {
    /// Those for tokens of mounts.
    Plugins,
    /// Those for all others.
    General,
}

impl Documents {
    /// The path that follows the server's address in an issuer.
    fn path(self) -> &'static str {
        match self {
            Self::Plugins => "/v1/identity/oidc/plugins",
            Self::General => "/v1/identity/oidc",
        }
    }
}

impl Provider {
    /// The issuer as tokens name it.
    ///
    /// # Errors
    /// 412 when neither the configuration nor the listener says how readers reach this server.
    pub(crate) async fn issuer(&self, whose: Documents) -> Result<String, Failure> {
        let config = IssuerConfig::read(&mut self.store.begin()).await?;
        let base = Some(config.issuer).filter(|issuer| !issuer.is_empty());
        let base = base.or_else(|| self.address.clone()).ok_or_else(|| {
            Failure::new(
                Kind::PreconditionFailed,
                "nothing says how others reach this server; set issuer at identity/oidc/config, \
                 or api_addr in the server's configuration",
            )
        })?;
        Ok(base + whose.path())
    }

    /// What a reader asks for first: `openid-configuration`.
    ///
    /// # Errors
    /// As [`Provider::issuer`].
    pub(crate) async fn discovery(&self, whose: Documents) -> Result<Value, Failure> {
        let issuer = self.issuer(whose).await?;
        Ok(json!({
            "jwks_uri": format!("{issuer}/.well-known/keys"),
            "issuer": issuer,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": Algorithm::ALL.map(Algorithm::word),
        }))
    }

    /// Every public key that verifies a token now. Which keys sign for whom is told by the issuer in
    /// a token, and not by where its key is found.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub(crate) async fn public_keys(&self) -> Result<Value, Failure> {
        let (mut unit, now) = (self.store.begin(), self.store.now());
        let mut keys = Vec::new();
        for name in named_key::names(&mut unit).await? {
            let Some(key) = NamedKey::read(&mut unit, &name).await? else { continue };
            for one in key.published(now) {
                let mut member = serde_json::to_value(one)
                    .map_err(|error| Failure::internal(error.to_string()))?;
                member["use"] = json!("sig");
                keys.push(member);
            }
        }
        Ok(json!({ "keys": keys }))
    }
}

/// How readers reach a server that listens there, where that is an address that can be dialled.
pub(super) fn address_of_listener(listens: &[SocketAddr]) -> Option<String> {
    let dialled = listens.iter().find(|address| !address.ip().is_unspecified());
    dialled.map(|address| format!("http://{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_scheme_host_and_port_and_nothing_else() {
        for (text, kept) in [
            ("https://a.example", "https://a.example"),
            ("https://a.example:8200/", "https://a.example:8200"),
            ("http://127.0.0.1:8200", "http://127.0.0.1:8200"),
            ("http://[::1]:8200", "http://[::1]:8200"),
            ("", ""),
        ] {
            assert_eq!(IssuerConfig::of(text).unwrap().issuer, kept);
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
        ] {
            let refused = IssuerConfig::of(wrong).unwrap_err();
            assert!(refused.message.contains("scheme, host and port"), "{wrong}: {refused}");
        }
    }

    #[test]
    fn a_server_that_listens_everywhere_has_no_address_of_its_own() {
        let listens = |text: &str| address_of_listener(&[text.parse().unwrap()]);
        assert_eq!(listens("127.0.0.1:8200").as_deref(), Some("http://127.0.0.1:8200"));
        assert_eq!(listens("[::1]:8200").as_deref(), Some("http://[::1]:8200"));
        assert_eq!((listens("0.0.0.0:8200"), listens("[::]:8200")), (None, None));
    }
}
