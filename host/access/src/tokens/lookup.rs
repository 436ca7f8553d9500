//! Look-up of a token by its text or its accessor.

use super::caller::Caller;
use super::record::{TokenType, read};
use super::{batch, keys};
use bulkhead_store::{Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;

/// Finds a token by its text, even if the token has ended but is not yet removed.
pub async fn find(
    store: &Store,
    unit: &mut Unit,
    token: &Secret,
) -> Result<Option<Caller>, Failure> {
    if !keys::may_be_token(token) {
        return Ok(None);
    }
    if let Some(record) = batch::open(store, token).await? {
        return Ok(Some(Caller::batch(store, token, record)));
    }
    let key = keys::of_token(store.hashes(), token);
    Ok(read(unit, &key).await?.map(|record| Caller::service(key, record)))
}

/// Finds a token by its text, as seen by the unit of work, if a request may begin with the token.
pub async fn by_token(
    store: &Store,
    unit: &mut Unit,
    token: &Secret,
) -> Result<Option<Caller>, Failure> {
    let Some(caller) = find(store, unit, token).await? else { return Ok(None) };
    let holds = match caller.kind {
        TokenType::Service => caller.record.is_valid_at(store.now()),
        TokenType::Batch => batch::is_still_valid(store, unit, &caller.record).await?,
    };
    Ok(holds.then_some(caller))
}

/// Finds a token by its accessor, even if the token has ended. Batch tokens have no accessor.
pub async fn find_by_accessor(
    store: &Store,
    unit: &mut Unit,
    accessor: &str,
) -> Result<Option<Caller>, Failure> {
    if !keys::may_be_accessor(accessor) {
        return Ok(None);
    }
    let key = keys::of_accessor(store.hashes(), accessor);
    Ok(read(unit, &key).await?.map(|record| Caller::service(key, record)))
}

/// Finds a token by its accessor, as seen by the unit of work, if a request may begin with the
/// token.
pub async fn by_accessor(
    store: &Store,
    unit: &mut Unit,
    accessor: &str,
) -> Result<Option<Caller>, Failure> {
    let found = find_by_accessor(store, unit, accessor).await?;
    Ok(found.filter(|caller| caller.record.is_valid_at(store.now())))
}
