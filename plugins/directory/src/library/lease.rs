//! Leases of loans: renewal, and the check-in at the end of a lease.
//!
//! This file prevents a lease that outlives its loan from touching the next borrower's account: a
//! lease contains the id of its loan, and acts only on an account that is lent by that loan.

use super::check_in;
use crate::account::{Account, note_failed_return};
use crate::directory::EntryId;
use crate::set::Set;
use crate::settings::Config;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host, Lease, Mount, Renewal, RevocationReason, stored};
use serde::{Deserialize, Serialize};

/// Data stored in the lease of a loan.
#[derive(Serialize, Deserialize)]
pub(super) struct LeaseData {
    pub(super) set: String,
    /// Name of the account at check-out.
    pub(super) name: String,
    pub(super) account: EntryId,
    pub(super) loan: String,
}

stored!(LeaseData, "lease", reads_stored_leases);

impl LeaseData {
    /// Returns the account, if the account is still lent by this loan.
    fn lent(&self, host: &dyn Host) -> Result<Option<Account>, Failure> {
        let is_this =
            |account: &Account| account.loan.as_ref().is_some_and(|loan| loan.id == self.loan);
        Ok(Account::find(host, &self.account)?.filter(is_this))
    }
}

/// Renews a loan by the present settings of the set.
pub(crate) fn renew(
    host: &dyn Host,
    mount: &Mount,
    lease: &Lease,
    increment: u64,
) -> Result<Renewal, Failure> {
    let lease_data: LeaseData = lease.internal()?;
    let home = || {
        let name = quoted(&lease_data.name);
        Failure::invalid(format!("{name} is checked in already; check the account out again"))
    };
    let gone = || {
        let set = quoted(&lease_data.set);
        Failure::invalid(format!("set {set} is gone, so loans of the set are not renewed"))
    };
    lease_data.lent(host)?.ok_or_else(home)?;
    let set = Set::find(host, &lease_data.set)?.ok_or_else(gone)?;
    let usual = [set.ttl, set.max_ttl, mount.max_ttl].into_iter().find(|ttl| *ttl > 0);
    let ttl = if increment > 0 { increment } else { usual.unwrap_or_default() };
    Ok(Renewal { ttl, max_ttl: set.max_ttl })
}

/// Checks in the account of the lease. If the loan has ended already, nothing happens, even if the
/// account is lent again. The expiry of an endless loan's lease does not end the loan (decision
/// D1).
pub(crate) fn revoke(
    host: &dyn Host,
    mount: &Mount,
    lease: &Lease,
    reason: RevocationReason,
) -> Result<(), Failure> {
    let lease_data: LeaseData = lease.internal()?;
    let Some(account) = lease_data.lent(host)? else { return Ok(()) };
    let is_endless = account.loan.as_ref().is_some_and(|loan| loan.is_endless);
    if is_endless && reason == RevocationReason::Expired {
        return Ok(());
    }
    let config = Config::require(host, mount).map_err(|why| {
        note_failed_return(host, &lease_data.account, &lease_data.loan, &why);
        // The host retries until there is a configuration again.
        Failure { kind: FailureKind::Unreachable, ..why }
    })?;
    check_in::give_back(host, &config, &lease_data.account, account)
}
