//! End of tokens: a token and all its descendants are refused at once, then removed.
//!
//! This file prevents a child from outliving its parent. The parent is marked as ended first, and
//! its children are listed only after the mark was committed. A request that creates a child
//! asserts in the same commit that the parent is not marked. So no child is missed, even if the
//! child is being created at the same time or stands on another page of the listing.
//!
//! A revocation answers after the whole tree is marked ([`Tokens::spread_end`]). Due work removes
//! the rows (`lifecycle/end_token.rs`) and repeats the marking, so that a process may die at any
//! point: the row of the revoked token is removed last.

use super::record::{TokenEnding, TokenRecord, TokenType, address, put, put_due, read, try_commit};
use super::table::Tokens;
use crate::log::cause;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Marks the token as ended; the token is refused from this commit on. [`Tokens::spread_end`] and
/// due work do the rest. A token that is already ending keeps its [`TokenEnding`].
pub fn begin_end(
    unit: &mut Unit,
    key: &str,
    record: &TokenRecord,
    ending: TokenEnding,
) -> Result<(), Failure> {
    let record = record.ended_at(unit.now(), ending);
    put_due(unit, key, &record, Some(0))
}

impl Tokens {
    /// Refuses the descendants of a token, or releases its children, after the end of the token was
    /// committed and before the caller gets its answer.
    ///
    /// # Errors
    /// The store's failure. Due work then completes the end.
    pub async fn spread_end(&self, key: &str) -> Result<(), Failure> {
        // If the row is gone, the end was spread before.
        let Some(record) = read(&mut self.store.begin(), key).await? else { return Ok(()) };
        match record.ended {
            Some(TokenEnding::Alone) => self.release_children(key).await,
            Some(TokenEnding::WithChildren) => self.refuse_descendants(key).await.map(drop),
            None => Ok(()),
        }
    }

    /// Ends every token created at `path` or below (at segment borders), with its descendants. A
    /// token that never expires has no lease and is skipped. A row that cannot be read is logged;
    /// its token is unusable anyway.
    ///
    /// # Errors
    /// The store's failure. Tokens reached before the failure have ended.
    pub async fn end_made_below(&self, path: &str) -> Result<(), Failure> {
        let mut scan = self.store.scan(Space::Token, "");
        while let Some(page) = scan.page().await? {
            for key in self.end_those_made_below(path, &page).await? {
                self.spread_end(&key).await?;
            }
        }
        Ok(())
    }

    /// Ends the matching tokens of a page. Returns the keys of the ended tokens.
    async fn end_those_made_below(
        &self,
        path: &str,
        page: &[Address],
    ) -> Result<Vec<String>, Failure> {
        let is_meant = |record: &TokenRecord| {
            let rest = record.path.strip_prefix(path);
            let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            record.expires.is_some() && record.ended.is_none() && is_below
        };
        loop {
            let (mut unit, mut ended) = (self.store.begin(), Vec::new());
            for Address { key, .. } in page {
                if let Some(record) =
                    self.read_or_log(&mut unit, key).await?.filter(|record| is_meant(record))
                {
                    begin_end(&mut unit, key, &record, TokenEnding::WithChildren)?;
                    ended.push(key.clone());
                }
            }
            if try_commit(unit).await? {
                return Ok(ended);
            }
        }
    }

    /// Ends the token if it is due. Returns its ending, or `None` if there is nothing to do now.
    pub async fn end_if_due(&self, key: &str) -> Result<Option<TokenEnding>, Failure> {
        loop {
            let mut unit = self.store.begin();
            let Some(record) = read(&mut unit, key).await? else { return Ok(None) };
            let now = self.store.now();
            if record.ended.is_some() || record.due_time().is_none_or(|due| due > now) {
                return Ok(record.ended);
            }
            let ending = if record.is_alive(now) && self.uses.is_running(key) {
                // The token's last request is still running.
                put(
                    &mut unit,
                    key,
                    &TokenRecord { used_up: Some(now), ..TokenRecord::clone(&record) },
                )?;
                None
            } else {
                begin_end(&mut unit, key, &record, TokenEnding::WithChildren)?;
                Some(TokenEnding::WithChildren)
            };
            if try_commit(unit).await? {
                return Ok(ending);
            }
        }
    }

    /// Refuses all descendants of a token whose end is committed, breadth first. Returns their
    /// keys, parents before children.
    pub async fn refuse_descendants(&self, root: &str) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        // A tree has no cycles, but an edited store might.
        let mut seen = BTreeSet::from([root.to_owned()]);
        let mut next = 0;
        let mut parent = root.to_owned();
        loop {
            let mut children = self.store.scan_owned(Space::Token, parent.as_str());
            while let Some(page) = children.page().await? {
                found.extend(
                    self.refuse_page(&page)
                        .await?
                        .into_iter()
                        .filter(|key| seen.insert(key.clone())),
                );
            }
            let Some(key) = found.get(next) else { return Ok(found) };
            parent.clone_from(key);
            next += 1;
        }
    }

    /// Refuses these tokens. Returns the keys of the tokens whose children end too. The tokens are
    /// not made due, because the work on the root of the tree removes the whole tree.
    async fn refuse_page(&self, page: &[Address]) -> Result<Vec<String>, Failure> {
        loop {
            let mut unit = self.store.begin();
            let mut ending = Vec::with_capacity(page.len());
            for Address { key, .. } in page {
                // An unreadable token is unusable, but its children may be usable. Its row is
                // removed with the tree.
                if let Some(record) = self.read_or_log(&mut unit, key).await? {
                    match record.ended {
                        // This token released its children before.
                        Some(TokenEnding::Alone) => continue,
                        Some(TokenEnding::WithChildren) => {}
                        None => {
                            let now = self.store.now();
                            put(&mut unit, key, &record.ended_at(now, TokenEnding::WithChildren))?;
                        }
                    }
                }
                ending.push(key.clone());
            }
            if try_commit(unit).await? {
                return Ok(ending);
            }
        }
    }

    /// Turns the children of a token whose end is committed into orphans.
    pub async fn release_children(&self, parent: &str) -> Result<(), Failure> {
        let mut children = self.store.scan_owned(Space::Token, parent);
        while let Some(page) = children.page().await? {
            while !try_commit(self.orphan_page(&page).await?).await? {}
        }
        Ok(())
    }

    async fn orphan_page(&self, page: &[Address]) -> Result<Unit, Failure> {
        let mut unit = self.store.begin();
        for Address { key, .. } in page {
            // A token that is ending keeps its own due time.
            if let Some(record) =
                self.read_or_log(&mut unit, key).await?.filter(|record| record.ended.is_none())
            {
                put(&mut unit, key, &TokenRecord { parent: None, ..TokenRecord::clone(&record) })?;
            }
        }
        Ok(unit)
    }

    /// Reads a token. Returns `None` if the token does not exist, or if its row cannot be read; the
    /// latter is logged for the operator.
    pub(super) async fn read_or_log(
        &self,
        unit: &mut Unit,
        key: &str,
    ) -> Result<Option<Arc<TokenRecord>>, Failure> {
        match read(unit, key).await {
            Err(failure) if failure.kind == FailureKind::Internal => {
                self.log.line(LogLevel::Error, "token-unreadable", &[cause(&failure)]);
                Ok(None)
            }
            found => found,
        }
    }

    /// Removes the row of an ended token whose leases are due.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn remove_ended(&self, key: &str) -> Result<(), Failure> {
        loop {
            let mut unit = self.store.begin();
            // If the row was removed meanwhile, the key may belong to a new token with the same
            // text.
            let record = self.read_or_log(&mut unit, key).await?;
            if record.as_ref().is_some_and(|record| record.ended.is_none()) {
                return Ok(());
            }
            unit.delete(address(key));
            if try_commit(unit).await? {
                if let Some(record) = record {
                    let cause = record.removal_cause(self.store.now());
                    self.counts.of(TokenType::Service).note_end(cause);
                }
                return Ok(());
            }
        }
    }
}
