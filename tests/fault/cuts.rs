//! A connection to a database, a directory, a cluster or a cloud is cut at each message of a
//! creation, a revocation, a rotation and a write of the connection: afterwards no account is left
//! without a lease, no lease is gone while an account logs in, and the engine knows every password.

mod cloud;
mod cluster;
mod directory;
mod mariadb;
mod postgresql;

use crate::database_life::DatabaseLife;
use crate::databases::DatabaseKind;
use crate::stage::{SOON, STRIDE, report, sampled_at, sampling_at, until_nothing_fires};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::cutting_relay::CuttingRelay;
use bulkhead_tests::wait::until_true;
use serde_json::json;

/// An act during which a message is cut.
#[derive(Clone, Copy, Debug)]
enum CutAct {
    Creation,
    Revocation,
    RootRotation,
    StaticRotation,
    /// A write of the connection with its first password after a rotation.
    Overwriting,
}

impl CutAct {
    /// Returns a word that fits into the name of a user as it is.
    fn short(self) -> &'static str {
        match self {
            Self::Creation => "cre",
            Self::Revocation => "rev",
            Self::RootRotation => "root",
            Self::StaticRotation => "stat",
            Self::Overwriting => "over",
        }
    }
}

/// A life with a connection through a relay.
struct CutLife<'a, D> {
    relay: CuttingRelay,
    life: DatabaseLife<'a, D>,
}

impl<'a, D: DatabaseKind> CutLife<'a, D> {
    fn begin(database: &'a D, name: &str) -> Self {
        let relay = CuttingRelay::to(database.port());
        let life = DatabaseLife::on(Bulkhead::start(), database, name, relay.port);
        let configured = life.configure().and_then(|()| life.add_role());
        assert!(configured.is_ok(), "{}", life.log_text());
        Self { relay, life }
    }

    /// Runs the act with a cut at message `number`. Returns false if the act has fewer messages.
    fn live(&self, act: CutAct, number: u32) -> bool {
        match act {
            CutAct::Creation => self.cut_creation(number),
            CutAct::Revocation => self.cut_revocation(number),
            CutAct::RootRotation => self.cut_root_rotation(number),
            CutAct::StaticRotation => self.cut_static_rotation(number),
            CutAct::Overwriting => self.cut_overwriting(number),
        }
    }

    fn cut_creation(&self, number: u32) -> bool {
        let life = &self.life;
        self.relay.cut_at(number);
        let answer = life.create();
        let has_cut = self.relay.pass_all();
        if answer.status == 200 {
            let user = (answer.text("username"), answer.text("password"));
            assert!(life.database.logs_in(user.0, user.1), "{answer:?}");
            assert!(life.has_lease(answer.lease()), "{answer:?}");
            life.end_lease(answer.lease());
        }
        life.leaves_no_account();
        has_cut
    }

    fn cut_revocation(&self, number: u32) -> bool {
        let life = &self.life;
        let issued = life.create().expect(200);
        self.relay.cut_at(number);
        let revoked = life.revoke(issued.lease());
        if revoked.status == 204 || !life.has_lease(issued.lease()) {
            assert_eq!(life.issued(), Vec::<String>::new(), "the lease is gone: {revoked:?}");
        }
        let has_cut = self.relay.pass_all();
        life.end_lease(issued.lease());
        life.leaves_no_account();
        has_cut
    }

    fn cut_root_rotation(&self, number: u32) -> bool {
        self.relay.cut_at(number);
        self.life.root.write("database/rotate-root/c", &json!({}));
        let has_cut = self.relay.pass_all();
        self.check_works();
        has_cut
    }

    fn cut_overwriting(&self, number: u32) -> bool {
        let life = &self.life;
        life.root.write("database/rotate-root/c", &json!({})).expect(204);
        self.relay.cut_at(number);
        life.root.write("database/config/c", &life.connection());
        let has_cut = self.relay.pass_all();
        self.check_works();
        has_cut
    }

    fn cut_static_rotation(&self, number: u32) -> bool {
        let life = &self.life;
        let role = life.static_role(&json!("1h"));
        life.root.write("database/static-roles/app", &role).expect_success();
        self.relay.cut_at(number);
        life.root.write("database/rotate-role/app", &json!({}));
        let has_cut = self.relay.pass_all();
        until_true("the displayed password logs in", SOON, || {
            let shown = life.root.read("database/static-creds/app");
            shown.status == 200 && life.database.logs_in(&life.app(), shown.text("password"))
        });
        has_cut
    }

    fn check_works(&self) {
        self.life.check_connection();
        self.life.check_role();
    }
}

fn every_message<D: DatabaseKind>(database: &D, act: CutAct) {
    every_cut(&format!("{act:?} with {}", D::PLUGIN), |number| {
        CutLife::begin(database, &format!("{}{number}", act.short())).live(act, number)
    });
}

/// Cuts each message of an act, or in `make test` one in a few. `live` returns false if the act has
/// fewer messages.
fn every_cut(what: &str, live: impl Fn(u32) -> bool + Sync) {
    every_cut_at(STRIDE, what, live);
}

/// As [`every_cut`], with another stride.
fn every_cut_at(stride: u32, what: &str, live: impl Fn(u32) -> bool + Sync) {
    let count = until_nothing_fires(|number| live(sampled_at(stride, number)));
    report(&format!("cuts of {what}: {count}, of {}", sampling_at(stride)));
    assert!(count > 0, "{what} was never cut");
}
