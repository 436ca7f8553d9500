//! Verification of a credential by a login.
//!
//! This file prevents a password from being taken for wrong if the server refused the user for
//! another reason. Such a password may be the only valid password, and must not be lost. The server
//! has the same number (1045) for a wrong password, a host without an account and missing TLS, so
//! this file then reads the requirements of the accounts.

use crate::settings::ParsedConnection;
use crate::sql_failure::{self, LOGIN_CAUSES};
use bulkhead_sdk::connection::{FailedLogin, PasswordVerdict, try_credential};
use bulkhead_sdk::database_plugin::{Credential, DatabaseTls, Refusal, SqlHost};

/// Selects name and TLS requirement of each account that matches a login of `?` from this host. An
/// account without a name matches every user name.
const ACCOUNTS: &str = "SELECT CAST(User AS CHAR), CAST(ssl_type AS CHAR) FROM mysql.user \
     WHERE User IN (?, '') AND \
     CAST(SUBSTRING_INDEX(USER(), '@', -1) AS CHAR) LIKE CAST(Host AS CHAR)";

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
        Some(PasswordVerdict::Denied) if !is_another => Ok(Some(false)),
        Some(PasswordVerdict::Denied) => {
            Ok(is_the_password(host, connection, username)?.then_some(false))
        }
        Some(PasswordVerdict::Unknown | PasswordVerdict::Limited) if is_another => Ok(None),
        // This includes authentication methods that require TLS.
        None if failure.code == "invalid-request" && is_another => Ok(None),
        _ => Err(sql_failure::refusal(failure, &target)),
    }
}

/// Returns `true` if only a wrong password explains a denied login of `username` from here, and
/// `false` if the connection's user may not read the accounts.
fn is_the_password(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<bool, Refusal> {
    let rows = match host.query(&connection.target, ACCOUNTS, &[username]) {
        Ok(rows) => rows,
        Err(failure) if failure.code == "statement-failed" => return Ok(false),
        Err(failure) => return Err(sql_failure::refusal(failure, &connection.target)),
    };
    let is_met = |row: &Vec<Option<String>>| {
        let text = |column: usize| row.get(column).and_then(Option::as_deref).unwrap_or_default();
        text(0) == username && meets(&connection.target.tls, text(1))
    };
    Ok(!rows.is_empty() && rows.iter().all(is_met))
}

/// Returns `true` if sessions with this TLS certainly meet the requirement of an account.
fn meets(tls: &DatabaseTls, ssl_type: &str) -> bool {
    match ssl_type {
        "" => true,
        "ANY" => ["require", "verify-ca", "verify-full"].contains(&tls.mode.as_str()),
        // The account may also require an issuer or subject.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::sql_script::SqlScript;
    use serde_json::json;

    fn connection(parameters: &str) -> ParsedConnection {
        let url = format!("{{{{username}}}}:{{{{password}}}}@tcp(db:3306)/orders{parameters}");
        let more = [("username", json!("root")), ("password", json!("rootpass"))];
        ParsedConnection::read(&SqlScript::settings_with(&url, &more)).unwrap()
    }

    fn checked(script: &SqlScript, username: &str) -> Result<Option<bool>, Refusal> {
        let credential = Credential::Password("p".to_owned());
        check_credential(script, &connection(""), username, &credential)
    }

    fn refused(code: &str, number: Option<&str>) -> SqlScript {
        SqlScript::default().fails("ping", SqlScript::failure(code, number))
    }

    fn denied() -> SqlScript {
        refused("refused", Some("1045"))
    }

    #[test]
    fn a_credential_is_checked_by_one_login() {
        let script = SqlScript::default();
        assert_eq!(checked(&script, "u"), Ok(Some(true)));
        assert_eq!(script.asked(), ["ping u:p"]);
        let down = refused("unreachable", None);
        assert_eq!(checked(&down, "u").unwrap_err().code, "unreachable");
        let certified = Credential::SubjectDn("CN=u".to_owned());
        assert_eq!(check_credential(&script, &connection(""), "u", &certified), Ok(None));
    }

    #[test]
    fn refusal_for_other_reason_leaves_password_unknown() {
        for number in ["1130", "1251", "1524", "1698", "3118", "3159", "4151"] {
            assert_eq!(checked(&refused("refused", Some(number)), "u"), Ok(None), "{number}");
        }
        for number in ["1044", "1049", "1820", "1862"] {
            let script = refused("refused", Some(number));
            assert_eq!(checked(&script, "u"), Ok(Some(true)), "{number}");
        }
        for (code, number) in [
            ("unreachable", Some("1226")),
            ("unreachable", Some("1203")),
            ("refused", Some("3955")),
            ("refused", Some("4150")),
            ("invalid-request", None),
        ] {
            assert_eq!(checked(&refused(code, number), "u"), Ok(None), "{number:?}");
        }
        let full = checked(&refused("unreachable", Some("1040")), "u").unwrap_err();
        assert_eq!(full.code, "sessions-exhausted", "that passes");
    }

    #[test]
    fn a_blocked_account_keeps_its_password() {
        for number in ["3955", "4150"] {
            let own = checked(&refused("refused", Some(number)), "root").unwrap_err();
            assert_eq!(own.code, "account-locked", "{number}");
        }
    }

    #[test]
    fn denied_login_disproves_password_only_with_matching_account() {
        let wrong = denied().answers_row("mysql.user", &["u", ""]);
        assert_eq!(checked(&wrong, "u"), Ok(Some(false)));
        assert_eq!(checked(&denied(), "u"), Ok(None), "the accounts are of other hosts");
        let anonymous = denied().answers_row("mysql.user", &["", ""]);
        assert_eq!(checked(&anonymous, "u"), Ok(None));
        let unread = denied().fails("mysql.user", SqlScript::state("1142"));
        assert_eq!(checked(&unread, "u"), Ok(None));
        let lost = denied().fails("mysql.user", SqlScript::failure("unreachable", None));
        assert_eq!(checked(&lost, "u").unwrap_err().code, "unreachable", "asked again later");
        for (required, parameters, expected) in [
            ("ANY", "", None),
            ("ANY", "?tls=skip-verify", Some(false)),
            ("X509", "?tls=skip-verify", None),
            ("SPECIFIED", "?tls=skip-verify", None),
        ] {
            let script = denied().answers_row("mysql.user", &["u", required]);
            let credential = Credential::Password("p".to_owned());
            let verdict = check_credential(&script, &connection(parameters), "u", &credential);
            assert_eq!(verdict, Ok(expected), "{required} {parameters}");
        }
    }

    /// The query would need the password in question.
    #[test]
    fn denied_login_of_connection_user_asks_nothing_more() {
        let script = denied();
        assert_eq!(checked(&script, "root"), Ok(Some(false)));
        assert_eq!(script.asked().len(), 1);
        let full = checked(&refused("unreachable", Some("1226")), "root").unwrap_err();
        assert_eq!(full.code, "sessions-exhausted");
    }
}
