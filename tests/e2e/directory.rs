//! The directory engine on a real OpenLDAP and a real Active Directory (Samba): the displayed
//! password logs in, an earlier password does not, and a refusal changes nothing.

mod config;
mod creds;
mod hazards;
mod liar;
mod library;
mod loan_lies;
mod login_causes;
mod metrics;
mod removal;
mod rights;
mod root;
mod storm;
mod whereabouts;

use bulkhead_tests::directory_server::KINDS;
use bulkhead_tests::{Answer, Branch, Bulkhead, Client, DirectoryKind, DirectoryServer};
use serde_json::{Value, json};

/// Password of an account before the engine takes it over.
const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";

/// A server, and a directory branch with the accounts `svc1` to `svc3`.
struct DirectoryStage {
    bulkhead: Bulkhead,
    branch: Branch,
    root: Client,
}

impl DirectoryStage {
    /// A quay on a directory of this kind, without configuration.
    fn empty(kind: DirectoryKind) -> Self {
        Self::of(DirectoryServer::shared(kind).branch())
    }

    /// A quay on this branch, without configuration.
    fn of(branch: Branch) -> Self {
        let bulkhead = Bulkhead::start();
        let accounts = ["svc1", "svc2", "svc3"].map(|name| (name.to_owned(), FIRST));
        branch.add_all(&accounts);
        let root = bulkhead.root();
        Self { bulkhead, branch, root }
    }

    fn new(kind: DirectoryKind) -> Self {
        let stage = Self::empty(kind);
        stage.configure(json!({})).expect(204);
        stage
    }

    /// A quay on each kind of directory.
    fn both() -> impl Iterator<Item = Self> {
        KINDS.into_iter().map(Self::new)
    }

    #[track_caller]
    fn configure(&self, changes: Value) -> Answer {
        self.root.write("directory/config", &crate::world::with(self.branch.config(), changes))
    }

    #[track_caller]
    fn role(&self, role: &str, account: &str) {
        let role = format!("directory/roles/{role}");
        self.root.write(&role, &json!({ "service_account_name": self.name(account) })).expect(204);
    }

    #[track_caller]
    fn set(&self, set: &str, accounts: &[&str], fields: Value) {
        let names: Vec<String> = accounts.iter().map(|name| self.name(name)).collect();
        let fields = crate::world::with(json!({ "service_account_names": names }), fields);
        self.root.write(&format!("directory/library/{set}"), &fields).expect(204);
    }

    /// The account's name in requests: the user principal name, if the directory has these.
    fn name(&self, account: &str) -> String {
        match self.branch.server.kind {
            DirectoryKind::OpenLdap => self.branch.full(account),
            DirectoryKind::Samba => self.branch.upn_of(account),
        }
    }

    #[track_caller]
    fn creds(&self, role: &str) -> Answer {
        self.root.read(&format!("directory/creds/{role}")).expect(200)
    }

    #[track_caller]
    fn takes(&self, account: &str, password: &str) -> bool {
        self.branch.takes(account, password)
    }

    /// Asserts that log and refusals contain no piece of the password.
    #[track_caller]
    fn assert_silent(&self, password: &str) {
        self.bulkhead.assert_silent(password);
    }
}
