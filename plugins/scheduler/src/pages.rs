//! Pages of the lists of policies and roles, for a region that follows this region.
//!
//! This file prevents a region from being unable to follow a region with many records: a list with
//! all records can exceed the size of an answer. Clients of the scheduler know pages of tokens
//! alone, so these pages need the parameter `paged=true`, which other schedulers ignore.

use crate::query::ReadQuery;
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::{Entry, Storage};
use bulkhead_sdk::stored::Stored;

/// Number of records that are read at a time.
const READ_RECORDS: u32 = 1_000;

/// Calls `show` for each record below `folder`, or for the records of the page that the query
/// names. `show` returns true if the record belongs to the list. Returns the name of the next
/// page: the identifier of the last record of this page.
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

#[cfg(test)]
mod tests {
    use crate::fixture::{call, replica};
    use bulkhead_sdk::raw::RawReply;
    use serde_json::Value;

    fn names(reply: &RawReply) -> Vec<String> {
        let listed: Vec<Value> = serde_json::from_slice(&reply.body).unwrap();
        listed.iter().map(|one| one["Name"].as_str().unwrap().to_owned()).collect()
    }

    fn next(reply: &RawReply) -> Option<&str> {
        let found = reply.headers.iter().find(|(name, _)| name == "X-Nomad-NextToken");
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn lists_for_regions_are_paged_until_their_end() {
        let bed = replica(&["a", "b", "c"]);
        let page = |query: &str| call(&bed, "GET", &format!("v1/acl/roles?{query}"), &Value::Null);
        let all = page("per_page=2");
        assert_eq!((names(&all).len(), next(&all)), (3, None));
        let first = page("paged=true&per_page=2");
        let begin = next(&first).unwrap();
        assert_eq!(names(&first), names(&all)[..2]);
        let second = page(&format!("paged=true&per_page=2&next_token={begin}"));
        assert_eq!((names(&second), next(&second)), (names(&all)[2..].to_vec(), None));
        let exact = page("paged=true&per_page=3");
        assert_eq!((names(&exact).len(), next(&exact)), (3, None));
        for nonsense in ["next_token=zzz", "next_token=%00", "next_token=..%2f"] {
            let reply = page(&format!("paged=true&per_page=2&{nonsense}"));
            assert!([200, 400].contains(&reply.status), "{nonsense}: {}", reply.status);
        }
    }
}
