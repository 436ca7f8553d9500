//! `library/{name}/status`: which accounts are lent, and to whom.

use crate::set::Set;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value, json};

/// Answers for each account whether it is available.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let set = Set::require(host, call)?;
    let mut shown = Map::new();
    for member in &set.members {
        let loan = Set::account(host, member)?.loan;
        let mut status = Map::from_iter([("available".to_owned(), Value::from(loan.is_none()))]);
        for (name, borrower) in loan.iter().flat_map(|loan| {
            [("borrower_client_token", &loan.token), ("borrower_entity_id", &loan.entity)]
        }) {
            if !borrower.is_empty() {
                status.insert(name.to_owned(), json!(borrower));
            }
        }
        shown.insert(member.name.clone(), Value::Object(status));
    }
    Answer::data(&shown)
}
