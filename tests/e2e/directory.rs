//! The directory engine on a real OpenLDAP and a real Active Directory (Samba): what is shown logs
//! in, what was shown before does not, and a refusal changes nothing.

mod config;
mod creds;
mod hazards;
mod liar;
mod library;
mod metrics;
mod removal;
mod rights;
mod root;
mod storm;

use bulkhead_tests::directory_server::KINDS;
use bulkhead_tests::{Answer, Branch, Bulkhead, Client, DirectoryServer, Kind};
use serde_json::{Value, json};

/// What accounts log in with before the engine knows them.
const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";

/// A server, and a branch of a directory with the accounts `svc1` to `svc3`.
struct Quay {
    bulkhead: Bulkhead,
    branch: Branch,
    root: Client,
}

impl Quay {
    /// On the directory of that kind, with nothing configured.
    fn empty(kind: Kind) -> Self {
        Self::of(DirectoryServer::shared(kind).branch())
    }

    /// On that branch, with nothing configured.
    fn of(branch: Branch) -> Self {
        let bulkhead = Bulkhead::start();
        let accounts = ["svc1", "svc2", "svc3"].map(|name| (name.to_owned(), FIRST));
        branch.add_all(&accounts);
        let root = bulkhead.root();
        Self { bulkhead, branch, root }
    }

    /// With the configuration.
    fn new(kind: Kind) -> Self {
        let quay = Self::empty(kind);
        quay.configure(json!({})).expect(204);
        quay
    }

    /// One of each kind.
    fn both() -> impl Iterator<Item = Self> {
        KINDS.into_iter().map(Self::new)
    }

    /// Writes the configuration with these changes.
    #[track_caller]
    fn configure(&self, changes: Value) -> Answer {
        self.root.write("directory/config", &crate::world::with(self.branch.config(), changes))
    }

    /// Writes a role for an account.
    #[track_caller]
    fn role(&self, role: &str, account: &str) {
        let role = format!("directory/roles/{role}");
        self.root.write(&role, &json!({ "service_account_name": self.name(account) })).expect(204);
    }

    /// Writes a set of accounts.
    #[track_caller]
    fn set(&self, set: &str, accounts: &[&str], fields: Value) {
        let names: Vec<String> = accounts.iter().map(|name| self.name(name)).collect();
        let fields = crate::world::with(json!({ "service_account_names": names }), fields);
        self.root.write(&format!("directory/library/{set}"), &fields).expect(204);
    }

    /// What an account is called to the engine: by its user principal name, where it has one.
    fn name(&self, account: &str) -> String {
        match self.branch.server.kind {
            Kind::OpenLdap => self.branch.full(account),
            Kind::Samba => self.branch.upn_of(account),
        }
    }

    /// What the role shows.
    #[track_caller]
    fn creds(&self, role: &str) -> Answer {
        self.root.read(&format!("directory/creds/{role}")).expect(200)
    }

    #[track_caller]
    fn takes(&self, account: &str, password: &str) -> bool {
        self.branch.takes(account, password)
    }

    /// Fails when a piece of a password shows in what the server printed or refused.
    #[track_caller]
    fn assert_silent(&self, password: &str) {
        self.bulkhead.assert_silent(password);
    }
}
