//! The answer for leases that could not be ended.

use super::*;

fn outcome(failures: &[Failure]) -> Option<(u16, String)> {
    let mut left = UnendedLeases::default();
    failures.iter().cloned().for_each(|failure| left.add(failure));
    left.outcome().err().map(|failure| (failure.kind.status(), failure.message))
}

#[test]
fn remaining_leases_report_count_first_reason_and_retryability() {
    assert_eq!(outcome(&[]), None);
    for (kind, status) in [
        (FailureKind::InvalidRequest, 400),
        (FailureKind::NotFound, 400),
        (FailureKind::PermissionDenied, 400),
        (FailureKind::Unreachable, 502),
        (FailureKind::TimedOut, 502),
        (FailureKind::Internal, 500),
    ] {
        let failures =
            [Failure::new(kind, "the first"), Failure::new(FailureKind::Unreachable, "the second")];
        let (answered, message) = outcome(&failures).unwrap_or_default();
        assert_eq!(answered, status, "{kind:?}");
        assert!(
            message
                .starts_with("leases that could not be ended: 2; the first, because: the first;")
        );
    }
}
