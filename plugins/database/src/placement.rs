//! Passwords that fit into the statements that contain the password.
//!
//! This file prevents requests that fail at random. Text that the database parses as code again (a
//! `DO` body, a string with quotes inside) accepts no quote and no backslash, but a policy may ask
//! for either. If a password does not fit, the engine draws another password. If no password of the
//! policy fits, the engine refuses the role when the role is written.

use crate::connection::{Connection, about};
use bulkhead_sdk::database_plugin::{StatementAct, StatementPurpose};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host};

/// The credential type that most databases have.
pub(crate) const PASSWORD: &str = "password";

/// Number of passwords that the plugin checks per call.
const BATCH_PASSWORDS: usize = 64;

/// Maximum number of batches drawn before the policy is refused. If 1 password in 40 fits, a policy
/// is refused wrongly once in 400,000 times.
const MAX_BATCHES: usize = 8;

/// A password with the kinds of characters of the default policy.
const SAMPLE_PASSWORD: &str = "Kq7-Wm2-Xd9-Rt4-Bz6";

/// The statements that will contain a credential.
pub(crate) struct CredentialStatements<'a> {
    pub(crate) connection: &'a Connection,
    /// The name of the connection.
    pub(crate) db_name: &'a str,
    /// The use of the statements.
    pub(crate) act: StatementAct,
    pub(crate) credential_type: &'a str,
    /// Empty if the plugin uses its own statements.
    pub(crate) statements: &'a [String],
}

impl<'a> CredentialStatements<'a> {
    /// Returns the statements that change the password of the own user of the connection `name`.
    pub(crate) fn of_root(name: &'a str, connection: &'a Connection) -> Self {
        Self {
            connection,
            db_name: name,
            act: StatementAct::Rotation,
            credential_type: PASSWORD,
            statements: &connection.root_rotation_statements,
        }
    }

    /// Draws a password by the policy until a password fits. `name` is the role or connection that
    /// gets the password, for error messages.
    ///
    /// # Errors
    /// Invalid request if the policy does not exist or no drawn password fits.
    pub(crate) fn draw(
        &self,
        host: &dyn Host,
        name: &str,
        policy: &str,
    ) -> Result<String, Failure> {
        let first = generate(host, name, policy)?;
        if is_plain(&first) {
            return Ok(first);
        }
        if let Some(fitting) = self.fitting(host, vec![first])? {
            return Ok(fitting);
        }
        for _ in 0..MAX_BATCHES {
            if let Some(fitting) = self.fitting(host, batch(host, name, policy)?)? {
                return Ok(fitting);
            }
        }
        Err(self.misfit(name, policy))
    }

    /// Refuses statements that the plugin cannot read, placeholders without a value, and statements
    /// that accept no password of the policy. `policy` is `None` if the statements contain no
    /// password.
    ///
    /// # Errors
    /// Invalid request that says what is wrong, without the name of the field.
    pub(crate) fn check(&self, host: &dyn Host, policy: Option<&str>) -> Result<(), Failure> {
        let Some(policy) = policy else { return self.fitting(host, Vec::new()).map(drop) };
        if policy.is_empty() {
            let fitting = self.fitting(host, vec![SAMPLE_PASSWORD.to_owned()])?;
            return fitting.map(drop).ok_or_else(|| self.misfit(self.db_name, policy));
        }
        for _ in 0..MAX_BATCHES {
            let passwords = match batch(host, self.db_name, policy) {
                // A policy may be written after the role. Every use of the role looks the policy up
                // again.
                Err(why) if why.kind == FailureKind::InvalidRequest => Vec::new(),
                drawn => drawn?,
            };
            let is_unknown = passwords.is_empty();
            if self.fitting(host, passwords)?.is_some() || is_unknown {
                return Ok(());
            }
        }
        Err(self.misfit(self.db_name, policy))
    }

    /// Returns the first password that fits.
    fn fitting(&self, host: &dyn Host, passwords: Vec<String>) -> Result<Option<String>, Failure> {
        let credential_type = self.credential_type.to_owned();
        let mut purpose = StatementPurpose { act: self.act, credential_type, passwords };
        let called = self.connection.for_host(self.db_name);
        let checked = host.databases().check_statements(&called, self.statements, &purpose);
        let place = checked.map_err(|why| about(self.db_name, why))?;
        let place = place.and_then(|place| usize::try_from(place).ok());
        let found = place.filter(|place| *place < purpose.passwords.len());
        Ok(found.map(|place| purpose.passwords.swap_remove(place)))
    }

    fn misfit(&self, name: &str, policy: &str) -> Failure {
        let policy = match policy {
            "" => "the default policy".to_owned(),
            named => format!("policy {}", quoted(named)),
        };
        Failure::invalid(format!(
            "no password for {}: no password made by {policy} fits the place of {{{{password}}}} \
             in the statements; put {{{{password}}}} directly between quotes, outside of quoted \
             code, or use a policy of letters and digits",
            quoted(name)
        ))
    }
}

fn batch(host: &dyn Host, name: &str, policy: &str) -> Result<Vec<String>, Failure> {
    (0..BATCH_PASSWORDS).map(|_| generate(host, name, policy)).collect()
}

/// Returns `true` if the password fits everywhere: letters, digits, `_` and single dashes.
fn is_plain(password: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    password.chars().all(plain) && !password.contains("--")
}

/// Generates a password. A missing policy is an invalid request: the role or connection is wrong,
/// not the URL.
fn generate(host: &dyn Host, name: &str, policy: &str) -> Result<String, Failure> {
    host.passwords().generate(policy).map_err(|why| {
        let kind =
            if why.kind == FailureKind::NotFound { FailureKind::InvalidRequest } else { why.kind };
        let message = format!("no password for {}: {}", quoted(name), why.message);
        Failure { kind, message, ..why }
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{empty, orders, reader, ready, with};
    use bulkhead_sdk::FailureKind;
    use serde_json::json;

    /// A policy for passwords of four characters, each `'` or `x`.
    const HALF_QUOTES: &str = "length = 4 rule \"charset\" { charset = \"'x\" }";
    const QUOTES: &str = "length = 8 rule \"charset\" { charset = \"'\" }";

    #[test]
    fn password_unfit_for_its_place_is_drawn_again() {
        let bed = ready();
        bed.host.add_policy("half", HALF_QUOTES).unwrap();
        let role = json!({"credential_config": {"password_policy": "half"}});
        bed.write("roles/reader", &role).unwrap();
        for _ in 0..50 {
            let reply = bed.read("creds/reader").unwrap();
            assert_eq!(reply.data["password"], "xxxx", "the only one that fits");
        }
    }

    #[test]
    fn role_with_unfit_password_policy_is_refused() {
        let bed = empty();
        bed.host.add_policy("quotes", QUOTES).unwrap();
        bed.write("config/orders", &orders()).unwrap();
        let role = json!({"credential_config": {"password_policy": "quotes"}});
        let refused = bed.write("roles/reader", &with(reader(), role)).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        for said in ["creation_statements: ", "policy \"quotes\"", "{{password}}"] {
            assert!(refused.message.contains(said), "{}", refused.message);
        }
        assert_eq!(bed.host.stored("role/reader"), None);
        let own = json!({
            "password_policy": "quotes", "root_rotation_statements": "SET {{password}}",
        });
        let refused = bed.write("config/orders", &own).err().unwrap();
        assert!(refused.message.starts_with("root_rotation_statements: "), "{}", refused.message);
    }

    #[test]
    fn policy_added_later_is_checked_at_each_use() {
        let bed = ready();
        let role = json!({"credential_config": {"password_policy": "later"}});
        bed.write("roles/reader", &role).unwrap();
        bed.host.add_policy("later", QUOTES).unwrap();
        let refused = bed.read("creds/reader").err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains("policy \"later\""), "{}", refused.message);
        assert_eq!(bed.host.user_count(), 0);
    }
}
