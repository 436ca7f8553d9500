//! Records of the store, their addresses, and the few columns that stay readable so that queries
//! find records.
//!
//! A body is opaque here: bytes of the layers above.

use std::fmt;

use crate::body::RecordBody;

/// The kinds of record. All kinds share a single physical table. The kind is part of a record's
/// address and covered by the record's seal, so that a row moved to another kind no longer opens
/// (decision T7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The host's own configuration: mounts, policies, catalog.
    Core,
    /// Data stored by mounts.
    Data,
    /// Tokens; a token is its own lease.
    Token,
    /// Leases of secrets.
    Lease,
    /// Leases written before the secret exists that the lease will end.
    Reservation,
    /// Times at which to wake a mount.
    Timer,
    /// Long byte strings in pieces: uploaded components and their compiled code.
    Blob,
    /// Claims of work, in a database on which several nodes may work.
    Claim,
}

impl Space {
    /// Spaces of leases and reservations. Scan them in this order, because a reservation becomes a
    /// lease.
    pub const LEASES: [Space; 2] = [Space::Reservation, Space::Lease];

    const ALL: [Space; 8] = [
        Space::Core,
        Space::Data,
        Space::Token,
        Space::Lease,
        Space::Reservation,
        Space::Timer,
        Space::Blob,
        Space::Claim,
    ];

    /// Returns the kind's number in the table. Part of the stored format: a number is never given
    /// to another kind.
    pub fn number(self) -> u8 {
        match self {
            Space::Core => 1,
            Space::Data => 2,
            Space::Token => 3,
            Space::Lease => 4,
            Space::Reservation => 5,
            Space::Timer => 6,
            Space::Blob => 7,
            Space::Claim => 8,
        }
    }

    /// Returns the kind with this `number` in the table; `None` if this version does not know the
    /// number.
    pub fn of_number(number: i64) -> Option<Space> {
        Space::ALL.into_iter().find(|space| i64::from(space.number()) == number)
    }

    /// Returns the kind's name in messages and seals. Part of the stored format.
    pub fn name(self) -> &'static str {
        match self {
            Space::Core => "core",
            Space::Data => "data",
            Space::Token => "token",
            Space::Lease => "lease",
            Space::Reservation => "reservation",
            Space::Timer => "timer",
            Space::Blob => "blob",
            Space::Claim => "claim",
        }
    }
}

/// The address of a record. Addresses order by kind, then by the bytes of the key, like the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The kind of record.
    pub space: Space,
    /// The full key, for example `<mount uuid>/roles/readonly`. Readable in the database file;
    /// holds no secret.
    pub key: String,
}

impl Address {
    /// Creates the address of `key` in `space`.
    pub fn new(space: Space, key: impl Into<String>) -> Address {
        Address { space, key: key.into() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.space.name(), self.key)
    }
}

/// The columns of a record that stay readable, because queries find records by these columns. The
/// record's seal covers the columns: if a column is edited in the file, the record no longer opens.
/// They hold no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexColumns {
    /// The due time, as store time in milliseconds since 1970; `None`: never. A time later than
    /// `i64::MAX` milliseconds is stored as `i64::MAX`.
    pub due: Option<u64>,
    /// The queue of due work that the record belongs to, for example the name of a connection;
    /// empty: no lane. The host limits how many records of a lane are processed at once.
    pub lane: String,
    /// The owner: a token's or a mount's key; empty: no owner.
    pub owner: String,
}

/// The identity of a single write of a record: 128 random bits. A record that was deleted and
/// written again, or restored, is never mistaken for the record that was read, even if both have
/// the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(pub [u8; 16]);

/// An opened record.
#[derive(Clone)]
pub struct Record {
    /// The bytes as put; wiped from memory when dropped.
    pub body: RecordBody,
    /// The readable columns as put.
    pub index: IndexColumns,
    /// The revision of the mount at which the record was created. A record created again after a
    /// deletion has a new revision. 0 if the mount has no revisions, and in records that a unit of
    /// work has buffered.
    pub created: u64,
    /// The revision of the mount at which the record was last put; 0 as for `created`.
    pub modified: u64,
    /// The stamp of the record's last write; `None` in records that a unit of work has buffered but
    /// not written.
    pub stamp: Option<Stamp>,
}

impl Record {
    /// Creates a record that is not written yet.
    #[must_use]
    pub fn unwritten(body: RecordBody, index: IndexColumns) -> Record {
        Record { body, index, created: 0, modified: 0, stamp: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn record_kinds_never_share_number_or_name() {
        let numbers: BTreeSet<u8> = Space::ALL.iter().map(|space| space.number()).collect();
        let names: BTreeSet<&str> = Space::ALL.iter().map(|space| space.name()).collect();
        assert_eq!((numbers.len(), names.len()), (Space::ALL.len(), Space::ALL.len()));
        for space in Space::ALL {
            assert_eq!(Space::of_number(i64::from(space.number())), Some(space));
        }
        assert_eq!(Space::of_number(0), None);
        assert_eq!(Space::of_number(257), None);
    }
}
