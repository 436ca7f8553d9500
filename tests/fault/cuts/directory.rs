//! Cut connections to OpenLDAP and to Samba as an Active Directory, with TLS.

use super::every_cut;
use crate::directory::DirectoryLife;
use crate::injected::FaultObserved;
use bulkhead_tests::cutting_relay::CuttingRelay;
use bulkhead_tests::{Bulkhead, DirectoryKind, DirectoryServer};
use serde_json::json;

/// An act during which a message is cut.
#[derive(Clone, Copy, Debug)]
enum DirectoryCutAct {
    RoleRotation,
    RootRotation,
    /// A write of the configuration with its first password after a rotation.
    Overwriting,
    /// A check-out, and the borrower's check-in.
    CheckIn,
    Revocation,
}

impl DirectoryCutAct {
    fn prepare(self, life: &mut DirectoryLife) -> Result<(), FaultObserved> {
        match self {
            Self::RoleRotation => life.add_role(),
            Self::RootRotation => Ok(()),
            Self::Overwriting => life.rotate_root(),
            Self::CheckIn => life.add_set(),
            Self::Revocation => life.add_set().and_then(|()| life.borrow()),
        }
    }

    fn run(self, life: &mut DirectoryLife) -> Result<(), FaultObserved> {
        match self {
            Self::RoleRotation => life.rotate_role(),
            Self::RootRotation => life.rotate_root(),
            Self::Overwriting => life.configure(),
            Self::CheckIn => life.borrow().and_then(|()| life.check_in()),
            Self::Revocation => life.revoke(),
        }
    }

    /// Runs the act with a cut at message `number`. Returns false if the act has fewer messages.
    fn live(self, kind: DirectoryKind, number: u32) -> bool {
        let relay = relay_to(DirectoryServer::shared(kind));
        let mut life = DirectoryLife::on(kind, Bulkhead::start());
        life.config["url"] = json!(format!("ldaps://127.0.0.1:{}", relay.port));
        let prepared = life.configure().and_then(|()| self.prepare(&mut life));
        assert!(prepared.is_ok(), "{}", life.log_text());
        relay.cut_at(number);
        let done = self.run(&mut life);
        let has_cut = relay.pass_all();
        assert!(done.is_ok() || has_cut, "{}", life.log_text());
        if matches!(self, Self::Revocation) {
            life.await_ended_leases();
        }
        life.check();
        has_cut
    }
}

fn relay_to(server: &DirectoryServer) -> CuttingRelay {
    let url = server.url();
    let address = url.strip_prefix("ldaps://").and_then(|address| address.parse().ok());
    CuttingRelay::to_address(address.unwrap_or_else(|| panic!("{url} has an IP address")))
}

fn every_message(kind: DirectoryKind, act: DirectoryCutAct) {
    every_cut(&format!("{act:?} with {kind:?}"), |number| act.live(kind, number));
}

#[test]
fn cut_role_rotation_in_openldap_loses_no_password() {
    every_message(DirectoryKind::OpenLdap, DirectoryCutAct::RoleRotation);
}

#[test]
fn cut_role_rotation_in_samba_loses_no_password() {
    every_message(DirectoryKind::Samba, DirectoryCutAct::RoleRotation);
}

#[test]
fn cut_root_rotation_in_openldap_loses_no_password() {
    every_message(DirectoryKind::OpenLdap, DirectoryCutAct::RootRotation);
}

#[test]
fn cut_root_rotation_in_samba_loses_no_password() {
    every_message(DirectoryKind::Samba, DirectoryCutAct::RootRotation);
}

#[test]
fn cut_config_write_to_openldap_loses_no_password() {
    every_message(DirectoryKind::OpenLdap, DirectoryCutAct::Overwriting);
}

#[test]
fn cut_config_write_to_samba_loses_no_password() {
    every_message(DirectoryKind::Samba, DirectoryCutAct::Overwriting);
}

#[test]
fn cut_check_in_to_openldap_loses_no_account() {
    every_message(DirectoryKind::OpenLdap, DirectoryCutAct::CheckIn);
}

#[test]
fn cut_check_in_to_samba_loses_no_account() {
    every_message(DirectoryKind::Samba, DirectoryCutAct::CheckIn);
}

#[test]
fn a_cut_revocation_in_openldap_loses_no_account() {
    every_message(DirectoryKind::OpenLdap, DirectoryCutAct::Revocation);
}

#[test]
fn a_cut_revocation_in_samba_loses_no_account() {
    every_message(DirectoryKind::Samba, DirectoryCutAct::Revocation);
}
