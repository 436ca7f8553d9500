//! A server on PostgreSQL, with a proxy between both, and the account and database of its data.

use super::acknowledged::AcknowledgedWork;
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::paths::{Folder, binary, guest};
use bulkhead_tests::sealed_server::recovery_operators;
use bulkhead_tests::{
    Answer, Bulkhead, Client, DatabaseProxy, Operators, Postgres, postgres_storage, wait,
};
use serde_json::json;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// Longest time until a fault shows, or until the service is back after its end, on a busy machine.
/// The server looks every ten seconds. A write with an unknown outcome waits 30 s for the database
/// before the refusal.
pub const BACK: Duration = Duration::from_secs(90);

/// PostgreSQL of the tests that leave it running, each with its own database.
static SHARED: LazyLock<Postgres> =
    LazyLock::new(|| Postgres::start_with("Vw4-Hn6-Rk2-Zc9", &["-c", "max_connections=100"]));

/// Condition of an outage that lasts longer than a claim counts as confirmed: beside the condition
/// of the refused writes, and by the speed of the machine.
const UNCONFIRMED: &str = "database-unconfirmed";

pub fn shared() -> &'static Postgres {
    &SHARED
}

/// An initialised server on [`shared`], which was stopped. Its database is copied for each test,
/// because the registration of a component takes longer than a start.
static PREPARED: LazyLock<(StoreDatabase<'static>, StoreServer)> = LazyLock::new(|| {
    let database = StoreDatabase::create(shared(), "prepared");
    let mut store = StoreServer::start(&database.url(&format!("127.0.0.1:{}", shared().port)));
    assert!(store.server.stop(), "{}", store.server.printed());
    (database, store)
});

/// Password of the account of the data.
pub const PASSWORD: &str = "Lb5-Ty8-Mf3-Dq1";

/// The database and the account of one server.
pub struct StoreDatabase<'a> {
    pub postgres: &'a Postgres,
    /// Name of the database. The account of a first database, unlike a copy, has the same name.
    pub name: String,
    account: String,
}

impl<'a> StoreDatabase<'a> {
    pub fn create(postgres: &'a Postgres, name: &str) -> Self {
        postgres.query(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'"));
        postgres.query(&format!("CREATE DATABASE {name} OWNER {name}"));
        Self { postgres, name: name.to_owned(), account: name.to_owned() }
    }

    /// Copies the database, which must have no session.
    pub fn copy(&self, name: &str) -> Self {
        let Self { postgres, account, .. } = self;
        let template = &self.name;
        postgres.query(&format!("CREATE DATABASE {name} OWNER {account} TEMPLATE {template}"));
        Self { postgres, name: name.to_owned(), account: account.clone() }
    }

    /// Copies the database, with an account of its own.
    fn copy_for(&self, name: &str) -> Self {
        let postgres = self.postgres;
        postgres.query(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'"));
        let copy = Self { account: name.to_owned(), ..self.copy(name) };
        // PostgreSQL refuses two changes of the owners of shared objects at a time.
        static OWNERS: Mutex<()> = Mutex::new(());
        let _turn = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        copy.query(&format!("REASSIGN OWNED BY {} TO {name}", self.account));
        copy
    }

    /// Returns the URL of the database at this place (`HOST:PORT`, maybe several).
    pub fn url(&self, place: &str) -> String {
        let Self { name, account, .. } = self;
        format!("postgresql://{account}:{PASSWORD}@{place}/{name}?sslmode=disable")
    }

    /// Runs SQL as superuser in the database.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        self.try_query(sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"))
    }

    /// Runs SQL as superuser in the database.
    ///
    /// # Errors
    /// The output of `psql`, if the statement is refused.
    pub fn try_query(&self, sql: &str) -> Result<String, String> {
        let mut psql = self.postgres.psql_at(self.postgres.port, sql);
        let output = psql.args(["-d", &self.name]).output().expect("psql can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Ends the sessions of the server.
    pub fn end_sessions(&self) {
        self.postgres.query(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'",
            self.account
        ));
    }
}

/// A server on a database, opened by a static seal, so that each start opens by itself.
pub struct StoreServer {
    pub server: Bulkhead,
    pub operators: Operators,
    folder: Folder,
}

impl StoreServer {
    /// Starts and initialises a server at this URL, and mounts the engines of the work.
    #[track_caller]
    pub fn start(url: &str) -> Self {
        Self::start_as(binary(), url)
    }

    /// As [`StoreServer::start`], with another binary.
    #[track_caller]
    pub fn start_as(program: PathBuf, url: &str) -> Self {
        let (mut server, folder) = postgres_storage::prepared(program, url);
        server.start_again();
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        let answer = server.client(None).write("sys/init", &body).expect(200);
        let operators = recovery_operators(&answer.body, 1);
        let root = operators.root(&server);
        root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
        root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
        root.write("sys/mounts/probe", &json!({ "type": "probe" })).expect(204);
        Self { server, operators, folder }
    }

    /// Prepares a server with the same seal and root token on a copy of the data, and does not
    /// start it.
    pub fn prepared_copy(&self, program: PathBuf, url: &str) -> Self {
        let (server, folder) = postgres_storage::prepared(program, url);
        let token = self.operators.token.clone();
        Self { server, operators: Operators { keys: Vec::new(), threshold: 0, token }, folder }
    }

    /// Changes the URL for the next start.
    pub fn configure(&self, url: &str) {
        postgres_storage::configure(&self.folder, &self.server, url);
    }

    pub fn root(&self) -> Client {
        self.operators.root(&self.server)
    }

    /// Kills the server, and starts it again, with nothing in its caches.
    #[track_caller]
    pub fn kill_and_start(&mut self) {
        self.server.kill();
        self.server.start_again();
        self.wait_until_open();
    }

    #[track_caller]
    pub fn wait_until_open(&self) {
        let is_open = || seal_status(&self.server)["sealed"] == false;
        wait::until_true("the server opens by itself", BACK, is_open);
    }

    /// Returns the codes of the conditions in `sys/health`, without [`UNCONFIRMED`].
    pub fn conditions(&self) -> Vec<String> {
        let health = self.server.client(None).read("sys/health").body;
        let degraded = health["degraded"].as_array().cloned().unwrap_or_default();
        let codes = degraded.iter().map(|one| one["code"].as_str().unwrap_or_default().to_owned());
        codes.filter(|code| code != UNCONFIRMED).collect()
    }

    /// Waits until the health shows no condition.
    #[track_caller]
    pub fn wait_until_healthy(&self) {
        wait::until_true("the health is restored", BACK, || self.conditions().is_empty());
    }

    /// Writes until a write is refused with 503, and the health shows `condition`. Returns the
    /// answer. Asserts that reads of known values go on.
    #[track_caller]
    pub fn wait_until_refused(&self, condition: &str) -> Answer {
        let root = self.root();
        let (answer, _) = wait::until("a write is refused", BACK, || {
            let answer = root.write("kv/refused", &json!({ "value": "x" }));
            (answer.status >= 300).then_some(answer)
        });
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(self.conditions(), [condition], "{answer:?}");
        answer
    }

    /// Returns the number of bytes that the server printed so far.
    pub fn printed_bytes(&self) -> usize {
        self.server.printed().len()
    }

    /// Waits until the log has the cause of a refusal, after the first `before` bytes. The answer
    /// has no cause, which would name the server of the database.
    pub fn wait_for_cause(&self, refused: &Answer, (before, words): (usize, &str)) {
        let errors = refused.errors();
        assert!(errors.contains("the log of the server has the cause"), "{refused:?}");
        assert!(!errors.contains("127.0.0.1"), "{refused:?}");
        self.server.wait_for_print_after(before, words);
    }

    /// Returns how many lines of the log contain the word, without lines about [`UNCONFIRMED`].
    pub fn count_lines(&self, word: &str) -> usize {
        let counts = |line: &&str| line.contains(word) && !line.contains(UNCONFIRMED);
        self.server.printed().lines().filter(counts).count()
    }
}

/// A server, the proxy and its database.
pub struct StorePlace<'a> {
    pub database: StoreDatabase<'a>,
    pub proxy: DatabaseProxy,
    pub store: StoreServer,
    pub work: AcknowledgedWork,
}

impl<'a> StorePlace<'a> {
    /// Starts a server on a database with this name in [`shared`].
    #[track_caller]
    pub fn shared(name: &str) -> StorePlace<'static> {
        let (base, store) = &*PREPARED;
        let database = base.copy_for(name);
        let proxy = DatabaseProxy::to(database.postgres.port);
        let url = database.url(&format!("127.0.0.1:{}", proxy.port));
        let mut store = store.prepared_copy(binary(), &url);
        store.server.start_again();
        store.wait_until_open();
        StorePlace { database, proxy, store, work: AcknowledgedWork::default() }
    }

    /// Starts a server on a new database with this name.
    #[track_caller]
    pub fn start(postgres: &'a Postgres, name: &str) -> Self {
        let database = StoreDatabase::create(postgres, name);
        let proxy = DatabaseProxy::to(postgres.port);
        let store = StoreServer::start(&database.url(&format!("127.0.0.1:{}", proxy.port)));
        Self { database, proxy, store, work: AcknowledgedWork::default() }
    }

    /// Works without a fault, and asserts that each request succeeds.
    #[track_caller]
    pub fn work_in_peace(&mut self) {
        let root = self.store.root();
        for _ in 0..AcknowledgedWork::KINDS {
            let answer = self.work.step(&root).expect("an answer");
            assert!(answer.status < 300, "{answer:?}\n{}", self.store.server.printed());
        }
    }

    /// Works after the end of a fault, and waits until the health shows no condition. The first
    /// request after the fault must succeed.
    #[track_caller]
    pub fn work_until_healthy(&mut self) {
        wait::until_true("the health is restored", BACK, || {
            self.work_in_peace();
            self.store.conditions().is_empty()
        });
    }

    /// Asserts that nothing acknowledged is lost, now and after a start with empty caches.
    #[track_caller]
    pub fn assert_nothing_is_lost(&mut self) {
        self.work.check(&self.store.root());
        self.store.kill_and_start();
        self.work.check(&self.store.root());
        self.work_in_peace();
    }
}
