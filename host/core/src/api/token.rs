//! `auth/token`: child tokens, and what a token may ask about itself.

use super::{Body, HostCall, Reply, timestamp};
use crate::core::Core;
use crate::policies::{self, DEFAULT, RESPONSE_WRAPPING, ROOT, stored};
use crate::tokens::{self, Caller, NewToken, TokenRecord};
use bulkhead_store::Unit;
use bulkhead_wire::envelope::Auth;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::secret::Secret;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of features that this version lacks.
const UNAVAILABLE: [&str; 7] = ["type", "id", "no_parent", "num_uses", "period", "entity_alias", "bound_cidrs"];

/// Longest display name, in bytes.
const LONGEST_NAME: usize = 256;

/// `POST auth/token/create`.
pub(super) async fn create(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    refuse_unavailable(call)?;
    let (policies, mut warnings) = policies_of_child(unit, call).await?;
    let new = NewToken {
        policies,
        display_name: display_name(call.text("display_name"))?,
        meta: meta(call),
        path: call.request.path.clone(),
        ttl: call.number("ttl"),
        explicit_max_ttl: call.number("explicit_max_ttl"),
        renewable: call.flag("renewable", true),
    };
    let (token, record, warning) = tokens::create(&core.store, unit, call.caller, new, core.lifetimes)?;
    warnings.extend(warning);
    Ok(Reply { warnings, ..Reply::from(Body::Auth(Box::new(auth(token, &record, core)))) })
}

/// Parameters of features that this version lacks are refused: ignoring a restriction would widen access.
fn refuse_unavailable(call: &HostCall<'_>) -> Result<(), Failure> {
    let used = |name: &str| match call.values.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty() && !(name == "type" && (text == "service" || text == "default")),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(value) => value.as_i64() != Some(0),
    };
    match UNAVAILABLE.into_iter().find(|name| used(name)) {
        Some(name) => Err(Failure::invalid(format!(
            "{name} was given, which this version does not have: it makes service tokens that are children of the caller"
        ))),
        None => Ok(()),
    }
}

/// The child's policies: what is asked and the parent has, or the parent's own.
async fn policies_of_child(unit: &mut Unit, call: &HostCall<'_>) -> Result<(Vec<String>, Vec<String>), Failure> {
    let parent = &call.caller.record;
    let mut asked = BTreeSet::new();
    for name in call.list("policies") {
        asked.insert(policies::canonical_name(&name).map_err(Failure::invalid)?);
    }
    if asked.is_empty() {
        asked.extend(parent.policies.iter().cloned());
    }
    if let Some(name) = asked.iter().find(|name| !parent.is_root() && !parent.policies.contains(name)) {
        return Err(Failure::invalid(format!(
            "child policies must be subset of parent: this token does not have policy {}",
            quoted(name)
        )));
    }
    if asked.contains(RESPONSE_WRAPPING) || (asked.contains(ROOT) && asked.len() > 1) {
        return Err(Failure::invalid(
            "root cannot be combined with other policies, and response-wrapping not be given out",
        ));
    }
    let may_have_default = parent.is_root() || parent.policies.iter().any(|name| name == DEFAULT);
    if call.flag("no_default_policy", false) {
        asked.remove(DEFAULT);
    } else if may_have_default && !asked.contains(ROOT) {
        asked.insert(DEFAULT.to_owned());
    }
    let mut warnings = Vec::new();
    for name in &asked {
        if name != ROOT && stored::text(unit, name).await?.is_none() {
            warnings.push(format!("Policy {} does not exist", quoted(name)));
        }
    }
    Ok((asked.into_iter().collect(), warnings))
}

/// `token`, or `token-` and the asked name with everything else than letters, digits and dashes replaced.
fn display_name(asked: &str) -> Result<String, Failure> {
    if asked.len() > LONGEST_NAME {
        return Err(Failure::invalid(format!("display_name has {} bytes; use at most {LONGEST_NAME}", asked.len())));
    }
    if asked.is_empty() {
        return Ok("token".to_owned());
    }
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    Ok(format!("token-{}", asked.chars().map(safe).collect::<String>()))
}

fn meta(call: &HostCall<'_>) -> BTreeMap<String, String> {
    let pairs = call.values.get("meta").and_then(Value::as_object).into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

fn auth(token: Secret, record: &TokenRecord, core: &Core) -> Auth {
    Auth {
        client_token: token,
        accessor: record.accessor.clone(),
        policies: record.policies.clone(),
        token_policies: record.policies.clone(),
        identity_policies: Vec::new(),
        metadata: (!record.meta.is_empty()).then(|| record.meta.clone()),
        lease_duration: record.left(core.store.now() / 1000).unwrap_or_default(),
        renewable: record.renewable,
        entity_id: String::new(),
        token_type: "service".to_owned(),
        orphan: record.parent.is_none(),
        num_uses: 0,
    }
}

/// `auth/token/lookup-self`.
pub(super) fn lookup_self(core: &Core, call: &HostCall<'_>) -> Reply {
    let token = call.request.token.as_ref().map(Secret::expose).unwrap_or_default();
    Body::Data(shown(core, token, &call.caller.record)).into()
}

/// `POST auth/token/lookup`.
pub(super) async fn lookup(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let (_, caller) = named(core, unit, call).await?;
    Ok(Body::Data(shown(core, call.text("token"), &caller.record)).into())
}

/// `POST auth/token/renew-self`.
pub(super) fn renew_self(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let token = call.request.token.clone().unwrap_or_else(|| Secret::new(""));
    renewed(core, unit, call, token, call.caller)
}

/// `POST auth/token/renew`.
pub(super) async fn renew(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let (token, caller) = named(core, unit, call).await?;
    renewed(core, unit, call, token, &caller)
}

fn renewed(core: &Core, unit: &mut Unit, call: &HostCall<'_>, token: Secret, of: &Caller) -> Result<Reply, Failure> {
    let (record, warning) = tokens::renew(&core.store, unit, of, call.number("increment"), core.lifetimes)?;
    let body = Body::Auth(Box::new(auth(token, &record, core)));
    Ok(Reply { warnings: warning.into_iter().collect(), ..Reply::from(body) })
}

/// `POST auth/token/revoke-self`.
pub(super) fn revoke_self(unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    tokens::end(unit, &call.caller.hash, call.caller.record.clone())?;
    Ok(Body::Nothing.into())
}

/// `POST auth/token/revoke`. A token that does not exist is revoked already.
pub(super) async fn revoke(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let hash = tokens::hash(&core.store, &Secret::new(call.text("token")));
    if let Some(record) = tokens::read(unit, &hash).await? {
        tokens::end(unit, &hash, record)?;
    }
    Ok(Body::Nothing.into())
}

/// The token that the body names.
async fn named(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<(Secret, Caller), Failure> {
    let token = Secret::new(call.text("token"));
    let hash = tokens::hash(&core.store, &token);
    match tokens::read(unit, &hash).await? {
        Some(record) if tokens::holds(&record, core.store.now()) => Ok((token, Caller { hash, record })),
        _ => Err(Failure::denied("bad token: the token in the body is unknown, expired or revoked")),
    }
}

/// The shape of `spec/core.md` §2.4.
fn shown(core: &Core, token: &str, record: &TokenRecord) -> Map<String, Value> {
    let left = record.left(core.store.now() / 1000);
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| data.insert(name.to_owned(), value);
    put("id", json!(token));
    put("accessor", json!(record.accessor));
    put("policies", json!(record.policies));
    put("path", json!(record.path));
    put("meta", if record.meta.is_empty() { Value::Null } else { json!(record.meta) });
    put("display_name", json!(record.display_name));
    put("num_uses", json!(0));
    put("orphan", json!(record.parent.is_none()));
    put("creation_time", json!(record.issued));
    put("creation_ttl", json!(record.creation_ttl));
    put("explicit_max_ttl", json!(record.explicit_max_ttl));
    put("expire_time", record.expires.map_or(Value::Null, timestamp));
    put("ttl", json!(left.unwrap_or_default()));
    put("renewable", json!(record.renewable));
    put("entity_id", json!(""));
    put("type", json!("service"));
    if record.expires.is_some() {
        put("issue_time", timestamp(record.issued));
    }
    if let Some(renewed) = record.last_renewal {
        put("last_renewal", timestamp(renewed));
        put("last_renewal_time", json!(renewed));
    }
    data
}
