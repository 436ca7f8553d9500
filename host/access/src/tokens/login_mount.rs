//! The serving row of an auth mount. Batch tokens of the mount's logins are valid while this row
//! exists, because nothing else is stored that could end with the mount.

use bulkhead_store::{Address, IndexColumns, Space, Unit};
use bulkhead_wire::failure::Failure;

/// Returns the address of the serving row for the mount with this UUID.
fn serving(mount: &str) -> Address {
    Address::new(Space::Core, format!("login-mount/{mount}"))
}

/// Makes batch tokens of logins at the mount valid.
pub fn begin_serving(unit: &mut Unit, mount: &str) {
    unit.put(serving(mount), Vec::new(), IndexColumns::default());
}

/// Ends every batch token of logins at the mount at once.
pub fn end_serving(unit: &mut Unit, mount: &str) {
    unit.delete(serving(mount));
}

/// Returns true if the serving row of the mount exists.
pub(super) async fn serves(unit: &mut Unit, mount: &str) -> Result<bool, Failure> {
    Ok(unit.get(&serving(mount)).await?.is_some())
}
