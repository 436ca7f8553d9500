//! The cubbyhole: values that belong to a single token and end with the token.
//!
//! This file prevents another caller, also root, from reading a value: the key of each value begins
//! with the row key of its token. Number and bytes of the values of a token are bounded, and the
//! bytes of all cubbyholes, because every token with the default policy can write values.

use crate::paging::{ListingSlots, ListingText, Paging};
use bulkhead_store::{Address, IndexColumns, Space, Store, StoredLimit, Unit};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::listing::Listing;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Maximum number of values of a token.
const MAX_TOKEN_VALUES: u32 = 1_024;
/// Maximum bytes of the values of a token, with their names.
const MAX_TOKEN_BYTES: u64 = 4 << 20;
/// Maximum bytes of all cubbyholes.
const MAX_BYTES: u64 = 1 << 30;

/// The fields written to a path.
#[derive(Serialize, Deserialize)]
struct CubbyholeFields {
    data: Map<String, Value>,
}

stored!(CubbyholeFields, "cubbyhole", reads_stored_cubbyholes);

fn prefix(token: &str) -> String {
    format!("cubbyhole/{token}/")
}

/// Returns the limits of the token's cubbyhole and of all cubbyholes.
fn limits(token: &str) -> [Arc<StoredLimit>; 2] {
    let own = StoredLimit {
        counter: prefix(token).trim_end_matches('/').to_owned(),
        most: MAX_TOKEN_BYTES,
        name: "the cubbyhole of this token".to_owned(),
        remedy: "delete unneeded values, or keep large values in a mount of kv".to_owned(),
    };
    let all = StoredLimit {
        counter: "cubbyhole/".to_owned(),
        most: MAX_BYTES,
        name: "the server, for the cubbyholes of all tokens,".to_owned(),
        remedy: "delete unneeded values, and revoke unused tokens".to_owned(),
    };
    [Arc::new(own), Arc::new(all)]
}

/// Returns the address of a value, by the row key of its token.
pub fn address(token: &str, path: &str) -> Address {
    Address::new(Space::Core, format!("{}{path}", prefix(token)))
}

/// Reads the fields at `path`.
///
/// # Errors
/// 500 if the record does not parse.
pub async fn read(
    unit: &mut Unit,
    token: &str,
    path: &str,
) -> Result<Option<Map<String, Value>>, Failure> {
    let Some(record) = unit.get(&address(token, path)).await? else { return Ok(None) };
    let fields = CubbyholeFields::from_bytes(&record.body);
    fields.map(|fields| Some(fields.data)).map_err(|unreadable| unreadable.of("a cubbyhole"))
}

/// Writes the fields at `path`.
///
/// # Errors
/// 400 if the token has too many values. The commit is refused with 429 if the values of the token,
/// or of all tokens, have too many bytes.
pub async fn put(
    unit: &mut Unit,
    token: &str,
    path: &str,
    data: Map<String, Value>,
) -> Result<(), Failure> {
    limits(token).iter().for_each(|limit| unit.add_limit(limit));
    let address = address(token, path);
    if !unit.is_present(&address).await? {
        let keys = unit.keys(Space::Core, &prefix(token), "", MAX_TOKEN_VALUES).await?;
        if u32::try_from(keys.len()).is_ok_and(|count| count >= MAX_TOKEN_VALUES) {
            return Err(Failure::invalid(format!(
                "the cubbyhole of the token has {MAX_TOKEN_VALUES} values, the most for a token; \
                 delete some before writing {}",
                quoted(path)
            )));
        }
    }
    unit.put(address, CubbyholeFields { data }.to_bytes()?, IndexColumns::default());
    Ok(())
}

/// Deletes the fields at `path`.
pub fn delete(unit: &mut Unit, token: &str, path: &str) {
    unit.delete(address(token, path));
}

/// Lists the names directly below `folder`, which is empty or ends in a slash. The name of a folder
/// ends in a slash.
///
/// # Errors
/// The store's failure.
pub async fn list(
    store: &Arc<Store>,
    listings: &Arc<ListingSlots>,
    (token, folder): (&str, &str),
    paging: Paging,
) -> Result<Option<Listing>, Failure> {
    let Paging { after, limit } = paging;
    let below = format!("{}{folder}", prefix(token));
    let mut text = ListingText::of_names(listings);
    let mut scan = store.scan(Space::Core, below.as_str());
    if !after.is_empty() {
        scan.skip_to(end_of(&below, &after));
    }
    let mut last = String::new();
    while let Some(page) = scan.page().await? {
        for rest in page.iter().filter_map(|address| address.key.strip_prefix(&below)) {
            let name = match rest.find('/') {
                Some(slash) => rest.get(..=slash).unwrap_or(rest),
                None => rest,
            };
            if name == last {
                continue;
            }
            if text.entries() >= limit {
                return Ok(text.end());
            }
            text.add(name, &Map::new()).await?;
            name.clone_into(&mut last);
        }
    }
    Ok(text.end())
}

/// Returns the last key that belongs to the name.
fn end_of(below: &str, name: &str) -> String {
    let last = if name.ends_with('/') { "\u{10ffff}" } else { "" };
    format!("{below}{name}{last}")
}

/// Deletes all values of an ended token.
///
/// # Errors
/// The store's failure.
pub async fn erase(store: &Arc<Store>, token: &str) -> Result<(), Failure> {
    let mut scan = store.scan(Space::Core, prefix(token));
    while let Some(page) = scan.page().await? {
        let mut unit = store.begin();
        page.into_iter().for_each(|address| unit.delete(address));
        unit.commit().await?;
    }
    Ok(())
}
