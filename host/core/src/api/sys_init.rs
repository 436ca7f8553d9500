//! `sys/init`: makes a cluster, once, and gives the shares of its key to whoever asked first
//! (decision H15).
//!
//! The attack this file stops: a server that is initialised by somebody else. It cannot be
//! prevented here, but it is seen: the second to ask is refused and told so.

use super::row::{field, open, required};
use super::{Handler, OpenHandler};
use crate::service::Service;
use bulkhead_store::SealConfig;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value, json};

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let status = open(Verb::Read, "sys/init", "is there a cluster here", vec![]);
    let initialise = open(Verb::Write, "sys/init", "make a cluster", initialisation());
    vec![
        (Handler::Open(OpenHandler::InitStatus), status),
        (Handler::Open(OpenHandler::Init), initialise),
    ]
}

fn initialisation() -> Vec<Field> {
    let number = |name, about| field(name, FieldKind::Int, about);
    let unserved = |name| field(name, FieldKind::Any, "not in this version");
    vec![
        required(
            "secret_shares",
            FieldKind::Int,
            "into how many shares the unseal key is split, 1 to 255",
        ),
        required("secret_threshold", FieldKind::Int, "how many of them unseal"),
        number("recovery_shares", "for seals of other kinds"),
        number("recovery_threshold", "for seals of other kinds"),
        number("stored_shares", "for seals of other kinds"),
        unserved("pgp_keys"),
        unserved("recovery_pgp_keys"),
        unserved("root_token_pgp_key"),
    ]
}

/// `GET sys/init`.
pub(super) async fn status(service: &Service) -> Result<Response, Failure> {
    Ok(Response::bare(200, json!({ "initialized": service.is_initialised().await? })))
}

/// `POST sys/init`. The only answer that ever holds a share or the first root token.
pub(super) async fn initialise(
    service: &Service,
    values: &Map<String, Value>,
) -> Result<Response, Failure> {
    refuse_unserved(values)?;
    let (shares, threshold) = (count(values, "secret_shares")?, count(values, "secret_threshold")?);
    let config = SealConfig::new(shares, threshold).map_err(Failure::invalid)?;
    let made = service.initialise(config).await?;
    let body = json!({
        "keys": made.shares.iter().map(|share| json!(*share.hex())).collect::<Vec<_>>(),
        "keys_base64": made.shares.iter().map(|share| json!(*share.base64())).collect::<Vec<_>>(),
        "root_token": made.root_token.expose(),
    });
    Ok(Response::bare(200, body))
}

fn count(values: &Map<String, Value>, name: &str) -> Result<u64, Failure> {
    let number = values.get(name).and_then(Value::as_i64).unwrap_or_default();
    u64::try_from(number)
        .map_err(|_| Failure::invalid(format!("{name} {number} is negative; give 1 to 255")))
}

/// Recovery keys belong to seals that open by themselves; shares are not encrypted for their
/// holders yet. Ignoring either would hand out keys in another way than was asked for.
fn refuse_unserved(values: &Map<String, Value>) -> Result<(), Failure> {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let names = [
        "recovery_shares",
        "recovery_threshold",
        "recovery_pgp_keys",
        "pgp_keys",
        "root_token_pgp_key",
    ];
    match names.into_iter().find(|name| !values.get(*name).is_none_or(is_nothing)) {
        None => Ok(()),
        Some(name) if name.starts_with("recovery") => Err(Failure::invalid(format!(
            "{name} does not apply to a seal of type shamir; leave it out"
        ))),
        Some(name) => Err(Failure::invalid(format!(
            "{name} is not supported by this version: leave it out, and encrypt what the answer holds yourself"
        ))),
    }
}
