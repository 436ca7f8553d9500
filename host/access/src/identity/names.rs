//! Names that the server gives if the caller sends none.

use super::index::{IdentityKind, find_target};
use crate::random;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;

/// Maximum number of draws of a free name. With 10⁹ names taken, only a quarter of all draws fail.
const MAX_DRAWS: u32 = 32;

/// Draws a free name: `entity_` or `group_` and eight hexadecimal digits.
///
/// # Errors
/// 500 if the machine provides no randomness, or if no free name was found.
pub(super) async fn draw_name(unit: &mut Unit, noun: IdentityKind) -> Result<String, Failure> {
    for _ in 0..MAX_DRAWS {
        let name = format!("{}_{}", noun.word(), random::random_hex::<4>()?);
        let way = noun.name(unit, &name);
        if find_target(unit, &way).await?.is_none() {
            return Ok(name);
        }
    }
    Err(Failure::internal("no free name was found for a new entity or group"))
}
