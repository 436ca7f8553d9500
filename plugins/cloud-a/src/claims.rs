//! Verification of a login token by its issuer's key, and parsing of its claims.
//!
//! This file prevents these attacks: a token of another tenant, or for another audience, with a
//! similar-looking issuer (issuer and audience are compared as whole strings, and the tenant is
//! compared too); a token that chooses its own key (keys come only from the configured tenant's
//! issuer, and only from that issuer's own server); a claim of the wrong type that is treated as
//! absent; a groups overage, that is groups that did not fit into the token, treated as an empty
//! list of groups.

use crate::arm_id::{ArmId, IDENTITY, is_guid};
use crate::settings::EffectiveSettings;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::issuer_keys::{self, FetchedKeys};
use bulkhead_sdk::jwt::{Claims, ExpectedClaims, JwtFault, KeySet, ParsedToken};
use bulkhead_sdk::provider::{Provider, ProviderUrl, nonsense};
use bulkhead_sdk::wire::call_limits::CallLimits;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Signature algorithm used by the provider.
const ALGORITHM: &str = "RS256";
/// Seconds for which the issuer's discovery document is cached.
const DISCOVERY_TTL_SECS: u32 = 43_200;
/// Time limit for fetching the keys, in milliseconds. It is shorter than the time that concurrent
/// logins wait, so that they do not fetch the keys as well.
const KEY_FETCH_TIMEOUT_MS: u64 = 9_000;
/// Maximum length of an id in a claim, in bytes.
const LONGEST: usize = 256;

/// The bearer proven by the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Principal {
    /// The object id, in lower case.
    pub(crate) oid: String,
    /// The application id.
    pub(crate) app_id: Option<String>,
    pub(crate) groups: Vec<String>,
    /// Set if the token omits groups because the principal has too many groups.
    pub(crate) has_more_groups: bool,
}

/// The proven contents of a token.
#[derive(Clone, Debug)]
pub(crate) struct ProvenClaims {
    pub(crate) principal: Principal,
    /// Claim `xms_az_rid`, unparsed.
    machine_claim: Option<String>,
    /// Claim `xms_mirid`, unparsed.
    identity_claim: Option<String>,
}

/// Resource ids in a token's signed claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignedResourceIds {
    /// Machine or other resource that received the token.
    pub(crate) resource: Option<ArmId>,
    /// User-assigned identity of that resource.
    pub(crate) identity: Option<ArmId>,
}

/// The needed part of the issuer's discovery document.
#[derive(Serialize, Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: String,
}

impl ProvenClaims {
    /// Verifies the token at store time.
    ///
    /// # Errors
    /// Invalid request that names the fault of the token; unreachable if the issuer cannot be
    /// queried.
    pub(crate) fn of(
        host: &dyn Host,
        settings: &EffectiveSettings,
        jwt: &str,
        deadline: StoreTime,
    ) -> Result<Self, Failure> {
        let token = ParsedToken::read(jwt, &[ALGORITHM])?;
        let key_id = token.key_id().ok_or(JwtFault::UnknownKey)?.to_owned();
        let now = host.clock().now();
        // Unlike the issuer check, the check of times and audience needs no request.
        let own = ExpectedClaims { audience: &settings.resource, ..ExpectedClaims::default() };
        token.unverified_claims().check(now, &own)?;
        let deadline = deadline.min(now.saturating_add(KEY_FETCH_TIMEOUT_MS));
        let provider = settings.provider(host, deadline).within(CallLimits::DEFAULT);
        let discovery = DiscoveryDocument::of(&provider, settings)?;
        let expected = ExpectedClaims { issuer: &discovery.issuer, audience: &settings.resource };
        // Checked before the key look-up, so that a foreign token costs its issuer no request.
        token.unverified_claims().check(now, &expected)?;
        let set = format!("{} {}", settings.config.writes, discovery.jwks_uri);
        let key = issuer_keys::find(host, &set, &key_id, || discovery.fetch_keys(&provider))?;
        let claims = token.prove(host, &key.ok_or(JwtFault::UnknownKey)?)?;
        claims.check(now, &expected)?;
        Self::read(&claims, settings)
    }

    fn read(claims: &Claims, settings: &EffectiveSettings) -> Result<Self, Failure> {
        let all = claims.all();
        let is_other = |tenant: &String| {
            is_guid(&settings.tenant) && !tenant.eq_ignore_ascii_case(&settings.tenant)
        };
        if let Some(tenant) = text(all, "tid")?.filter(is_other) {
            let tenant = quoted(&tenant);
            return Err(Failure::invalid(format!("the token is of tenant {tenant}")));
        }
        let oid = text(all, "oid")?.filter(|oid| !oid.is_empty());
        let oid = oid.ok_or_else(|| Failure::invalid("the token has no object id (oid)"))?;
        let principal = Principal {
            oid: oid.to_ascii_lowercase(),
            app_id: text(all, "appid")?.filter(|id| !id.is_empty()),
            groups: groups(all)?,
            has_more_groups: has_more_groups(all),
        };
        let (machine_claim, identity_claim) = (id(all, "xms_az_rid")?, id(all, "xms_mirid")?);
        Ok(Self { principal, machine_claim, identity_claim })
    }

    /// Parses the resource ids. Call this only if the ids are needed: tokens of other resources may
    /// have claims of another shape.
    ///
    /// # Errors
    /// Invalid request if a claim is not the id of a resource in a resource group.
    pub(crate) fn ids(&self) -> Result<SignedResourceIds, Failure> {
        let read = |name: &str, claim: &Option<String>| {
            let Some(claim) = claim else { return Ok(None) };
            ArmId::parse(claim).map(Some).ok_or_else(|| {
                let claim = quoted(claim);
                Failure::invalid(format!("the token's {name} {claim} is not an id of a resource"))
            })
        };
        let machine = read("xms_az_rid", &self.machine_claim)?;
        let managed = read("xms_mirid", &self.identity_claim)?;
        Ok(match managed {
            Some(identity) if identity.kind() == IDENTITY => {
                SignedResourceIds { resource: machine, identity: Some(identity) }
            }
            managed => SignedResourceIds { resource: machine.or(managed), identity: None },
        })
    }
}

impl DiscoveryDocument {
    /// Fetches the discovery document of the tenant's issuer. The document may name only the
    /// issuer's own tenant and server.
    fn of(provider: &Provider<'_>, settings: &EffectiveSettings) -> Result<Self, Failure> {
        let authority = settings.cloud.authority;
        let (writes, tenant) = (settings.config.writes, settings.tenant.to_ascii_lowercase());
        let key = format!("issuer/{writes}/{authority}/{tenant}");
        let document = provider.host().cache().get_or_make(&key, DISCOVERY_TTL_SECS, || {
            let url = ProviderUrl::of(authority).path(&[
                settings.tenant.as_str(),
                ".well-known",
                "openid-configuration",
            ])?;
            let reply = provider.json::<Self>(&Request::get(url.text()));
            let found = reply.map_err(|why| why.about("find the issuer of the tenant's tokens"))?;
            found.check(settings)?;
            serde_json::to_vec(&found)
                .map_err(|_| Failure::internal("an issuer's description cannot be written"))
        })?;
        serde_json::from_slice(&document)
            .map_err(|_| Failure::internal("a kept description of an issuer does not parse"))
    }

    fn check(&self, settings: &EffectiveSettings) -> Result<(), Failure> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/?=&".contains(&byte);
        let path = self.jwks_uri.strip_prefix(settings.cloud.authority);
        let is_own = path.is_some_and(|path| path.starts_with('/') && path.bytes().all(is_plain));
        if !is_own || self.jwks_uri.len() > LONGEST || self.issuer.is_empty() {
            return Err(nonsense(
                "the keys are not on the issuer's own server, or the issuer is missing",
            ));
        }
        let is_of_tenant =
            self.issuer.split('/').any(|part| part.eq_ignore_ascii_case(&settings.tenant));
        match is_guid(&settings.tenant) && !is_of_tenant {
            true => Err(nonsense("the issuer is of another tenant than the configured tenant")),
            false => Ok(()),
        }
    }

    fn fetch_keys(&self, provider: &Provider<'_>) -> Result<FetchedKeys, Failure> {
        let answer = provider.ask(&Request::get(&self.jwks_uri));
        let answer = answer.map_err(|why| why.about("fetch the keys of the token's issuer"))?;
        let set = KeySet::read(&answer.body).map_err(|why| nonsense(&why.to_string()))?;
        let lifetime = issuer_keys::lifetime(&answer);
        Ok(FetchedKeys { keys: set.by_id(ALGORITHM), lifetime })
    }
}

/// Returns a claim that is absent or a text.
fn text(all: &Map<String, Value>, name: &str) -> Result<Option<String>, Failure> {
    match all.get(name) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= LONGEST => Ok(Some(text.clone())),
        Some(_) => Err(Failure::invalid(format!("the token's {name} is not a text, or too long"))),
    }
}

/// Returns the text of a resource id claim; an empty claim counts as absent.
fn id(all: &Map<String, Value>, name: &str) -> Result<Option<String>, Failure> {
    match all.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(Failure::invalid(format!("the token's {name} is not a text"))),
    }
}

fn groups(all: &Map<String, Value>) -> Result<Vec<String>, Failure> {
    let wrong = || Failure::invalid("the token's groups are not a list of texts");
    let Some(claim) = all.get("groups") else { return Ok(Vec::new()) };
    let named = claim.as_array().ok_or_else(wrong)?;
    let named = named.iter().map(|group| group.as_str().ok_or_else(wrong));
    let named: Vec<&str> = named.collect::<Result<_, _>>()?;
    Ok(named.into_iter().filter(|group| !group.is_empty()).map(str::to_owned).collect())
}

/// Tells if the provider omitted the groups because there are too many groups for a token.
fn has_more_groups(all: &Map<String, Value>) -> bool {
    let is_elsewhere = all.get("_claim_names").and_then(|names| names.get("groups")).is_some();
    let is_said = |said: &Value| !matches!(said, Value::Bool(false) | Value::Null);
    is_elsewhere || all.get("hasgroups").is_some_and(is_said)
}

#[cfg(test)]
mod tests;
