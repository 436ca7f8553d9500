//! Cut connections to PostgreSQL.

use super::{CutAct, CutDatabase, FIRST, every_message};
use crate::stage::postgres;
use bulkhead_tests::Postgres;

impl CutDatabase for Postgres {
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

#[test]
fn a_cut_creation_leaves_no_role_without_a_lease() {
    every_message(postgres(), CutAct::Creation);
}

#[test]
fn a_cut_revocation_leaves_no_role_without_a_lease() {
    every_message(postgres(), CutAct::Revocation);
}

#[test]
fn a_cut_root_rotation_loses_no_password() {
    every_message(postgres(), CutAct::RootRotation);
}

#[test]
fn a_cut_static_rotation_loses_no_password() {
    every_message(postgres(), CutAct::StaticRotation);
}

#[test]
fn a_cut_write_of_the_connection_loses_no_password() {
    every_message(postgres(), CutAct::Overwriting);
}
