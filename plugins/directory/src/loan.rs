//! Who has an account.

use bulkhead_sdk::call::Caller;
use bulkhead_sdk::database_plugin::StoreTime;
use serde::{Deserialize, Serialize};

/// A loan: who has an account, by which lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loan {
    /// Random, and no secret.
    pub(crate) id: String,
    /// The lease, as the lease book knows it.
    pub(crate) handle: String,
    /// The borrower's entity; empty where its token stands for none.
    pub(crate) entity: String,
    /// What stands for the borrower's token at this mount.
    pub(crate) token: String,
    pub(crate) since: StoreTime,
    /// The end of its lease does not end it (decision D1).
    pub(crate) is_endless: bool,
}

impl Loan {
    /// Whether the caller is who borrowed it: the same entity, or the same token.
    pub(crate) fn is_of(&self, caller: &Caller) -> bool {
        let is_same = |one: &str, other: &str| !one.is_empty() && one == other;
        is_same(&self.entity, &caller.entity) || is_same(&self.token, &caller.id)
    }
}
