//! Authentication of a request by its token, the counting of uses, and the validity check at
//! commit.
//!
//! This file prevents a token from serving more requests than it has uses. A use is taken by its
//! own conditional update before any other work for the request, and is not returned however the
//! request ends.

use super::batch;
use super::caller::Caller;
use super::end::begin_end;
use super::lookup::by_token;
use super::record::{TokenEnding, TokenRecord, TokenType, put, read, try_commit};
use super::table::Tokens;
use super::uses::TokenUse;
use crate::identity;
use crate::log::cause;
use bulkhead_store::{Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::secret::Secret;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time that a request queues for taking a use; afterwards the request tries
/// optimistically.
const USE_TIME: Duration = Duration::from_secs(30);

impl Tokens {
    /// Authenticates a caller from the address `remote`. If the token's uses are counted, takes a
    /// use: once per request, even if the request is retried. A request that writes asserts the
    /// validity again in its commit ([`assert_valid`]). The request ends with
    /// [`Tokens::finish_request`].
    ///
    /// # Errors
    /// 403 if there is no token, or if the token is unknown, expired, revoked, used up, bound to
    /// other addresses, or of a disabled or deleted entity. The message does not tell these cases
    /// apart.
    pub async fn authenticate(
        &self,
        token: Option<&Secret>,
        remote: IpAddr,
    ) -> Result<Caller, Failure> {
        let caller = self.identify(token, remote).await?;
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

    /// Identifies a caller as [`Tokens::authenticate`] does, and takes no use.
    ///
    /// # Errors
    /// 403, as [`Tokens::authenticate`].
    pub async fn identify(
        &self,
        token: Option<&Secret>,
        remote: IpAddr,
    ) -> Result<Caller, Failure> {
        let Some(token) = sent(token) else {
            return Err(Failure::denied(
                "this path needs a token; send the token in the header X-Vault-Token",
            ));
        };
        self.find_from(token, remote).await?.ok_or_else(unknown_failure)
    }

    /// Returns true if a request from `remote` could begin with this token. Takes no use.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub async fn is_held(&self, token: Option<&Secret>, remote: IpAddr) -> Result<bool, Failure> {
        match sent(token) {
            Some(token) => Ok(self.find_from(token, remote).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Returns the caller with this token if the token may be used from `remote`.
    async fn find_from(&self, token: &Secret, remote: IpAddr) -> Result<Option<Caller>, Failure> {
        let mut unit = self.store.begin();
        let found = by_token(&self.store, &mut unit, token).await?;
        let Some(caller) = found.filter(|caller| may_come_from(&caller.record, remote)) else {
            return Ok(None);
        };
        let may = identity::is_in_force(&mut unit, &caller.record.entity_id).await?;
        Ok(may.then_some(caller))
    }

    /// Takes a use of the stored token. The last use makes the row due, so that the token ends even
    /// if this process dies before it can end the token.
    async fn take_use(&self, counted: &TokenUse) -> Result<Arc<TokenRecord>, Failure> {
        let (store, turn) = (&self.store, self.store.queue_ticket());
        let until = Instant::now() + USE_TIME;
        loop {
            let mut unit = store.begin().with_ticket(&turn);
            let record = read(&mut unit, counted.key())
                .await?
                .filter(|record| record.is_valid_at(store.now()));
            let mut record = record.ok_or_else(unknown_failure)?;
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

    /// Finishes a request. A token without uses left ends, unless other requests still run with
    /// their uses.
    pub async fn finish_request(&self, caller: &Caller) {
        if let Some(counted) = &caller.counted {
            Box::pin(self.release_use(counted)).await;
        }
    }

    async fn release_use(&self, counted: &TokenUse) {
        if !counted.leave() {
            return;
        }
        if let Err(failure) = self.end_used_up(counted.key()).await {
            // The token is safe: no request can begin with it, and due work ends the row.
            self.log.line(LogLevel::Warn, "token-end-delayed", &[cause(&failure)]);
        }
    }

    async fn end_used_up(&self, key: &str) -> Result<(), Failure> {
        loop {
            let mut unit = self.store.begin();
            if let Some(record) = read(&mut unit, key).await? {
                begin_end(&mut unit, key, &record, TokenEnding::WithChildren)?;
            }
            if try_commit(unit).await? {
                return Ok(());
            }
        }
    }
}

/// Returns the sent token; an empty header counts as no token.
fn sent(token: Option<&Secret>) -> Option<&Secret> {
    token.filter(|token| !token.expose().is_empty())
}

/// Returns true if the token may be used from `remote`. The address binding applies only to tokens
/// that expire, so that a mistake cannot lock out the operator forever.
fn may_come_from(record: &TokenRecord, remote: IpAddr) -> bool {
    let is_bound = record.expires.is_some() && !record.bound_cidrs.is_empty();
    !is_bound || record.bound_cidrs.iter().any(|cidr| cidr.contains(remote))
}

/// Reads the caller's token in the unit of work, so that the commit asserts that the token is still
/// valid and its entity enabled. A request keeps the use that it took, even if no use is left.
///
/// # Errors
/// 403 if the token ended after the request arrived.
pub async fn assert_valid(
    store: &Store,
    unit: &mut Unit,
    caller: &Caller,
) -> Result<Caller, Failure> {
    let record = match caller.kind {
        TokenType::Service => read(unit, &caller.hash).await?.filter(|record| {
            record.is_alive(store.now()) && (record.used_up.is_none() || caller.counted.is_some())
        }),
        TokenType::Batch => {
            batch::is_still_valid(store, unit, &caller.record).await?.then(|| caller.record.clone())
        }
    };
    let record =
        record.ok_or_else(|| Failure::denied("the token was revoked while the request ran"))?;
    if !identity::is_in_force(unit, &record.entity_id).await? {
        return Err(Failure::denied("the token's entity was disabled while the request ran"));
    }
    Ok(Caller { record, ..caller.clone() })
}

fn unknown_failure() -> Failure {
    Failure::denied(
        "the token is unknown, expired, revoked, used up, bound to other addresses, or belongs to \
         a disabled entity",
    )
}
