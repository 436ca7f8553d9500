//! Services that keep the key of a seal and answer nonsense: each answer is named in the log, and
//! changes nothing.

use bulkhead_tests::internet::Fault;
use bulkhead_tests::sealed_server::{PATIENCE, SealedServer};
use bulkhead_tests::wait;

/// A wrong answer to a request for decryption, and the expected line of the log.
pub(crate) struct WrongAnswer {
    pub(crate) name: &'static str,
    pub(crate) fault: Fault,
    pub(crate) event: &'static str,
    /// Words of the cause.
    pub(crate) cause: &'static str,
}

/// Events of failures that may pass, and of failures that last.
pub(crate) const AWAITED: &str = "seal-key-awaited";
pub(crate) const REFUSED: &str = "not-unsealed";

/// Starts the server of this kind of seal under each wrong answer, and asserts that a line of the
/// log has the cause. `fail` makes every decryption fail, `heal` ends the faults.
pub(crate) fn assert_each_named(
    (sealed, kind): (&mut SealedServer, &str),
    answers: Vec<WrongAnswer>,
    fail: &dyn Fn(Fault),
    heal: &dyn Fn(),
) {
    for WrongAnswer { name, fault, event, cause } in answers {
        fail(fault);
        let before = sealed.kill_and_start();
        let lines = |event: &str| -> Vec<String> {
            let printed = sealed.server.printed()[before..].to_owned();
            // The last line may be incomplete.
            let complete = printed.rsplit_once('\n').map_or("", |(complete, _)| complete);
            complete.lines().filter(|line| line.contains(event)).map(str::to_owned).collect()
        };
        let is_named = || lines(event).iter().any(|line| line.contains(cause));
        wait::until_true(&format!("{name}: {event} with {cause:?}"), PATIENCE, is_named);
        sealed.assert_sealed(kind);
        let lines = lines("cause=");
        assert!(!lines.is_empty(), "{name}: no line has a cause");
        assert!(lines.iter().all(|line| line.len() < 1_000), "{name}: {lines:?}");
        heal();
    }
}
