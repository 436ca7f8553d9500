//! The accounts of one user name: a name may have one for each host that it may come from.

use crate::settings::Connection;
use crate::sql_failure;
use bulkhead_sdk::database_plugin::{SqlFailure, SqlHost, Target};

/// Numbers of a table or column that the connection's user may not read.
const MAY_NOT_READ: [&str; 2] = ["1142", "1143"];

/// Numbers of an operation on an account that is not there.
pub(crate) const NO_ACCOUNT: [&str; 3] = ["1133", "1396", "3162"];

/// The host that accounts have where nothing else is said.
pub(crate) const ANY_HOST: &str = "%";

/// The hosts for which `username` has an account; `None` where the connection's user may not read
/// them, so that nothing is known of any.
pub(crate) fn hosts(
    host: &dyn SqlHost,
    connection: &Connection,
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

/// `'user'@'host'`.
pub(crate) fn account(username: &str, host: &str) -> String {
    format!("{}@{}", text(username), text(host))
}

/// Any text, in quotes.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', "''"))
}

/// The account that a session of the target is of, quoted. It is asked for, because MariaDB takes
/// `ALTER USER CURRENT_USER()` and leaves the password as it is.
pub(crate) fn own(host: &dyn SqlHost, target: &Target) -> Result<Option<String>, SqlFailure> {
    let rows = host.query(target, "SELECT CAST(CURRENT_USER() AS CHAR)", &[])?;
    let told = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
    Ok(told.as_deref().and_then(|told| told.rsplit_once('@')).map(|(name, at)| account(name, at)))
}
