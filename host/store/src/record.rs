//! What the store keeps: records, where they live, and the few columns that stay readable so that
//! they can be found.
//!
//! It never knows what a body means; it is bytes of the layers above.

use std::fmt;

use crate::body::Body;

/// The kinds of record. All share one physical table; the kind is part of a record's address and of
/// what its seal covers, so that a row moved from one kind to another no longer opens (decision
/// T7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The host's own configuration: mounts, policies, catalog.
    Core,
    /// What mounts store.
    Data,
    /// Tokens; a token is its own lease.
    Token,
    /// Leases of secrets.
    Lease,
    /// Leases written down before the thing that they will end exists.
    Reservation,
    /// When to wake which mount.
    Timer,
    /// Long bytes in pieces: uploaded components, and what they were compiled to.
    Blob,
}

impl Space {
    const ALL: [Space; 7] = [
        Space::Core,
        Space::Data,
        Space::Token,
        Space::Lease,
        Space::Reservation,
        Space::Timer,
        Space::Blob,
    ];

    /// The number in the table. Part of the stored format: a number is never given to another kind.
    pub(crate) fn number(self) -> u8 {
        match self {
            Space::Core => 1,
            Space::Data => 2,
            Space::Token => 3,
            Space::Lease => 4,
            Space::Reservation => 5,
            Space::Timer => 6,
            Space::Blob => 7,
        }
    }

    /// The kind that has `number` in the table; `None` for a number that this version does not
    /// know.
    pub(crate) fn of_number(number: i64) -> Option<Space> {
        Space::ALL.into_iter().find(|space| i64::from(space.number()) == number)
    }

    /// The name that messages and seals use. Part of the stored format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Core => "core",
            Space::Data => "data",
            Space::Token => "token",
            Space::Lease => "lease",
            Space::Reservation => "reservation",
            Space::Timer => "timer",
            Space::Blob => "blob",
        }
    }
}

/// Where one record lives. Ordered by kind, then by the bytes of the key, as the table is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The kind of record.
    pub space: Space,
    /// The full key, for example `<mount uuid>/roles/readonly`. Readable in the database file: it
    /// holds no secret.
    pub key: String,
}

impl Address {
    /// The address of `key` in `space`.
    pub fn new(space: Space, key: impl Into<String>) -> Address {
        Address { space, key: key.into() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.space.name(), self.key)
    }
}

/// The columns of a record that stay readable, because queries find records by them. Covered by the
/// record's seal: changed in the file, the record no longer opens. They hold no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// When the record is due, as store time in milliseconds since 1970; `None` is never.
    /// Later than `i64::MAX` milliseconds is stored as `i64::MAX`.
    pub due: Option<u64>,
    /// Records of one lane are worked on one after another or not at all (a connection's name);
    /// empty is no lane.
    pub lane: String,
    /// What the record belongs to (a token's or a mount's key); empty is nothing.
    pub owner: String,
}

/// Names one write of one record: 128 random bits, so a record that was deleted and written again,
/// or restored, is never taken for the one that was read, also where both hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(pub(crate) [u8; 16]);

/// One opened record.
#[derive(Clone)]
pub struct Record {
    /// The bytes as they were put; wiped from memory when dropped.
    pub body: Body,
    /// The readable columns as they were put.
    pub index: Index,
    /// The revision of its mount at which the record was made; made again after a deletion, it is
    /// new. 0 where the mount has no revisions, and in what a unit of work has buffered itself.
    pub created: u64,
    /// The revision of its mount at which the record was last put; 0 as `created` is.
    pub modified: u64,
    /// Which write it is; `None` in what a unit of work has buffered itself, which is no write yet.
    pub stamp: Option<Stamp>,
}

impl Record {
    /// A record that is not written yet.
    #[must_use]
    pub fn unwritten(body: Body, index: Index) -> Record {
        Record { body, index, created: 0, modified: 0, stamp: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn kinds_of_record_never_share_a_number_or_a_name() {
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
