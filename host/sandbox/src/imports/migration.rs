//! The `migration` import: the cursor between the steps of a migration, which core stores with the
//! writes of a step.

use crate::bindings::secrets_engine::bulkhead::plugin::migration::Host;
use crate::contract::Failure;
use crate::grants::Act;
use crate::state::{CallState, refusal};

impl Host for CallState {
    fn cursor(&mut self) -> wasmtime::Result<Result<Option<String>, Failure>> {
        granted!(self, Act::Storage);
        Ok(self.context.services.migration_cursor().map_err(|failure| refusal(&failure)))
    }

    fn continue_at(&mut self, cursor: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Storage);
        self.charge_row(cursor.len())?;
        Ok(continue_at(self, cursor))
    }
}

fn continue_at(state: &CallState, cursor: String) -> Result<(), Failure> {
    state.check_name("cursor of a migration", &cursor)?;
    state.context.services.continue_migration(cursor).map_err(|failure| refusal(&failure))
}
