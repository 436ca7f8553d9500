//! The keeper of the key of `seal "transit"`: the component of the seal, with the token and the
//! files of the moment.
//!
//! This file prevents a server that keeps an expired token: token and certificates are read again
//! for each exchange.

use crate::config::TransitAccess;
pub use crate::config::TransitCall;
use async_trait::async_trait;
use bulkhead_core::key_wrapper::{KeyWrapper, OpenedKey, WrappedKey};
use bulkhead_store::SealKey;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::sync::Arc;
use std::time::Duration;

/// The component of a seal. Each call gets the settings, and reaches the origin of the settings
/// alone.
#[async_trait]
pub trait SealCalls: Send + Sync {
    /// Encrypts a key.
    ///
    /// # Errors
    /// As [`KeyWrapper::wrap`].
    async fn wrap(&self, call: &TransitCall, key: &SealKey) -> Result<WrappedKey, Failure>;

    /// Decrypts a key.
    ///
    /// # Errors
    /// As [`KeyWrapper::unwrap`].
    async fn unwrap(&self, call: &TransitCall, blob: &[u8]) -> Result<OpenedKey, Failure>;

    /// Renews the token. Returns the time until the next renewal.
    ///
    /// # Errors
    /// As [`KeyWrapper::renew`].
    async fn renew(&self, call: &TransitCall) -> Result<Option<Duration>, Failure>;

    /// Checks that the other server works.
    ///
    /// # Errors
    /// As [`KeyWrapper::check`].
    async fn check(&self, call: &TransitCall) -> Result<(), Failure>;
}

/// The keeper that a component reaches.
struct ComponentKeeper {
    component: Arc<dyn SealCalls>,
    access: TransitAccess,
}

impl ComponentKeeper {
    /// Returns the settings of the moment. A file that cannot be read may be back soon.
    fn call(&self) -> Result<TransitCall, Failure> {
        self.access.read().map_err(|why| Failure::new(FailureKind::Unavailable, why))
    }
}

#[async_trait]
impl KeyWrapper for ComponentKeeper {
    async fn wrap(&self, key: &SealKey) -> Result<WrappedKey, Failure> {
        self.component.wrap(&self.call()?, key).await
    }

    async fn unwrap(&self, blob: &[u8]) -> Result<OpenedKey, Failure> {
        self.component.unwrap(&self.call()?, blob).await
    }

    async fn renew(&self) -> Result<Option<Duration>, Failure> {
        self.component.renew(&self.call()?).await
    }

    async fn check(&self) -> Result<(), Failure> {
        self.component.check(&self.call()?).await
    }
}

/// Returns the keeper behind `access`.
///
/// # Errors
/// This build has no component for the seal.
pub(crate) fn keeper(access: TransitAccess) -> Result<Arc<dyn KeyWrapper>, String> {
    Ok(Arc::new(ComponentKeeper { component: component()?, access }))
}

/// Returns the component of `seal "transit"`.
fn component() -> Result<Arc<dyn SealCalls>, String> {
    Err("this build has no component for seal \"transit\"; install a complete build, or write \
         another seal"
        .to_owned())
}
