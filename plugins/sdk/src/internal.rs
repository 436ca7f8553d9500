//! Internal data of leases and logins, which the host stores and passes back to the plugin later.

use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;

/// Serialises the internal data of a lease or a login.
pub(crate) fn internal_text(internal: &impl Stored) -> Result<String, Failure> {
    let text = internal.to_bytes().ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Failure::internal("the internal data cannot be written as JSON"))
}
