//! The bytes of a wrapped answer, in pieces that fit into commits.

use bulkhead_store::{Address, IndexColumns, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Maximum size of a piece, in bytes.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum number of pieces per commit.
const PIECES_PER_COMMIT: usize = 4;

fn piece_address(id: &str, number: usize) -> Address {
    Address::new(Space::Core, format!("wrapped-content/{id}/{number:05}"))
}

/// Stores the bytes. The first pieces are committed with `unit`.
pub(super) async fn put_content(
    store: &Arc<Store>,
    mut unit: Unit,
    id: &str,
    bytes: &[u8],
) -> Result<(), Failure> {
    for (number, part) in bytes.chunks(PIECE_BYTES).enumerate() {
        if number > 0 && number % PIECES_PER_COMMIT == 0 {
            std::mem::replace(&mut unit, store.begin()).commit().await?;
        }
        unit.put(piece_address(id, number), part.to_vec(), IndexColumns::default());
    }
    unit.commit().await?;
    Ok(())
}

/// Reads the bytes and deletes them; `None` if a piece is missing.
pub(super) async fn take_content(
    unit: &mut Unit,
    id: &str,
    bytes: usize,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut whole = Vec::with_capacity(bytes);
    for number in 0..bytes.div_ceil(PIECE_BYTES) {
        let Some(part) = unit.get(&piece_address(id, number)).await? else { return Ok(None) };
        whole.extend_from_slice(&part.body);
    }
    delete(unit, id, bytes);
    Ok(Some(whole))
}

/// Deletes the bytes.
pub(super) fn delete(unit: &mut Unit, id: &str, bytes: usize) {
    (0..bytes.div_ceil(PIECE_BYTES)).for_each(|number| unit.delete(piece_address(id, number)));
}
