//! The errors of the store, in words for the operator.
//!
//! No message contains a body or a key of the seal: messages consist of addresses, paths and
//! SQLite's own codes.

use std::{error, fmt};

use crate::failpoint::InjectedFault;
use crate::record::Address;
use bulkhead_wire::failure::{Failure, FailureKind};

/// The error of a read, a commit or the opening of the store. In each case nothing of the unit of
/// work was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// Another request changed a record that the unit of work had read, before the commit. Nothing
    /// was written; run the work again from its first read.
    Conflict,
    /// The record at this address does not open: bytes, place or index columns differ from the
    /// written record. Nothing of the record is returned.
    Damaged(Address),
    /// The unit of work relies on too much, or writes too much, for others to wait for its commit.
    /// Nothing of the segment was written. The text gives the amount, the maximum, and the remedy.
    TooLarge(String),
    /// The mount of the unit of work would exceed its limit of stored bytes. Nothing of the segment
    /// was written. The text gives the stored bytes, the limit, and the remedy.
    OverLimit(String),
    /// The storage cannot serve at present (disk full, an I/O error, closed). The text gives the
    /// cause and the remedy.
    Unavailable(String),
    /// This process may not open the directory or its database: locked by another process, of
    /// another program, damaged.
    Refused(String),
    /// The data have a format that this version does not read. Nothing was written.
    OtherFormat {
        /// Name of the database, for operators: no failure of a request shows the name.
        place: String,
        /// Format of the data.
        found: u64,
        /// Format that this version reads.
        known: &'static str,
    },
    /// The given key does not open the data. Nothing was written.
    WrongKey,
}

impl StoreFault {
    /// Returns an injected fault as a fault of the storage.
    pub fn injected(injected: InjectedFault) -> StoreFault {
        StoreFault::Unavailable(injected.to_string())
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreFault::Conflict => out
                .write_str("another request changed the same data; nothing was stored, try again"),
            StoreFault::Damaged(address) => write!(
                out,
                "the record {address} does not open, because the record was changed or moved \
                 outside of Bulkhead; restore the data directory from a backup"
            ),
            StoreFault::WrongKey => out.write_str(
                "the data were sealed with another key or for another cluster; give the right key \
                 or shares, or choose another data directory",
            ),
            StoreFault::OtherFormat { place, found, known } => {
                out.write_str(&other_format(&format!("the data in {place}"), *found, known))
            }
            StoreFault::Unavailable(what)
            | StoreFault::Refused(what)
            | StoreFault::OverLimit(what)
            | StoreFault::TooLarge(what) => out.write_str(what),
        }
    }
}

impl error::Error for StoreFault {}

/// Returns the sentence about `data` of another format.
fn other_format(data: &str, found: u64, known: &str) -> String {
    format!(
        "{data} have format {found}, and this version reads format {known}; use the version that \
         wrote the data"
    )
}

/// Converts a fault for the caller of a request: a conflict that outlived all retries and an
/// unavailable storage can be retried; damage cannot.
impl From<StoreFault> for Failure {
    fn from(fault: StoreFault) -> Self {
        let kind = match fault {
            StoreFault::Conflict => FailureKind::Conflict,
            StoreFault::Unavailable(_) => FailureKind::Unavailable,
            StoreFault::OtherFormat { found, known, .. } => {
                let message = other_format("the data", found, known);
                return Failure::new(FailureKind::OtherVersion, message).recordable();
            }
            StoreFault::TooLarge(_) => FailureKind::TooLarge,
            StoreFault::OverLimit(_) => FailureKind::RateLimited,
            StoreFault::Damaged(_) | StoreFault::Refused(_) | StoreFault::WrongKey => {
                FailureKind::Internal
            }
        };
        Failure::new(kind, fault.to_string()).recordable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Space;

    #[test]
    fn transient_store_faults_alone_are_retryable() {
        let damaged = StoreFault::Damaged(Address::new(Space::Data, "a"));
        for (fault, kind) in [
            (StoreFault::Conflict, FailureKind::Conflict),
            (StoreFault::Unavailable("the disk is full".into()), FailureKind::Unavailable),
            (damaged, FailureKind::Internal),
            (StoreFault::Refused("locked".into()), FailureKind::Internal),
            (StoreFault::TooLarge("9 records".into()), FailureKind::TooLarge),
            (StoreFault::OverLimit("9 bytes".into()), FailureKind::RateLimited),
            (StoreFault::WrongKey, FailureKind::Internal),
        ] {
            let text = fault.to_string();
            assert_eq!(Failure::from(fault), Failure::new(kind, text).recordable());
        }
    }

    #[test]
    fn failure_about_format_hides_the_place() {
        let fault = StoreFault::OtherFormat { place: "/srv/x".into(), found: 3, known: "2" };
        let shown = "the data in /srv/x have format 3, and this version reads format 2; use the \
                     version that wrote the data";
        assert_eq!(fault.to_string(), shown);
        let failure = Failure::from(fault);
        assert_eq!(failure.kind, FailureKind::OtherVersion);
        assert_eq!(failure.message, shown.replace(" in /srv/x", ""));
    }
}
