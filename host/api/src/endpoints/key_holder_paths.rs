//! Checks of the endpoints that a quorum of key holders uses.

use super::call::{PermittedCall, PublicCall, RequestFields};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use serde_json::Value;
use std::mem;

/// Checks that key holders may work without a token on this server.
///
/// # Errors
/// 405 unless the configuration allows such work.
pub(super) fn check_allowed(call: &PublicCall<'_>) -> Result<(), Failure> {
    if call.core.process.settings.allow_key_holders {
        return Ok(());
    }
    let message = format!(
        "unsupported operation: {} is off, because the path needs no token; set allow_key_holders \
         = true in the server's configuration, or use sys/generate-root-token and sys/rotate/root \
         with a token",
        quoted(&call.request.path)
    );
    Err(Failure::new(FailureKind::UnsupportedOperation, message).recordable())
}

/// Refuses a parameter that this version does not serve, unless the parameter is empty.
///
/// # Errors
/// 400 with the parameter and the `remedy`.
pub(super) fn refuse_named(
    fields: RequestFields<'_>,
    name: &str,
    remedy: &str,
) -> Result<(), Failure> {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if fields.get(name).is_none_or(is_nothing) {
        return Ok(());
    }
    Err(Failure::invalid(format!("{name} is not supported by this version: {remedy}")))
}

impl PermittedCall<'_> {
    /// Commits the check of the caller's token before a change outside of the unit of work, so that
    /// no later conflict withholds an answer with keys.
    ///
    /// # Errors
    /// If the token was changed meanwhile.
    pub(super) async fn commit_token_check(&mut self) -> Result<(), Failure> {
        let checked = mem::replace(self.unit, self.core.store.begin());
        checked.commit().await?;
        Ok(())
    }
}
