//! The properties of an initialised directory, as this process knows them.
//!
//! This file prevents decisions by the seals of the root key that another node of a shared database
//! has replaced: this process knows seals for a second, and notes the seal of the holders whose key
//! was proven. A rekey replaces exactly this seal.

use std::sync::{Mutex, RwLock};
use std::time::Duration;

use bulkhead_wire::sync;

use crate::identity::StoreIdentity;
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_record::root_seals::{DataSeals, HolderSeal};

/// Maximum age of known seals on a shared database.
const SEALS_AGE: Duration = Duration::from_secs(1);

pub(super) struct DirectoryProperties {
    seals: RwLock<KnownSeals>,
    /// The seal of the holders whose key was proven last.
    proven: Mutex<Option<HolderSeal>>,
    /// Held while the seals are read again: one session at a time asks.
    pub(super) reading: tokio::sync::Mutex<()>,
    pub(super) cluster_name: String,
}

/// The seals of the root key, which a rekey and a migration change.
struct KnownSeals {
    /// `None` after a change with an unknown outcome: the seals are then read from the database
    /// each time.
    seals: Option<DataSeals>,
    /// The moment of the read, by the steady clock.
    read: u64,
}

impl KnownSeals {
    fn of(seals: Option<DataSeals>) -> KnownSeals {
        KnownSeals { seals, read: steady_milliseconds() }
    }
}

impl DirectoryProperties {
    pub(super) fn of(identity: &StoreIdentity) -> DirectoryProperties {
        DirectoryProperties {
            seals: RwLock::new(KnownSeals::of(Some(identity.seals()))),
            proven: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            cluster_name: identity.cluster_name(),
        }
    }

    /// Returns the known seals; `None` if the seals have to be read. Seals of a shared database
    /// have to be read again after [`SEALS_AGE`].
    pub(super) fn seals(&self, is_shared: bool) -> Option<DataSeals> {
        let noted = sync::read(&self.seals);
        let age = Duration::from_millis(steady_milliseconds().saturating_sub(noted.read));
        noted.seals.clone().filter(|_| !is_shared || age < SEALS_AGE)
    }

    /// Returns the seals that were read last, of any age.
    pub(super) fn outdated_seals(&self) -> Option<DataSeals> {
        sync::read(&self.seals).seals.clone()
    }

    /// Notes the present seals; `None` after a change with an unknown outcome.
    pub(super) fn note_seals(&self, seals: Option<DataSeals>) {
        *sync::write(&self.seals) = KnownSeals::of(seals);
    }

    /// Returns the seal of the holders whose key was proven last, if no rekey replaced the seal.
    pub(super) fn proven(&self) -> Option<HolderSeal> {
        sync::lock(&self.proven).clone()
    }

    /// Notes the seal of the holders whose key was proven; `None` once the seal is replaced.
    pub(super) fn note_proven(&self, holders: Option<HolderSeal>) {
        *sync::lock(&self.proven) = holders;
    }
}
