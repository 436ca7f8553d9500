//! Identity tokens of mounts, for authentication at a cloud provider.
//!
//! This file prevents a mount from impersonating another mount. The claims about the mount come
//! from the mount's record; the component chooses only the audience and the lifetime.

use super::issuer::DocumentedTokens;
use super::named_key::DEFAULT;
use super::provider::OidcProvider;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Value, json};

/// Maximum length of an audience, in bytes.
const LONGEST_AUDIENCE: usize = 1_024;
/// Default lifetime of a token, in seconds.
const USUAL_TTL: u64 = 3_600;
/// The only namespace, under the name that trust policies expect.
const NAMESPACE: &str = "root";

/// The mount that holds a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenHolder<'a> {
    /// Accessor of the mount.
    pub accessor: &'a str,
    /// Path of the mount as listings show it, without `auth/`.
    pub path: &'a str,
    /// True for an auth mount.
    pub is_auth: bool,
    /// True for a mount that is not replicated.
    pub is_local: bool,
    /// Name and version of the mount's plugin.
    pub plugin: (&'a str, &'a str),
    /// Name of the signing key; empty for the default key.
    pub key: &'a str,
}

/// A token of a mount.
pub struct PluginToken {
    /// The token in JWS compact form.
    pub token: String,
    /// Expiry, in seconds since 1970.
    pub expires: u64,
}

impl OidcProvider {
    /// Returns a token for `audience` with a lifetime of `ttl` seconds (0: an hour). The lifetime
    /// is shortened to the verification TTL of the key.
    ///
    /// # Errors
    /// 400 for an invalid audience; 412 without an issuer or a key; 503 when the store cannot be
    /// read.
    pub async fn plugin_token(
        &self,
        holder: TokenHolder<'_>,
        audience: &str,
        ttl: u64,
    ) -> Result<PluginToken, Failure> {
        check_audience(audience)?;
        let issuer = self.issuer(DocumentedTokens::Plugins).await?;
        let key = self.key(if holder.key.is_empty() { DEFAULT } else { holder.key }).await?;
        let wanted = if ttl == 0 { USUAL_TTL } else { ttl };
        let issued = self.now();
        let expires = issued.saturating_add(wanted.min(key.settings.verification_ttl));
        let claims = json!({
            "iss": issuer,
            "sub": subject(&holder),
            "aud": [audience],
            "iat": issued,
            "exp": expires,
            // Trust policies expect this claim name.
            "vaultproject.io": of_holder(&holder),
        });
        let token = self.sign(&key, claims).await?;
        Ok(PluginToken { token, expires })
    }
}

fn class(holder: &TokenHolder<'_>) -> &'static str {
    if holder.is_auth { "auth" } else { "secret" }
}

fn subject(holder: &TokenHolder<'_>) -> String {
    format!("plugin-identity:{NAMESPACE}:{}:{}", class(holder), holder.accessor)
}

fn of_holder(holder: &TokenHolder<'_>) -> Value {
    let (plugin, version) = holder.plugin;
    json!({
        "namespace_id": NAMESPACE,
        "namespace_path": "",
        "class": class(holder),
        "accessor": holder.accessor,
        "path": holder.path,
        "local": holder.is_local,
        "plugin": plugin,
        "version": format!("v{version}"),
    })
}

fn check_audience(audience: &str) -> Result<(), Failure> {
    if audience.is_empty() || audience.len() > LONGEST_AUDIENCE {
        return Err(Failure::invalid(format!(
            "an audience has 1 to {LONGEST_AUDIENCE} bytes; this audience has {}",
            audience.len()
        )));
    }
    if audience.chars().any(char::is_control) {
        let audience = quoted(audience);
        return Err(Failure::invalid(format!("audience {audience} is not printable text")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_holder_claims_describe_its_mount() {
        let holder = TokenHolder {
            accessor: "auth_azure_00c0ffee",
            path: "azure/",
            is_auth: true,
            is_local: false,
            plugin: ("azure", "1.0.0"),
            key: "",
        };
        assert_eq!(subject(&holder), "plugin-identity:root:auth:auth_azure_00c0ffee");
        let secret = TokenHolder { is_auth: false, accessor: "database_1", ..holder };
        assert_eq!(subject(&secret), "plugin-identity:root:secret:database_1");
        let shown = of_holder(&holder);
        let expected = [
            ("class", json!("auth")),
            ("path", json!("azure/")),
            ("version", json!("v1.0.0")),
            ("namespace_id", json!("root")),
            ("namespace_path", json!("")),
        ];
        for (name, value) in expected {
            assert_eq!(shown[name], value);
        }
    }

    #[test]
    fn an_audience_is_printable_and_not_too_long() {
        for right in ["sts.example.com", "api://AzureADTokenExchange", &"a".repeat(1_024)] {
            check_audience(right).unwrap();
        }
        for wrong in ["", "a\nb", "a\0b", &"a".repeat(1_025)] {
            assert!(check_audience(wrong).is_err(), "{wrong:?}");
        }
    }
}
