//! Notes about secrets of targets that only this mount knows, for the operator who disables the
//! mount.
//!
//! The host shows the notes in `sys/mounts/:path`, and as warnings when the mount is disabled. A
//! note names the secret and never contains the secret.

use crate::host::Host;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use serde::{Deserialize, Serialize};

/// Prefix of the notes; `wit/storage.wit` has the same one.
const PREFIX: &str = "only-copy/";

/// A stored note.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// The secret in words: `the password of user "root" of connection "orders"`.
    secret: String,
}

stored!(Note, "only-copy", reads_stored_notes_of_only_copies);

/// Sets the note `name` to the description `secret`, or removes the note. Writes only a change.
///
/// # Errors
/// Failures of the storage.
pub fn set_note(host: &dyn Host, name: &str, secret: Option<String>) -> Result<(), Failure> {
    let key = format!("{PREFIX}{name}");
    let (before, now) = (host.storage().get::<Note>(&key)?, secret.map(|secret| Note { secret }));
    match &now {
        now if *now == before => Ok(()),
        Some(note) => host.storage().put(&key, note),
        None => host.storage().delete(&key),
    }
}

#[cfg(test)]
mod tests {
    use super::{Note, set_note};
    use crate::host::Host;
    use crate::testbed::TestHost;

    #[test]
    fn a_note_is_set_replaced_and_removed() {
        let fake = TestHost::default();
        let host: &dyn Host = &fake;
        let noted = || {
            let note = host.storage().get::<Note>("only-copy/root").unwrap();
            note.map(|note| note.secret)
        };
        for secret in ["the password of user a", "the password of user b"] {
            set_note(host, "root", Some(secret.to_owned())).unwrap();
            assert_eq!(noted().as_deref(), Some(secret));
        }
        set_note(host, "root", None).unwrap();
        assert_eq!(noted(), None);
    }
}
