//! Batch tokens: sealed records kept by their holders, so that creating a batch token stores
//! nothing.
//!
//! This file prevents three attacks: a forged or modified token, and a token of another cluster
//! (neither can be opened), and a token that outlives its creator. A batch token cannot be revoked
//! by itself. It ends with its parent: every use looks up the parent, and every commit asserts that
//! the parent is valid.

use super::keys::{BATCH, MAX_TOKEN_LEN};
use super::login_mount::serves;
use super::record::{TokenRecord, read};
use crate::identity::LoginProof;
use bulkhead_store::{Store, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Purpose of the seal. Part of the token format.
const PURPOSE: &str = "batch token";

/// The sealed content of a batch token. A batch token cannot be renewed or used up, and its end is
/// fixed at creation.
#[derive(Serialize, Deserialize)]
struct BatchTokenContent {
    policies: Vec<String>,
    display_name: String,
    parent: Option<String>,
    path: String,
    role: String,
    entity_id: String,
    meta: BTreeMap<String, String>,
    bound_cidrs: Vec<Cidr>,
    issued: u64,
    ttl: u64,
    /// Absent in tokens of earlier releases, which expire `ttl` seconds after `issued`.
    #[serde(default)]
    expires: Option<u64>,
    /// UUID of the auth mount whose login created the token; empty for other tokens.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    mount: String,
    /// See [`TokenRecord::proof`] and [`TokenRecord::prover`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<LoginProof>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prover: String,
}

stored!(BatchTokenContent, "batch-token", reads_sealed_batch_tokens);

/// Returns the text of a batch token.
///
/// # Errors
/// 400 if the text would be longer than a token may be.
pub(super) fn seal(store: &Store, record: &TokenRecord) -> Result<Secret, Failure> {
    let record = record.clone();
    let sealed = BatchTokenContent {
        policies: record.policies,
        display_name: record.display_name,
        parent: record.parent,
        path: record.path,
        role: record.role,
        entity_id: record.entity_id,
        meta: record.meta,
        bound_cidrs: record.bound_cidrs,
        issued: record.issued,
        ttl: record.creation_ttl,
        expires: record.expires,
        mount: record.mount,
        proof: record.proof,
        prover: record.prover,
    };
    let token = Secret::new(format!("{BATCH}{}", store.seal_text(PURPOSE, &sealed.to_bytes()?)?));
    let length = token.expose().len();
    if length > MAX_TOKEN_LEN {
        return Err(Failure::invalid(format!(
            "a batch token carries all data of the token, and would have {length} characters; at \
             most {MAX_TOKEN_LEN} fit into a header: give less meta or fewer policies, or make a \
             service token"
        )));
    }
    Ok(token)
}

/// Opens a batch token of this cluster, even if the token has ended; `None` for any other text.
///
/// # Errors
/// 503 if the key of the token has to be read from the database, and cannot be read.
pub(super) async fn open(store: &Store, token: &Secret) -> Result<Option<TokenRecord>, Failure> {
    let Some(text) = token.expose().strip_prefix(BATCH) else { return Ok(None) };
    let body = store.open_text(PURPOSE, text).await?;
    Ok(body.and_then(|body| BatchTokenContent::from_bytes(&body).ok()).map(record_of))
}

fn record_of(sealed: BatchTokenContent) -> TokenRecord {
    TokenRecord {
        accessor: String::new(),
        policies: sealed.policies,
        display_name: sealed.display_name,
        parent: sealed.parent,
        path: sealed.path,
        role: sealed.role,
        entity_id: sealed.entity_id,
        meta: sealed.meta,
        bound_cidrs: sealed.bound_cidrs,
        issued: sealed.issued,
        creation_ttl: sealed.ttl,
        expires: sealed.expires.or_else(|| Some(sealed.issued.saturating_add(sealed.ttl))),
        explicit_max_ttl: 0,
        period: 0,
        renewable: false,
        last_renewal: None,
        renewed_ttl: None,
        uses_left: None,
        used_up: None,
        ended: None,
        end_cause: None,
        mount: sealed.mount,
        login: None,
        proof: sealed.proof,
        prover: sealed.prover,
    }
}

/// Returns true if neither the token, its parent nor the auth mount of its login has ended, as seen
/// by the unit of work.
pub(super) async fn is_still_valid(
    store: &Store,
    unit: &mut Unit,
    record: &TokenRecord,
) -> Result<bool, Failure> {
    if !record.is_alive(store.now()) {
        return Ok(false);
    }
    if !record.mount.is_empty() && !serves(unit, &record.mount).await? {
        return Ok(false);
    }
    let Some(parent) = &record.parent else { return Ok(true) };
    let parent = read(unit, parent).await?;
    // A token with the same text as an ended token has the same key, but is not the parent.
    Ok(parent.is_some_and(|parent| parent.issued <= record.issued && parent.is_alive(store.now())))
}
