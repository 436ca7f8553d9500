//! Cut connections to MariaDB, where a creation is not a transaction.

use super::{CutAct, CutDatabase, FIRST, every_message};
use bulkhead_tests::MariaDb;
use std::sync::LazyLock;

/// The database of these tests, which ends with this program.
static MARIADB: LazyLock<MariaDb> = LazyLock::new(|| MariaDb::start(&["--max-connections=400"]));

impl CutDatabase for MariaDb {
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

#[test]
fn a_cut_creation_leaves_no_account_without_a_lease() {
    every_message(&*MARIADB, CutAct::Creation);
}

#[test]
fn a_cut_revocation_leaves_no_account_without_a_lease() {
    every_message(&*MARIADB, CutAct::Revocation);
}

#[test]
fn a_cut_root_rotation_loses_no_password() {
    every_message(&*MARIADB, CutAct::RootRotation);
}

#[test]
fn a_cut_static_rotation_loses_no_password() {
    every_message(&*MARIADB, CutAct::StaticRotation);
}

#[test]
fn a_cut_write_of_the_connection_loses_no_password() {
    every_message(&*MARIADB, CutAct::Overwriting);
}
