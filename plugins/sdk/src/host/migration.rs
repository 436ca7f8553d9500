//! The cursor between the steps of a migration.

use bulkhead_wire::failure::Failure;

/// The cursor between the steps of a migration. Most code uses
/// [`MigrationSteps`](crate::migration::MigrationSteps), which keeps the cursor.
pub trait Migration {
    /// Returns the cursor at which this step begins; `None` in the first step.
    ///
    /// # Errors
    /// Unsupported outside `migrate`.
    fn cursor(&self) -> Result<Option<String>, Failure>;

    /// Asks for a further step, which begins at `cursor`. The host commits the writes of this step
    /// together with the cursor.
    ///
    /// # Errors
    /// Unsupported outside `migrate`; invalid request for a cursor outside 1 to 1,024 bytes, or for
    /// the cursor of this step.
    fn continue_at(&self, cursor: &str) -> Result<(), Failure>;
}
