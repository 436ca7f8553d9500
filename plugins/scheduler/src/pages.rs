//! Pages of the lists of policies and roles, for a region that follows this region.
//!
//! Prevents a region from being unable to follow a region with many records: a list with all records
//! can exceed the size of an answer. Clients of the scheduler know pages of tokens alone, so these
//! pages need the parameter `paged=true`, which other schedulers ignore.

use crate::query::ReadQuery;
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::{Entry, Storage};
use bulkhead_sdk::stored::Stored;

/// Number of records that are read at a time.
const READ_RECORDS: u32 = 1_000;

/// Calls `show` for each record below `folder`, or for the records of the page that the query names.
/// `show` returns true if the record belongs to the list. Returns the name of the next page: the
/// identifier of the last record of this page.
///
/// # Errors
/// Failures of the store.
pub(crate) fn scan<T: Stored>(
    storage: &dyn Storage,
    folder: &str,
    query: &ReadQuery,
    mut show: impl FnMut(&str, Entry<T>) -> bool,
) -> Result<Option<String>, Failure> {
    let size = if query.is_paged { query.per_page } else { 0 };
    let mut after = if query.is_paged { query.next_token.clone() } else { String::new() };
    let mut shown = 0;
    loop {
        let page = storage.page::<T>(folder, &after, READ_RECORDS)?;
        if page.is_empty() {
            return Ok(None);
        }
        for (id, entry) in page {
            if size > 0 && shown == size {
                return Ok(Some(after));
            }
            shown += u32::from(show(&id, entry));
            after = id;
        }
    }
}
