//! Secrets that only the engine knows and that may be in force, kept after another value replaced
//! them in the configuration.
//!
//! This file prevents the loss of the only copy of a secret. After a rotation of a root credential,
//! a write of the configuration may give another secret, or lead to another server. The secret of
//! the rotation is forgotten only after another secret has logged in at the same place.
//!
//! This file prevents this attack, too: a caller with write access to the configuration changes the
//! server, or how the server proves itself, and receives the kept secret. The engine names the
//! place as a value that serialises to everything that decides who receives the secret: server,
//! authentication of the server, login. Secrets of another place are never found.

use crate::host::Host;
use crate::only_copy;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::hexadecimal;
use bulkhead_wire::stored;
use serde::{Deserialize, Serialize};

/// Key prefix of the records.
const PREFIX: &str = "kept-secrets/";
/// Maximum number of secrets of a place.
const MAX_SECRETS: usize = 32;

/// The stored secrets of a place, the newest last. No `Debug`, because they are secret.
#[derive(Default, Serialize, Deserialize)]
struct SecretList {
    secrets: Vec<String>,
}

stored!(SecretList, "kept-secrets", reads_stored_kept_secrets);

/// Returns the SHA-256 digest of the JSON of `place`, in hexadecimal. The digest names the stored
/// secrets of the place.
///
/// # Errors
/// Internal if the place has no form in JSON; failures of the host's digest.
pub fn place_digest(host: &dyn Host, place: &impl Serialize) -> Result<String, Failure> {
    let named = serde_json::to_vec(place)
        .map_err(|_| Failure::internal("the place of a secret cannot be written as JSON"))?;
    Ok(hexadecimal::text(&host.crypto().digest("sha256", &named)?))
}

/// The kept secrets of a place.
pub struct KeptSecrets<'a> {
    host: &'a dyn Host,
    key: String,
}

impl<'a> KeptSecrets<'a> {
    /// Returns the kept secrets of `place`.
    ///
    /// # Errors
    /// As [`place_digest`].
    pub fn of(host: &'a dyn Host, place: &impl Serialize) -> Result<Self, Failure> {
        Ok(Self { host, key: format!("{PREFIX}{}", place_digest(host, place)?) })
    }

    /// Adds `secrets`, the newest last. `login` names the login for messages.
    ///
    /// # Errors
    /// Invalid request for more than 32 secrets: none of them has logged in since.
    pub fn keep(
        &self,
        login: &str,
        secrets: impl IntoIterator<Item = String>,
    ) -> Result<(), Failure> {
        let mut list = self.list()?;
        for secret in secrets {
            list.secrets.retain(|other| *other != secret);
            list.secrets.push(secret);
        }
        if list.secrets.len() > MAX_SECRETS {
            return Err(Failure::invalid(format!(
                "the engine keeps {MAX_SECRETS} credentials of {} at earlier servers, and does not \
                 know which credential works; lead the configuration back there once",
                quoted(login)
            )));
        }
        let note = format!("a credential of {} at earlier servers", quoted(login));
        only_copy::set_note(self.host, &self.key, Some(note))?;
        self.host.storage().put(&self.key, &list)
    }

    /// Returns the secrets, the newest last.
    ///
    /// # Errors
    /// Failures of the storage.
    pub fn list_secrets(&self) -> Result<Vec<String>, Failure> {
        Ok(self.list()?.secrets)
    }

    /// Forgets the secrets, because another secret has logged in, or because an intent has them.
    ///
    /// # Errors
    /// Failures of the storage.
    pub fn forget(&self) -> Result<(), Failure> {
        only_copy::set_note(self.host, &self.key, None)?;
        self.host.storage().delete(&self.key)
    }

    fn list(&self) -> Result<SecretList, Failure> {
        Ok(self.host.storage().get(&self.key)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::KeptSecrets;
    use crate::host::Host;
    use crate::testbed::TestHost;

    #[test]
    fn kept_secrets_are_found_at_their_place_alone() {
        let fake = TestHost::default();
        let host: &dyn Host = &fake;
        let at = |place: &[&str]| KeptSecrets::of(host, &place).unwrap();
        let texts = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        at(&["db:5432", "root"]).keep("root", texts(&["first", "second"])).unwrap();
        at(&["db:5432", "root"]).keep("root", texts(&["first"])).unwrap();
        assert_eq!(at(&["db:5432", "root"]).list_secrets().unwrap(), ["second", "first"]);
        assert!(at(&["other:5432", "root"]).list_secrets().unwrap().is_empty());
        at(&["db:5432", "root"]).forget().unwrap();
        assert!(at(&["db:5432", "root"]).list_secrets().unwrap().is_empty());
    }

    #[test]
    fn kept_secrets_have_a_maximum_number() {
        let fake = TestHost::default();
        let host: &dyn Host = &fake;
        let secrets = KeptSecrets::of(host, &"db").unwrap();
        secrets.keep("root", (0..32).map(|number| number.to_string())).unwrap();
        let refused = secrets.keep("root", ["one more".to_owned()]).unwrap_err();
        assert!(refused.message.contains("32 credentials of \"root\""), "{}", refused.message);
        assert_eq!(secrets.list_secrets().unwrap().len(), 32, "a refusal changes nothing");
    }
}
