//! Turns a component's answer into the response: lease or token, commit, envelope.

use super::permitted_request::PermittedRequest;
use crate::endpoints::{self, respond_enveloped};
use bulkhead_access::quotas::LeaseSlot;
use bulkhead_access::tokens::{self, TokenType};
use bulkhead_core::leases::{self, LeaseContext, LeaseReservation};
use bulkhead_core::logins::{self, LoginOrigin, LoginToken, ProvenLogin};
use bulkhead_core::mounts::Mount;
use bulkhead_sandbox::contract::{AnswerPayload, ComponentAnswer, Login, RawAnswer, Secret};
use bulkhead_store::Unit;
use bulkhead_wire::description::{Operation, Verb};
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::json;
use bulkhead_wire::response::{Response, ResponseBody};
use bulkhead_wire::ttl::{self, TtlBounds};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Builds the response and commits the unit with the host's part, in this order: an answer that
/// cannot leave commits nothing.
pub(super) async fn commit(
    permitted: &PermittedRequest<'_>,
    mount: &Arc<Mount>,
    unit: Unit,
    answered: ComponentAnswer,
    reserved: &[LeaseReservation],
    deadline: u64,
) -> Result<Response, Failure> {
    let mut warnings = permitted.warn_of_unread();
    warnings.extend(answered.warnings);
    match answered.outcome {
        AnswerPayload::Data(text) => {
            let data = parse_object(mount, &text)?;
            let shape = EnvelopeFields::of(permitted, mount, &answered.ext)?;
            commit_unit(permitted, unit).await?;
            let response = respond(&permitted.request.id, mount, data, warnings);
            Ok(shape.apply(response))
        }
        AnswerPayload::Nothing => {
            commit_unit(permitted, unit).await?;
            respond_without_data(permitted, mount, warnings)
        }
        AnswerPayload::Login(login) => {
            let signed_in = Box::pin(commit_login(permitted, mount, unit, *login)).await?;
            let LoginToken { token: created, entity } = signed_in;
            warnings.extend(created.warning);
            let auth = endpoints::auth(created.token, &created.caller, &entity);
            let envelope = envelope(&permitted.request.id, mount, warnings);
            Ok(respond_enveloped(Envelope { auth: Some(auth), ..envelope }))
        }
        AnswerPayload::Raw(raw) => {
            let response = raw_response(mount, raw)?;
            commit_unit(permitted, unit).await?;
            Ok(response)
        }
        AnswerPayload::Secret(secret) => {
            let data = parse_object(mount, &secret.data)?;
            let context = LeaseContext {
                store: &permitted.core.store,
                mount,
                path: &permitted.request.path,
                caller: permitted.known_caller()?,
                deadline,
            };
            let leased = commit_with_lease(permitted, &context, unit, &secret, reserved);
            let leased = Box::pin(leased).await?;
            warnings.extend(leased.warning);
            let envelope = Envelope {
                lease_id: leased.id,
                renewable: secret.renewable,
                lease_duration: leased.ttl,
                data: Some(data),
                ..envelope(&permitted.request.id, mount, warnings)
            };
            Ok(respond_enveloped(envelope))
        }
    }
}

/// Pairs of an answer with data that change the envelope (`wit/types.wit`).
struct EnvelopeFields {
    status: u16,
    lease_duration: u64,
}

impl EnvelopeFields {
    /// Reads the pairs, and ignores unknown names.
    ///
    /// # Errors
    /// 500 for `absent` on a request other than a read, and for a duration that is not a number.
    fn of(
        permitted: &PermittedRequest<'_>,
        mount: &Mount,
        ext: &[(String, String)],
    ) -> Result<Self, Failure> {
        let mut shape = Self { status: 200, lease_duration: 0 };
        for (name, value) in ext {
            match name.as_str() {
                "absent" if matches!(permitted.request.verb, Verb::Read | Verb::Patch) => {
                    shape.status = FailureKind::NotFound.status();
                }
                "absent" => return Err(bad_answer(mount, "called a written object absent")),
                "lease-duration" => {
                    let seconds = value.parse().ok();
                    shape.lease_duration = seconds.ok_or_else(|| {
                        bad_answer(
                            mount,
                            "answered a lease duration that is not a number of seconds",
                        )
                    })?;
                }
                _ => {}
            }
        }
        Ok(shape)
    }

    fn apply(self, mut response: Response) -> Response {
        response.status = self.status;
        if let ResponseBody::Envelope(envelope) = &mut response.body {
            envelope.lease_duration = self.lease_duration;
        }
        response
    }
}

/// Returns the tag of the reservation that the answer confirms.
pub(super) fn confirmed_tag(answered: &ComponentAnswer) -> Option<&str> {
    match &answered.outcome {
        AnswerPayload::Secret(secret) => secret.tag.as_deref(),
        _ => None,
    }
}

/// A lease written with its unit.
struct WrittenLease {
    id: String,
    ttl: u64,
    warning: Option<String>,
}

/// Commits a call without a lease. If the call wrote anything, the commit also asserts that the
/// caller's token is still valid.
async fn commit_unit(permitted: &PermittedRequest<'_>, unit: Unit) -> Result<(), Failure> {
    if !unit.wrote() {
        unit.commit().await?;
        return Ok(());
    }
    let mut finish = unit.finish();
    loop {
        let unit = finish.restart_host_part();
        if let Some(caller) = permitted.caller {
            tokens::assert_valid(&permitted.core.store, unit, caller).await?;
        }
        if finish.try_commit().await? {
            return Ok(());
        }
    }
}

/// Commits a call that answered a login, with the new token.
async fn commit_login(
    permitted: &PermittedRequest<'_>,
    mount: &Mount,
    unit: Unit,
    login: Login,
) -> Result<LoginToken, Failure> {
    if !permitted.route.login {
        return Err(bad_answer(mount, "answered a login on a row that is not marked login"));
    }
    let proven = ProvenLogin::of(mount, login)?;
    // Taken after the proof, so that guesses take no place from valid logins.
    let place = place_for_a_token(permitted, mount, &proven).await?;
    let signed_in = commit_token(permitted, mount, unit, &proven).await;
    if let Some(place) = place.filter(|_| signed_in.is_err()) {
        place.give_back();
    }
    signed_in
}

/// Takes the token's place in the quotas of the auth mount. A batch token is not stored and takes
/// no place.
async fn place_for_a_token(
    permitted: &PermittedRequest<'_>,
    mount: &Mount,
    proven: &ProvenLogin,
) -> Result<Option<LeaseSlot>, Failure> {
    let core = permitted.core;
    match logins::kind_of_token(mount, proven) {
        TokenType::Batch => Ok(None),
        TokenType::Service => core.quotas.admit(&core.store, &mount.record.uuid, "").await,
    }
}

async fn commit_token(
    permitted: &PermittedRequest<'_>,
    mount: &Mount,
    unit: Unit,
    proven: &ProvenLogin,
) -> Result<LoginToken, Failure> {
    let (path, remote) = (permitted.request.path.as_str(), permitted.request.remote);
    let origin = LoginOrigin { mount, path, remote };
    let mut finish = unit.finish();
    loop {
        let unit = finish.restart_host_part();
        let signed_in = logins::sign_in(permitted.core, unit, origin, proven).await?;
        if finish.try_commit().await? {
            let created = &signed_in.token.caller;
            permitted.core.tokens.counts.of(created.kind).note_created();
            return Ok(signed_in);
        }
    }
}

/// Commits a call that answered a secret, with the lease.
async fn commit_with_lease(
    permitted: &PermittedRequest<'_>,
    context: &LeaseContext<'_>,
    unit: Unit,
    secret: &Secret,
    reserved: &[LeaseReservation],
) -> Result<WrittenLease, Failure> {
    let mut finish = unit.finish();
    loop {
        let leased =
            write_lease(permitted, context, finish.restart_host_part(), secret, reserved).await?;
        if finish.try_commit().await? {
            context.mount.lease_counts.note_created();
            return Ok(leased);
        }
    }
}

/// Writes the lease of an answered secret, if the caller's token is still valid.
async fn write_lease(
    permitted: &PermittedRequest<'_>,
    context: &LeaseContext<'_>,
    unit: &mut Unit,
    secret: &Secret,
    reserved: &[LeaseReservation],
) -> Result<WrittenLease, Failure> {
    let core = permitted.core;
    if !permitted.route.leases {
        return Err(bad_answer(
            context.mount,
            "answered a secret on a route that is not marked for leases",
        ));
    }
    let token = tokens::assert_valid(&core.store, unit, context.caller).await?.record;
    let named = match &secret.tag {
        Some(tag) => {
            Some(reserved.iter().find(|reserved| reserved.tag() == tag).ok_or_else(|| {
                bad_answer(
                    context.mount,
                    "answered a secret for a reservation that it did not make",
                )
            })?)
        }
        None => None,
    };
    if let Some(named) = named
        && !named.is_reserved(unit).await?
    {
        return Err(leases::ended_meanwhile());
    }
    let now = core.store.now();
    let lifetimes = context.mount.lifetimes(core.lifetimes);
    let bounds = TtlBounds {
        role_ttl: secret.ttl,
        role_max: secret.max_ttl,
        mount_default: lifetimes.default,
        mount_max: lifetimes.max,
        ..TtlBounds::default()
    };
    let granted = ttl::grant(&bounds, 0, now / 1000, now / 1000)?;
    let left = token.remaining_seconds(now).unwrap_or(granted.ttl);
    let granted = granted.at_most(left, "the remaining lifetime of the requesting token");
    let record = leases::confirm(context, unit, secret, named, granted.ttl)?;
    Ok(WrittenLease { id: record.id, ttl: granted.ttl, warning: granted.warning })
}

/// Returns 200 with data.
pub(super) fn respond(
    id: &str,
    mount: &Mount,
    data: Map<String, Value>,
    warnings: Vec<String>,
) -> Response {
    respond_enveloped(Envelope { data: Some(data), ..envelope(id, mount, warnings) })
}

/// Returns 204 without data, 200 with warnings, and 404 for a read.
fn respond_without_data(
    permitted: &PermittedRequest<'_>,
    mount: &Mount,
    warnings: Vec<String>,
) -> Result<Response, Failure> {
    let changes = permitted.route.asked_as == Some(Operation::Update);
    match permitted.request.verb {
        Verb::Read | Verb::List if !changes => Err(Failure::absent()),
        _ if warnings.is_empty() => Ok(Response::no_content()),
        _ => Ok(respond_enveloped(envelope(&permitted.request.id, mount, warnings))),
    }
}

fn raw_response(mount: &Mount, raw: RawAnswer) -> Result<Response, Failure> {
    let printable = raw.content_type.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !(200..=599).contains(&raw.status) || !printable {
        return Err(bad_answer(
            mount,
            "answered raw HTTP with an impossible status or content type",
        ));
    }
    let body = ResponseBody::Raw { content_type: raw.content_type, bytes: raw.body };
    Ok(Response::new(raw.status, body))
}

pub(super) fn envelope(id: &str, mount: &Mount, warnings: Vec<String>) -> Envelope {
    Envelope {
        request_id: id.to_owned(),
        mount_type: mount.record.kind.clone(),
        warnings,
        ..Envelope::default()
    }
}

/// Parses JSON as strictly as a request body: with a duplicate key, the audit line and the caller
/// might read different values.
fn parse_object(mount: &Mount, text: &str) -> Result<Map<String, Value>, Failure> {
    match json::value(text.as_bytes()) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(bad_answer(
            mount,
            "gave an answer that is not a JSON object, is nested too deep, holds too many values \
             or gives a key twice",
        )),
    }
}

/// Returns the failure for an answer that cannot leave, without quoting the answer.
fn bad_answer(mount: &Mount, what: &str) -> Failure {
    Failure::internal(format!("{} {what}; nothing was stored", mount.plugin.identity().title()))
}
