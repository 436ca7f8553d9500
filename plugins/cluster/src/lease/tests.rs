//! Tests of ending leases on the test bed, even if the API server refuses.

use crate::Cluster;
use crate::fixture::{accounts, answer, bindings, bound_but, created, generated, refusal};
use bulkhead_sdk::http::Response;
use bulkhead_sdk::testbed::TestBed;
use bulkhead_sdk::{FailureKind, RevocationReason};
use serde_json::json;

/// Returns the resources that the engine asked the API server to remove, in this order.
fn removals(bed: &TestBed<Cluster>) -> Vec<String> {
    let steps = bed.host.steps();
    let paths = steps.iter().filter_map(|step| step.strip_prefix("send DELETE "));
    paths.map(|path| path.rsplit('/').nth(1).unwrap_or_default().to_owned()).collect()
}

#[test]
fn revocation_removes_bindings_before_accounts_and_roles() {
    let bed = generated();
    let lease = bed.write("creds/three", &json!({})).unwrap().lease.unwrap();
    bed.host.steps();
    bed.revoke(&lease, RevocationReason::Expired).unwrap();
    assert_eq!(removals(&bed), ["rolebindings", "serviceaccounts", "roles"]);
    assert!(bed.host.lease_tags().is_empty());
}

#[test]
fn removal_of_missing_object_succeeds() {
    let gone = refusal(404, "rolebindings \"v-1\" not found");
    let bed = bound_but(&[(format!("DELETE {}/v-1", bindings()), gone)]);
    let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
    bed.host.steps();
    bed.revoke(&lease, RevocationReason::Requested).unwrap();
    assert_eq!(removals(&bed), ["rolebindings", "serviceaccounts"]);
    assert!(bed.host.lease_tags().is_empty());
}

/// Returns a bed with a conflict on the removal of a binding; `found` is the answer to the next
/// look-up.
fn in_conflict(found: Response) -> TestBed<Cluster> {
    let conflict = refusal(409, "the UID in the precondition does not match");
    bound_but(&[
        (format!("DELETE {}/v-1", bindings()), conflict),
        (format!("GET {}/v-1", bindings()), found),
    ])
}

#[test]
fn removal_with_other_uid_or_vanished_object_succeeds() {
    for found in [created("u-of-another"), refusal(404, "not found")] {
        let bed = in_conflict(found);
        let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
        bed.host.steps();
        bed.revoke(&lease, RevocationReason::Requested).unwrap();
        let steps = bed.host.steps();
        let looked_up = format!("send GET {}/v-1", bindings());
        assert!(steps.contains(&looked_up), "{steps:?}");
        assert!(steps.contains(&format!("send DELETE {}/v-1", accounts())), "{steps:?}");
        assert!(bed.host.lease_tags().is_empty());
    }
}

#[test]
fn revocation_conflict_on_existing_object_is_retried() {
    let bed = in_conflict(created("u-binding"));
    let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
    let waits = bed.revoke(&lease, RevocationReason::Requested).err().unwrap();
    assert_eq!(waits.kind, FailureKind::Unavailable, "{}", waits.message);
    assert_eq!(bed.host.lease_tags(), [lease]);
}

#[test]
fn revocation_continues_after_refusal_and_reports_refusals() {
    for (status, kind) in [
        (403, FailureKind::InvalidRequest),
        (401, FailureKind::Unavailable),
        (429, FailureKind::RateLimited),
        (503, FailureKind::Unreachable),
    ] {
        let bed =
            bound_but(&[(format!("DELETE {}/v-1", bindings()), refusal(status, "no binding"))]);
        let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
        bed.host.steps();
        let refused = bed.revoke(&lease, RevocationReason::Requested).err().unwrap();
        assert_eq!(refused.kind, kind, "{status}");
        assert!(refused.message.contains("delete RoleBinding apps/v-1"), "{status}");
        assert!(refused.message.contains("no binding"), "{status}");
        let removed = format!("send DELETE {}/v-1", accounts());
        assert!(bed.host.steps().contains(&removed), "{status}");
        assert_eq!(bed.host.lease_tags(), [lease]);
    }
}

#[test]
fn two_refusals_are_reported_with_transient_failure_kind() {
    let bed = bound_but(&[
        (format!("DELETE {}/v-1", bindings()), refusal(403, "no binding")),
        (format!("DELETE {}/v-1", accounts()), refusal(503, "no account")),
    ]);
    let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
    let refused = bed.revoke(&lease, RevocationReason::Requested).err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unreachable);
    assert!(refused.message.contains("no binding") && refused.message.contains("no account"));
}

#[test]
fn a_lease_is_not_prolonged() {
    let bed = generated();
    let lease = bed.write("creds/three", &json!({})).unwrap().lease.unwrap();
    assert_eq!(bed.renew(&lease, 60).err().unwrap().kind, FailureKind::UnsupportedOperation);
}

#[test]
fn non_api_server_answer_proves_no_removal() {
    for strange in [
        answer(200, &json!([1])),
        answer(404, &json!({"error": "no such page"})),
        Response { status: 404, body: b"404 page not found".to_vec(), ..Response::default() },
    ] {
        let bed = bound_but(&[(format!("DELETE {}/v-1", bindings()), strange)]);
        let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
        let refused = bed.revoke(&lease, RevocationReason::TokenEnded).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable, "{}", refused.message);
        assert_eq!(bed.host.lease_tags(), [lease]);
    }
}

#[test]
fn object_waiting_for_finalizers_is_not_gone() {
    let waits = json!({"metadata": {"name": "v-1", "finalizers": ["example.com/a\nb"]}});
    let bed = bound_but(&[(format!("DELETE {}/v-1", bindings()), answer(200, &waits))]);
    let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
    let refused = bed.revoke(&lease, RevocationReason::Requested).err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert!(refused.message.contains("finalizers are removed: example.com/a b"), "{refused}");
    assert_eq!(bed.host.lease_tags(), [lease]);
}
