//! Loan of an account.

use bulkhead_sdk::call::Caller;
use bulkhead_sdk::database_plugin::StoreTime;
use serde::{Deserialize, Serialize};

/// A loan: the borrower of an account, and the loan's lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loan {
    /// Random id. Not a secret.
    pub(crate) id: String,
    /// Handle of the lease in the lease book.
    pub(crate) handle: String,
    /// The borrower's entity; empty if the borrower's token has no entity.
    pub(crate) entity: String,
    /// Stand-in for the borrower's token at this mount.
    pub(crate) token: String,
    pub(crate) since: StoreTime,
    /// The loan outlives the expiry of its lease (decision D1).
    pub(crate) is_endless: bool,
    /// Reason why the loan could not end yet. `None` before the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<ReturnFailure>,
}

/// A failed end of a loan. Part of a stored record: later fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReturnFailure {
    /// Time of the first failed attempt.
    pub(crate) since: StoreTime,
    /// Message of the last failed attempt with another reason than the attempt before.
    pub(crate) why: String,
}

impl Loan {
    /// Returns true if the caller is the borrower: the same entity, or the same token.
    pub(crate) fn is_of(&self, caller: &Caller) -> bool {
        let is_same = |one: &str, other: &str| !one.is_empty() && one == other;
        is_same(&self.entity, &caller.entity) || is_same(&self.token, &caller.id)
    }
}
