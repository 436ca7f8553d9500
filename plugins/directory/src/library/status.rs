//! The endpoint `library/{name}/status`: shows which accounts are lent, and the borrowers.

use crate::set::Set;
use crate::{rotation, times};
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value, json};

/// Returns for each account whether a check-out would lend the account. Accounts without a known
/// password (such as accounts gone from the directory) and accounts with a change under way are not
/// available. A loan that could not end shows the last error, and the time of the first attempt.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let set = Set::require(host, call)?;
    let mut shown = Map::new();
    for member in &set.members {
        let account = Set::account(host, member)?;
        let is_open = rotation::is_open(host, &member.account)?;
        let is_available = account.is_at_home() && !is_open;
        let loan = account.loan;
        let mut status = Map::from_iter([("available".to_owned(), Value::from(is_available))]);
        for (name, borrower) in loan.iter().flat_map(|loan| {
            [("borrower_client_token", &loan.token), ("borrower_entity_id", &loan.entity)]
        }) {
            if !borrower.is_empty() {
                status.insert(name.to_owned(), json!(borrower));
            }
        }
        if let Some(failure) = loan.and_then(|loan| loan.failure) {
            status.insert("last_error".to_owned(), json!(failure.why));
            status.insert("failing_since".to_owned(), json!(times::show(failure.since)));
        }
        shown.insert(member.name.clone(), Value::Object(status));
    }
    Answer::data(&shown)
}
