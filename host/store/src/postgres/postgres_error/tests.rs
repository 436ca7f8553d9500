//! The meaning of errors of the server.

use super::*;

#[test]
fn lost_connection_leaves_commit_unknown() {
    let lost = || {
        PostgresError::Driver(sqlx::Error::Io(std::io::Error::from(
            std::io::ErrorKind::ConnectionReset,
        )))
    };
    assert!(lost().ends_session());
    assert!(matches!(lost().into_failure(WritePhase::Committing), WriteFailure::Unknown(_)));
    assert!(matches!(lost().into_failure(WritePhase::Running), WriteFailure::Undone(_)));
    let refused = lost().into_failure(WritePhase::Beginning);
    assert!(matches!(refused, WriteFailure::Refused(_)));
}

#[test]
fn closed_database_stops_writes_in_words() {
    let failure = PostgresError::closed().into_failure(WritePhase::Beginning);
    let WriteFailure::Stopped(StoreFault::Unavailable(text)) = failure else {
        panic!("another failure")
    };
    assert!(text.contains("the store is closed"), "{text}");
}
