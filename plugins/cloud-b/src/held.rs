//! What a login keeps for its renewal, apart from what is shown with its token: that can be none.

use crate::instance_identity::InstanceIdentity;
use bulkhead_sdk::stored;
use serde::{Deserialize, Serialize};

/// Who was let in by which role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Its canonical name.
    pub(crate) role: String,
    /// Its own: a role of that name that is made later is another one.
    pub(crate) role_id: String,
    /// The account's number.
    pub(crate) account: String,
    /// By a token that the provider signed.
    pub(crate) is_inferred: bool,
    /// Of a role of instances.
    pub(crate) instance: Option<InstanceIdentity>,
}

stored!(Held, "login", reads_stored_logins);
