//! The bytes of a wrapped answer, in pieces that fit into commits.

use super::payer::{PREFIX, WrappingPayer};
use crate::random;
use bulkhead_store::{Address, IndexColumns, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Maximum size of a piece, in bytes.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum number of pieces per commit.
const PIECES_PER_COMMIT: usize = 4;

/// Returns the id of a new content: the segment of the caller that it counts for, and a random
/// text. Ids of earlier releases have no such segment.
///
/// # Errors
/// 500 if the machine's random generator fails.
pub(super) fn new_id(payer: &WrappingPayer) -> Result<String, Failure> {
    Ok(format!("{}/{}", payer.segment(), random::random_hex::<16>()?))
}

fn piece_address(id: &str, number: usize) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{id}/{number:05}"))
}

/// Adds the pieces that fit into one commit to the unit. [`put_rest`] stores the other pieces.
pub(super) fn put_first(unit: &mut Unit, id: &str, bytes: &[u8]) {
    for (number, part) in bytes.chunks(PIECE_BYTES).enumerate().take(PIECES_PER_COMMIT) {
        unit.put(piece_address(id, number), part.to_vec(), IndexColumns::default());
    }
}

/// Stores the pieces behind the first commit, within the limits of the payer.
pub(super) async fn put_rest(
    store: &Arc<Store>,
    payer: &WrappingPayer,
    id: &str,
    bytes: &[u8],
) -> Result<(), Failure> {
    let parts: Vec<_> = bytes.chunks(PIECE_BYTES).enumerate().skip(PIECES_PER_COMMIT).collect();
    for commit in parts.chunks(PIECES_PER_COMMIT) {
        let mut unit = within(store, payer);
        for (number, part) in commit {
            unit.put(piece_address(id, *number), part.to_vec(), IndexColumns::default());
        }
        unit.commit().await?;
    }
    Ok(())
}

/// Begins a unit of work within the limits of the payer.
pub(super) fn within(store: &Arc<Store>, payer: &WrappingPayer) -> Unit {
    payer.limits().iter().fold(store.begin(), Unit::with_limit)
}

/// Reads the bytes and deletes them; `None` if a piece is missing.
pub(super) async fn take_content(
    unit: &mut Unit,
    id: &str,
    bytes: usize,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut content = Vec::with_capacity(bytes);
    for number in 0..bytes.div_ceil(PIECE_BYTES) {
        let Some(part) = unit.get(&piece_address(id, number)).await? else { return Ok(None) };
        content.extend_from_slice(&part.body);
    }
    delete(unit, id, bytes);
    Ok(Some(content))
}

/// Deletes the bytes.
pub(super) fn delete(unit: &mut Unit, id: &str, bytes: usize) {
    (0..bytes.div_ceil(PIECE_BYTES)).for_each(|number| unit.delete(piece_address(id, number)));
}
