//! The entity and groups of a token, by the proof of its own login or of an ancestor's.

use super::record::{TokenRecord, read};
use crate::identity::{self, EntityContext};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;

/// Reads entity and groups of the token.
///
/// A child uses the proof of the ancestor that a login made, as stored now: a renewal of the
/// ancestor counts for the child, too. If the ancestor is gone and the child was left as an orphan,
/// no proof counts.
///
/// # Errors
/// 403 if the entity is disabled or gone.
pub async fn read_token_context(
    unit: &mut Unit,
    token: &TokenRecord,
) -> Result<EntityContext, Failure> {
    let above = match token.prover.as_str() {
        "" => None,
        prover => read(unit, prover).await?,
    };
    let proof = token.proof.as_ref().or(above.as_ref().and_then(|above| above.proof.as_ref()));
    identity::read_entity_context(unit, &token.entity_id, proof).await
}
