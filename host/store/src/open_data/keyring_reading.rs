//! The reading of the stored keyring, which another node of a shared database may have replaced.

use std::time::{Duration, Instant};

use super::OpenData;
use crate::identity;
use bulkhead_place::write_proof::{QUICK_PROOF_TIME, in_force_after};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::keyring::{KeyStatus, Keyring};
use bulkhead_record::rows::SealedRow;

/// Time between two readings of the keyring because of an unknown term.
const UNKNOWN_TERM_PAUSE: Duration = Duration::from_millis(500);

impl OpenData {
    /// Prepares the keyring of an opening: another node may have stored the newest term just now,
    /// and not every node may know the term.
    pub(super) fn begin_keyring(&self) {
        if self.changes.is_shared() {
            self.seal.seal_by_older();
            self.keyring.note_learned(self.seal.status().term);
        }
    }

    /// Reads the keyring if a read of changes found another length than at the last read. Returns
    /// whether the keyring was read.
    ///
    /// # Errors
    /// As [`OpenData::read_keyring`].
    pub(super) async fn follow_keyring(&self, bytes: i64) -> Result<bool, StoreFault> {
        let is_unread = self.keyring.is_unread(bytes);
        if is_unread {
            self.read_keyring().await?;
            self.keyring.note_read(bytes);
            let others = self.database.other_nodes().await?;
            let times = others.iter().map(|other| other.in_force_time());
            let longest = times.fold(in_force_after(QUICK_PROOF_TIME), Duration::max);
            self.keyring.note_in_force_time(longest);
        }
        if let Some(term) = self.keyring.take_known_by_all() {
            self.seal.seal_by(term);
        }
        Ok(is_unread)
    }

    /// Reads the stored keyring, and opens records by all of its terms from now on.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read; [`StoreFault::Refused`] if the
    /// keyring is damaged.
    pub(crate) async fn read_keyring(&self) -> Result<(), StoreFault> {
        let before = self.seal.status().term;
        let rows = self.database.followed_identity().await?;
        if !self.seal.learn_sealed(identity::keyring_of(&rows)?)? {
            return Err(keyring_damaged());
        }
        let newest = self.seal.status().term;
        if newest > before {
            self.keyring.note_learned(newest);
        }
        Ok(())
    }

    /// Returns whether the row is sealed under a term that this process has not read. Never the
    /// case for a process that works alone.
    pub(crate) fn lacks_term_of(&self, row: &SealedRow) -> bool {
        self.changes.is_shared() && self.seal.lacks_term_of(&row.sealed)
    }

    /// Reads the keyring once if one of the rows is sealed under a term that this process has not
    /// read. A row that does not open afterwards is damaged.
    ///
    /// # Errors
    /// As [`OpenData::read_keyring`].
    pub(crate) async fn know_terms_of(
        &self,
        mut rows: impl Iterator<Item = &SealedRow>,
    ) -> Result<(), StoreFault> {
        match rows.any(|row| self.lacks_term_of(row)) {
            true => Box::pin(self.read_unknown_term()).await,
            false => Ok(()),
        }
    }

    /// Reads the keyring once if a text is sealed under a term that this process has not read.
    ///
    /// # Errors
    /// As [`OpenData::read_keyring`].
    pub(crate) async fn know_term_of_text(&self, text: &str) -> Result<(), StoreFault> {
        match self.changes.is_shared() && self.seal.lacks_term_of_text(text) {
            true => Box::pin(self.read_unknown_term()).await,
            false => Ok(()),
        }
    }

    /// Reads the keyring because of an unknown term, once at a time. A short time after such a
    /// reading, waits for the next read of changes instead, which reads the keyring if another node
    /// replaced the keyring: a caller without a token may name any term.
    async fn read_unknown_term(&self) -> Result<(), StoreFault> {
        let mut read = self.keyring.unknown_term.lock().await;
        if read.is_some_and(|read| read.elapsed() < UNKNOWN_TERM_PAUSE) {
            drop(read);
            return self.changes.await_next().await;
        }
        self.read_keyring().await?;
        *read = Some(Instant::now());
        Ok(())
    }

    /// Begins the newest term of a keyring that is stored: waits until every node opens records of
    /// the term, and seals by the term from then on.
    pub(crate) async fn begin_term(&self, stored: &Keyring) -> KeyStatus {
        let status = stored.newest().status();
        self.seal.learn(stored);
        self.await_others(self.database.own_commits()).await;
        self.seal.seal_by(status.term);
        status
    }
}

/// Returns the fault of a keyring that the root key does not open.
pub(crate) fn keyring_damaged() -> StoreFault {
    StoreFault::Refused(
        "the keyring in the database was changed outside of Bulkhead; restore the database from a \
         backup"
            .to_owned(),
    )
}
