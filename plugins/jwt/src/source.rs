//! The one source of a mount's keys, and the proof of a token by these keys.
//!
//! A key is found only by the configuration and the key id, never by other parts of a token.

use crate::key_server::{KeyServer, provider};
use crate::static_key::StaticKey;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::jwt::{Claims, ParsedToken};
use bulkhead_sdk::provider::Provider;
use bulkhead_sdk::trusted_certificates;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum number of servers.
const MOST: usize = 10;
/// The fields for the source of keys.
const NAMES: [&str; 4] = ["oidc_discovery_url", "jwks_url", "jwks_pairs", "jwt_validation_pubkeys"];

/// Origin of the keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeySource {
    /// The keys in the discovery document of an issuer.
    Discovery(KeyServer),
    /// A set of keys.
    Set(KeyServer),
    /// Several sets of keys.
    Sets(Vec<KeyServer>),
    /// Keys in PEM.
    Keys(Vec<StaticKey>),
}

impl KeySource {
    /// Reads the source from the fields of a call. A source replaces the stored source, and keeps
    /// the roots of a stored source of the same kind. Without a source in the call, the stored
    /// source stays.
    ///
    /// # Errors
    /// Invalid request for no source, for more than one, and for a source of another form.
    pub(crate) fn read(
        host: &dyn Host,
        call: &Call,
        before: Option<Self>,
    ) -> Result<Self, Failure> {
        let sources: Vec<&str> = NAMES.into_iter().filter(|name| is_filled(call, name)).collect();
        let source = match sources.as_slice() {
            [] => before.filter(|before| !is_emptied(call, before.name())).ok_or_else(no_source)?,
            ["oidc_discovery_url"] => {
                let ca_pem = match before {
                    Some(Self::Discovery(before)) => before.ca_pem,
                    _ => String::new(),
                };
                Self::Discovery(KeyServer { url: call.text(NAMES[0]).to_owned(), ca_pem })
            }
            ["jwks_url"] => {
                let ca_pem = match before {
                    Some(Self::Set(before)) => before.ca_pem,
                    _ => String::new(),
                };
                Self::Set(KeyServer { url: call.text(NAMES[1]).to_owned(), ca_pem })
            }
            ["jwks_pairs"] => Self::Sets(pairs(call)?),
            ["jwt_validation_pubkeys"] => {
                Self::Keys(StaticKey::read_all(host, &call.list("jwt_validation_pubkeys"))?)
            }
            several => {
                let several = several.join(" and ");
                return Err(Failure::invalid(format!(
                    "{several} are given; keys come from a single source: give only one field"
                )));
            }
        };
        source.with_roots(call)
    }

    /// Applies the roots in the call.
    fn with_roots(mut self, call: &Call) -> Result<Self, Failure> {
        let roots = match &mut self {
            Self::Discovery(server) => Some(("oidc_discovery_ca_pem", server)),
            Self::Set(server) => Some(("jwks_ca_pem", server)),
            Self::Sets(_) | Self::Keys(_) => None,
        };
        let own = roots.as_ref().map(|(name, _)| *name);
        for name in ["oidc_discovery_ca_pem", "jwks_ca_pem"] {
            if own != Some(name) && is_filled(call, name) {
                return Err(Failure::invalid(format!(
                    "{name} belongs to another source of keys than the given source; leave {name} \
                     out"
                )));
            }
        }
        if let Some((name, server)) = roots {
            call.merge(name, &mut server.ca_pem)?;
        }
        Ok(self)
    }

    /// Asks the source for its keys once.
    ///
    /// # Errors
    /// The reason why no token could be proven.
    pub(crate) fn check(&self, host: &dyn Host, deadline: StoreTime) -> Result<(), Failure> {
        let provider = provider(host, deadline);
        match self {
            Self::Discovery(issuer) => {
                issuer.check("oidc_discovery_url")?;
                trusted_certificates::check(host, "oidc_discovery_ca_pem", &issuer.ca_pem)?;
                issuer.discover(&provider)?.fetch(&provider)?;
            }
            Self::Set(server) => {
                server.check("jwks_url")?;
                trusted_certificates::check(host, "jwks_ca_pem", &server.ca_pem)?;
                server.fetch(&provider)?;
            }
            Self::Sets(servers) => {
                for server in servers {
                    server.check("jwks_pairs: jwks_url")?;
                    let name = "jwks_pairs: jwks_ca_pem";
                    trusted_certificates::check(host, name, &server.ca_pem)?;
                    server.fetch(&provider)?;
                }
            }
            Self::Keys(_) => {}
        }
        Ok(())
    }

    /// Returns the issuer that the source itself names.
    pub(crate) fn issuer(&self) -> Option<&str> {
        match self {
            Self::Discovery(issuer) => Some(&issuer.url),
            Self::Set(_) | Self::Sets(_) | Self::Keys(_) => None,
        }
    }

    /// Verifies the token by the keys of the source. `writes` counts the writes of the
    /// configuration.
    ///
    /// # Errors
    /// The fault of the token; the failure of the source.
    pub(crate) fn prove(
        &self,
        host: &dyn Host,
        token: ParsedToken<'_>,
        writes: u64,
        deadline: StoreTime,
    ) -> Result<Claims, Failure> {
        let provider = provider(host, deadline);
        let keys = match self {
            Self::Discovery(issuer) => {
                let server = issuer.discovered(&provider, writes)?;
                published(&provider, &[server], writes, &token)?
            }
            Self::Set(server) => {
                published(&provider, std::slice::from_ref(server), writes, &token)?
            }
            Self::Sets(servers) => published(&provider, servers, writes, &token)?,
            Self::Keys(keys) => {
                let fit = keys.iter().filter(|key| key.is_for(token.algorithm()));
                fit.map(|key| key.pem.clone()).collect()
            }
        };
        Ok(token.prove_by_any(host, keys.iter().map(String::as_str))?)
    }

    /// Adds the fields of the source to a read of the configuration.
    pub(crate) fn show(&self, shown: &mut Map<String, Value>) {
        let pair =
            |server: &KeyServer| json!({"jwks_url": server.url, "jwks_ca_pem": server.ca_pem});
        let fields = match self {
            Self::Discovery(issuer) => vec![
                ("oidc_discovery_url", json!(issuer.url)),
                ("oidc_discovery_ca_pem", json!(issuer.ca_pem)),
            ],
            Self::Set(server) => {
                vec![("jwks_url", json!(server.url)), ("jwks_ca_pem", json!(server.ca_pem))]
            }
            Self::Sets(servers) => {
                vec![("jwks_pairs", servers.iter().map(pair).collect())]
            }
            Self::Keys(keys) => {
                let texts = keys.iter().map(|key| key.pem.as_str());
                vec![("jwt_validation_pubkeys", texts.collect())]
            }
        };
        shown.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }

    fn name(&self) -> &'static str {
        let [discovery, set, sets, keys] = NAMES;
        match self {
            Self::Discovery(_) => discovery,
            Self::Set(_) => set,
            Self::Sets(_) => sets,
            Self::Keys(_) => keys,
        }
    }
}

/// Returns the keys that the token can mean, of all servers that answer.
fn published(
    provider: &Provider<'_>,
    servers: &[KeyServer],
    writes: u64,
    token: &ParsedToken<'_>,
) -> Result<Vec<String>, Failure> {
    let (mut keys, mut failed) = (Vec::new(), None);
    for server in servers {
        match server.key(provider, writes, token.key_id().unwrap_or_default()) {
            Ok(key) => keys.extend(key),
            Err(why) => failed = Some(why),
        }
    }
    match failed {
        Some(why) if keys.is_empty() => Err(why),
        _ => Ok(keys),
    }
}

fn is_filled(call: &Call, name: &str) -> bool {
    match call.fields.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    }
}

fn is_emptied(call: &Call, name: &str) -> bool {
    call.is_given(name) && !is_filled(call, name)
}

/// Reads `jwks_pairs`: a list of objects with `jwks_url` and `jwks_ca_pem`, or its JSON text.
fn pairs(call: &Call) -> Result<Vec<KeyServer>, Failure> {
    let wrong = || {
        Failure::invalid(
            "jwks_pairs is not a list of 1 to 10 objects with the texts jwks_url and jwks_ca_pem",
        )
    };
    let list = match call.fields.get("jwks_pairs") {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    if list.is_empty() || list.len() > MOST {
        return Err(wrong());
    }
    let text = |pair: &Value, name: &str| match pair.get(name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(value) => value.as_str().map(str::to_owned),
    };
    let read = |pair: &Value| {
        pair.as_object()?;
        Some(KeyServer { url: text(pair, "jwks_url")?, ca_pem: text(pair, "jwks_ca_pem")? })
    };
    let servers: Vec<KeyServer> = list.iter().map(read).collect::<Option<_>>().ok_or_else(wrong)?;
    for (number, server) in servers.iter().enumerate() {
        if servers.iter().take(number).any(|other| other.url == server.url) {
            let url = quoted(&server.url);
            return Err(Failure::invalid(format!("jwks_pairs names {url} twice")));
        }
    }
    Ok(servers)
}

fn no_source() -> Failure {
    let names = NAMES.join(", ");
    Failure::invalid(format!("there is no source of keys: give one of {names}"))
}
