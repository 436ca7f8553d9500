//! A migration in steps. Each record is migrated exactly once. A text in the built component names
//! the record at which a step fails, or makes the migration endless.

use crate::Ending;
use crate::answers;
use crate::bulkhead::plugin::types::Failure;
use crate::bulkhead::plugin::{migration, storage};
use std::hint::black_box;

/// Key prefixes of the records of each schema.
const OLD: &str = "old/";
const NEW: &str = "new/";
/// Number of records that a call adds.
const ADDED: usize = 1_000;
/// Number of records that a step migrates.
const STEP: u32 = 500;

/// Word for a migration that never comes to an end.
const NEVER: &str = "never";
/// Turns of a loop that make a step of an endless migration take a while.
const TURNS: u32 = 20_000_000;

/// A test replaces the last word by the name of a record, or by [`NEVER`].
static FAILS_AT: &str = "a-step-fails-at=none.";

/// Adds records of the old schema behind the existing records.
pub(crate) fn fill() -> Ending {
    let count = count(OLD)?;
    for number in count..count + ADDED {
        storage::put(&format!("{OLD}{number:05}"), b"old")?;
    }
    Ok(answers::nothing())
}

/// Returns the number of records of each schema.
pub(crate) fn rows() -> Ending {
    let (old, new) = (count(OLD)?, count(NEW)?);
    Ok(answers::data(format!(r#"{{"old":{old},"new":{new}}}"#)))
}

fn count(prefix: &str) -> Result<usize, Failure> {
    let (mut count, mut after) = (0, String::new());
    loop {
        let page = storage::keys(prefix, &after, 1_000)?;
        // Drops the page from the unit of work; all pages together are too much for one commit.
        storage::checkpoint()?;
        let Some(last) = page.last() else { return Ok(count) };
        count += page.len();
        after.clone_from(last);
    }
}

/// Moves the next records to their new keys. Panics at a record that was already moved.
pub(crate) fn migrate() -> Result<(), Failure> {
    let fails_at = black_box(FAILS_AT).rsplit('=').next().unwrap_or_default();
    let after = migration::cursor()?.unwrap_or_default();
    if fails_at == NEVER {
        for turn in 0..TURNS {
            black_box(turn);
        }
        storage::put(NEVER, after.as_bytes())?;
        let step: u32 = after.parse().unwrap_or_default();
        return migration::continue_at(&(step + 1).to_string());
    }
    let page = storage::scan(OLD, &after, STEP)?;
    for (name, _) in &page {
        if name == fails_at {
            return Err(failure(format!("the record {name} is broken")));
        }
        let to = format!("{NEW}{name}");
        assert!(storage::get(&to)?.is_none(), "{name} is migrated twice");
        storage::put(&to, b"new")?;
        storage::delete(&format!("{OLD}{name}"))?;
    }
    match page.last() {
        Some((last, _)) if page.len() == STEP as usize => migration::continue_at(last),
        _ => Ok(()),
    }
}

fn failure(message: String) -> Failure {
    Failure { code: "internal".into(), message, retry_after: None, ext: Vec::new() }
}
