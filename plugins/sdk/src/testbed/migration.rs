//! Migrations on the test bed, step by step as in the real host.

use super::TestBed;
use super::script::Script;
use crate::host::Migration;
use crate::mounted_plugin::MountedPlugin;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The cursors of a migration in memory.
pub(super) struct TestMigration {
    script: Rc<Script>,
    is_running: Cell<bool>,
    /// The cursor behind the last committed step.
    stored: RefCell<Option<String>>,
    /// The cursor that the running step asked to go on at.
    next: RefCell<Option<String>>,
}

impl TestMigration {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        let (stored, next) = (RefCell::default(), RefCell::default());
        Self { script: Rc::clone(script), is_running: Cell::new(false), stored, next }
    }

    fn check_running(&self) -> Result<(), Failure> {
        if self.is_running.get() {
            return Ok(());
        }
        let message = "this call is not a migration: only migrate has steps";
        Err(Failure::new(FailureKind::UnsupportedOperation, message))
    }
}

impl Migration for TestMigration {
    fn cursor(&self) -> Result<Option<String>, Failure> {
        self.check_running()?;
        self.script.step("cursor", None, || Ok(self.stored.borrow().clone()))
    }

    fn continue_at(&self, cursor: &str) -> Result<(), Failure> {
        self.check_running()?;
        self.script.step("continue-at", Some(cursor), || {
            if cursor.is_empty() || cursor.len() > 1_024 {
                return Err(Failure::invalid("the cursor has 1 to 1,024 bytes"));
            }
            if self.stored.borrow().as_deref() == Some(cursor) {
                return Err(Failure::invalid(
                    "the cursor has not moved since the beginning of this step",
                ));
            }
            self.next.replace(Some(cursor.to_owned()));
            Ok(())
        })
    }
}

impl<P: MountedPlugin> TestBed<P> {
    /// Migrates the stored data from the schema `from`, step by step. Returns the number of steps.
    ///
    /// # Errors
    /// The failure of a step. The steps before stay committed, and the next call goes on behind
    /// them.
    pub fn migrate(&self, from: u32) -> Result<u32, Failure> {
        let migration = &self.host.migration;
        let mut steps = 1;
        loop {
            migration.next.take();
            migration.is_running.set(true);
            let migrated = P::migrate(&self.host, &self.context(), from);
            migration.is_running.set(false);
            self.settle(migrated)?;
            let next = migration.next.take();
            let is_over = next.is_none();
            migration.stored.replace(next);
            if is_over {
                return Ok(steps);
            }
            steps += 1;
        }
    }
}
