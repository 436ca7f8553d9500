//! Service account keys, parsed from their JSON file.
//!
//! This file prevents a file from choosing the token endpoint (`token_uri`) and thereby sending the
//! account's proofs to another server. Only 5 members are read, and none of them is a URL.

use crate::account::is_email;
use bulkhead_sdk::wire::json;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Minimum size of a key, in bits.
const LEAST_BITS: u32 = 2_048;

/// A service account's key. No `Debug`, because it is a secret.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceAccountKey {
    pub(crate) client_email: String,
    pub(crate) client_id: String,
    pub(crate) private_key_id: String,
    /// PEM.
    pub(crate) private_key: String,
    pub(crate) project_id: String,
}

impl ServiceAccountKey {
    /// Parses the text of a key file.
    ///
    /// # Errors
    /// Invalid request if the text is not a usable key file. The message repeats nothing of the
    /// file but the account.
    pub(crate) fn read(host: &dyn Host, text: &str) -> Result<Self, Failure> {
        // The parser's message is dropped, because it can quote the key.
        let unfit = || {
            Failure::invalid(
                "failed to read credentials: they are not the JSON of a service account's key",
            )
        };
        let members = json::object(text.as_bytes()).map_err(|_| unfit())?;
        let read = Self::deserialize(Value::Object(members)).map_err(|_| unfit())?;
        read.check(host)?;
        Ok(read)
    }

    /// Checks the key. No message contains the file's member names, because the host hides them
    /// like the rest of the secret.
    fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        if self.private_key_id.is_empty() || self.private_key.is_empty() {
            return Err(Failure::invalid(
                "credentials have no signing key: the PEM or the key's id is missing; give the \
                 whole file",
            ));
        }
        if !is_email(&self.client_email) {
            return Err(Failure::invalid(
                "credentials belong to a user without a sound address; give the whole file",
            ));
        }
        if !self.private_key.contains("PRIVATE KEY-----") {
            return Err(Failure::invalid("credentials hold no PEM to sign with"));
        }
        let key = host.crypto().read_key(&self.private_key).map_err(|why| Failure {
            message: format!("credentials hold no PEM to sign with: {}", why.message),
            ..why
        })?;
        if key.kind == "rsa" && key.bits >= LEAST_BITS {
            return Ok(());
        }
        let (kind, bits) = (key.kind, key.bits);
        Err(Failure::invalid(format!(
            "credentials sign by {kind} of {bits} bits; give an RSA key of {LEAST_BITS} bits or \
             more"
        )))
    }
}
