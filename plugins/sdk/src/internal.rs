//! What the host keeps for a plugin with a lease or a login, and hands back later.

use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;

/// What a lease or a login keeps, as it is written down.
pub(crate) fn internal_text(internal: &impl Stored) -> Result<String, Failure> {
    let text = internal.to_bytes().ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Failure::internal("what is to be kept cannot be written as JSON"))
}
