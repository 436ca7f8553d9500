//! `sys/init`: initialises a cluster, once, and gives the shares of the key to the first caller
//! (decision H15).
//!
//! The attack: another party initialises the server first. Nothing here can prevent the attack, but
//! the attack is detected: the second caller is refused and told the reason.

use super::call::{RequestFields, SealedCall};
use super::row::{Endpoint, field, read, required, write};
use bulkhead_store::SealConfig;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Value, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        read("sys/init", "whether the server is initialised").while_sealed(status),
        write("sys/init", "make a cluster").fields(parameters()).while_sealed(initialise),
    ]
}

fn parameters() -> Vec<Field> {
    let number = |name, about| field(name, FieldKind::Int, about);
    let unserved = |name| field(name, FieldKind::Any, "not in this version");
    vec![
        required("secret_shares", FieldKind::Int, "number of shares of the unseal key, 1 to 255"),
        required("secret_threshold", FieldKind::Int, "number of shares for an unseal"),
        number("recovery_shares", "for seals of other kinds"),
        number("recovery_threshold", "for seals of other kinds"),
        number("stored_shares", "for seals of other kinds"),
        unserved("pgp_keys"),
        unserved("recovery_pgp_keys"),
        unserved("root_token_pgp_key"),
    ]
}

/// `GET sys/init`.
async fn status(call: SealedCall<'_>) -> Result<Response, Failure> {
    Ok(Response::bare(200, json!({ "initialized": call.seal.is_initialised().await? })))
}

/// `POST sys/init`. No other answer ever holds a share or the first root token.
async fn initialise(call: SealedCall<'_>) -> Result<Response, Failure> {
    let SealedCall { seal, fields, .. } = call;
    refuse_unserved(fields)?;
    let (shares, threshold) = (count(fields, "secret_shares")?, count(fields, "secret_threshold")?);
    let config = SealConfig::new(shares, threshold).map_err(Failure::invalid)?;
    let result = seal.initialise(config).await?;
    let body = json!({
        "keys": result.shares.iter().map(|share| json!(*share.hex())).collect::<Vec<_>>(),
        "keys_base64": result.shares.iter().map(|share| json!(*share.base64())).collect::<Vec<_>>(),
        "root_token": result.root_token.expose(),
    });
    Ok(Response::bare(200, body))
}

/// Returns a number of shares.
///
/// # Errors
/// 400 for a negative number.
pub(super) fn count(fields: RequestFields<'_>, name: &str) -> Result<u64, Failure> {
    let number = fields.integer(name).unwrap_or_default();
    u64::try_from(number)
        .map_err(|_| Failure::invalid(format!("{name} {number} is negative; give 1 to 255")))
}

/// Refuses parameters that this version does not serve: recovery keys belong to seals that open by
/// themselves, and shares are not encrypted for their holders yet. Ignoring such a parameter would
/// hand out keys in another way than the caller asked for.
fn refuse_unserved(fields: RequestFields<'_>) -> Result<(), Failure> {
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
    match names.into_iter().find(|name| !fields.get(name).is_none_or(is_nothing)) {
        None => Ok(()),
        Some(name) if name.starts_with("recovery") => Err(Failure::invalid(format!(
            "{name} does not apply to a seal of type shamir; leave {name} out"
        ))),
        Some(name) => Err(Failure::invalid(format!(
            "{name} is not supported by this version: leave {name} out, and encrypt the keys in \
             the answer yourself"
        ))),
    }
}
