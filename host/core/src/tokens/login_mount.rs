//! The row of an auth mount by which the batch tokens of its logins hold: nothing else is stored of
//! them that could end with the mount.

use bulkhead_store::{Address, Index, Space, Unit};
use bulkhead_wire::failure::Failure;

/// The row that says that tokens of logins at the mount with that uuid hold.
fn serving(mount: &str) -> Address {
    Address::new(Space::Core, format!("login-mount/{mount}"))
}

/// Lets the tokens of logins at the mount hold.
pub(crate) fn begin_serving(unit: &mut Unit, mount: &str) {
    unit.put(serving(mount), Vec::new(), Index::default());
}

/// Ends, at once, every batch token of a login at the mount.
pub(crate) fn end_serving(unit: &mut Unit, mount: &str) {
    unit.delete(serving(mount));
}

/// Whether the mount is there, as far as tokens of its logins hold by that.
pub(super) async fn serves(unit: &mut Unit, mount: &str) -> Result<bool, Failure> {
    Ok(unit.get(&serving(mount)).await?.is_some())
}
