//! The step of a migration that a call carries out.

use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use std::sync::Mutex;

/// Maximum length of a cursor, in bytes.
const LONGEST_CURSOR: usize = 1_024;

/// The cursors of a step: where the step begins, and where the next step begins.
pub(super) struct MigrationStep {
    /// `None` in the first step.
    cursor: Option<String>,
    /// `None` in the last step.
    next: Mutex<Option<String>>,
}

impl MigrationStep {
    pub(super) fn at(cursor: Option<String>) -> Self {
        Self { cursor, next: Mutex::default() }
    }

    pub(super) fn cursor(&self) -> Option<String> {
        self.cursor.clone()
    }

    /// Asks for a next step. Refuses the cursor of this step, which would repeat the step for ever.
    pub(super) fn continue_at(&self, cursor: String) -> Result<(), Failure> {
        if cursor.is_empty() || cursor.len() > LONGEST_CURSOR {
            return Err(Failure::invalid(format!(
                "the cursor of a migration has {} bytes; give 1 to {LONGEST_CURSOR}",
                cursor.len()
            )));
        }
        if self.cursor.as_ref() == Some(&cursor) {
            return Err(Failure::invalid(
                "the cursor has not moved since the beginning of this step; give the place where \
                 the next step begins",
            ));
        }
        *sync::lock(&self.next) = Some(cursor);
        Ok(())
    }

    pub(super) fn take_next(&self) -> Option<String> {
        sync::lock(&self.next).take()
    }
}

/// The failure for a call that is not a migration.
pub(super) fn no_migration_failure() -> Failure {
    Failure::new(
        FailureKind::UnsupportedOperation,
        "this call is not a migration: only migrate has steps",
    )
}
