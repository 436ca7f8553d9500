//! Check that a write which sends a stored credential to another server contains the credential.
//!
//! The attack this file prevents: a caller may change a configuration, but may not read its
//! password. The caller writes the address of the caller's own server, or turns off the
//! authentication of the server, and receives the stored password (decision P22). Every engine and
//! auth method that stores a credential beside an address calls [`check`] before a write dials any
//! server.
//!
//! ```
//! use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
//! use bulkhead_sdk::{Call, Failure};
//!
//! struct Config {
//!     url: String,
//!     certificate: String,
//!     password: String,
//! }
//!
//! fn check(call: &Call, before: &Config, after: &Config) -> Result<(), Failure> {
//!     let places = [
//!         DestinationField::of("url", before.url != after.url),
//!         DestinationField::of("certificate", before.certificate != after.certificate),
//!     ];
//!     destination::check(call, &places, &[CredentialField::of("password", &before.password)])
//! }
//! ```

use crate::call::Call;
use bulkhead_wire::failure::Failure;

/// A setting that decides which server receives a credential, or how the server is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationField<'a> {
    field: &'a str,
    is_changed: bool,
}

impl<'a> DestinationField<'a> {
    /// Creates the place of a field. `is_changed` is true if the write changes the meaning of the
    /// setting: another scheme, host or port, or another way to authenticate the server.
    #[must_use]
    pub fn of(field: &'a str, is_changed: bool) -> Self {
        Self { field, is_changed }
    }
}

/// A credential that was stored before the write.
#[derive(Clone, Copy)]
pub struct CredentialField<'a> {
    field: &'a str,
    is_there: bool,
}

impl<'a> CredentialField<'a> {
    /// Creates the credential of a field. An empty text is not a credential.
    #[must_use]
    pub fn of(field: &'a str, stored: &str) -> Self {
        Self { field, is_there: !stored.is_empty() }
    }
}

/// Allows a change of a place only if the write gives each stored credential. An empty text counts:
/// such a write removes the credential.
///
/// # Errors
/// Invalid request that names the fields of settings and credentials, and shows no value.
pub fn check(
    call: &Call,
    places: &[DestinationField<'_>],
    credentials: &[CredentialField<'_>],
) -> Result<(), Failure> {
    let changed: Vec<&str> =
        places.iter().filter(|place| place.is_changed).map(|place| place.field).collect();
    let missing: Vec<&str> = credentials
        .iter()
        .filter(|credential| credential.is_there && !call.is_given(credential.field))
        .map(|credential| credential.field)
        .collect();
    if changed.is_empty() || missing.is_empty() {
        return Ok(());
    }
    let (changed, missing) = (changed.join(", "), missing.join(", "));
    Err(Failure::invalid(format!(
        "{changed} changes: give {missing} in the same request, because a stored credential goes \
         to no other server"
    )))
}

/// Returns true if `after` names a server that `before` does not name. A shorter list or another
/// order leads to no new server.
#[must_use]
pub fn has_another<'a>(
    before: impl IntoIterator<Item = &'a str>,
    after: impl IntoIterator<Item = &'a str>,
) -> bool {
    let before: Vec<&str> = before.into_iter().collect();
    after.into_iter().any(|one| !before.iter().any(|other| other.eq_ignore_ascii_case(one)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;
    use serde_json::json;

    #[test]
    fn destination_change_requires_new_credential() {
        let moved = [DestinationField::of("url", true), DestinationField::of("certificate", false)];
        let credentials =
            [CredentialField::of("password", "hunter2"), CredentialField::of("key", "")];
        let refused = check(&call(json!({"url": "x"})), &moved, &credentials).unwrap_err();
        assert!(refused.message.starts_with("url changes: give password in"), "{refused}");
        for given in [json!({"password": "other"}), json!({"password": ""})] {
            assert_eq!(check(&call(given), &moved, &credentials), Ok(()));
        }
        assert_eq!(check(&call(json!({})), &moved, &[CredentialField::of("password", "")]), Ok(()));
        assert_eq!(
            check(&call(json!({})), &[DestinationField::of("url", false)], &credentials),
            Ok(())
        );
    }

    #[test]
    fn fewer_servers_in_other_order_are_same_place() {
        assert!(!has_another(["a:1", "B:2"], ["b:2", "a:1"]));
        assert!(!has_another(["a:1", "b:2"], ["b:2"]));
        assert!(has_another(["a:1"], ["a:2"]));
        assert!(has_another([], ["a:1"]));
    }
}
