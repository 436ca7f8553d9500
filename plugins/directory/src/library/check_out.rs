//! The endpoint `library/{name}/check-out`: lends the first available account.
//!
//! A check-out does not contact the directory: an account is available only with a password that
//! was proven after the last loan. Lease and loan are stored in one commit; of two commits for one
//! account, the second is a conflict.

use super::lease::LeaseData;
use crate::account::Account;
use crate::figures;
use crate::loan::Loan;
use crate::rotation::{self, LANE};
use crate::set::{Set, SetMember};
use bulkhead_sdk::reservation::Reservation;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Answer, Call, Failure, Host, Mount};
use serde_json::json;

/// Random bytes in a loan's id.
const LOAN_ID: u32 = 16;

/// Lends an account.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let set = Set::require(host, call)?;
    let none = || Failure::invalid("no service account of the set is available for check-out");
    let Some((member, mut account)) = first_at_home(host, &set)? else {
        figures::count_check_out(host, "none");
        return Err(none());
    };
    let lost = || Failure::internal("an account at home has no password");
    let password = account.current.clone().ok_or_else(lost)?;
    let terms = LoanTerms::of(&set, call.seconds("ttl"), &call.mount);

    let id = hexadecimal::text(&host.random().bytes(LOAN_ID));
    let lease_data = LeaseData {
        set: call.text("name").to_owned(),
        name: member.name.clone(),
        account: member.account.clone(),
        loan: id.clone(),
    };
    let reserved = Reservation::new(&id, LANE, &lease_data)?.reserve(host)?;
    account.loan = Some(Loan {
        id,
        handle: reserved.handle().to_owned(),
        entity: call.caller.entity.clone(),
        token: call.caller.id.clone(),
        since: host.clock().now(),
        is_endless: terms.is_endless,
        failure: None,
    });
    account.store(host, &member.account)?;
    let lent = reserved.make(host, || Ok(()))?.secret(
        &json!({ "service_account_name": member.name, "password": password }),
        terms.ttl,
        terms.max_ttl,
    )?;
    figures::count_check_out(host, "lent");
    Ok(lent.warn(terms.warning))
}

/// Returns the first account that is not lent, has a known password, and has no change under way.
fn first_at_home<'a>(
    host: &dyn Host,
    set: &'a Set,
) -> Result<Option<(&'a SetMember, Account)>, Failure> {
    for member in &set.members {
        let account = Set::account(host, member)?;
        if account.is_at_home() && !rotation::is_open(host, &member.account)? {
            return Ok(Some((member, account)));
        }
    }
    Ok(None)
}

/// Duration of a loan.
struct LoanTerms {
    /// Seconds.
    ttl: u64,
    /// Maximum seconds over all renewals; 0 means the mount's maximum.
    max_ttl: u64,
    is_endless: bool,
    warning: Option<String>,
}

impl LoanTerms {
    /// Computes the duration: the set's, or the requested duration if shorter (decision D1).
    fn of(set: &Set, request_ttl: u64, mount: &Mount) -> Self {
        let most = if set.ttl == 0 { set.max_ttl } else { set.ttl };
        let ttl = match (request_ttl, most) {
            (0, most) => most,
            (request_ttl, 0) => request_ttl,
            (request_ttl, most) => request_ttl.min(most),
        };
        let is_endless = ttl == 0;
        let wanted = if is_endless { mount.max_ttl } else { ttl };
        let longest = mount.max_ttl.min(mount.longest_lease.max(1));
        let ttl = wanted.min(longest);
        let (shown, wanted_ttl) = (show(ttl), show(wanted));
        let warning = (ttl < wanted).then(|| {
            format!(
                "the lease ends after {shown} instead of {wanted_ttl}: the mount or the token \
                 allows no more"
            )
        });
        Self { ttl, max_ttl: set.max_ttl, is_endless, warning }
    }
}
