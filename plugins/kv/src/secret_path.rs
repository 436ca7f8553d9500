//! The path of a secret, and the storage keys of its records.
//!
//! A key has a fixed first segment, then the whole path. The key of a version ends with its number,
//! so that no two secrets share a key, even if one path begins with the other.

use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure};

/// Maximum length of a path, in bytes. With the segments around the path, a storage key stays below
/// the 512 bytes of the contract.
const LONGEST: usize = 480;

/// The path of a secret below the mount. The host has refused empty segments, `.`, `..` and
/// characters that cannot be printed.
pub(crate) struct SecretPath<'a>(&'a str);

impl<'a> SecretPath<'a> {
    /// Returns the path of the call.
    ///
    /// # Errors
    /// Invalid request for a path that is too long.
    pub(crate) fn of(call: &'a Call) -> Result<Self, Failure> {
        let path = call.capture("path");
        if path.len() > LONGEST {
            return Err(Failure::invalid(format!(
                "the path of a secret has at most {LONGEST} bytes; {} has {}: shorten the path",
                quoted(path),
                path.len()
            )));
        }
        Ok(Self(path))
    }

    /// Returns the path of a stored secret.
    pub(crate) fn stored(path: &'a str) -> Self {
        Self(path)
    }

    /// Returns the key of the secret in version 1 of the API.
    pub(crate) fn entry(&self) -> String {
        format!("entry/{}", self.0)
    }

    /// Returns the key of the metadata.
    pub(crate) fn metadata(&self) -> String {
        format!("meta/{}", self.0)
    }

    /// Returns the key of the data of a version.
    pub(crate) fn version(&self, number: u64) -> String {
        format!("version/{}/{number}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{message, v1, v2};
    use serde_json::json;

    #[test]
    fn path_allows_any_characters_up_to_length_limit() {
        let (one, two) = (v1(), v2());
        let longest = "ö".repeat(240);
        for path in ["a b", "ключ/秘密", "a%2Fb?c=d&e", "data", "config", "1", longest.as_str()]
        {
            one.write(path, &json!({"k": path})).unwrap();
            assert_eq!(one.read(path).unwrap().data["k"], json!(path));
            two.write(&format!("data/{path}"), &json!({"data": {"k": path}})).unwrap();
            let read = two.read(&format!("data/{path}")).unwrap();
            assert_eq!(read.data["data"]["k"], json!(path));
        }
        let long = "a".repeat(481);
        for refused in [
            message(one.write(&long, &json!({"k": "v"}))),
            message(two.write(&format!("data/{long}"), &json!({"data": {"k": "v"}}))),
            message(two.read(&format!("data/{long}"))),
        ] {
            assert!(refused.contains("at most 480 bytes") && refused.contains("481"), "{refused}");
        }
    }

    #[test]
    fn no_two_secrets_share_a_key() {
        let bed = v2();
        for path in ["a", "a/1", "a/1/2", "a/1/1"] {
            for version in ["first", "second"] {
                let data = json!({"data": {"is": format!("{path} {version}")}});
                bed.write(&format!("data/{path}"), &data).unwrap();
            }
        }
        for path in ["a", "a/1", "a/1/2", "a/1/1"] {
            let read = bed.read(&format!("data/{path}")).unwrap().data;
            assert_eq!(read["data"]["is"], json!(format!("{path} second")));
        }
    }
}
