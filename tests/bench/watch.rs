//! A monitor of the database: one open session that runs a small query now and then. A new client
//! process with a login for each query would take a fifth of the machine.
#![allow(dead_code, reason = "each benchmark includes it and uses its part")]

use bulkhead_tests::Postgres;
use bulkhead_tests::wait::until_true;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Returns the options of a superuser's session without TLS.
pub fn options(postgres: &Postgres) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(postgres.port)
        .username("bulkhead")
        .password(&postgres.password)
        .database("demo")
        .ssl_mode(PgSslMode::Disable)
}

pub struct Watch {
    runtime: Runtime,
    session: PgConnection,
}

impl Watch {
    /// Logs in as superuser.
    pub fn of(postgres: &Postgres) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let session = runtime.block_on(options(postgres).connect()).expect("a session is opened");
        Self { runtime, session }
    }

    /// Waits until the query `question` counts none. Fails after `limit`.
    pub fn until_none(&mut self, what: &str, limit: Duration, question: &str) {
        until_true(what, limit, || self.count(question) == 0);
    }

    fn count(&mut self, question: &str) -> i64 {
        let query = sqlx::query_scalar(AssertSqlSafe(question.to_owned()));
        let counted = self.runtime.block_on(query.fetch_one(&mut self.session));
        counted.expect("the database counts")
    }
}
