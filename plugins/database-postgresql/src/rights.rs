//! Check of the rights that the connection's user needs, made when the connection is written.

use crate::identity;
use crate::settings::ParsedConnection;
use bulkhead_sdk::database_plugin::{SqlFailure, SqlHost};

const MAY_MAKE_ROLES: &str =
    "SELECT (rolsuper OR rolcreaterole)::text FROM pg_roles WHERE rolname = current_user";

/// Returns a warning code for each missing right of the connection's user. Rights that the server
/// does not report cause no warning: a server that only speaks PostgreSQL's protocol has other
/// catalogs.
pub(crate) fn lacking(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
) -> Result<Vec<String>, SqlFailure> {
    let answers = match host.query_column(&connection.target, MAY_MAKE_ROLES, &[]) {
        Err(failure) if failure.code == "statement-failed" => return Ok(Vec::new()),
        answers => answers?,
    };
    let mut lacking = Vec::new();
    if answers.first().is_some_and(|answer| answer == "false") {
        lacking.push("lacks-createrole".to_owned());
    }
    if identity::lacks_right(host, connection)? {
        lacking.push("lacks-identity".to_owned());
    }
    Ok(lacking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::sql_script::SqlScript;

    #[test]
    fn missing_createrole_right_is_reported_if_server_answers() {
        let report = |script: &SqlScript| {
            let settings = SqlScript::settings("postgresql://root:pw@db:5432/orders");
            lacking(script, &ParsedConnection::read(&settings).unwrap())
        };
        let answered = |text| SqlScript::default().answers("rolcreaterole", &[text]);
        assert_eq!(report(&answered("true")), Ok(Vec::new()));
        assert_eq!(report(&answered("false")), Ok(vec!["lacks-createrole".to_owned()]));
        let other = SqlScript::default().fails("rolcreaterole", SqlScript::state("42703"));
        assert_eq!(report(&other), Ok(Vec::new()));
        let unseen = answered("true").fails("pg_control_system", SqlScript::state("42501"));
        assert_eq!(report(&unseen), Ok(vec!["lacks-identity".to_owned()]));
        let outage = SqlScript::failure("unreachable", None);
        let down = SqlScript::default().fails("rolcreaterole", outage.clone());
        assert_eq!(report(&down), Err(outage));
    }
}
