//! A client secret that a rotation made, and the application for which the rotation made it.
//!
//! This file prevents a secret from being sent to another tenant, application or cloud than its
//! own: every stored copy of a secret stands beside its place.

use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};

/// An application, and the authority that issues its access tokens. Part of stored records: later
/// fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecretPlace {
    /// Origin of the authority, which also tells the cloud.
    pub(crate) authority: String,
    pub(crate) tenant: String,
    pub(crate) client_id: String,
}

/// The secret that a rotation replaced. The provider may accept the secret for some time after its
/// removal, so that a login by it proves nothing. Part of stored records.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FormerSecret {
    /// SHA-256 in hexadecimal.
    digest: String,
    /// The provider's id of the secret, if known.
    pub(crate) key_id: Option<String>,
}

/// A secret that a rotation made. Part of stored records. No `Debug`, because it contains a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RotatedSecret {
    pub(crate) secret: String,
    /// The provider's id of the secret.
    pub(crate) key_id: String,
    pub(crate) expires: Option<StoreTime>,
    /// `None` if an earlier release made the secret.
    #[serde(default)]
    pub(crate) former: Option<FormerSecret>,
}

impl FormerSecret {
    pub(crate) fn of(
        host: &dyn Host,
        secret: &str,
        key_id: Option<String>,
    ) -> Result<Self, Failure> {
        Ok(Self { digest: digest(host, secret)?, key_id })
    }
}

impl RotatedSecret {
    /// Tells if the rotation that made this secret replaced `secret`.
    ///
    /// # Errors
    /// The failure to compute a digest.
    pub(crate) fn has_replaced(&self, host: &dyn Host, secret: &str) -> Result<bool, Failure> {
        match &self.former {
            Some(former) => Ok(former.digest == digest(host, secret)?),
            None => Ok(false),
        }
    }

    /// Returns the id of the replaced secret, if known.
    pub(crate) fn former_key_id(&self) -> Option<String> {
        self.former.as_ref()?.key_id.clone()
    }
}

fn digest(host: &dyn Host, secret: &str) -> Result<String, Failure> {
    Ok(hexadecimal::text(&host.crypto().digest("sha256", secret.as_bytes())?))
}
