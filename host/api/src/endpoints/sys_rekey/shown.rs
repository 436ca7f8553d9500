//! The answers about a rekey, in the shapes that clients parse.

use bulkhead_core::key_holders::{
    NewShares, RekeyStatus, RekeyStep, VerificationStatus, VerificationStep,
};
use serde_json::{Value, json};

/// Returns the progress, where every member is always present.
pub(super) fn status(status: &RekeyStatus) -> Value {
    let mut body = json!({
        "nonce": status.nonce,
        "started": status.config.is_some(),
        "t": status.config.map_or(0, |config| config.threshold),
        "n": status.config.map_or(0, |config| config.shares),
        "progress": status.progress,
        "required": status.required,
        "pgp_fingerprints": [],
        "backup": false,
        "verification_required": status.is_verified,
    });
    if !status.verification_nonce.is_empty() {
        insert(&mut body, "verification_nonce", json!(status.verification_nonce));
    }
    body
}

/// Returns the progress for a caller with a token: without a rekey, only the known members.
pub(super) fn held_status(status: &RekeyStatus) -> Value {
    let Some(config) = status.config else {
        return json!({ "started": false, "t": 0, "n": 0, "required": status.required });
    };
    json!({
        "nonce": status.nonce,
        "started": true,
        "t": config.threshold,
        "n": config.shares,
        "progress": status.progress,
        "required": status.required,
        "verification_required": status.is_verified,
        "verification_nonce": status.verification_nonce,
    })
}

/// Returns the result of a share.
pub(super) fn step(step: &RekeyStep) -> Value {
    match step {
        RekeyStep::More(progress) => status(progress),
        RekeyStep::Shares(new) => {
            let mut body = shares(new);
            if let Some(nonce) = &new.verification_nonce {
                insert(&mut body, "verification_nonce", json!(nonce));
            }
            body
        }
    }
}

/// Returns the result of a share for a caller with a token.
pub(super) fn held_step(step: &RekeyStep) -> Value {
    match step {
        RekeyStep::More(progress) => held_status(progress),
        RekeyStep::Shares(new) => {
            let mut body = shares(new);
            let nonce = new.verification_nonce.as_deref().unwrap_or_default();
            insert(&mut body, "verification_nonce", json!(nonce));
            body
        }
    }
}

/// Returns new shares. No later answer holds these shares.
fn shares(new: &NewShares) -> Value {
    let mut body = json!({
        "nonce": new.nonce,
        "complete": true,
        "keys": new.shares.iter().map(|share| json!(*share.hex())).collect::<Vec<_>>(),
        "keys_base64": new.shares.iter().map(|share| json!(*share.base64())).collect::<Vec<_>>(),
        "pgp_fingerprints": [],
        "backup": false,
        "verification_required": new.verification_nonce.is_some(),
    });
    if let Some(warning) = new.warning {
        insert(&mut body, "warnings", json!([warning]));
    }
    body
}

/// Returns the progress of a verification.
pub(super) fn verification(status: &VerificationStatus) -> Value {
    json!({
        "nonce": status.nonce,
        "started": true,
        "t": status.config.threshold,
        "n": status.config.shares,
        "progress": status.progress,
    })
}

/// Returns the result of a share that was given back.
pub(super) fn verified(step: &VerificationStep) -> Value {
    match step {
        VerificationStep::More(status) => verification(status),
        VerificationStep::Complete { nonce } => json!({ "nonce": nonce, "complete": true }),
    }
}

fn insert(body: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = body {
        members.insert(name.to_owned(), value);
    }
}
