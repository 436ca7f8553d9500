//! Cut connections to MariaDB, where a creation is not a transaction.

use super::{CutAct, every_message};
use crate::stage::mariadb;

#[test]
fn cut_creation_leaves_no_account_without_lease() {
    every_message(mariadb(), CutAct::Creation);
}

#[test]
fn cut_revocation_leaves_no_account_without_lease() {
    every_message(mariadb(), CutAct::Revocation);
}

#[test]
fn a_cut_root_rotation_loses_no_password() {
    every_message(mariadb(), CutAct::RootRotation);
}

#[test]
fn a_cut_static_rotation_loses_no_password() {
    every_message(mariadb(), CutAct::StaticRotation);
}

#[test]
fn cut_connection_write_loses_no_password() {
    every_message(mariadb(), CutAct::Overwriting);
}
