//! Identity of an account: the id of its entry, which survives renames and moves.

use bulkhead_sdk::ldap::LdapEntry;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};

/// Length of a UUID in characters.
const UUID: usize = 36;
/// Length of a GUID in bytes.
const GUID: usize = 16;

/// The id that the directory assigned to an entry at its creation. Storage keys contain the id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct EntryId(String);

impl EntryId {
    /// Returns the id of an entry: `objectGUID`, `entryUUID`, or, if the directory has neither, a
    /// digest of the DN.
    ///
    /// # Errors
    /// A refusal of the host.
    pub(crate) fn of(host: &dyn Host, entry: &LdapEntry) -> Result<Self, Failure> {
        if let [guid] = entry.values("objectGUID")
            && guid.len() == GUID
        {
            return Ok(Self(format!("guid-{}", hexadecimal::text(guid))));
        }
        if let Some(uuid) = entry.text("entryUUID").filter(|uuid| is_uuid(uuid)) {
            return Ok(Self(format!("uuid-{}", uuid.to_ascii_lowercase())));
        }
        let digest = host.crypto().digest("sha256", entry.dn.to_lowercase().as_bytes())?;
        Ok(Self(format!("dn-{}", hexadecimal::text(&digest))))
    }

    /// Returns attribute and value to search for; `None` if the id is a digest of the DN.
    pub(super) fn condition(&self) -> Option<(&'static str, Vec<u8>)> {
        if let Some(guid) = self.0.strip_prefix("guid-") {
            return Some(("objectGUID", bytes(guid)?));
        }
        let uuid = self.0.strip_prefix("uuid-")?;
        Some(("entryUUID", uuid.as_bytes().to_vec()))
    }

    /// Returns the id as used in storage keys.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Restores an id from a storage key.
    pub(crate) fn of_key(key: &str) -> Self {
        Self(key.to_owned())
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == UUID && text.chars().all(|one| one.is_ascii_hexdigit() || one == '-')
}

/// Decodes hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::testbed::TestHost;

    fn entry(dn: &str, attributes: &[(&str, &[u8])]) -> LdapEntry {
        let attributes =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), vec![value.to_vec()]));
        LdapEntry { dn: dn.to_owned(), attributes: attributes.collect() }
    }

    #[test]
    fn an_entry_is_known_by_what_the_directory_gave_it_and_found_again_by_that() {
        let host = TestHost::default();
        let guid = EntryId::of(&host, &entry("cn=a", &[("objectGUID", b"\x00\xff*)(cn=*abcdefg")]))
            .unwrap();
        assert_eq!(guid.as_str(), "guid-00ff2a2928636e3d2a61626364656667");
        let value = b"\x00\xff*)(cn=*abcdefg".to_vec();
        assert_eq!(guid.condition(), Some(("objectGUID", value)));
        let uuid = b"6F9619FF-8b86-D011-b42d-00cf4fc964ff";
        let uuid = EntryId::of(&host, &entry("cn=a", &[("entryUUID", uuid)])).unwrap();
        assert_eq!(uuid.as_str(), "uuid-6f9619ff-8b86-d011-b42d-00cf4fc964ff");
        assert_eq!(uuid.condition().unwrap().0, "entryUUID");
    }

    #[test]
    fn answers_of_the_directory_cannot_reach_another_record() {
        let host = TestHost::default();
        let odd = EntryId::of(&host, &entry("cn=a", &[("entryUUID", b"../../config")])).unwrap();
        assert!(odd.as_str().starts_with("dn-"), "{odd:?}");
        assert_eq!(odd, EntryId::of(&host, &entry("CN=A", &[])).unwrap(), "a DN has no case");
        assert_eq!(odd.condition(), None);
        assert_ne!(odd, EntryId::of(&host, &entry("cn=b", &[])).unwrap());
    }
}
