//! The whole server on PostgreSQL, beside the same server on SQLite and beside bare SQL.
//!
//! Two servers with the same configuration run at once and are measured in turns: reads of a role,
//! writes of a secret by a client alone, creations of service tokens, and starts after a kill with
//! a million records. The database flushes, has the settings of a new installation, and lies on the
//! disk of the SQLite file. The bare side of a write repeats the statements of the store; the bare
//! side of the creations inserts the same rows in groups, without any check.
//!
//! `BENCH_RECORDS` sets another number of records. Most of the records are copies of a few rows and
//! do not open; no start opens a record that is neither read nor due.

mod bare;
mod bare_groups;
mod figures;
mod first_answer;
mod load;
mod replayed_commits;
mod rounds;
mod storage_report;
mod storage_server;
mod stored_rows;
mod watch;

use bare::Bare;
use bare_groups::insert_units;
use bulkhead_tests::Postgres;
use bulkhead_tests::paths::Folder;
use load::{AnswerLengths, Connection, Target};
use replayed_commits::{COPIES, ReplayedCommit};
use rounds::rounds;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use storage_report::{TokenRound, report_reads, report_starts, report_tokens, report_writes};
use storage_server::{ROLE, SECRET, StorageServer};
use stored_rows::{StoredRow, fill_postgres, fill_sqlite, written_by};
use tokio::runtime::{Builder, Runtime};

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(3);

const WRITES_BEFORE: usize = 100;
const WRITES: usize = 1_000;

const TOKEN_ROUNDS: usize = 5;
const TOKEN_TIME: Duration = Duration::from_secs(3);

const RECORDS: u32 = 1_000_000;
const STARTS: usize = 7;
/// Number of writes before each kill, from which the start recovers.
const WRITES_AT_END: usize = 100;

/// Settings of a new installation, besides those of the tests.
const SETTINGS: [&str; 6] =
    ["-c", "fsync=on", "-c", "shared_buffers=128MB", "-c", "max_wal_size=1GB"];

const TOKEN: &str = r#"{"policies":["default"],"ttl":"24h"}"#;
const VALUE: &str = r#"{"user":"orders","password":"correct horse battery staple"}"#;

/// Both servers and the database.
struct StorageBench {
    sqlite: StorageServer,
    postgres: StorageServer,
    database: Postgres,
}

fn main() {
    bare::serve_if_asked();
    let mut bench = StorageBench::start();
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    let reads = bench.reads(&runtime);
    let one_thread =
        Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    let write = one_thread.block_on(bench.single_writes());
    let (tokens, rows) = runtime.block_on(bench.tokens());
    let starts = bench.starts(&runtime, &rows);
    let results = json!({ "reads": reads, "write": write, "tokens": tokens, "starts": starts });
    figures::save("storage", results);
}

impl StorageBench {
    fn start() -> Self {
        let database = Postgres::start_with("of-the-bench", &SETTINGS);
        let [of_sqlite, of_postgres] = ["bench-sqlite", "bench-postgres"].map(Folder::new);
        check_disk(Path::new(&database.query("SHOW data_directory")), of_sqlite.path());
        let block = format!("storage \"sqlite\" {{ path = {:?} }}", of_sqlite.path());
        let sqlite = StorageServer::start(of_sqlite, &block);
        let block = format!(
            "storage \"postgresql\" {{\n  connection_url = \
             \"postgresql://bulkhead:{}@127.0.0.1:{}/demo?sslmode=disable\"\n  path = {:?}\n}}",
            database.password,
            database.port,
            of_postgres.path()
        );
        let postgres = StorageServer::start(of_postgres, &block);
        Self { sqlite, postgres, database }
    }

    fn servers(&self) -> [&StorageServer; 2] {
        [&self.sqlite, &self.postgres]
    }

    async fn session(&self) -> PgConnection {
        watch::options(&self.database).connect().await.expect("the database opens a session")
    }

    /// Compares reads of a role through the engine.
    fn reads(&self, runtime: &Runtime) -> Value {
        let [sqlite, postgres] = self
            .servers()
            .map(|server| server.target(load::get(ROLE, &server.caller), AnswerLengths::Equal));
        let answer = runtime.block_on(sqlite.look());
        let body = answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
        let bare = Bare::start(body);
        let request = sqlite.request.clone();
        let lengths = AnswerLengths::Equal;
        let ceiling = Target { address: bare.address, pid: bare.pid, request, lengths };
        let servers = [&ceiling, &sqlite, &postgres];
        for server in servers {
            runtime.block_on(server.load(CONNECTIONS, WARM_UP));
        }
        let mut found = runtime.block_on(rounds(&servers, CONNECTIONS));
        found.extend(runtime.block_on(rounds(&servers, CONNECTIONS)));
        report_reads(CONNECTIONS, &found)
    }

    /// Compares writes of a secret by a client alone with the statements of the commit.
    async fn single_writes(&self) -> Value {
        let mut clients = Vec::new();
        for server in self.servers() {
            let request = load::post(SECRET, &server.caller, VALUE);
            clients.push((Connection::open(server.address).await, request));
        }
        let mut session = self.session().await;
        let (client, request) = &mut clients[1];
        let commit = ReplayedCommit::of(&self.database, &mut session, async || {
            client.exchange(request).await;
        });
        let commit = commit.await;
        let mut times = [const { Vec::new() }; 3];
        for round in 0..WRITES_BEFORE + WRITES {
            let mut took = Vec::new();
            for (client, request) in &mut clients {
                took.push(time(client, request).await);
            }
            took.push(commit.repeat(&mut session).await);
            if round >= WRITES_BEFORE {
                times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
            }
        }
        report_writes(times)
    }

    /// Compares creations of tokens with bare grouped inserts of the same rows. Returns the rows of
    /// a token, too.
    async fn tokens(&self) -> (Value, Vec<StoredRow>) {
        let targets = self.servers().map(|server| {
            let request = load::post("auth/token/create", &server.root, TOKEN);
            server.target(request, AnswerLengths::Declared)
        });
        let [sqlite, postgres] = &targets;
        let mut session = self.session().await;
        let rows = written_by(&mut session, async || drop(postgres.look().await)).await;
        let table = format!("{COPIES}.bulkhead_record");
        let mut found = Vec::new();
        for round in 0..=TOKEN_ROUNDS {
            let on_sqlite = sqlite.load(CONNECTIONS, TOKEN_TIME).await;
            let before = commits(&mut session).await;
            let on_postgres = postgres.load(CONNECTIONS, TOKEN_TIME).await;
            let a_commit = on_postgres.per_second * TOKEN_TIME.as_secs_f64()
                / f64::from(commits(&mut session).await - before);
            let unit = (table.as_str(), rows.as_slice());
            let (back, bare) = insert_units(session, unit, CONNECTIONS, TOKEN_TIME).await;
            session = back;
            // The first round warms up.
            if round > 0 {
                found.push(TokenRound { on_sqlite, on_postgres, a_commit, bare });
            }
        }
        session.close().await.expect("the session ends");
        (report_tokens(CONNECTIONS, &found, &rows), rows)
    }

    /// Kills and starts both servers with many records, in turns.
    fn starts(&mut self, runtime: &Runtime, tokens: &[StoredRow]) -> Value {
        let records =
            std::env::var("BENCH_RECORDS").map_or(RECORDS, |text| text.parse().expect("a number"));
        runtime.block_on(self.fill(records, tokens));
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..STARTS {
            let servers = [&mut self.sqlite, &mut self.postgres];
            for (server, times) in servers.into_iter().zip(&mut times) {
                runtime.block_on(write_often(server));
                let request = load::get(SECRET, &server.caller);
                let address = server.address;
                times.push(first_answer::after_kill(&mut server.server, address, &request));
            }
        }
        report_starts(records, times)
    }

    /// Adds records to both databases while the servers are stopped: secrets, and tokens that are
    /// due in a day, in equal numbers.
    async fn fill(&mut self, records: u32, tokens: &[StoredRow]) {
        let mut session = self.session().await;
        let rows = written_by(&mut session, async || {
            let mut client = Connection::open(self.postgres.address).await;
            client.exchange(&load::post("kv/other", &self.postgres.root, VALUE)).await;
        });
        let mut rows = rows.await;
        rows.retain(|row| row.key.ends_with("/other"));
        rows.extend_from_slice(tokens);
        for server in [&mut self.sqlite, &mut self.postgres] {
            assert!(server.server.stop(), "{}", server.server.printed());
        }
        let copies = records / u32::try_from(rows.len()).expect("few rows");
        fill_postgres(&mut session, &rows, copies).await;
        let file = self.sqlite.server.data().join("bulkhead.db");
        let options = SqliteConnectOptions::new().filename(file);
        let mut file = options.connect().await.expect("the file can be opened");
        fill_sqlite(&mut file, &rows, copies).await;
        file.close().await.expect("the file is closed");
        for server in [&mut self.sqlite, &mut self.postgres] {
            server.server.start_again();
        }
    }
}

/// Fails unless the database and the SQLite file lie on one disk.
fn check_disk(database: &Path, file: &Path) {
    let device = |path: &Path| std::fs::metadata(path).expect("the folder is there").dev();
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(file).output();
    let kind = String::from_utf8(kind.expect("stat can be started").stdout).expect("a name");
    let kind = kind.trim();
    println!("both databases lie on {kind}");
    assert!(
        device(database) == device(file) && kind != "tmpfs",
        "TMPDIR is not a folder on a disk: set TMPDIR to another folder"
    );
}

/// Returns the time of one request.
async fn time(client: &mut Connection, request: &[u8]) -> Duration {
    let began = Instant::now();
    client.exchange(request).await;
    began.elapsed()
}

/// Returns the number of commits of the store on PostgreSQL.
async fn commits(session: &mut PgConnection) -> u32 {
    let counted =
        sqlx::query_scalar("SELECT commits FROM bulkhead_writer").fetch_one(session).await;
    u32::try_from(counted.unwrap_or(0_i64)).expect("few commits")
}

/// Writes the secret before a kill.
async fn write_often(server: &StorageServer) {
    let mut client = Connection::open(server.address).await;
    let request = load::post(SECRET, &server.caller, VALUE);
    for _ in 0..WRITES_AT_END {
        client.exchange(&request).await;
    }
}
