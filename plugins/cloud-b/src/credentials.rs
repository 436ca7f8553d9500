//! The key of a service account, as its file says it.
//!
//! The attack this file stops: a file that says where to be exchanged (`token_uri`), and so sends
//! what proves the account to another server. Five members are read, and no URL is among them.

use crate::account::is_email;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::json;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fewest bits of a key.
const LEAST_BITS: u32 = 2_048;

/// A service account's key. No `Debug`: it is a secret.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Credentials {
    pub(crate) client_email: String,
    pub(crate) client_id: String,
    pub(crate) private_key_id: String,
    /// PEM.
    pub(crate) private_key: String,
    pub(crate) project_id: String,
}

impl Credentials {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Invalid request for what is no such file, without repeating any of it but the account.
    pub(crate) fn read(host: &dyn Host, text: &str) -> Result<Self, Failure> {
        // The parser's own words are left out: they can quote the key.
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

    fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        if self.private_key_id.is_empty() || self.private_key.is_empty() {
            return Err(Failure::invalid(
                "missing private key in credentials: private_key_id and private_key are required",
            ));
        }
        if !is_email(&self.client_email) {
            let email = quoted(&self.client_email);
            return Err(Failure::invalid(format!(
                "client_email {email} of credentials is no service account's address"
            )));
        }
        if !self.private_key.contains("PRIVATE KEY-----") {
            return Err(Failure::invalid("private_key of credentials is no private key in PEM"));
        }
        let key = host.crypto().read_key(&self.private_key).map_err(|why| Failure {
            message: format!("private_key of credentials: {}", why.message),
            ..why
        })?;
        if key.kind == "rsa" && key.bits >= LEAST_BITS {
            return Ok(());
        }
        let (kind, bits) = (key.kind, key.bits);
        Err(Failure::invalid(format!(
            "private_key of credentials is of kind {kind} and has {bits} bits; it has to be an \
             RSA key of {LEAST_BITS} bits or more"
        )))
    }
}
