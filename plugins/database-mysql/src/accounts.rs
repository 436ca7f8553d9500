//! Accounts of a user name. A name may have an account for each host that the user logs in from.

use crate::settings::ParsedConnection;
use crate::sql_failure;
use bulkhead_sdk::database_plugin::{DatabaseTarget, SqlFailure, SqlHost};

/// Error numbers of a table or column that the connection's user may not read.
const MAY_NOT_READ: [&str; 2] = ["1142", "1143"];

/// Error numbers of an operation on a missing account.
pub(crate) const NO_ACCOUNT: [&str; 3] = ["1133", "1396", "3162"];

/// Host of an account without an explicit host.
pub(crate) const ANY_HOST: &str = "%";

/// Returns the hosts for which `username` has an account; `None` if the connection's user may not
/// read the accounts.
pub(crate) fn hosts(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<Option<Vec<String>>, SqlFailure> {
    let query = "SELECT CAST(Host AS CHAR) FROM mysql.user WHERE User = ? ORDER BY 1";
    match host.query(&connection.target, query, &[username]) {
        Ok(rows) => {
            let hosts = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
            Ok(Some(hosts.collect()))
        }
        Err(failure) if sql_failure::has_number(&failure, &MAY_NOT_READ) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns `'user'@'host'`.
pub(crate) fn account(username: &str, host: &str) -> String {
    format!("{}@{}", text(username), text(host))
}

/// Quotes a text.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', "''"))
}

/// Returns the quoted account of the target's sessions. The account is queried because MariaDB
/// accepts `ALTER USER CURRENT_USER()` without changing the password.
pub(crate) fn own(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
) -> Result<Option<String>, SqlFailure> {
    let rows = host.query(target, "SELECT CAST(CURRENT_USER() AS CHAR)", &[])?;
    let told = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
    Ok(told.as_deref().and_then(|told| told.rsplit_once('@')).map(|(name, at)| account(name, at)))
}
