//! Record of a login for its renewal. It is separate from the token's metadata, which can be empty.

use crate::instance_identity::InstanceIdentity;
use bulkhead_sdk::stored;
use serde::{Deserialize, Serialize};

/// The admitted caller and the role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AdmittedCaller {
    /// The role's canonical name.
    pub(crate) role: String,
    /// The role's id, which distinguishes it from a later role with the same name.
    pub(crate) role_id: String,
    /// The account's number.
    pub(crate) account: String,
    /// Set if the provider signed the login's token.
    pub(crate) is_inferred: bool,
    /// The instance, for a role of instances.
    pub(crate) instance: Option<InstanceIdentity>,
}

stored!(AdmittedCaller, "login", reads_stored_logins);
