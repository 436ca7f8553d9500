//! A connection to a database is cut at each message of a creation, a revocation, a rotation and a
//! write of the connection: afterwards no account is left without a lease, no lease is gone while
//! an account logs in, and the engine knows every password.

mod mariadb;
mod postgresql;

use crate::stage::{SOON, report, sampled, sampling, until_nothing_fires};
use bulkhead_tests::cutting_relay::CuttingRelay;
use bulkhead_tests::wait::{until_ok, until_true};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};

/// Password of an account before a life takes it over.
const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";

/// A kind of database server.
trait CutDatabase: Sync {
    const PLUGIN: &'static str;
    const CREATION: &'static str;
    fn port(&self) -> u16;
    /// Connection URL for Bulkhead, over this port.
    fn url(&self, port: u16) -> String;
    /// Creates an administrator and an account without rights, with the password [`FIRST`].
    fn make_accounts(&self, keeper: &str, app: &str);
    fn logs_in(&self, user: &str, password: &str) -> bool;
    /// Returns the accounts with `part` in their names.
    fn accounts(&self, part: &str) -> Vec<String>;
}

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

/// One server with a connection through a relay.
struct CutLife<'a, D> {
    database: &'a D,
    name: String,
    relay: CuttingRelay,
    root: Client,
    _server: Bulkhead,
}

impl<'a, D: CutDatabase> CutLife<'a, D> {
    fn begin(database: &'a D, name: String) -> Self {
        database.make_accounts(&format!("{name}-keeper"), &format!("{name}-app"));
        let relay = CuttingRelay::to(database.port());
        let server = Bulkhead::start();
        let root = server.root();
        let life = Self { database, name, relay, root, _server: server };
        life.root.write("database/config/c", &life.connection()).expect_success();
        let role = json!({
            "db_name": "c", "creation_statements": [D::CREATION], "default_ttl": "1h",
        });
        life.root.write(&format!("database/roles/{}", life.name), &role).expect_success();
        life
    }

    fn connection(&self) -> Value {
        json!({
            "plugin_name": D::PLUGIN, "connection_url": self.database.url(self.relay.port),
            "username": format!("{}-keeper", self.name), "password": FIRST, "allowed_roles": "*",
        })
    }

    fn create(&self) -> Answer {
        self.root.read(&format!("database/creds/{}", self.name))
    }

    fn revoke(&self, lease: &str) -> Answer {
        self.root.write("sys/leases/revoke", &json!({ "lease_id": lease }))
    }

    fn has_lease(&self, lease: &str) -> bool {
        self.root.write("sys/leases/lookup", &json!({ "lease_id": lease })).status == 200
    }

    fn issued(&self) -> Vec<String> {
        self.database.accounts(&format!("-{}-", self.name))
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
        self.relay.cut_at(number);
        let answer = self.create();
        let has_cut = self.relay.pass_all();
        if answer.status == 200 {
            let user = (answer.text("username"), answer.text("password"));
            assert!(self.database.logs_in(user.0, user.1), "{answer:?}");
            until_ok("the lease ends", SOON, || done(self.revoke(answer.lease())));
        }
        self.leaves_no_account();
        has_cut
    }

    fn cut_revocation(&self, number: u32) -> bool {
        let issued = self.create().expect(200);
        self.relay.cut_at(number);
        let revoked = self.revoke(issued.lease());
        if revoked.status == 204 || !self.has_lease(issued.lease()) {
            assert_eq!(self.issued(), Vec::<String>::new(), "the lease is gone: {revoked:?}");
        }
        let has_cut = self.relay.pass_all();
        until_ok("the lease ends", SOON, || match self.has_lease(issued.lease()) {
            true => done(self.revoke(issued.lease())),
            false => Ok(()),
        });
        self.leaves_no_account();
        has_cut
    }

    fn cut_root_rotation(&self, number: u32) -> bool {
        self.relay.cut_at(number);
        self.root.write("database/rotate-root/c", &json!({}));
        let has_cut = self.relay.pass_all();
        self.works();
        has_cut
    }

    fn cut_overwriting(&self, number: u32) -> bool {
        self.root.write("database/rotate-root/c", &json!({})).expect(204);
        self.relay.cut_at(number);
        self.root.write("database/config/c", &self.connection());
        let has_cut = self.relay.pass_all();
        self.works();
        has_cut
    }

    fn cut_static_rotation(&self, number: u32) -> bool {
        let app = format!("{}-app", self.name);
        let role = json!({ "db_name": "c", "username": app, "rotation_period": "1h" });
        self.root.write("database/static-roles/app", &role).expect_success();
        self.relay.cut_at(number);
        self.root.write("database/rotate-role/app", &json!({}));
        let has_cut = self.relay.pass_all();
        until_true("the displayed password logs in", SOON, || {
            let shown = self.root.read("database/static-creds/app");
            shown.status == 200 && self.database.logs_in(&app, shown.text("password"))
        });
        has_cut
    }

    /// Asserts that the connection's own user logs in, and that no rotation is unfinished.
    fn works(&self) {
        until_ok("the connection's own user logs in", SOON, || {
            done(self.root.write("database/reset/c", &json!({})))
        });
        until_ok("no rotation is unfinished", SOON, || {
            done(self.root.write("database/rotate-root/c", &json!({})))
        });
        let issued = self.create().expect(200);
        until_ok("the lease ends", SOON, || done(self.revoke(issued.lease())));
    }

    fn leaves_no_account(&self) {
        let mut left = Vec::new();
        until_true("no account is left without a lease", SOON, || {
            left = self.issued();
            left.is_empty()
        });
    }
}

/// Returns the answer as an error, unless it is 204.
fn done(answer: Answer) -> Result<(), Answer> {
    if answer.status == 204 { Ok(()) } else { Err(answer) }
}

/// Cuts each message of the act, or in `make test` one in a few.
fn every_message<D: CutDatabase>(database: &D, act: CutAct) {
    let count = until_nothing_fires(|number| {
        CutLife::begin(database, format!("{}{number}", act.short())).live(act, sampled(number))
    });
    report(&format!("cuts of {act:?} with {}: {count}, of {}", D::PLUGIN, sampling()));
    assert!(count > 0, "{act:?} was never cut");
}
