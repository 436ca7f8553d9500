//! Metrics of users and rotations.

use super::*;
use crate::fixture::{account, issued, ready, unreachable, with_static_role};
use bulkhead_sdk::RevocationReason;
use serde_json::json;

#[test]
fn outcomes_of_users_are_counted() {
    let bed = ready();
    let (_, tag) = issued(&bed);
    bed.renew(&tag, 900).unwrap();
    bed.host.refuse("prolong-accounts", unreachable());
    bed.renew(&tag, 900).err().unwrap();
    bed.host.refuse("remove-accounts", unreachable());
    bed.revoke(&tag, RevocationReason::Expired).unwrap_err();
    bed.revoke(&tag, RevocationReason::Expired).unwrap();
    bed.host.refuse_creation(Failure::invalid("the user exists"));
    bed.read("creds/reader").err().unwrap();
    for metric in [&CREATIONS, &RENEWALS, &REVOCATIONS] {
        assert_eq!([DONE, FAILED].map(|outcome| bed.host.metric(metric, outcome)), [1.0, 1.0]);
    }
}

#[test]
fn outcomes_and_delays_of_rotations_are_reported() {
    let bed = with_static_role();
    let metrics = || [DONE, FAILED, MISSED].map(|outcome| bed.host.metric(&ROTATIONS, outcome));
    let created = metrics();
    bed.host.advance(3_605);
    bed.host.refuse("change-credential", unreachable());
    bed.wake("rotate/app", 1).unwrap_err();
    assert_eq!(metrics(), [created[0], 1.0, 0.0]);
    bed.run_guards().unwrap();
    assert_eq!(metrics(), [created[0] + 1.0, 1.0, 0.0]);
    assert!(bed.host.metric(&DELAY, "") >= 5.0);
    account(&bed, "orders", "root");
    bed.write("rotate-root/orders", &json!({})).unwrap();
    assert_eq!(bed.host.metric(&ROOT_ROTATIONS, DONE), 1.0);
}
