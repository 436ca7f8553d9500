//! Who calls: the token of a request, its use, and whether it still holds when something is stored.
//!
//! The attack this file stops: more requests than a token has uses. A use is taken by a conditional
//! update of its own before anything else is done for the request, and stays taken
//! however the request ends.

use super::batch;
use super::caller::Caller;
use super::end::begin_end;
use super::lookup::by_token;
use super::record::{Ending, TokenRecord, TokenType, put, read, try_commit};
use super::table::Tokens;
use super::uses::Use;
use crate::identity;
use crate::log::cause;
use bulkhead_store::{Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a request waits for its turn to take a use; then it tries its luck.
const USE_TIME: Duration = Duration::from_secs(30);

impl Tokens {
    /// Finds out who calls from `remote`, and takes a use where uses are counted: once per request,
    /// however often it runs. A request that writes asks again in its commit: see [`assert_valid`].
    /// The request ends with [`Tokens::finish_request`].
    ///
    /// # Errors
    /// 403 without a token, and for one that is unknown, expired, revoked, used up, bound to other
    /// addresses, or of an entity that is disabled or gone; which of them is not told.
    pub(crate) async fn authenticate(
        &self,
        token: Option<&Secret>,
        remote: IpAddr,
    ) -> Result<Caller, Failure> {
        let Some(token) = sent(token) else {
            return Err(Failure::denied(
                "this path needs a token; send it in the header X-Vault-Token",
            ));
        };
        let caller = self.find_from(token, remote).await?.ok_or_else(unknown)?;
        if caller.record.uses_left.is_none() {
            return Ok(caller);
        }
        let counted = Arc::new(self.uses.enter(&caller.hash));
        match Box::pin(self.take_use(&counted)).await {
            Ok(record) => Ok(Caller {
                has_last_use: record.used_up.is_some(),
                record,
                counted: Some(counted),
                ..caller
            }),
            Err(failure) => {
                Box::pin(self.release_use(&counted)).await;
                Err(failure)
            }
        }
    }

    /// Whether a request from `remote` might begin with that token. Takes no use of it.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub(crate) async fn is_held(
        &self,
        token: Option<&Secret>,
        remote: IpAddr,
    ) -> Result<bool, Failure> {
        match sent(token) {
            Some(token) => Ok(self.find_from(token, remote).await?.is_some()),
            None => Ok(false),
        }
    }

    /// The caller with that token, if it may be used from `remote`.
    async fn find_from(&self, token: &Secret, remote: IpAddr) -> Result<Option<Caller>, Failure> {
        let mut unit = self.store.begin();
        let found = by_token(&self.store, &mut unit, token).await?;
        let Some(caller) = found.filter(|caller| may_come_from(&caller.record, remote)) else {
            return Ok(None);
        };
        let may = identity::is_in_force(&mut unit, &caller.record.entity_id).await?;
        Ok(may.then_some(caller))
    }

    /// Takes one use of the stored token. The request that takes the last one makes the row due, so
    /// that the token ends also when this process dies before it can end it.
    async fn take_use(&self, counted: &Use) -> Result<Arc<TokenRecord>, Failure> {
        let (store, turn) = (&self.store, self.store.turn());
        let until = Instant::now() + USE_TIME;
        loop {
            let mut unit = store.begin().in_turn(&turn);
            let record =
                read(&mut unit, counted.key()).await?.filter(|record| record.holds(store.now()));
            let mut record = record.ok_or_else(unknown)?;
            let left = record.uses_left.map(|left| left.saturating_sub(1));
            let taken = Arc::make_mut(&mut record);
            taken.uses_left = left;
            taken.used_up = (left == Some(0)).then(|| store.now());
            put(&mut unit, counted.key(), &record)?;
            if try_commit(unit).await? {
                if record.used_up.is_some() {
                    counted.was_last();
                }
                return Ok(record);
            }
            turn.wait(until).await;
        }
    }

    /// The request is answered: a token that has no use left ends, unless others still work with
    /// theirs.
    pub(crate) async fn finish_request(&self, caller: &Caller) {
        if let Some(counted) = &caller.counted {
            Box::pin(self.release_use(counted)).await;
        }
    }

    async fn release_use(&self, counted: &Use) {
        if !counted.leave() {
            return;
        }
        if let Err(failure) = self.end_used_up(counted.key()).await {
            // Nothing is lost: no request begins with it, and the row is due by itself.
            self.log.line("warn", "token-end-delayed", &[cause(&failure)]);
        }
    }

    async fn end_used_up(&self, key: &str) -> Result<(), Failure> {
        loop {
            let mut unit = self.store.begin();
            if let Some(record) = read(&mut unit, key).await? {
                begin_end(&mut unit, key, &record, Ending::WithChildren)?;
            }
            if try_commit(unit).await? {
                return Ok(());
            }
        }
    }
}

/// The token that was sent, if any was: an empty header is none.
fn sent(token: Option<&Secret>) -> Option<&Secret> {
    token.filter(|token| !token.expose().is_empty())
}

/// Addresses bind tokens that expire, so that no mistake locks the operator out for ever.
fn may_come_from(record: &TokenRecord, remote: IpAddr) -> bool {
    let is_bound = record.expires.is_some() && !record.bound_cidrs.is_empty();
    !is_bound || record.bound_cidrs.iter().any(|cidr| cidr.contains(remote))
}

/// The caller as the unit sees it, so that its commit asserts that the token still holds and that
/// its entity is in force. A request goes on with the use that it took, also when there is none
/// left for others.
///
/// # Errors
/// 403 when the token ended after the request came.
pub(crate) async fn assert_valid(
    store: &Store,
    unit: &mut Unit,
    caller: &Caller,
) -> Result<Caller, Failure> {
    let record = match caller.kind {
        TokenType::Service => read(unit, &caller.hash).await?.filter(|record| {
            record.is_alive(store.now()) && (record.used_up.is_none() || caller.counted.is_some())
        }),
        TokenType::Batch => {
            batch::holds(store, unit, &caller.record).await?.then(|| caller.record.clone())
        }
    };
    let record =
        record.ok_or_else(|| Failure::denied("the token was revoked while the request ran"))?;
    if !identity::is_in_force(unit, &record.entity_id).await? {
        return Err(Failure::denied("the token's entity was disabled while the request ran"));
    }
    Ok(Caller { record, ..caller.clone() })
}

fn unknown() -> Failure {
    Failure::denied(
        "the token is unknown, expired, revoked, used up, bound to other addresses, or its entity \
         is disabled",
    )
}
