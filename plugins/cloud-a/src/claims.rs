//! The token of a login: proven by a key of its issuer, and read into what it says of its bearer.
//!
//! The attacks this file stops: a token of another tenant, or for another audience, whose issuer
//! merely looks alike (issuer and audience are compared whole, and the tenant with both); a key
//! that the token chose (keys come from the configured tenant's issuer alone, and from its own
//! server); a claim of another type, that counts as absent; and groups that did not fit into the
//! token, which must not be taken for none.

use crate::arm_id::{ArmId, IDENTITY, is_guid};
use crate::settings::Settings;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::issuer_keys::{self, Fetched};
use bulkhead_sdk::jwt::{Claims, Expected, Fault, KeySet, Token};
use bulkhead_sdk::provider::{Provider, Url, nonsense};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The one algorithm of the provider.
const ALGORITHM: &str = "RS256";
/// Seconds that the issuer's description of itself is kept.
const DISCOVERY: u32 = 43_200;
/// Milliseconds in which keys are fetched, so that others who wait for them do not begin, too.
const FETCH: u64 = 9_000;
/// Bytes of an id that a claim holds.
const LONGEST: usize = 256;

/// Who was proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Principal {
    /// The object id, in lower case.
    pub(crate) oid: String,
    /// The application's id.
    pub(crate) app_id: Option<String>,
    pub(crate) groups: Vec<String>,
    /// The groups were too many for the token.
    pub(crate) has_more_groups: bool,
}

/// What a token proves.
#[derive(Clone, Debug)]
pub(crate) struct Proven {
    pub(crate) principal: Principal,
    /// `xms_az_rid`, as it stands.
    machine_claim: Option<String>,
    /// `xms_mirid`, as it stands.
    identity_claim: Option<String>,
}

/// The resources that a token is of, by its signed claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    /// The machine or other resource on which it was given.
    pub(crate) resource: Option<ArmId>,
    /// The identity that was created by a user and given to that resource.
    pub(crate) identity: Option<ArmId>,
}

/// Of the issuer's description of itself, what is needed.
#[derive(Serialize, Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Proven {
    /// Proves the token, at store time.
    ///
    /// # Errors
    /// Invalid request that says what is wrong with the token; unreachable where its issuer cannot
    /// be asked.
    pub(crate) fn of(
        host: &dyn Host,
        settings: &Settings,
        jwt: &str,
        deadline: StoreTime,
    ) -> Result<Self, Failure> {
        let token = Token::read(jwt, &[ALGORITHM])?;
        let key_id = token.key_id().ok_or(Fault::UnknownKey)?.to_owned();
        let now = host.clock().now();
        // A check of times and audience costs no request, unlike the issuer's name.
        let own = Expected { audience: &settings.resource, ..Expected::default() };
        token.unproven().check(now, &own)?;
        let provider = settings.provider(host, deadline.min(now.saturating_add(FETCH)));
        let discovery = Discovery::of(&provider, settings)?;
        let expected = Expected { issuer: &discovery.issuer, audience: &settings.resource };
        // Before a key is looked for, so that the tokens of others cost their issuer nothing.
        token.unproven().check(now, &expected)?;
        let set = format!("{} {}", settings.config.writes, discovery.jwks_uri);
        let key = issuer_keys::find(host, &set, &key_id, || discovery.fetch_keys(&provider))?;
        let claims = token.prove(host, &key.ok_or(Fault::UnknownKey)?)?;
        claims.check(now, &expected)?;
        Self::read(&claims, settings)
    }

    fn read(claims: &Claims, settings: &Settings) -> Result<Self, Failure> {
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

    /// The resources that it is of. To be asked where that matters: the claims of others may have
    /// other shapes.
    ///
    /// # Errors
    /// Invalid request for claims that are no ids of resources in a group.
    pub(crate) fn ids(&self) -> Result<Ids, Failure> {
        let read = |name: &str, claim: &Option<String>| {
            let Some(claim) = claim else { return Ok(None) };
            ArmId::parse(claim).map(Some).ok_or_else(|| {
                let claim = quoted(claim);
                Failure::invalid(format!("the token's {name} {claim} is no id of a resource"))
            })
        };
        let machine = read("xms_az_rid", &self.machine_claim)?;
        let managed = read("xms_mirid", &self.identity_claim)?;
        Ok(match managed {
            Some(identity) if identity.kind() == IDENTITY => {
                Ids { resource: machine, identity: Some(identity) }
            }
            managed => Ids { resource: machine.or(managed), identity: None },
        })
    }
}

impl Discovery {
    /// What the tenant's issuer says of itself; it may speak of its own tenant and server alone.
    fn of(provider: &Provider<'_>, settings: &Settings) -> Result<Self, Failure> {
        let authority = settings.cloud.authority;
        let (writes, tenant) = (settings.config.writes, settings.tenant.to_ascii_lowercase());
        let key = format!("issuer/{writes}/{authority}/{tenant}");
        let made = provider.host().cache().get_or_make(&key, DISCOVERY, || {
            let url = Url::of(authority).path(&[
                settings.tenant.as_str(),
                ".well-known",
                "openid-configuration",
            ])?;
            let asked = provider.json::<Self>(&Request::get(url.text()));
            let found = asked.map_err(|why| why.about("learn who issues the tenant's tokens"))?;
            found.check(settings)?;
            serde_json::to_vec(&found)
                .map_err(|_| Failure::internal("an issuer's description cannot be written"))
        })?;
        serde_json::from_slice(&made)
            .map_err(|_| Failure::internal("a kept description of an issuer does not parse"))
    }

    fn check(&self, settings: &Settings) -> Result<(), Failure> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/?=&".contains(&byte);
        let path = self.jwks_uri.strip_prefix(settings.cloud.authority);
        let is_own = path.is_some_and(|path| path.starts_with('/') && path.bytes().all(is_plain));
        if !is_own || self.jwks_uri.len() > LONGEST || self.issuer.is_empty() {
            return Err(nonsense("its keys are not on its own server, or it names no issuer"));
        }
        let is_of_tenant =
            self.issuer.split('/').any(|part| part.eq_ignore_ascii_case(&settings.tenant));
        match is_guid(&settings.tenant) && !is_of_tenant {
            true => Err(nonsense("the issuer is another tenant's than the configured one")),
            false => Ok(()),
        }
    }

    fn fetch_keys(&self, provider: &Provider<'_>) -> Result<Fetched, Failure> {
        let answer = provider.ask(&Request::get(&self.jwks_uri));
        let answer = answer.map_err(|why| why.about("fetch the keys of the token's issuer"))?;
        let set = KeySet::read(&answer.body).map_err(|why| nonsense(&why.to_string()))?;
        let lifetime = issuer_keys::lifetime(&answer);
        Ok(Fetched { keys: set.by_id(ALGORITHM), lifetime })
    }
}

/// A claim that may be absent, and is otherwise a text.
fn text(all: &Map<String, Value>, name: &str) -> Result<Option<String>, Failure> {
    match all.get(name) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= LONGEST => Ok(Some(text.clone())),
        Some(_) => Err(Failure::invalid(format!("the token's {name} is no text, or a long one"))),
    }
}

/// A claim that may be absent or empty, and is otherwise the id of a resource.
fn id(all: &Map<String, Value>, name: &str) -> Result<Option<String>, Failure> {
    match all.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(Failure::invalid(format!("the token's {name} is no text"))),
    }
}

fn groups(all: &Map<String, Value>) -> Result<Vec<String>, Failure> {
    let wrong = || Failure::invalid("the token's groups are no list of texts");
    let Some(claim) = all.get("groups") else { return Ok(Vec::new()) };
    let named = claim.as_array().ok_or_else(wrong)?;
    let named = named.iter().map(|group| group.as_str().ok_or_else(wrong));
    let named: Vec<&str> = named.collect::<Result<_, _>>()?;
    Ok(named.into_iter().filter(|group| !group.is_empty()).map(str::to_owned).collect())
}

/// Whether the provider left the groups out, because they are too many.
fn has_more_groups(all: &Map<String, Value>) -> bool {
    let is_elsewhere = all.get("_claim_names").and_then(|names| names.get("groups")).is_some();
    let is_said = |said: &Value| !matches!(said, Value::Bool(false) | Value::Null);
    is_elsewhere || all.get("hasgroups").is_some_and(is_said)
}

#[cfg(test)]
mod tests;
