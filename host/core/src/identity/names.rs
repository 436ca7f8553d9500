//! Names that the server gives where the caller gave none.

use super::index::{Noun, follow};
use crate::random;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;

/// Draws until a name is free. With a thousand million names taken, one draw in four is.
const DRAWS: u32 = 32;

/// A name that no other has: `entity_` or `group_` and eight hexadecimal digits.
///
/// # Errors
/// 500 when the machine gives no randomness.
pub(super) async fn draw(unit: &mut Unit, noun: Noun) -> Result<String, Failure> {
    for _ in 0..DRAWS {
        let name = format!("{}_{}", noun.word(), random::hex::<4>()?);
        let way = noun.name(unit, &name);
        if follow(unit, &way).await?.is_none() {
            return Ok(name);
        }
    }
    Err(Failure::internal("no free name was found for a new entity or group"))
}
