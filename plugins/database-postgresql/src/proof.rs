//! Verification of a credential by a login.
//!
//! This file prevents a password from being taken for wrong if the server refused the user for
//! another reason. Such a password may be the only valid password, and must not be lost.

use crate::settings::ParsedConnection;
use crate::sql_failure::{self, LOGIN_CAUSES};
use bulkhead_sdk::connection::{FailedLogin, PasswordVerdict, try_credential};
use bulkhead_sdk::database_plugin::{Credential, Refusal, SqlHost};

/// Selects a row if the password of the role `$1` has expired. The server refuses expired and wrong
/// passwords by the same SQLSTATE.
const EXPIRED: &str = "SELECT '1'::text FROM pg_catalog.pg_roles \
                       WHERE rolname = $1 AND rolvaliduntil <= pg_catalog.now()";

/// Asks if the database accepts a login of `username` with `credential`, as in [`try_credential`].
pub(crate) fn check_credential(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    credential: &Credential,
) -> Result<Option<bool>, Refusal> {
    let (target, self_managed) = (&connection.target, connection.self_managed);
    try_credential(host, target, self_managed, username, credential, |failed| {
        conclude(host, connection, username, failed)
    })
}

fn conclude(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    FailedLogin { failure, target, is_another }: FailedLogin,
) -> Result<Option<bool>, Refusal> {
    match LOGIN_CAUSES.find(&failure).map(|(verdict, _)| verdict) {
        Some(PasswordVerdict::Right) => Ok(Some(true)),
        // The server checks its own limit before the password, and the limit of the role after the
        // password.
        Some(PasswordVerdict::Limited) if is_another => Ok(None),
        Some(PasswordVerdict::Unknown) => Ok(None),
        Some(PasswordVerdict::Denied) => {
            let is_wrong = !is_another || !has_expired(host, connection, username)?;
            Ok(is_wrong.then_some(false))
        }
        Some(PasswordVerdict::Limited | PasswordVerdict::Full) | None => {
            Err(sql_failure::refusal(failure, &target))
        }
    }
}

fn has_expired(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<bool, Refusal> {
    let found = host.query(&connection.target, EXPIRED, &[username]);
    let rows = found.map_err(|failure| sql_failure::refusal(failure, &connection.target))?;
    Ok(!rows.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::sql_script::SqlScript;
    use serde_json::json;

    const URL: &str = "postgresql://{{username}}:{{password}}@db:5432/orders";

    fn connection(self_managed: bool) -> ParsedConnection {
        let more = match self_managed {
            true => vec![("self_managed", json!(true))],
            false => vec![("username", json!("root")), ("password", json!("rootpass"))],
        };
        ParsedConnection::read(&SqlScript::settings_with(URL, &more)).unwrap()
    }

    fn checked(script: &SqlScript, username: &str) -> Result<Option<bool>, Refusal> {
        let credential = Credential::Password("n'w".to_owned());
        check_credential(script, &connection(false), username, &credential)
    }

    fn refused(code: &str, state: Option<&str>) -> SqlScript {
        SqlScript::default().fails("ping", SqlScript::failure(code, state))
    }

    #[test]
    fn a_credential_is_checked_by_one_login() {
        let script = SqlScript::default();
        assert_eq!(checked(&script, "u"), Ok(Some(true)));
        assert_eq!(script.asked(), ["ping u:n'w"]);
        let away = refused("unreachable", None);
        assert_eq!(checked(&away, "u").unwrap_err().code, "unreachable");
        let key = Credential::PublicKeyPem("k".to_owned());
        let denied = check_credential(&script, &connection(false), "u", &key).unwrap_err();
        assert_eq!(denied.code, "unsupported");
        let certified = Credential::SubjectDn("CN=u".to_owned());
        assert_eq!(check_credential(&script, &connection(false), "u", &certified), Ok(None));
    }

    #[test]
    fn refusal_for_other_reason_leaves_password_unknown() {
        for (code, state, expected) in [
            ("refused", "28P01", Some(false)),
            ("refused", "28000", None),
            ("unreachable", "53300", None),
            ("refused", "42501", Some(true)),
            ("refused", "3D000", Some(true)),
        ] {
            assert_eq!(checked(&refused(code, Some(state)), "u"), Ok(expected), "{state}");
        }
        let starting = checked(&refused("unreachable", Some("57P03")), "u").unwrap_err();
        assert_eq!(starting.code, "unreachable", "that passes");
    }

    #[test]
    fn an_expired_password_is_not_a_wrong_one() {
        let expired = refused("refused", Some("28P01")).answers("rolvaliduntil", &["1"]);
        assert_eq!(checked(&expired, "u"), Ok(None));
        assert!(expired.asked()[1].ends_with("<- u"), "{:?}", expired.asked());
        let lost = refused("refused", Some("28P01"))
            .fails("rolvaliduntil", SqlScript::failure("unreachable", None));
        assert_eq!(checked(&lost, "u").unwrap_err().code, "unreachable", "asked again later");
    }

    /// The query would need the password in question.
    #[test]
    fn denied_login_of_connection_user_asks_nothing_more() {
        let script = refused("refused", Some("28P01"));
        assert_eq!(checked(&script, "root"), Ok(Some(false)));
        assert_eq!(script.asked().len(), 1);
        let full = checked(&refused("unreachable", Some("53300")), "root").unwrap_err();
        assert_eq!(full.code, "sessions-exhausted", "its pool may have all sessions");
        let script = refused("refused", Some("28P01"));
        let credential = Credential::Password("p".to_owned());
        let alone = check_credential(&script, &connection(true), "u", &credential);
        assert_eq!((alone, script.asked().len()), (Ok(Some(false)), 1));
    }
}
