//! Identity of an account: the id of its entry, which survives renames and moves.
//!
//! This file prevents a login or a change at an account of others: entries are compared by the
//! attribute of the recorded id, and an entry without this attribute proves nothing.

use bulkhead_sdk::ldap::LdapEntry;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};

/// Lengths of a textual id in characters: `nsUniqueId` and a UUID.
const TEXT: std::ops::RangeInclusive<usize> = 35..=36;
/// Length of a GUID in bytes.
const GUID: usize = 16;
/// Kinds of ids that directories give their entries: first part of the id, and attribute. Active
/// Directory has the first, OpenLDAP the second, and 389 Directory Server the last.
const KINDS: [(&str, &str); 3] =
    [(GUIDS, "objectGUID"), ("uuid-", "entryUUID"), ("unique-", "nsUniqueId")];
/// First part of the id of Active Directory, which is binary.
const GUIDS: &str = "guid-";

/// The id that the directory assigned to an entry at its creation. Storage keys contain the id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct EntryId(String);

impl EntryId {
    /// Returns all ids of an entry: the ids that the directory gave, and last a digest of the DN.
    ///
    /// # Errors
    /// A refusal of the host.
    pub(super) fn all_of(host: &dyn Host, entry: &LdapEntry) -> Result<Vec<Self>, Failure> {
        let ids = KINDS.iter().filter_map(|(kind, attribute)| {
            let [value] = entry.values(attribute) else { return None };
            Some(Self(format!("{kind}{}", text_of(kind, value)?)))
        });
        let mut all: Vec<Self> = ids.collect();
        let digest = host.crypto().digest("sha256", entry.dn.to_lowercase().as_bytes())?;
        all.push(Self(format!("dn-{}", hexadecimal::text(&digest))));
        Ok(all)
    }

    /// Returns attribute and value to search for; `None` if the id is a digest of the DN.
    pub(super) fn condition(&self) -> Option<(&'static str, Vec<u8>)> {
        let (kind, attribute) = self.kind()?;
        let value = self.0.strip_prefix(kind)?;
        let value = if kind == GUIDS { bytes(value)? } else { value.as_bytes().to_vec() };
        Some((attribute, value))
    }

    /// Returns true if the directory gave the id. A digest of the DN is lost by a move.
    pub(crate) fn is_given(&self) -> bool {
        self.kind().is_some()
    }

    /// Returns true if both ids are values of one attribute.
    pub(super) fn is_comparable(&self, other: &Self) -> bool {
        self.is_given() && self.kind() == other.kind()
    }

    fn kind(&self) -> Option<(&'static str, &'static str)> {
        KINDS.into_iter().find(|(kind, _)| self.0.starts_with(kind))
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

/// Returns the text of an id; `None` if the directory's value has another form.
fn text_of(kind: &str, value: &[u8]) -> Option<String> {
    if kind == GUIDS {
        return (value.len() == GUID).then(|| hexadecimal::text(value));
    }
    let text = std::str::from_utf8(value).ok()?;
    let is_id =
        TEXT.contains(&text.len()) && text.chars().all(|one| one.is_ascii_hexdigit() || one == '-');
    is_id.then(|| text.to_ascii_lowercase())
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

    fn first(host: &TestHost, entry: &LdapEntry) -> EntryId {
        EntryId::all_of(host, entry).unwrap().swap_remove(0)
    }

    #[test]
    fn entry_is_identified_and_found_by_directory_id() {
        let host = TestHost::default();
        let guid = first(&host, &entry("cn=a", &[("objectGUID", b"\x00\xff*)(cn=*abcdefg")]));
        assert_eq!(guid.as_str(), "guid-00ff2a2928636e3d2a61626364656667");
        let value = b"\x00\xff*)(cn=*abcdefg".to_vec();
        assert_eq!(guid.condition(), Some(("objectGUID", value)));
        let uuid = b"6F9619FF-8b86-D011-b42d-00cf4fc964ff";
        let uuid = first(&host, &entry("cn=a", &[("entryUUID", uuid)]));
        assert_eq!(uuid.as_str(), "uuid-6f9619ff-8b86-d011-b42d-00cf4fc964ff");
        assert_eq!(uuid.condition().unwrap().0, "entryUUID");
        let unique = b"66446001-1dd211b2-80A6f6d0-0a7c0000";
        let unique = first(&host, &entry("cn=a", &[("nsUniqueId", unique)]));
        let value = b"66446001-1dd211b2-80a6f6d0-0a7c0000".to_vec();
        assert_eq!(unique.condition(), Some(("nsUniqueId", value)));
        assert!(unique.is_given() && !unique.is_comparable(&uuid) && guid.is_comparable(&guid));
    }

    #[test]
    fn answers_of_the_directory_cannot_reach_another_record() {
        let host = TestHost::default();
        for odd in [&b"../../config"[..], b"", b"../../../../../../../../../../config"] {
            let odd = first(&host, &entry("cn=a", &[("entryUUID", odd)]));
            assert!(odd.as_str().starts_with("dn-"), "{odd:?}");
            assert_eq!(odd, first(&host, &entry("CN=A", &[])), "a DN has no case");
            assert_eq!((odd.condition(), odd.is_given()), (None, false));
            assert!(!odd.is_comparable(&odd), "a DN is lost by a move");
            assert_ne!(odd, first(&host, &entry("cn=b", &[])));
        }
    }
}
