//! Cut connections to PostgreSQL.

use super::{CutAct, every_message};
use crate::stage::postgres;

#[test]
fn cut_creation_leaves_no_role_without_lease() {
    every_message(postgres(), CutAct::Creation);
}

#[test]
fn cut_revocation_leaves_no_role_without_lease() {
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
fn cut_connection_write_loses_no_password() {
    every_message(postgres(), CutAct::Overwriting);
}
