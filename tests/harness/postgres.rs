//! A private PostgreSQL.

pub mod acts;

use crate::authority::Authority;
use crate::paths::Folder;
use crate::server_script::ServerScript;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The superuser's password if a test does not choose one.
const ORDINARY: &str = "Xk7-Qz2-Wv9-Jt4";

/// A running server with the database `demo`, its table `orders` and the group `readers`.
pub struct Postgres {
    script: ServerScript,
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Password of the superuser `bulkhead`.
    pub password: String,
    /// Authority that the server trusts; the server presents its certificate.
    pub authority: Authority,
    pid: u32,
    log: String,
    psql: PathBuf,
}

impl Postgres {
    /// Starts a server with an ordinary superuser password.
    pub fn start() -> Self {
        Self::start_with(ORDINARY, &[])
    }

    /// Starts a server with this superuser password and these options (`-c log_statement=all`). The
    /// server flushes to disk only with `-c fsync=on`.
    pub fn start_with(password: &str, options: &[&str]) -> Self {
        let options = [&["-c", "fsync=off"], options].concat();
        let environment = [("BULKHEAD_PG_PASSWORD", password)];
        let script = ServerScript::start("postgres", &options, &environment);
        Self {
            port: script.said("port"),
            pid: script.said("pid"),
            log: script.said("log"),
            psql: script.said("psql"),
            authority: Authority(script.said("folder")),
            password: password.to_owned(),
            script,
        }
    }

    /// Connection URL for Bulkhead, with placeholders for user and password.
    pub fn url(&self) -> String {
        format!(
            "postgresql://{{{{username}}}}:{{{{password}}}}@127.0.0.1:{}/demo?sslmode=disable",
            self.port
        )
    }

    /// Runs SQL as superuser. The answer is rows of `|`-separated columns.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        self.login("bulkhead", &self.password, sql)
            .unwrap_or_else(|refusal| panic!("{sql}: {refusal}"))
    }

    /// Logs in with `psql` in a new session, and runs SQL.
    ///
    /// # Errors
    /// The output of `psql`, if the login or the statement is refused.
    pub fn login(&self, user: &str, password: &str, sql: &str) -> Result<String, String> {
        finished(self.psql(user, password, sql))
    }

    /// Logs in with a certificate and without a password, and runs SQL.
    ///
    /// # Errors
    /// The output of `psql`, if the login or the statement is refused.
    pub fn login_certified(
        &self,
        user: &str,
        certificate: &str,
        key: &str,
        sql: &str,
    ) -> Result<String, String> {
        let folder = Folder::new("login");
        let mut command = self.psql(user, "", sql);
        command
            .env("PGSSLCERT", folder.file("client.pem", certificate))
            .env("PGSSLKEY", folder.file("client.key", key));
        finished(command)
    }

    /// Opens a session that sleeps until something ends it.
    pub fn sleeper(&self, user: &str, password: &str) -> Child {
        let child = self
            .psql(user, password, "SELECT pg_sleep(600)")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("psql can be started");
        let asleep = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}' AND state = 'active'"
        );
        crate::wait::until_true("the session is open", Duration::from_secs(10), || {
            self.query(&asleep) == "1"
        });
        child
    }

    /// Lists the users that Bulkhead created, sorted.
    pub fn users(&self) -> Vec<String> {
        let rows = self.query("SELECT rolname FROM pg_roles WHERE rolname LIKE 'v-%' ORDER BY 1");
        rows.lines().map(str::to_owned).collect()
    }

    pub fn has_user(&self, name: &str) -> bool {
        self.users().iter().any(|user| user == name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the server's log can be read")
    }

    /// Pauses all processes of the server until the guard is dropped: the system accepts
    /// connections and nothing answers.
    pub fn pause(&self) -> Paused {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid))
            .unwrap_or_default();
        let mut processes = vec![self.pid.to_string()];
        processes.extend(children.split_whitespace().map(str::to_owned));
        signal("-STOP", &processes);
        Paused(processes)
    }

    /// Stops the server for good.
    pub fn stop(&mut self) {
        self.script.stop();
    }

    /// Runs SQL as superuser at another port, such as of a proxy or a standby.
    ///
    /// # Errors
    /// The output of `psql`, if the login or the statement is refused.
    pub fn login_at(&self, port: u16, sql: &str) -> Result<String, String> {
        finished(self.psql_at(port, sql))
    }

    /// Prepares `psql` as superuser at another port, in clear text.
    pub fn psql_at(&self, port: u16, sql: &str) -> Command {
        let mut command = self.psql("bulkhead", &self.password, sql);
        command
            .args(["-p", &port.to_string()])
            .env("PGSSLMODE", "disable")
            .env("PGGSSENCMODE", "disable");
        command
    }

    fn psql(&self, user: &str, password: &str, sql: &str) -> Command {
        let mut command = Command::new(&self.psql);
        command
            .args([
                "-X",
                "-A",
                "-t",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                "127.0.0.1",
                "-d",
                "demo",
            ])
            .args(["-p", &self.port.to_string(), "-U", user, "-c", sql])
            .env("PGPASSWORD", password)
            .env("PGCONNECT_TIMEOUT", "5")
            .stdin(Stdio::null());
        command
    }
}

fn finished(mut command: Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().expect("psql can be started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
    if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
}

/// A paused server, which continues when this is dropped.
pub struct Paused(Vec<String>);

impl Drop for Paused {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

/// Sends a signal to the processes that still exist. Sessions come and go; the first process is the
/// server itself.
fn signal(name: &str, processes: &[String]) {
    for (index, process) in processes.iter().enumerate() {
        let sent = Command::new("kill").args([name, process]).stderr(Stdio::null()).status();
        let sent = sent.expect("kill can be started").success();
        assert!(sent || index > 0, "kill {name} {process} failed: the server is gone");
    }
}
