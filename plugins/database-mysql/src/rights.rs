//! Check of the rights that the connection's user needs, made when the connection is written.

use crate::accounts;
use crate::sessions::DENIED;
use crate::settings::ParsedConnection;
use bulkhead_sdk::database_plugin::{SqlFailure, SqlHost};

/// Query on a table that is readable only with PROCESS.
const FOR_PROCESS: &str = "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.INNODB_CMP";

/// Returns a warning code for each right that the connection's user lacks. Rights that the server
/// does not report cause no warning.
pub(crate) fn lacking(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
) -> Result<Vec<String>, SqlFailure> {
    let target = &connection.target;
    let grants = match host.query_column(target, "SHOW GRANTS", &[]) {
        Err(failure) if failure.code == "statement-failed" => Vec::new(),
        grants => grants?,
    };
    let mut lacking = Vec::new();
    if is_without(&grants, &["CREATE USER"]) {
        lacking.push("lacks-create-user");
    }
    if accounts::hosts(host, connection, &target.username)?.is_none() {
        lacking.push("lacks-mysql-user");
    }
    match host.query(target, FOR_PROCESS, &[]) {
        Err(failure) if failure.has_sqlstate(&[DENIED]) => {
            lacking.push("lacks-process");
        }
        Err(failure) if failure.code != "statement-failed" => return Err(failure),
        _ => {}
    }
    if is_without(&grants, &["CONNECTION ADMIN", "CONNECTION_ADMIN", "SUPER"]) {
        lacking.push("lacks-connection-admin");
    }
    Ok(lacking.into_iter().map(str::to_owned).collect())
}

/// Tells if `grants` is not empty and contains none of the `rights` on the whole server. A granted
/// role counts as every right, because the role's rights are unknown here.
fn is_without(grants: &[String], rights: &[&str]) -> bool {
    let gives = |grant: &String| {
        let grant = grant.to_ascii_uppercase();
        let Some((privileges, rest)) = grant.split_once(" ON ") else { return true };
        let is_global = rest.starts_with("*.* ");
        let listed = privileges.trim_start_matches("GRANT ").split(", ");
        is_global && listed.into_iter().any(|one| one == "ALL PRIVILEGES" || rights.contains(&one))
    };
    !grants.is_empty() && !grants.iter().any(gives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::sql_script::SqlScript;

    fn missing_rights(script: &SqlScript) -> Vec<String> {
        let settings = SqlScript::settings("root:pw@tcp(db:3306)/orders");
        lacking(script, &ParsedConnection::read(&settings).unwrap()).unwrap()
    }

    #[test]
    fn every_missing_right_is_reported() {
        let all = "GRANT CREATE USER, PROCESS, CONNECTION ADMIN ON *.* TO `a`@`%`";
        let without = |grants: &[&str]| SqlScript::default().answers("SHOW GRANTS", grants);
        assert_eq!(missing_rights(&without(&[all])), Vec::<String>::new());
        let usage = ["GRANT USAGE ON *.* TO `a`@`%`", "GRANT SUPER ON `super`.* TO `a`@`%`"];
        assert_eq!(
            missing_rights(&without(&usage)),
            ["lacks-create-user", "lacks-connection-admin"]
        );
        let unseen = without(&[all]).fails("mysql.user", SqlScript::state("1142"));
        assert_eq!(missing_rights(&unseen), ["lacks-mysql-user"]);
        let unseen = without(&[all]).fails("INNODB_CMP", SqlScript::state("1227"));
        assert_eq!(missing_rights(&unseen), ["lacks-process"]);
    }

    #[test]
    fn right_possibly_given_by_role_is_not_missing() {
        for grants in [
            &["GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION"][..],
            &["GRANT `admins`@`%` TO `a`@`%`", "GRANT USAGE ON *.* TO `a`@`%`"],
            &[],
        ] {
            let script = SqlScript::default().answers("SHOW GRANTS", grants);
            assert_eq!(missing_rights(&script), Vec::<String>::new(), "{grants:?}");
        }
    }
}
