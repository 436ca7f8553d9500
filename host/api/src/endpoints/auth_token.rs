//! `auth/token`: lookup, renewal, revocation, listing and tidying of tokens. A token is named by
//! its text, by its accessor, or by making the call.

use super::after_commit::AfterCommit;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, list, read, required, write};
use bulkhead_access::identity::{self, EntityContext};
use bulkhead_access::paging::{Paging, SortedNames};
use bulkhead_access::timestamp::timestamp;
use bulkhead_access::tokens::{self, Caller, TokenEnding, TokenRecord, TokenType};
use bulkhead_core::lifecycle;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::envelope::AuthBlock;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::secret::Secret;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The error for a token that does not hold.
const UNKNOWN_TOKEN: &str = "bad token: the token in the body is unknown, expired or revoked";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let token = || required("token", FieldKind::String, "the token in question").secret();
    let perhaps =
        || field("token", FieldKind::String, "the token; the calling token if left out").secret();
    let accessor = || required("accessor", FieldKind::String, "accessor of the token in question");
    let increment =
        || field("increment", FieldKind::Duration, "requested lifetime, in seconds from now");
    vec![
        read("auth/token/lookup-self", "the calling token").handled_by(lookup_self),
        write("auth/token/lookup-self", "the calling token").handled_by(lookup_self),
        read("auth/token/lookup", "the calling token").handled_by(lookup_self),
        write("auth/token/lookup", "a token").fields([perhaps()]).handled_by(lookup),
        write("auth/token/lookup-accessor", "a token")
            .fields([accessor()])
            .handled_by(lookup_accessor),
        write("auth/token/renew-self", "renew the calling token")
            .fields([increment()])
            .handled_by(renew_self),
        write("auth/token/renew", "renew a token").fields([token(), increment()]).handled_by(renew),
        write("auth/token/renew-accessor", "renew a token")
            .fields([accessor(), increment()])
            .handled_by(renew_accessor),
        write("auth/token/revoke-self", "end the calling token").handled_by(revoke_self),
        write("auth/token/revoke", "end a token and all child tokens")
            .fields([token()])
            .handled_by(revoke),
        write("auth/token/revoke-accessor", "end a token and all child tokens")
            .fields([accessor()])
            .handled_by(revoke_accessor),
        write("auth/token/revoke-orphan", "end a token, and leave the child tokens as orphans")
            .needs_sudo()
            .fields([token()])
            .handled_by(revoke_orphan),
        list("auth/token/accessors", "accessors of all tokens")
            .needs_sudo()
            .fields([
                field("after", FieldKind::String, "list only accessors after this accessor"),
                field("limit", FieldKind::String, "maximum number of entries"),
            ])
            .handled_by(list_accessors),
        write("auth/token/tidy", "find and end overdue tokens").handled_by(tidy),
    ]
}

/// A token that a request names.
pub(super) struct NamedToken {
    /// Text of the token; empty if the request named the token by its accessor.
    text: Secret,
    pub(super) token: Caller,
}

/// Returns the calling token.
fn calling_token(call: &PermittedCall<'_>) -> NamedToken {
    NamedToken {
        text: call.request.token.clone().unwrap_or_else(|| Secret::new("")),
        token: call.caller.clone(),
    }
}

/// Returns the token that the body names. The calling token is found even without uses left.
pub(super) async fn by_token(call: &mut PermittedCall<'_>) -> Result<NamedToken, Failure> {
    let text = Secret::new(call.fields.text("token"));
    if call.request.token.as_ref() == Some(&text) {
        return Ok(calling_token(call));
    }
    match tokens::by_token(&call.core.store, call.unit, &text).await? {
        Some(token) => Ok(NamedToken { text, token }),
        None => Err(Failure::invalid(UNKNOWN_TOKEN)),
    }
}

/// Returns the token of the accessor in the body.
async fn by_accessor(call: &mut PermittedCall<'_>) -> Result<NamedToken, Failure> {
    let accessor = call.fields.text("accessor");
    match tokens::by_accessor(&call.core.store, call.unit, accessor).await? {
        Some(token) => Ok(NamedToken { text: Secret::new(""), token }),
        None => Err(Failure::invalid(
            "invalid accessor: there is no token with the accessor in the body; the token may have \
             ended",
        )),
    }
}

/// `POST auth/token/lookup`. Without `token`, looks up the calling token.
async fn lookup(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    if call.fields.text("token").is_empty() {
        let named = calling_token(&call);
        return show(call, named).await;
    }
    // Clients of this API recognise an ended token by the status of the lookup.
    let named = by_token(&mut call).await.map_err(|failure| match failure.kind {
        FailureKind::InvalidRequest => Failure::denied(failure.message),
        _ => failure,
    })?;
    show(call, named).await
}

/// `GET` and `POST auth/token/lookup-self`, `GET auth/token/lookup`.
async fn lookup_self(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let named = calling_token(&call);
    show(call, named).await
}

/// `POST auth/token/lookup-accessor`.
async fn lookup_accessor(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let named = by_accessor(&mut call).await?;
    show(call, named).await
}

/// `POST auth/token/renew`.
async fn renew(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let named = by_token(&mut call).await?;
    renew_named(call, named).await
}

/// `POST auth/token/renew-self`.
async fn renew_self(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let named = calling_token(&call);
    renew_named(call, named).await
}

/// `POST auth/token/renew-accessor`.
async fn renew_accessor(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let named = by_accessor(&mut call).await?;
    renew_named(call, named).await
}

async fn renew_named(call: PermittedCall<'_>, named: NamedToken) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let NamedToken { text, mut token } = named;
    let increment = fields.seconds("increment");
    let (record, warning) = match token.record.login.clone() {
        Some(login) => {
            let renewed = lifecycle::renew_login(core, &token, &login, increment).await?;
            // The renewal committed a separate unit, with the auth method's writes. The reads of
            // this unit are older.
            *unit = core.store.begin();
            renewed
        }
        None => core.tokens.renew(unit, &token, increment, core.token_lifetimes()).await?,
    };
    token.record = Arc::new(record);
    let entity_context = tokens::read_token_context(unit, &token.record).await?;
    let body = ReplyBody::Auth(Box::new(auth(text, &token, &entity_context)));
    let count = AfterCommit::CountTokenRenewal;
    Ok(Reply::from(body).with_warnings(warning).after_commit(count))
}

/// `POST auth/token/revoke`.
async fn revoke(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    revoke_named(call, TokenEnding::WithChildren).await
}

/// `POST auth/token/revoke-orphan`.
async fn revoke_orphan(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    revoke_named(call, TokenEnding::Alone).await
}

/// `POST auth/token/revoke-self`.
async fn revoke_self(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    begin_end(call.unit, call.caller, TokenEnding::WithChildren)
}

/// Ends the token that the body names. A missing token counts as revoked, except where the children
/// are to stay: only an existing token can have children. An ending token is ended again, because
/// this answer, too, promises that all children of the token are refused.
async fn revoke_named(call: PermittedCall<'_>, ending: TokenEnding) -> Result<Reply, Failure> {
    let text = Secret::new(call.fields.text("token"));
    match tokens::find(&call.core.store, call.unit, &text).await? {
        Some(token) => begin_end(call.unit, &token, ending),
        None if ending == TokenEnding::Alone => Err(Failure::invalid(UNKNOWN_TOKEN)),
        None => Ok(ReplyBody::Nothing.into()),
    }
}

/// `POST auth/token/revoke-accessor`.
async fn revoke_accessor(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let accessor = call.fields.text("accessor");
    match tokens::find_by_accessor(&call.core.store, call.unit, accessor).await? {
        Some(token) => begin_end(call.unit, &token, TokenEnding::WithChildren),
        None => {
            let warning = "no token has this accessor; the token may have ended already";
            Ok(Reply::from(ReplyBody::Nothing).with_warnings([warning.to_owned()]))
        }
    }
}

fn begin_end(unit: &mut Unit, token: &Caller, ending: TokenEnding) -> Result<Reply, Failure> {
    if token.kind == TokenType::Batch {
        return Err(Failure::invalid(
            "batch tokens cannot be revoked: a batch token ends with the ttl or with the parent \
             token",
        ));
    }
    tokens::begin_end(unit, &token.hash, &token.record, ending)?;
    let ending = AfterCommit::SpreadTokenEnd(token.hash.clone());
    Ok(Reply::from(ReplyBody::Nothing).after_commit(ending))
}

/// `LIST auth/token/accessors`. Reads page by page, each page as of its own moment, because tokens
/// come and go meanwhile.
async fn list_accessors(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let core = call.core;
    let paging = Paging::of(call.fields.all())?;
    let (mut names, mut unreadable) = (SortedNames::new(&core.listings, paging), 0_u32);
    let mut scan = core.store.scan(Space::Token, "");
    while let Some(page) = scan.page().await? {
        for Address { key, .. } in &page {
            match tokens::read(&mut core.store.begin(), key).await {
                Ok(Some(record)) if record.is_valid_at(core.store.now()) => {
                    names.add(record.accessor.clone()).await?
                }
                Ok(_) => {}
                Err(failure) if failure.kind == FailureKind::Internal => unreadable += 1,
                Err(failure) => return Err(failure),
            }
        }
    }
    let listing = names.end().ok_or_else(Failure::absent)?;
    let warning = format!("{unreadable} tokens are left out, because their records cannot be read");
    Ok(Reply::from(ReplyBody::Listed(listing)).with_warnings((unreadable > 0).then_some(warning)))
}

/// `POST auth/token/tidy`.
async fn tidy(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let (body, warning) = if call.core.tokens.begin_tidy() {
        let about = "the search for overdue tokens has started: tokens past their end, marked as \
                     ended, or left without their parent are ended; the server's log says how many";
        (ReplyBody::Accepted, about)
    } else {
        (ReplyBody::Nothing, "Tidy operation already in progress.")
    };
    Ok(Reply::from(body).with_warnings([warning.to_owned()]))
}

/// Describes a token handed out or renewed, with the policies of the entity from `entity_context`.
pub(crate) fn auth(text: Secret, token: &Caller, entity_context: &EntityContext) -> AuthBlock {
    let record = &token.record;
    AuthBlock {
        client_token: text,
        accessor: record.accessor.clone(),
        policies: entity_context.policies_with(&record.policies),
        token_policies: record.policies.clone(),
        identity_policies: entity_context.policies(),
        metadata: (!record.meta.is_empty()).then(|| record.meta.clone()),
        lease_duration: record.granted_ttl(),
        renewable: record.renewable,
        entity_id: record.entity_id.clone(),
        token_type: token.kind.word().to_owned(),
        orphan: record.parent.is_none(),
        num_uses: record.uses_left.unwrap_or_default(),
    }
}

/// Shows a token in the shape of decision H8. Period and explicit maximum are the effective values:
/// the role's value where that is shorter.
async fn show(call: PermittedCall<'_>, named: NamedToken) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, .. } = call;
    let NamedToken { text, token } = named;
    let role = tokens::roles::of_token(unit, &token.record).await?;
    let bounds = tokens::bounds(&token.record, role.as_ref(), core.token_lifetimes());
    let mut data = describe(&text, &token, core.store.now());
    data.insert("explicit_max_ttl".to_owned(), json!(bounds.explicit_max));
    if bounds.period > 0 {
        data.insert("period".to_owned(), json!(bounds.period));
    }
    if identity::is_in_force(unit, &token.record.entity_id).await? {
        let entity_context = tokens::read_token_context(unit, &token.record).await?;
        if !entity_context.is_empty() {
            data.insert("identity_policies".to_owned(), json!(entity_context.policies()));
        }
    }
    Ok(ReplyBody::Data(data).into())
}

fn describe(text: &Secret, token: &Caller, now_ms: u64) -> Map<String, Value> {
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
    put("ttl", json!(record.remaining_seconds(now_ms).unwrap_or_default()));
    put("renewable", json!(record.renewable));
    put("entity_id", json!(record.entity_id));
    put("type", json!(token.kind.word()));
    put("issue_time", timestamp(record.issued));
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
