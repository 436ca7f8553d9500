//! The outcome of a write, in words for the caller and for the operator.
//!
//! This file prevents a stored write reported as failed, and a failed write reported as stored.
//! Only a write that is known to be rolled back is reported so.

use std::path::Path;

use bulkhead_record::fault::StoreFault;

/// Text for operations on a closed store.
pub const CLOSED: &str = "the store is closed, because the service was sealed or stopped; \
    try again when the store is open";

/// Text for callers of an open store while its database server cannot be used. The text for the
/// operator names the server, the user and files, and callers without a token would see the text.
pub const UNUSABLE: &str = "the database of this server cannot be used at present; the log \
    of the server has the cause; try again";

/// The result of an attempt to write, unless the database failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// Committed and flushed.
    Committed,
    /// Given up and rolled back, because a read no longer holds.
    Conflict,
}

/// The reason why a write is not known to be stored.
pub enum WriteFailure {
    /// Nothing more is written, at least not by this store. Whether the writes that met the I/O
    /// error itself were stored is unknown.
    Stopped(StoreFault),
    /// The disk is full: nothing of the transaction was written, and a retry would not fit either.
    Full(StoreFault),
    /// Rolled back: nothing of the transaction was written.
    Undone(StoreFault),
    /// The database cannot be reached, or accepts no writes at present: nothing of the transaction
    /// was written, and no unit is to blame.
    Refused(StoreFault),
    /// Rolled back, because another process wrote meanwhile. A repetition with a new plan may
    /// succeed.
    Interfered,
    /// The transaction failed between the commit statement and the answer: everything was written,
    /// or nothing.
    Unknown(String),
}

impl From<WriteFailure> for StoreFault {
    fn from(broken: WriteFailure) -> StoreFault {
        match broken {
            WriteFailure::Stopped(fault)
            | WriteFailure::Full(fault)
            | WriteFailure::Undone(fault)
            | WriteFailure::Refused(fault) => fault,
            WriteFailure::Interfered => StoreFault::Conflict,
            WriteFailure::Unknown(said) => StoreFault::Unavailable(format!(
                "the database failed while committing ({said}); the outcome is not known, look \
                 before trying again"
            )),
        }
    }
}

/// The reason why a change of the identity is not known to be stored.
#[derive(Debug)]
pub enum IdentityFailure {
    /// Nothing was stored, as far as the database can say. An I/O error of a disk proves little.
    Undone(StoreFault),
    /// The database may store the change later.
    InDoubt(StoreFault),
}

impl From<IdentityFailure> for StoreFault {
    fn from(failure: IdentityFailure) -> StoreFault {
        match failure {
            IdentityFailure::Undone(fault) | IdentityFailure::InDoubt(fault) => fault,
        }
    }
}

impl WriteFailure {
    /// Returns the error of every write to `database` after an I/O error with this reason.
    pub fn stopped(database: &Path, reason: &str) -> WriteFailure {
        WriteFailure::Stopped(StoreFault::Unavailable(format!(
            "writes to {} stopped after an I/O error ({reason}), because the state of the disk is \
             unknown; check the disk and restart",
            database.display()
        )))
    }

    /// Returns the error of every write after the loss of the claim on the database.
    pub fn lost_claim(reason: &str) -> WriteFailure {
        WriteFailure::Stopped(StoreFault::Unavailable(reason.to_owned()))
    }

    /// Adds the name of the database to a failure of the whole database.
    pub fn at(self, database: &Path) -> WriteFailure {
        match self {
            WriteFailure::Refused(StoreFault::Unavailable(text)) => {
                let text = format!("{text} (the records are in {})", database.display());
                WriteFailure::Refused(StoreFault::Unavailable(text))
            }
            other => other,
        }
    }

    /// Returns the error of a closed store.
    pub fn closed() -> WriteFailure {
        WriteFailure::Stopped(StoreFault::Unavailable(CLOSED.into()))
    }
}
