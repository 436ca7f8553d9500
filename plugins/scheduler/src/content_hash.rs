//! The `Hash` of a record: BLAKE2b-256 over the record's texts, compatible with the scheduler's
//! clients.
//!
//! The texts are joined without separators, so different records can have the same hash. No code in
//! this crate concludes from equal hashes that records are equal.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};

/// Hashes the concatenated `texts`. The result is in standard base64.
pub(crate) fn content_hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Blake2b::<U32>::new();
    for text in texts {
        hash.update(text.as_bytes());
    }
    BASE64_STANDARD.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_hashes_match_nomad() {
        assert_eq!(
            content_hash(["devs", "client", "readonly", "global"]),
            "eSn8H8RVqh8As8WQNnC2vlBRqXy6DECogc5umzX0P30="
        );
        assert_eq!(
            content_hash(["example-acl-role", "my example ACL Role", "example-acl-policy"]),
            "Cnt3NF3SbcXWboYSHATUVvBDkiOKb6MSjLSOqtMVOzA="
        );
    }
}
