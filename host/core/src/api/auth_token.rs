//! `auth/token`: what may be asked of tokens that exist, named by themselves, by their accessor, or
//! by calling.

use super::row::{field, required, row, sudo};
use super::{Body, Handler, HostCall, Reply, Then, timestamp};
use crate::core::Core;
use crate::tokens::{self, Caller, Ending, TokenRecord, TokenType};
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::description::{FieldKind, Route, Verb};
use bulkhead_wire::envelope::Auth;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::secret::Secret;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Lookup,
    LookupSelf,
    LookupAccessor,
    Renew,
    RenewSelf,
    RenewAccessor,
    Revoke,
    RevokeSelf,
    RevokeAccessor,
    RevokeOrphan,
    Accessors,
    Tidy,
}

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let token = || required("token", FieldKind::String, "the token in question").secret();
    let perhaps = || {
        field("token", FieldKind::String, "the token in question; the calling token without it")
            .secret()
    };
    let accessor = || required("accessor", FieldKind::String, "accessor of the token in question");
    let increment =
        || field("increment", FieldKind::Duration, "seconds from now that are asked for");
    let own = |verb, path, about| row(verb, path, about, vec![]);
    let by = |path, about, fields| row(Verb::Write, path, about, fields);
    let alone = "end a token, and leave its children as orphans";
    let rows = vec![
        (Act::LookupSelf, own(Verb::Read, "auth/token/lookup-self", "the calling token")),
        (Act::LookupSelf, own(Verb::Write, "auth/token/lookup-self", "the calling token")),
        (Act::LookupSelf, own(Verb::Read, "auth/token/lookup", "the calling token")),
        (Act::Lookup, row(Verb::Write, "auth/token/lookup", "a token", vec![perhaps()])),
        (
            Act::LookupAccessor,
            row(Verb::Write, "auth/token/lookup-accessor", "a token", vec![accessor()]),
        ),
        (
            Act::RenewSelf,
            row(Verb::Write, "auth/token/renew-self", "renew the calling token", vec![increment()]),
        ),
        (
            Act::Renew,
            row(Verb::Write, "auth/token/renew", "renew a token", vec![token(), increment()]),
        ),
        (
            Act::RenewAccessor,
            by("auth/token/renew-accessor", "renew a token", vec![accessor(), increment()]),
        ),
        (Act::RevokeSelf, own(Verb::Write, "auth/token/revoke-self", "end the calling token")),
        (
            Act::Revoke,
            row(Verb::Write, "auth/token/revoke", "end a token and its children", vec![token()]),
        ),
        (
            Act::RevokeAccessor,
            by("auth/token/revoke-accessor", "end a token and its children", vec![accessor()]),
        ),
        (Act::RevokeOrphan, sudo(Verb::Write, "auth/token/revoke-orphan", alone, vec![token()])),
        (
            Act::Accessors,
            sudo(Verb::List, "auth/token/accessors", "accessors of all tokens", vec![]),
        ),
        (
            Act::Tidy,
            row(Verb::Write, "auth/token/tidy", "look for tokens whose end was lost", vec![]),
        ),
    ];
    rows.into_iter().map(|(act, route)| (Handler::Token(act), route)).collect()
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Arc<Core>,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match act {
        Act::Lookup => lookup(core, unit, call).await,
        Act::LookupSelf => shown(core, unit, calling(call)).await,
        Act::LookupAccessor => {
            let named = by_accessor(core, unit, call).await?;
            shown(core, unit, named).await
        }
        Act::Renew => {
            let named = by_token(core, unit, call).await?;
            renewed(core, unit, call, named).await
        }
        Act::RenewSelf => renewed(core, unit, call, calling(call)).await,
        Act::RenewAccessor => {
            let named = by_accessor(core, unit, call).await?;
            renewed(core, unit, call, named).await
        }
        Act::Revoke => revoke(core, unit, call, Ending::WithChildren).await,
        Act::RevokeSelf => revoked(unit, call.caller, Ending::WithChildren),
        Act::RevokeAccessor => revoke_accessor(core, unit, call).await,
        Act::RevokeOrphan => revoke(core, unit, call, Ending::Alone).await,
        Act::Accessors => accessors(core).await,
        Act::Tidy => Ok(tidy(core)),
    }
}

/// A token in question.
pub(super) struct Named {
    /// Its text, if the request knows it; empty where it was named by its accessor.
    text: Secret,
    pub(super) token: Caller,
}

/// The calling token.
fn calling(call: &HostCall<'_>) -> Named {
    Named {
        text: call.request.token.clone().unwrap_or_else(|| Secret::new("")),
        token: call.caller.clone(),
    }
}

/// The token that the body names. The calling token is found also while it has no more uses.
pub(super) async fn by_token(
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Named, Failure> {
    let text = Secret::new(call.text("token"));
    if call.request.token.as_ref() == Some(&text) {
        return Ok(calling(call));
    }
    match tokens::by_token(&core.store, unit, &text).await? {
        Some(token) => Ok(Named { text, token }),
        None => {
            Err(Failure::denied("bad token: the token in the body is unknown, expired or revoked"))
        }
    }
}

/// The token whose accessor the body names.
async fn by_accessor(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Named, Failure> {
    match tokens::by_accessor(&core.store, unit, call.text("accessor")).await? {
        Some(token) => Ok(Named { text: Secret::new(""), token }),
        None => Err(Failure::invalid(
            "invalid accessor: there is no token with the accessor in the body; it may have ended",
        )),
    }
}

/// `POST auth/token/lookup`: without a token, about the caller.
pub(super) async fn lookup(
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    let named = if call.text("token").is_empty() {
        calling(call)
    } else {
        by_token(core, unit, call).await?
    };
    shown(core, unit, named).await
}

async fn renewed(
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
    named: Named,
) -> Result<Reply, Failure> {
    let Named { text, mut token } = named;
    let (record, warning) = tokens::renew(core, unit, &token, call.number("increment")).await?;
    token.record = Arc::new(record);
    let body = Body::Auth(Box::new(auth(core, text, &token)));
    Ok(Reply { warnings: warning.into_iter().collect(), ..Reply::from(body) })
}

/// `POST auth/token/revoke` and `revoke-orphan`. A token that does not exist is revoked already;
/// one that is ending is ended again, because this answer, too, says that all its children are
/// refused.
pub(super) async fn revoke(
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
    ending: Ending,
) -> Result<Reply, Failure> {
    match tokens::find(&core.store, unit, &Secret::new(call.text("token"))).await? {
        Some(token) => revoked(unit, &token, ending),
        None => Ok(Body::Nothing.into()),
    }
}

/// `POST auth/token/revoke-accessor`.
pub(super) async fn revoke_accessor(
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match tokens::find_by_accessor(&core.store, unit, call.text("accessor")).await? {
        Some(token) => revoked(unit, &token, Ending::WithChildren),
        None => {
            let warnings =
                vec!["no token has this accessor; if one had, it has ended already".to_owned()];
            Ok(Reply { warnings, ..Reply::from(Body::Nothing) })
        }
    }
}

fn revoked(unit: &mut Unit, token: &Caller, ending: Ending) -> Result<Reply, Failure> {
    if token.kind == TokenType::Batch {
        return Err(Failure::invalid(
            "batch tokens cannot be revoked: this one ends with its ttl or with the token that made it",
        ));
    }
    tokens::begin_end(unit, &token.hash, &token.record, ending)?;
    Ok(Reply { then: Then::TokenEnding(token.hash.clone()), ..Reply::from(Body::Nothing) })
}

/// `LIST auth/token/accessors`. Read page by page, each as it is at that moment: tokens come and go
/// meanwhile.
pub(super) async fn accessors(core: &Core) -> Result<Reply, Failure> {
    let (mut keys, mut unreadable) = (Vec::new(), 0_u32);
    let mut scan = core.store.scan(Space::Token, "");
    while let Some(page) = scan.page().await? {
        for Address { key, .. } in &page {
            match tokens::read(&mut core.store.begin(), key).await {
                Ok(Some(record)) if record.holds(core.store.now()) => {
                    keys.push(record.accessor.clone())
                }
                Ok(_) => {}
                Err(failure) if failure.kind == Kind::Internal => unreadable += 1,
                Err(failure) => return Err(failure),
            }
        }
    }
    if keys.is_empty() {
        return Err(Failure::absent());
    }
    keys.sort_unstable();
    let warning =
        format!("{unreadable} tokens are left out, because what is stored of them cannot be read");
    let warnings = (unreadable > 0).then_some(warning).into_iter().collect();
    let data = Map::from_iter([("keys".to_owned(), json!(keys))]);
    Ok(Reply { warnings, ..Reply::from(Body::Data(data)) })
}

/// `POST auth/token/tidy`.
pub(super) fn tidy(core: &Arc<Core>) -> Reply {
    let (body, warning) = if tokens::tidy::begin(core) {
        let about = "looking for tokens whose end was lost has begun: tokens past their end, marked as ended, or left \
                     without their parent are ended; the server's log says how many";
        (Body::Begun, about)
    } else {
        (Body::Nothing, "Tidy operation already in progress.")
    };
    Reply { warnings: vec![warning.to_owned()], ..Reply::from(body) }
}

/// A token as it is handed out or renewed.
pub(super) fn auth(core: &Core, text: Secret, token: &Caller) -> Auth {
    let record = &token.record;
    Auth {
        client_token: text,
        accessor: record.accessor.clone(),
        policies: record.policies.clone(),
        token_policies: record.policies.clone(),
        identity_policies: Vec::new(),
        metadata: (!record.meta.is_empty()).then(|| record.meta.clone()),
        lease_duration: record.left(core.store.now() / 1000).unwrap_or_default(),
        renewable: record.renewable,
        entity_id: record.entity_id.clone(),
        token_type: token.kind.word().to_owned(),
        orphan: record.parent.is_none(),
        num_uses: record.uses_left.unwrap_or_default(),
    }
}

/// The shape of decision H8. Period and explicit maximum are those that count: the role's,
/// where it is shorter.
async fn shown(core: &Core, unit: &mut Unit, named: Named) -> Result<Reply, Failure> {
    let Named { text, token } = named;
    let role = tokens::roles::of_token(unit, &token.record).await?;
    let bounds = tokens::bounds(&token.record, role.as_ref(), core.token_lifetimes());
    let mut data = described(&text, &token, core.store.now() / 1000);
    data.insert("explicit_max_ttl".to_owned(), json!(bounds.explicit_max));
    if bounds.period > 0 {
        data.insert("period".to_owned(), json!(bounds.period));
    }
    Ok(Body::Data(data).into())
}

fn described(text: &Secret, token: &Caller, now: u64) -> Map<String, Value> {
    let TokenRecord { accessor, policies, path, meta, display_name, role, bound_cidrs, .. } =
        &*token.record;
    let record = &token.record;
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| data.insert(name.to_owned(), value);
    put("id", json!(text.expose()));
    put("accessor", json!(accessor));
    put("policies", json!(policies));
    put("path", json!(path));
    put("meta", if meta.is_empty() { Value::Null } else { json!(meta) });
    put("display_name", json!(display_name));
    put("num_uses", json!(record.uses_left.unwrap_or_default()));
    put("orphan", json!(record.parent.is_none()));
    put("creation_time", json!(record.issued));
    put("creation_ttl", json!(record.creation_ttl));
    put("expire_time", record.expires.map_or(Value::Null, timestamp));
    put("ttl", json!(record.left(now).unwrap_or_default()));
    put("renewable", json!(record.renewable));
    put("entity_id", json!(record.entity_id));
    put("type", json!(token.kind.word()));
    if record.expires.is_some() && token.kind == TokenType::Service {
        put("issue_time", timestamp(record.issued));
    }
    if let Some(renewed) = record.last_renewal {
        put("last_renewal", timestamp(renewed));
        put("last_renewal_time", json!(renewed));
    }
    if !role.is_empty() {
        put("role", json!(role));
    }
    if !bound_cidrs.is_empty() {
        put("bound_cidrs", json!(bound_cidrs));
    }
    data
}
