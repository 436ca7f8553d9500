//! `sys/init`: initialises a cluster, once, and gives the shares of the unseal key, or the recovery
//! keys, to the first caller (decisions H15 and H89).
//!
//! The attack: another party initialises the server first. Nothing here can prevent the attack, but
//! the attack is detected: the second caller is refused and told the reason.

use super::call::{RequestFields, SealedCall};
use super::row::{Endpoint, field, read, write};
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
        number("secret_shares", "number of shares of the unseal key, 1 to 255; with seal shamir"),
        number("secret_threshold", "number of shares for an unseal; with seal shamir"),
        number("recovery_shares", "number of recovery keys, 0 to 255; with an automatic seal"),
        number("recovery_threshold", "number of recovery keys for a quorum"),
        number("stored_shares", "has no effect"),
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
    let setting = &seal.settings().seal;
    let split = if setting.is_automatic() {
        refuse_other(fields, ["secret_shares", "secret_threshold"], setting.kind())?;
        recovery_split(fields)?
    } else {
        refuse_other(fields, ["recovery_shares", "recovery_threshold"], setting.kind())?;
        Some(unseal_split(fields)?)
    };
    let result = seal.initialise(split).await?;
    let hex = result.shares.iter().map(|share| json!(*share.hex())).collect::<Vec<_>>();
    let base64 = result.shares.iter().map(|share| json!(*share.base64())).collect::<Vec<_>>();
    let token = result.root_token.expose();
    let body = if setting.is_automatic() {
        json!({
            // Clients read both lists under any seal.
            "keys": [],
            "keys_base64": [],
            "recovery_keys": hex,
            "recovery_keys_base64": base64,
            "root_token": token,
        })
    } else {
        json!({ "keys": hex, "keys_base64": base64, "root_token": token })
    };
    Ok(Response::bare(200, body))
}

/// Returns the split of the unseal key.
fn unseal_split(fields: RequestFields<'_>) -> Result<SealConfig, Failure> {
    for name in ["secret_shares", "secret_threshold"] {
        if fields.get(name).is_none_or(Value::is_null) {
            return Err(Failure::invalid(format!(
                "{name} is required: secret_shares is the number of shares of the unseal key, and \
                 secret_threshold the number that opens"
            )));
        }
    }
    let (shares, threshold) = (count(fields, "secret_shares")?, count(fields, "secret_threshold")?);
    SealConfig::new(shares, threshold).map_err(Failure::invalid)
}

/// Returns the split of the recovery key; `None` for 0 shares.
fn recovery_split(fields: RequestFields<'_>) -> Result<Option<SealConfig>, Failure> {
    // An empty text would count as 0, and a server without recovery keys cannot get any later.
    let is_blank = |value: &Value| value.is_null() || value.as_str() == Some("");
    for name in ["recovery_shares", "recovery_threshold"] {
        if fields.get(name).is_none_or(is_blank) {
            return Err(Failure::invalid(format!(
                "{name} is required with this seal: recovery_shares is the number of recovery \
                 keys, and recovery_threshold the number that is a quorum; 0 and 0 make no \
                 recovery keys"
            )));
        }
    }
    let (shares, threshold) =
        (count(fields, "recovery_shares")?, count(fields, "recovery_threshold")?);
    if (shares, threshold) == (0, 0) {
        return Ok(None);
    }
    SealConfig::new(shares, threshold).map(Some).map_err(Failure::invalid)
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

/// Returns whether the value of a parameter asks for nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Refuses parameters for another seal. Ignoring such a parameter would hand out keys in another
/// way than the caller asked for.
fn refuse_other(fields: RequestFields<'_>, names: [&str; 2], kind: &str) -> Result<(), Failure> {
    match names.into_iter().find(|name| !fields.get(name).is_none_or(is_nothing)) {
        None => Ok(()),
        Some(name) => Err(Failure::invalid(format!(
            "{name} does not apply to a seal of type {kind}; leave {name} out"
        ))),
    }
}

/// Refuses parameters that this version does not serve: keys are not encrypted for their holders
/// yet.
fn refuse_unserved(fields: RequestFields<'_>) -> Result<(), Failure> {
    let names = ["recovery_pgp_keys", "pgp_keys", "root_token_pgp_key"];
    match names.into_iter().find(|name| !fields.get(name).is_none_or(is_nothing)) {
        None => Ok(()),
        Some(name) => Err(Failure::invalid(format!(
            "{name} is not supported by this version: leave {name} out, and encrypt the keys in \
             the answer yourself"
        ))),
    }
}
