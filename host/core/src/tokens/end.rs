//! How tokens end: refused at once with all their descendants, then cleared away.
//!
//! The attack this file stops: a child that outlives its parent. A token is marked first and its
//! children are listed after that mark was committed; the request that makes a child asserts in the
//! same commit that the parent is not marked. So no child is overlooked, neither one that is being
//! made nor one of another page.
//!
//! The revocation answers when the whole tree is marked ([`Tokens::spread_end`]). Due work
//! clears it away (`lifecycle/end_token.rs`), and does the marking too, so that it does not matter
//! where a process dies: the row of the token that was revoked goes last.

use super::record::{Ending, TokenRecord, address, put, put_due, read, try_commit};
use super::table::Tokens;
use crate::log::cause;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Refuses the token from this commit on; [`Tokens::spread_end`] and due work do the rest. A token
/// that is ending already goes on ending as it was told to.
pub(crate) fn begin_end(
    unit: &mut Unit,
    key: &str,
    record: &TokenRecord,
    ending: Ending,
) -> Result<(), Failure> {
    let record = TokenRecord { ended: Some(record.ended.unwrap_or(ending)), ..record.clone() };
    put_due(unit, key, &record, Some(0))
}

impl Tokens {
    /// Once the end of a token is committed: refuses its descendants, or lets its children go,
    /// before the caller is told that it ended.
    ///
    /// # Errors
    /// Those of the store. What is left then is done by due work.
    pub(crate) async fn spread_end(&self, key: &str) -> Result<(), Failure> {
        // Cleared away already, it was spread before.
        let Some(record) = read(&mut self.store.begin(), key).await? else { return Ok(()) };
        match record.ended {
            Some(Ending::Alone) => self.release_children(key).await,
            Some(Ending::WithChildren) => self.refuse_descendants(key).await.map(drop),
            None => Ok(()),
        }
    }

    /// Ends every token that was made at `path` or below it, at the borders of segments, with its
    /// descendants. One that never expires has no lease, and is left; one that does not open is
    /// told, and opens no door either.
    ///
    /// # Errors
    /// The store's failure. Those that were reached have ended.
    pub(crate) async fn end_made_below(&self, path: &str) -> Result<(), Failure> {
        let mut scan = self.store.scan(Space::Token, "");
        while let Some(page) = scan.page().await? {
            for key in self.end_those_made_below(path, &page).await? {
                self.spread_end(&key).await?;
            }
        }
        Ok(())
    }

    /// Of these tokens, the keys of those that were ended.
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
                    self.read_or_tell(&mut unit, key).await?.filter(|record| is_meant(record))
                {
                    begin_end(&mut unit, key, &record, Ending::WithChildren)?;
                    ended.push(key.clone());
                }
            }
            if try_commit(unit).await? {
                return Ok(ended);
            }
        }
    }

    /// Ends the token if it is due, and says how; `None` when there is nothing to do now.
    pub(crate) async fn end_if_due(&self, key: &str) -> Result<Option<Ending>, Failure> {
        loop {
            let mut unit = self.store.begin();
            let Some(record) = read(&mut unit, key).await? else { return Ok(None) };
            let now = self.store.now();
            if record.ended.is_some() || record.due().is_none_or(|due| due > now) {
                return Ok(record.ended);
            }
            let ending = if record.is_alive(now) && self.uses.any(key) {
                // Its last request takes longer than most.
                put(
                    &mut unit,
                    key,
                    &TokenRecord { used_up: Some(now), ..TokenRecord::clone(&record) },
                )?;
                None
            } else {
                begin_end(&mut unit, key, &record, Ending::WithChildren)?;
                Some(Ending::WithChildren)
            };
            if try_commit(unit).await? {
                return Ok(ending);
            }
        }
    }

    /// Refuses all descendants of a token whose end is committed, breadth first. Gives their keys,
    /// parents before children.
    pub(crate) async fn refuse_descendants(&self, root: &str) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        // A tree has no cycles; an edited store might.
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

    /// Refuses these tokens. Gives the keys of those that end with their children. They are not
    /// made due: the tree is cleared away by the work on the token at its top.
    async fn refuse_page(&self, page: &[Address]) -> Result<Vec<String>, Failure> {
        loop {
            let mut unit = self.store.begin();
            let mut ending = Vec::with_capacity(page.len());
            for Address { key, .. } in page {
                // One that cannot be read opens no door, but its children may. Its row goes with
                // the tree.
                if let Some(record) = self.read_or_tell(&mut unit, key).await? {
                    match record.ended {
                        // It let its children go before.
                        Some(Ending::Alone) => continue,
                        Some(Ending::WithChildren) => {}
                        None => put(
                            &mut unit,
                            key,
                            &TokenRecord {
                                ended: Some(Ending::WithChildren),
                                ..TokenRecord::clone(&record)
                            },
                        )?,
                    }
                }
                ending.push(key.clone());
            }
            if try_commit(unit).await? {
                return Ok(ending);
            }
        }
    }

    /// Makes orphans of the children of a token whose end is committed.
    pub(crate) async fn release_children(&self, parent: &str) -> Result<(), Failure> {
        let mut children = self.store.scan_owned(Space::Token, parent);
        while let Some(page) = children.page().await? {
            while !try_commit(self.orphan_page(&page).await?).await? {}
        }
        Ok(())
    }

    async fn orphan_page(&self, page: &[Address]) -> Result<Unit, Failure> {
        let mut unit = self.store.begin();
        for Address { key, .. } in page {
            // One that is ending has a due time of its own, which must stay.
            if let Some(record) =
                self.read_or_tell(&mut unit, key).await?.filter(|record| record.ended.is_none())
            {
                put(&mut unit, key, &TokenRecord { parent: None, ..TokenRecord::clone(&record) })?;
            }
        }
        Ok(unit)
    }

    /// The token; `None` where there is none or its row does not open, which is told to the
    /// operator.
    pub(super) async fn read_or_tell(
        &self,
        unit: &mut Unit,
        key: &str,
    ) -> Result<Option<Arc<TokenRecord>>, Failure> {
        match read(unit, key).await {
            Err(failure) if failure.kind == Kind::Internal => {
                self.log.line("error", "token-unreadable", &[cause(&failure)]);
                Ok(None)
            }
            found => found,
        }
    }

    /// Removes the row of an ended token, whose leases are due.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn remove_ended(&self, key: &str) -> Result<(), Failure> {
        loop {
            let mut unit = self.store.begin();
            // Cleared away meanwhile, the key may be that of a new token with the same text.
            if self.read_or_tell(&mut unit, key).await?.is_some_and(|record| record.ended.is_none())
            {
                return Ok(());
            }
            unit.delete(address(key));
            if try_commit(unit).await? {
                return Ok(());
            }
        }
    }
}
