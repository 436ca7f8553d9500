//! The stored records of quotas, each kind of quota below a key prefix of its own.

use super::place::QuotaPlace;
use bulkhead_store::{Address, IndexColumns, Space, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;

/// A kind of quota.
pub trait Quota: Stored {
    /// Key prefix of the quotas in [`Space::Core`]; the name follows.
    const PREFIX: &'static str;
    /// The kind in messages.
    const WORDS: &'static str;

    /// Returns the place of the quota.
    fn place(&self) -> &QuotaPlace;
}

fn address<Q: Quota>(name: &str) -> Address {
    Address::new(Space::Core, format!("{}{name}", Q::PREFIX))
}

/// Reads the quota with this name.
///
/// # Errors
/// The store's failure; 500 for a row that does not parse.
pub async fn read<Q: Quota>(unit: &mut Unit, name: &str) -> Result<Option<Q>, Failure> {
    let Some(record) = unit.get(&address::<Q>(name)).await? else { return Ok(None) };
    Q::from_bytes(&record.body)
        .map(Some)
        .map_err(|unreadable| unreadable.of(format_args!("the stored {} {name}", Q::WORDS)))
}

/// Writes a quota into the unit of work.
///
/// # Errors
/// 500 if the quota cannot be serialised.
pub fn put<Q: Quota>(unit: &mut Unit, name: &str, quota: &Q) -> Result<(), Failure> {
    unit.put(address::<Q>(name), quota.to_bytes()?, IndexColumns::default());
    Ok(())
}

/// Deletes a quota; succeeds also if the quota does not exist.
pub fn delete<Q: Quota>(unit: &mut Unit, name: &str) {
    unit.delete(address::<Q>(name));
}

/// Returns at most `limit` sorted names of quotas after `after`.
///
/// # Errors
/// The store's failure.
pub async fn names<Q: Quota>(
    unit: &mut Unit,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreFault> {
    unit.names(Space::Core, Q::PREFIX, after, limit).await
}
