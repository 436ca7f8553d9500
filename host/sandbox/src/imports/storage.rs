//! The `storage` import: the mount's own rows, in the call's unit of work.
//!
//! This file prevents a key from leaving the mount. Every key is checked and prefixed with the
//! mount's uuid here, and nowhere else.

use crate::bindings::secrets_engine::bulkhead::plugin::storage::{Entry, Host};
use crate::call_spans::end_step;
use crate::call_tree::SideEffect;
use crate::contract::Failure;
use crate::grants::Act;
use crate::limits;
use crate::state::{CallState, refusal};
use bulkhead_store::{Address, IndexColumns, Record, Space};
use bulkhead_wire::failure::Failure as Refused;

impl Host for CallState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Entry>, Failure>> {
        granted!(self, Act::Storage);
        // The unit of work keeps each read until the commit, even if no record was found.
        self.charge_row(key.len())?;
        let span = self.begin_step("storage.get");
        let found = get(self, &key).await;
        end_step(span, found.is_ok());
        Ok(found)
    }

    fn put(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Storage);
        self.charge_write(key.len().saturating_add(value.len()))?;
        self.charge_row(key.len())?;
        Ok(put(self, &key, value))
    }

    fn delete(&mut self, key: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Storage);
        self.charge_row(key.len())?;
        Ok(delete(self, &key))
    }

    async fn keys(
        &mut self,
        prefix: String,
        after: String,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<String>, Failure>> {
        granted!(self, Act::Storage);
        // The unit of work keeps the range and each of its keys.
        self.charge_row(prefix.len().saturating_mul(2).saturating_add(after.len()))?;
        let span = self.begin_step("storage.keys");
        let listed = keys(self, &prefix, &after, limit).await;
        end_step(span, listed.is_ok());
        let place = limits::LISTED_KEY_BYTES.saturating_add(prefix.len());
        self.charge(listed.iter().flatten().map(|key| key.len().saturating_add(place)).sum())?;
        Ok(listed)
    }

    async fn scan(
        &mut self,
        prefix: String,
        after: String,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<(String, Entry)>, Failure>> {
        granted!(self, Act::Storage);
        self.charge_row(prefix.len().saturating_mul(2).saturating_add(after.len()))?;
        let span = self.begin_step("storage.scan");
        let found = scan(self, &prefix, &after, limit).await;
        end_step(span, found.is_ok());
        // The unit of work keeps each record twice: as a key of the range, and with its value.
        let place = (limits::LISTED_KEY_BYTES + limits::ROW_BYTES)
            .saturating_add(prefix.len().saturating_mul(2));
        let size = |(key, _): &(String, Entry)| key.len().saturating_mul(2).saturating_add(place);
        self.charge(found.iter().flatten().map(size).sum())?;
        Ok(found)
    }

    fn revision(&mut self, prefix: String) -> wasmtime::Result<Result<u64, Failure>> {
        granted!(self, Act::Storage);
        self.charge_row(prefix.len())?;
        Ok(revision(self, &prefix))
    }

    async fn checkpoint(&mut self) -> wasmtime::Result<Result<u64, Failure>> {
        granted!(self, Act::Storage);
        let is_changed = self.context.tree.effect() == SideEffect::Effect;
        self.context.tree.note_commit();
        let span = self.begin_step("storage.checkpoint");
        let done = match self.unit() {
            Ok(unit) => {
                if is_changed {
                    unit.mark_effectful();
                }
                unit.checkpoint().await
            }
            Err(refused) => return Ok(Err(refused)),
        };
        end_step(span, done.is_ok());
        Ok(done.map(Option::unwrap_or_default).map_err(|fault| self.record_fault(fault)))
    }
}

async fn get(state: &mut CallState, key: &str) -> Result<Option<Entry>, Failure> {
    let address = address(state, key)?;
    let record = state.unit()?.get(&address).await;
    let record = record.map_err(|fault| state.record_fault(fault))?;
    Ok(record.map(|record| entry(&record)))
}

fn entry(record: &Record) -> Entry {
    Entry {
        value: record.body.to_vec(),
        created: record.created,
        modified: record.modified,
        ext: Vec::new(),
    }
}

fn put(state: &mut CallState, key: &str, value: Vec<u8>) -> Result<(), Failure> {
    let address = address(state, key)?;
    state.check_name("storage key", key)?;
    if value.len() > limits::VALUE_BYTES {
        return Err(invalid(format!(
            "the value of {key:?} has {} bytes; a value has at most 1 MiB",
            value.len()
        )));
    }
    state.unit()?.put(address, value, IndexColumns::default());
    Ok(())
}

fn delete(state: &mut CallState, key: &str) -> Result<(), Failure> {
    let address = address(state, key)?;
    state.unit()?.delete(address);
    Ok(())
}

async fn keys(
    state: &mut CallState,
    prefix: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<String>, Failure> {
    let (prefix, after) = range(state, prefix, after, limit)?;
    let found = state.unit()?.keys(Space::Data, &prefix, &after, limit).await;
    let found = found.map_err(|fault| state.record_fault(fault))?;
    Ok(found.iter().filter_map(|key| key.strip_prefix(&prefix)).map(str::to_owned).collect())
}

async fn scan(
    state: &mut CallState,
    prefix: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<(String, Entry)>, Failure> {
    let (prefix, after) = range(state, prefix, after, limit)?;
    let range = (prefix.as_str(), after.as_str());
    let found = state.unit()?.records(Space::Data, range, limit, limits::PAGE_BYTES).await;
    let found = found.map_err(|fault| state.record_fault(fault))?;
    let named = |(key, record): &(String, Record)| {
        Some((key.strip_prefix(&prefix)?.to_owned(), entry(record)))
    };
    Ok(found.iter().filter_map(named).collect())
}

fn revision(state: &mut CallState, prefix: &str) -> Result<u64, Failure> {
    check_prefix(prefix)?;
    if !prefix.is_empty() && !prefix.ends_with('/') {
        return Err(invalid(format!(
            "{prefix:?} has no revision: give an empty prefix, or a slash at the end"
        )));
    }
    let folder = below(state.mount(), prefix);
    let revision = state.unit()?.folder_revision(&folder);
    revision.map_err(|fault| state.record_fault(fault))
}

/// Returns the full prefix, and the full key after which a page begins.
fn range(
    state: &CallState,
    prefix: &str,
    after: &str,
    limit: u32,
) -> Result<(String, String), Failure> {
    check_prefix(prefix)?;
    if limit == 0 || limit > limits::KEYS_PER_LISTING {
        return Err(invalid(format!("a page of {limit} keys was asked for; ask for 1 to 1000")));
    }
    let prefix = below(state.mount(), prefix);
    let after = if after.is_empty() { String::new() } else { format!("{prefix}{after}") };
    Ok((prefix, after))
}

fn check_prefix(prefix: &str) -> Result<(), Failure> {
    if prefix.is_empty() { Ok(()) } else { check(prefix.strip_suffix('/').unwrap_or(prefix)) }
}

fn address(state: &CallState, key: &str) -> Result<Address, Failure> {
    check(key)?;
    Ok(Address::new(Space::Data, below(state.mount(), key)))
}

/// Returns the full key of a mount's row.
fn below(mount: &str, key: &str) -> String {
    format!("{mount}/{key}")
}

fn check(key: &str) -> Result<(), Failure> {
    let printable = key.chars().all(|c| !c.is_control());
    let has_valid_segments = key.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
    if key.len() <= limits::KEY_BYTES && printable && has_valid_segments {
        return Ok(());
    }
    Err(invalid(format!(
        "{key:?} is not a storage key: 1 to 512 bytes of printable text without empty, . or .. \
         segments"
    )))
}

fn invalid(message: String) -> Failure {
    refusal(&Refused::invalid(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_leave_its_mount() {
        for key in ["", "..", "a/../b", "/a", "a/", "a//b", "./a", "a\0b", "a\nb", &"x".repeat(513)]
        {
            assert!(check(key).is_err(), "{key:?} was taken for a key");
        }
        assert!(check("role/read-only").is_ok());
    }
}
