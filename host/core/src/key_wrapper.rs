//! The keeper of a seal key outside of Bulkhead, and the automatic seal over such a keeper.
//!
//! This file prevents data under a key that no server can get back: the keeper must return a new
//! key from its wrapped form before any data depend on the key. A keeper that hangs costs a bounded
//! time, and a wrapped key of an unusual size is not stored.

use async_trait::async_trait;
use bulkhead_store::{AutomaticSeal, SealKey};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time of an exchange with the keeper.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of the name of a keeper's key, in bytes.
const KEY_ID_MAX: usize = 256;
/// Maximum size of a wrapped key, in bytes.
const WRAPPED_KEY_MAX: usize = 64 << 10;

/// A key that the keeper has encrypted.
pub struct WrappedKey {
    /// Name of the keeper's key, with its version.
    pub key_id: String,
    /// The encrypted key.
    pub blob: Vec<u8>,
}

/// A key that the keeper has decrypted.
pub struct OpenedKey {
    /// The key.
    pub key: SealKey,
    /// Name of the key with which the keeper encrypts at present. Another name than the name of the
    /// wrapped key means that the keeper's key was rotated.
    pub newest_key_id: String,
}

/// The keeper of a key that encrypts seal keys.
///
/// The message of a failure goes into the log and to the operator: a sentence with the remedy, and
/// without a token, a key or a text of the other server that may hold one. The kinds `Unreachable`,
/// `TimedOut`, `Unavailable`, `RateLimited` and `Conflict` mean that a later call may succeed.
#[async_trait]
pub trait KeyWrapper: Send + Sync {
    /// Encrypts a seal key.
    ///
    /// # Errors
    /// The keeper cannot be reached, refuses, or gives an unusable answer.
    async fn wrap(&self, key: &SealKey) -> Result<WrappedKey, Failure>;

    /// Decrypts a seal key.
    ///
    /// # Errors
    /// As [`KeyWrapper::wrap`].
    async fn unwrap(&self, blob: &[u8]) -> Result<OpenedKey, Failure>;

    /// Renews the credentials for the keeper. Returns the time until the next renewal; `None` if
    /// the credentials need no renewal.
    ///
    /// # Errors
    /// As [`KeyWrapper::wrap`].
    async fn renew(&self) -> Result<Option<Duration>, Failure>;

    /// Returns `false` if the settings leave the credentials without renewal.
    fn renews_credentials(&self) -> bool {
        true
    }

    /// Checks that the keeper works with the present credentials.
    ///
    /// # Errors
    /// As [`KeyWrapper::wrap`].
    async fn check(&self) -> Result<(), Failure>;
}

/// An automatic seal with a key that is stored with the data, encrypted by a keeper.
#[derive(Clone)]
pub struct ExternalSeal {
    kind: &'static str,
    wrapper: Arc<dyn KeyWrapper>,
}

impl ExternalSeal {
    /// A seal of this kind, such as `transit`.
    #[must_use]
    pub fn new(kind: &'static str, wrapper: Arc<dyn KeyWrapper>) -> Self {
        Self { kind, wrapper }
    }

    /// Returns the kind of the seal.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Generates a seal key, and returns the key with its wrapped form. The keeper has proven that
    /// the wrapped form opens.
    ///
    /// # Errors
    /// A failure of the keeper, or an answer that does not open.
    pub(crate) async fn generate(&self) -> Result<(AutomaticSeal, SealKey), Failure> {
        let key = SealKey::generate()?;
        let exchange = async {
            let wrapped = self.wrapper.wrap(&key).await?;
            check_form(&wrapped)?;
            let opened = self.wrapper.unwrap(&wrapped.blob).await?;
            if opened.key.is_same(&key) {
                return Ok(wrapped);
            }
            Err(Failure::internal(
                "the wrapped key opens to another key, and nothing was stored; check that a \
                 single server answers at the address, without a cache",
            ))
        };
        let WrappedKey { key_id, blob } = self.ask(exchange).await?;
        Ok((AutomaticSeal { kind: self.kind.to_owned(), key_id, wrapped_key: blob }, key))
    }

    /// Returns the key of `seal`.
    ///
    /// # Errors
    /// A failure of the keeper.
    pub(crate) async fn open(&self, seal: &AutomaticSeal) -> Result<OpenedKey, Failure> {
        self.ask(self.wrapper.unwrap(&seal.wrapped_key)).await
    }

    /// Renews the credentials as [`KeyWrapper::renew`].
    ///
    /// # Errors
    /// A failure of the keeper.
    pub(crate) async fn renew(&self) -> Result<Option<Duration>, Failure> {
        self.ask(self.wrapper.renew()).await
    }

    /// Returns whether the credentials are renewed, as [`KeyWrapper::renews_credentials`].
    pub(crate) fn renews_credentials(&self) -> bool {
        self.wrapper.renews_credentials()
    }

    /// Checks the keeper as [`KeyWrapper::check`].
    ///
    /// # Errors
    /// A failure of the keeper.
    pub async fn check(&self) -> Result<(), Failure> {
        self.ask(self.wrapper.check()).await
    }

    /// Returns the outcome of an exchange, which may take [`KEEPER_TIMEOUT`]. A failure names the
    /// seal, and a refusal of the keeper is 400 whatever the keeper called it.
    async fn ask<T>(
        &self,
        exchange: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let ended = tokio::time::timeout(KEEPER_TIMEOUT, exchange).await;
        let failure = match ended {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::new(
                FailureKind::TimedOut,
                format!(
                    "the key service of the seal gave no answer in {} s; check the address and \
                     the network",
                    KEEPER_TIMEOUT.as_secs()
                ),
            ),
        };
        let kind = if may_pass(failure.kind) { failure.kind } else { FailureKind::InvalidRequest };
        let message = format!("seal {}: {}", quoted(self.kind), failure.message);
        Err(Failure { kind, message, ..failure }.recordable())
    }
}

impl fmt::Debug for ExternalSeal {
    /// Writes the kind alone.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ExternalSeal({:?})", self.kind)
    }
}

/// Returns whether a later attempt may succeed without a change by the operator.
pub(crate) fn may_pass(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Unreachable
            | FailureKind::TimedOut
            | FailureKind::Unavailable
            | FailureKind::RateLimited
            | FailureKind::Conflict
    )
}

/// Refuses a wrapped key that the store should not hold.
fn check_form(wrapped: &WrappedKey) -> Result<(), Failure> {
    let id = &wrapped.key_id;
    let is_name = (1..=KEY_ID_MAX).contains(&id.len()) && !id.chars().any(char::is_control);
    if is_name && (1..=WRAPPED_KEY_MAX).contains(&wrapped.blob.len()) {
        return Ok(());
    }
    Err(Failure::internal(format!(
        "the key service of the seal answered a name of {} bytes and a wrapped key of {} bytes, \
         and at most {KEY_ID_MAX} and {WRAPPED_KEY_MAX} are stored; check the address of the key \
         service",
        id.len(),
        wrapped.blob.len()
    )))
}

#[cfg(test)]
mod tests;
