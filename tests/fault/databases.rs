//! The kinds of databases on which lives run.

use crate::stage::FIRST;
use bulkhead_tests::{MariaDb, Postgres};

/// A kind of database server.
pub trait DatabaseKind: Sync {
    const PLUGIN: &'static str;
    const CREATION: &'static str;
    fn port(&self) -> u16;
    /// Connection URL for Bulkhead, over this port.
    fn url(&self, port: u16) -> String;
    /// Connection URL for the same server, which Bulkhead takes for another destination.
    fn url_elsewhere(&self) -> String;
    /// Creates an administrator and an account without rights, with the password [`FIRST`].
    fn make_accounts(&self, keeper: &str, app: &str);
    fn logs_in(&self, user: &str, password: &str) -> bool;
    /// Returns the accounts with `part` in their names.
    fn accounts(&self, part: &str) -> Vec<String>;
}

/// PostgreSQL, where a creation is one transaction.
impl DatabaseKind for Postgres {
    const PLUGIN: &'static str = "postgresql-database-plugin";
    const CREATION: &'static str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' IN ROLE \
                                    readers; CREATE ROLE \"{{name}}-second\" LOGIN; DO $$ BEGIN \
                                    PERFORM 1; END $$";

    fn port(&self) -> u16 {
        self.port
    }

    fn url(&self, port: u16) -> String {
        Postgres::url(self).replace(&format!(":{}/", self.port), &format!(":{port}/"))
    }

    fn url_elsewhere(&self) -> String {
        Postgres::url(self).replace("=disable", "=prefer")
    }

    fn make_accounts(&self, keeper: &str, app: &str) {
        self.query(&format!(
            "CREATE ROLE \"{keeper}\" SUPERUSER LOGIN PASSWORD '{FIRST}'; \
             CREATE ROLE \"{app}\" LOGIN PASSWORD '{FIRST}'"
        ));
    }

    fn logs_in(&self, user: &str, password: &str) -> bool {
        self.login(user, password, "SELECT 1").is_ok()
    }

    fn accounts(&self, part: &str) -> Vec<String> {
        let rows = self.query("SELECT rolname FROM pg_roles");
        rows.lines().filter(|name| name.contains(part)).map(str::to_owned).collect()
    }
}

/// MariaDB, where a creation is not a transaction.
impl DatabaseKind for MariaDb {
    const PLUGIN: &'static str = "mysql-database-plugin";
    const CREATION: &'static str = "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'; \
                                    GRANT SELECT ON demo.orders TO '{{name}}'@'%'; \
                                    CREATE USER '{{name}}'@'10.%' IDENTIFIED BY '{{password}}'";

    fn port(&self) -> u16 {
        self.port
    }

    fn url(&self, port: u16) -> String {
        MariaDb::url(self).replace(&format!(":{})", self.port), &format!(":{port})"))
    }

    fn url_elsewhere(&self) -> String {
        format!("{}?tls=preferred", MariaDb::url(self))
    }

    fn make_accounts(&self, keeper: &str, app: &str) {
        self.query(&format!(
            "CREATE USER '{keeper}'@'%' IDENTIFIED BY '{FIRST}'; \
             GRANT ALL ON *.* TO '{keeper}'@'%' WITH GRANT OPTION; \
             CREATE USER '{app}'@'%' IDENTIFIED BY '{FIRST}'; \
             GRANT SELECT ON demo.orders TO '{app}'@'%'"
        ));
    }

    fn logs_in(&self, user: &str, password: &str) -> bool {
        self.login(user, password, "SELECT 1").is_ok()
    }

    fn accounts(&self, part: &str) -> Vec<String> {
        self.users().into_iter().filter(|name| name.contains(part)).collect()
    }
}
