//! Tests of the meaning of errors of SQLite.

use std::borrow::Cow;
use std::{error, fmt};

use sqlx::error::{DatabaseError, ErrorKind};

use super::*;

/// An error with this extended code.
#[derive(Debug)]
struct CodedError(i32);

impl fmt::Display for CodedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "(code: {})", self.0)
    }
}

impl error::Error for CodedError {}

impl DatabaseError for CodedError {
    fn message(&self) -> &str {
        "an error of a test"
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.0.to_string().into())
    }

    fn as_error(&self) -> &(dyn error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

fn error(code: i32) -> sqlx::Error {
    sqlx::Error::Database(Box::new(CodedError(code)))
}

#[test]
fn commit_io_error_or_failed_flush_stops_writes() {
    for cut in [
        TransactionError::committing(error(778)),
        TransactionError::committing(error(1034)),
        TransactionError::before(error(1034)),
    ] {
        assert!(cut.stops().is_some_and(|reason| reason.contains("code")));
        let WriteFailure::Stopped(StoreFault::Unavailable(text)) =
            cut.broken(Path::new("bulkhead.db"))
        else {
            panic!("the store was not stopped")
        };
        assert!(text.contains("is not known") && text.contains("restart"), "{text}");
    }
    let before = TransactionError::before(error(266));
    assert_eq!(before.stops(), None);
    assert!(matches!(before.broken(Path::new("bulkhead.db")), WriteFailure::Undone(_)));
}

#[test]
fn only_room_or_lock_refusal_proves_commit_unstored() {
    for full in [TransactionError::before(error(13)), TransactionError::committing(error(13))] {
        let WriteFailure::Full(StoreFault::Unavailable(text)) =
            full.broken(Path::new("bulkhead.db"))
        else {
            panic!("the disk is not known to be full")
        };
        assert!(text.contains("free space"), "{text}");
    }
    assert!(matches!(
        TransactionError::committing(error(517)).broken(Path::new("bulkhead.db")),
        WriteFailure::Undone(_)
    ));
    for cut in [error(787), error(11), sqlx::Error::WorkerCrashed] {
        assert!(matches!(
            TransactionError::committing(cut).broken(Path::new("bulkhead.db")),
            WriteFailure::Unknown(_)
        ));
    }
    for cut in [error(787), error(11), sqlx::Error::WorkerCrashed] {
        assert!(matches!(
            TransactionError::before(cut).broken(Path::new("bulkhead.db")),
            WriteFailure::Undone(_)
        ));
    }
    let text = StoreFault::from(WriteFailure::Unknown("no answer".into())).to_string();
    assert!(text.contains("no answer") && text.contains("not known"), "{text}");
}
